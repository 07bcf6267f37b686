package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Exit codes. A bridge ends with that of its server instead.
const (
	exitFailure = 1
	exitUsage   = 2
)

// exitError is an error with an exit code of its own.
type exitError struct {
	code int
	err  error // nil: nothing to say
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

// run executes the command line args and returns the exit code. stdout and
// stderr are for text; a worker speaks to its supervisor through the process's
// own streams.
func run(ctx context.Context, args, environ []string, stdout io.Writer, stderr *os.File) int {
	root := &cobra.Command{
		Use:           "holdfast-worker",
		Short:         "Workers that come with holdfast, started by a supervisor",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(bridgeCommand(environ, stderr), checkCommand(environ, stderr), roomCommand(environ, stderr), versionCommand())
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	// What cobra itself refuses, an unknown flag or command, is a usage error.
	exit, ok := errors.AsType[*exitError](err)
	if !ok {
		exit = &exitError{exitUsage, err}
	}
	if exit.err != nil {
		fmt.Fprintf(stderr, "holdfast-worker: %v\n", exit.err)
	}
	return exit.code
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintf(cmd.OutOrStdout(), "holdfast-worker %s\n", version())
		},
	}
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
