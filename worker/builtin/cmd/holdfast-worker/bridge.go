package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-mcp/holdfast/internal/gctune"
	"github.com/holdfast-mcp/holdfast/internal/proc"
	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/bridge"
	"github.com/holdfast-mcp/holdfast/worker/internal/host"
)

const (
	// flushTime bounds how long the last frames may take to the supervisor.
	flushTime = time.Second
	// killDelay is when a bridge that has to go is killed with its group.
	killDelay = 250 * time.Millisecond
)

func bridgeCommand(environ []string, stderr *os.File) *cobra.Command {
	config := bridge.Config{Stderr: stderr, Version: version()}
	cmd := &cobra.Command{
		Use:   "bridge [flags] -- COMMAND [ARGS...]",
		Short: "Run an MCP server on stdio, in any language, as a worker",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("bridge: no command given, want: bridge -- COMMAND [ARGS...]")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if !protocol.StartedBySupervisor(environ) {
				return &exitError{exitUsage, fmt.Errorf("bridge is started by a supervisor; run: holdfast run -- %s", strings.Join(args, " "))}
			}
			config.Command, config.Args = args[0], args[1:]
			config.Env = protocol.StripHandshake(environ)
			return runBridge(cmd.Context(), config)
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // what follows the command is the command's
	flags.StringVar(&config.Dir, "dir", "", "working directory of the command")
	flags.IntVar(&config.MaxFrame, "max-frame", 0, "largest message of the command in bytes (default: that of the supervisor)")
	return cmd
}

// runBridge serves until the supervisor is done with the bridge, which is no
// error, or its server has ended, whose exit code it then takes over.
func runBridge(ctx context.Context, config bridge.Config) error {
	if err := proc.BecomeSubreaper(); err != nil {
		fmt.Fprintf(config.Stderr, "holdfast-worker: what the server leaves behind will not be found: %v\n", err)
	}
	config.Tuner = gctune.Start()
	b := bridge.New(config)
	h := host.New(b)
	gone, release := host.Watch(nil)
	defer release()
	h.Start()

	select {
	case <-b.Ended():
		h.Stop(flushTime)
		if code := exitCode(b.Exit()); code != 0 {
			return &exitError{code: code}
		}
		return nil
	case <-h.Done():
		if err := h.Err(); err != nil {
			return &exitError{exitFailure, err}
		}
	case <-gone:
		proc.KillOwnGroupAfter(killDelay)
	case <-ctx.Done():
	}
	b.Close()
	h.Stop(killDelay)
	return nil
}
