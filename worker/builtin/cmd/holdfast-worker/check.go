package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/holdfast-mcp/holdfast/internal/proc"
	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/check"
)

func checkCommand(environ []string, stderr *os.File) *cobra.Command {
	config := check.Config{Version: version(), Env: protocol.StripHandshake(protocol.StripSettings(environ))}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check [flags] PATH [-- ARGS...]",
		Short: "Test any program against the worker protocol and say what is wrong",
		Long: "check starts the program PATH with ARGS as a supervisor does, several times, and tests it against the\n" +
			"worker protocol. It exits with 0 if nothing failed, 1 if something did, and 2 if there is nothing to test.",
		Example: "  holdfast-worker check ./my-worker\n" +
			"  holdfast-worker check node -- worker.mjs\n" +
			"  holdfast-worker check holdfast-worker -- bridge -- npx some-mcp-server",
		Args: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); len(args) == 0 || dash == 0 || dash < 0 && len(args) > 1 || dash > 1 {
				return errors.New("check: want one program: check [flags] PATH [-- ARGS...]")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := os.Getwd()
			if err != nil {
				return err
			}
			if config.Path, err = proc.LookPath(args[0], dir, environ); err != nil {
				return err
			}
			config.Args = args[1:]
			if err := proc.BecomeSubreaper(); err != nil {
				fmt.Fprintf(stderr, "holdfast-worker: what workers leave behind will not be found: %v\n", err)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return runCheck(ctx, config, asJSON, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the results as one JSON object")
	cmd.Flags().DurationVar(&config.Timeout, "timeout", check.DefaultTimeout, "longest time of one check")
	return cmd
}

// runCheck prints the results, as they come if for people.
func runCheck(ctx context.Context, config check.Config, asJSON bool, stdout io.Writer) error {
	began := time.Now()
	var report check.Report
	if asJSON {
		report = check.Run(ctx, config, nil)
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(report); err != nil {
			return &exitError{exitFailure, err}
		}
	} else {
		table := check.NewTable(stdout, coloured(stdout))
		report = check.Run(ctx, config, table.Row)
		table.Sum(report, time.Since(began))
	}
	if report.Count(check.Failed) > 0 || ctx.Err() != nil {
		return &exitError{code: exitFailure}
	}
	return nil
}

// coloured reports whether stdout is a terminal that may be coloured.
func coloured(stdout io.Writer) bool {
	file, ok := stdout.(*os.File)
	return ok && os.Getenv("NO_COLOR") == "" && term.IsTerminal(int(file.Fd()))
}
