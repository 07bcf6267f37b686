package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-mcp/holdfast/supervisor/internal/control"
)

// What the commands for running supervisors say of how they are told which one.
const (
	which = `
  NAME is that of "holdfast run --name", else that of the server's program;
  several may have the same. PID is the supervisor's. DIR is the working
  directory of the server, or its project.`
	choosing = which + ` Without any of them it is the only
  one that runs, or the only one of the directory that you are in.`
)

// atMostOne takes no argument, or says which supervisor is meant.
func atMostOne(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usageError{fmt.Errorf("%s takes at most one NAME, PID or DIR; see `%s --help`", cmd.CommandPath(), cmd.CommandPath())}
	}
	return nil
}

// meant is what was said of which supervisor is meant, empty for nothing.
func meant(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

func chosen(cmd *cobra.Command, args []string) (control.Instance, error) {
	return control.Choose(control.Instances(cmd.Context()), meant(args))
}

// serves marks commands that take signals themselves.
const serves = "serves"

// interruptible ends the context of a command with the first signal: main
// catches them all.
func interruptible(cmd *cobra.Command, signals <-chan os.Signal) {
	if cmd.Annotations[serves] != "" {
		return
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	go func() { // ends with a signal, or with the command
		select {
		case <-signals:
		case <-ctx.Done():
		}
		cancel()
	}()
	cmd.SetContext(ctx)
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
