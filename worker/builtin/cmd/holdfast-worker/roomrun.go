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

	"github.com/spf13/cobra"

	"github.com/holdfast-mcp/holdfast/internal/proc"
	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/nbrun"
)

// Exit codes of a run that a signal ended, as a shell has them.
const (
	exitInterrupted = 130
	exitTerminated  = 143
)

// runReport is what room run prints with --json.
type runReport struct {
	nbrun.Report

	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
}

func roomRunCommand(environ []string, stderr *os.File) *cobra.Command {
	config := nbrun.Config{Env: protocol.StripHandshake(protocol.StripSettings(environ))}
	var asJSON, inPlace, input bool
	cmd := &cobra.Command{
		Use:   "run [flags] FILE",
		Short: "Execute all cells of a notebook in a fresh kernel and save it",
		Long: "run executes the cells of a notebook in order, in a kernel of its own and in the notebook's folder, and saves\n" +
			"what they show into FILE or, with --output, elsewhere. It stops at the first cell that fails, unless errors\n" +
			"are allowed, by --allow-errors or by the cell's tag raises-exception; what was executed until then is saved.\n" +
			"Blank cells and those with the tag skip-execution are left as they are.\n\n" +
			"Ctrl-C interrupts the cell and ends the run; a cell that goes on for 5 s, and Ctrl-C again, end the kernel.\n\n" +
			"It exits with 0 if all is well, 1 if a cell failed or the results could not be saved, 2 if the run could not\n" +
			"begin, and 130 or 143 if a signal ended it.",
		Example: "  holdfast-worker room run analysis.ipynb\n" +
			"  holdfast-worker room run --kernel ir --timeout 10m --output result.ipynb analysis.ipynb",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("room run: want one file: room run [flags] FILE")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			config.File = args[0]
			if config.Timeout < 0 {
				return errors.New("room run: --timeout is negative")
			}
			if err := proc.BecomeSubreaper(); err != nil {
				fmt.Fprintf(stderr, "holdfast-worker: what the kernel leaves behind will not be found: %v\n", err)
			}
			if input {
				asker := newAsker(os.Stdin, stderr)
				defer asker.restore()
				config.Input = asker.ask
			}
			return runNotebook(cmd.Context(), config, asJSON, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&config.Kernel, "kernel", "", "name of the kernel (default: that of the notebook, else python3)")
	flags.DurationVar(&config.Timeout, "timeout", 0, "longest time of one cell (default: no limit)")
	flags.BoolVar(&config.AllowErrors, "allow-errors", false, "go on behind cells that fail")
	flags.BoolVar(&input, "allow-input", false, "let cells ask for input, which is read from stdin")
	flags.StringVar(&config.Output, "output", "", "file to save the results in (default: FILE)")
	flags.BoolVar(&inPlace, "inplace", false, "save the results in FILE, as without --output")
	flags.BoolVar(&config.IPC, "ipc", false, "speak to the kernel by files instead of local ports, where it can: other users of\n"+
		"the machine cannot read the output, of which some may get lost when the machine is overloaded")
	flags.BoolVar(&asJSON, "json", false, "print the results as one JSON object")
	cmd.MarkFlagsMutuallyExclusive("output", "inplace")
	return cmd
}

// runNotebook runs a notebook, tells of it, and returns how the command ends.
func runNotebook(ctx context.Context, config nbrun.Config, asJSON bool, stdout io.Writer) error {
	ctx, signals := watchSignals(ctx)
	defer signals.stop()
	config.Interrupt = signals.interrupts

	rows := newProgress(stdout, config)
	if !asJSON {
		config.Ready, config.Begin, config.End = rows.ready, rows.begin, rows.end
	}
	report, err := nbrun.Run(ctx, config)
	ok := err == nil && report.OK()
	if asJSON {
		told := runReport{Report: report, OK: ok}
		if err != nil {
			told.Error = err.Error()
		}
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(told); err != nil {
			return &exitError{exitFailure, err}
		}
	} else {
		rows.sum(report, err)
	}
	switch code := signals.code(); {
	case code != 0:
		return &exitError{code, err}
	case err != nil && (len(report.Cells) == 0 || report.Saved == "" && !errors.Is(err, nbrun.ErrSave)):
		return &exitError{exitUsage, err} // it could not begin
	case !ok:
		return &exitError{exitFailure, err}
	}
	return nil
}

// signals are what came from the keyboard and from the system.
type signals struct {
	interrupts chan struct{}
	got        chan os.Signal
	ended      chan int // the exit code
	stop       func()
}

// watchSignals turns INT into interrupts and other requests to end into the end
// of a context.
func watchSignals(parent context.Context) (context.Context, *signals) {
	ctx, cancel := context.WithCancel(parent)
	s := &signals{interrupts: make(chan struct{}), got: make(chan os.Signal, 4), ended: make(chan int, 1)}
	signal.Notify(s.got, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() { // ends with stop
		code := 0
		for sig := range s.got {
			if sig != os.Interrupt {
				code = exitTerminated
				cancel()
				continue
			}
			if code == 0 {
				code = exitInterrupted
			}
			select {
			case s.interrupts <- struct{}{}:
			case <-ctx.Done():
			}
		}
		s.ended <- code
	}()
	s.stop = func() { cancel() }
	return ctx, s
}

// code ends the watch and returns the exit code of a run that a signal ended,
// else 0.
func (s *signals) code() int {
	signal.Stop(s.got)
	close(s.got)
	s.stop()
	return <-s.ended
}
