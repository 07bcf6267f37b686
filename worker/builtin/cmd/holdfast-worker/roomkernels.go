package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/jupyter"
)

func roomKernelsCommand(environ []string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "kernels",
		Short: "List the Jupyter kernels that are installed",
		Long: "kernels lists the kernels that Jupyter's rules find, those of which a folder further up in the search has\n" +
			"another of the same name, and those that cannot be used. The search follows JUPYTER_PATH, JUPYTER_DATA_DIR,\n" +
			"JUPYTER_PREFER_ENV_PATH, and the active Python environment.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return tellKernels(cmd.OutOrStdout(), jupyter.List(environ), asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the list as one JSON object")
	return cmd
}

// kernelList is what room kernels prints with --json.
type kernelList struct {
	Kernels  []*jupyter.Spec `json:"kernels"`
	Shadowed []string        `json:"shadowed,omitempty"`
	Broken   []string        `json:"broken,omitempty"`
	Searched []string        `json:"searched"`
}

func tellKernels(stdout io.Writer, found jupyter.Installed, asJSON bool) error {
	list := kernelList{Kernels: found.Specs, Shadowed: found.Shadowed, Searched: found.Searched}
	if list.Kernels == nil {
		list.Kernels = []*jupyter.Spec{}
	}
	for _, err := range found.Broken {
		list.Broken = append(list.Broken, err.Error())
	}
	if asJSON {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(list); err != nil {
			return &exitError{exitFailure, err}
		}
		return nil
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	for _, s := range list.Kernels {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", s.Name, printable(s.DisplayName), printable(s.Language), s.Dir)
	}
	table.Flush()
	if len(list.Kernels) == 0 {
		fmt.Fprintln(stdout, "no kernels are installed; searched:")
		for _, dir := range list.Searched {
			fmt.Fprintf(stdout, "  %s\n", dir)
		}
	}
	for _, dir := range list.Shadowed {
		fmt.Fprintf(stdout, "hidden by another of the same name: %s\n", dir)
	}
	for _, problem := range list.Broken {
		fmt.Fprintln(stdout, printable(problem))
	}
	return nil
}
