package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// swapped is what swap --json prints.
type swapped struct {
	Name       string `json:"name"`
	Pid        int    `json:"pid"`
	Generation uint64 `json:"generation"`
	Error      string `json:"error,omitempty"`
}

func newSwap() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "swap [NAME|PID|DIR]",
		Short: "Replace the worker of a running supervisor",
		Long: `swap starts a new worker, from what the command is now, and lets it take over
when it is ready. Calls under way end on the old one. The client notices
nothing. Under "holdfast dev" the server is built first.

A worker that cannot be built or started changes nothing: swap says why, and
exits with code 1. It works in every state, also when the server hangs or has
been given up, and is charged to no budget. The supervisor itself goes on; a
new holdfast is used when the client starts it.
` + choosing,
		Example: `  holdfast swap
  make && holdfast swap notes
  holdfast swap . --json`,
		Args: atMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			one, err := chosen(cmd, args)
			if err != nil {
				return err
			}
			result, err := one.Swap(cmd.Context())
			if err != nil {
				return fmt.Errorf("swap: %w", err)
			}
			if asJSON {
				return printSwapped(cmd, swapped{one.Status.Name, one.Status.Pid, result.Generation, result.Error})
			}
			switch {
			case result.Error != "" && result.Generation != 0:
				return fmt.Errorf("generation %d still serves: %s", result.Generation, result.Error)
			case result.Error != "":
				return errors.New(result.Error)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "generation %d serves\n", result.Generation)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print name, pid, generation and error as JSON")
	return cmd
}

func printSwapped(cmd *cobra.Command, s swapped) error {
	if err := printJSON(cmd.OutOrStdout(), s); err != nil {
		return err
	}
	if s.Error != "" {
		return errTold
	}
	return nil
}

func newStop() *cobra.Command {
	return &cobra.Command{
		Use:   "stop [NAME|PID|DIR]",
		Short: "End a running supervisor and its worker",
		Long: `stop ends a supervisor as TERM does, and returns when its worker and all that
this has started are gone. Calls under way are lost, and the client sees the
connection end. Many clients then start the server again when it is needed, or
show it as failed until they are told to.

To replace the server alone, use "holdfast swap".
` + choosing,
		Example: `  holdfast stop notes`,
		Args:    atMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			one, err := chosen(cmd, args)
			if err != nil {
				return err
			}
			if err := one.Stop(cmd.Context()); err != nil {
				return fmt.Errorf("stop: %w", err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s (pid %d) has ended\n", one.Status.Name, one.Status.Pid)
			return nil
		},
	}
}
