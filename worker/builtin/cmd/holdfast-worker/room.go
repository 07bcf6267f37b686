package main

import (
	"os"

	"github.com/spf13/cobra"
)

// roomCommand groups what people do with notebook files by hand. Each command
// has a file of its own, room*.go, and is added here.
func roomCommand(environ []string, stderr *os.File) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "room",
		Short: "Work on notebook files",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(roomCheckCommand(), roomRunCommand(environ, stderr), roomKernelsCommand(environ))
	return cmd
}
