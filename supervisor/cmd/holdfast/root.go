package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// Exit codes, as documented in the help text.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// streams are the three files of a process.
type streams struct{ in, out, err *os.File }

// errUsage marks errors in how holdfast was called.
var errUsage = errors.New("usage")

type usageError struct{ error }

func (usageError) Is(target error) bool { return target == errUsage }

// errTold is returned when what is wrong has been printed already.
var errTold = errors.New("told")

// run runs the command line and returns the exit code.
func run(args []string, std streams, signals <-chan os.Signal) int {
	root := newRoot(std, signals)
	root.SetArgs(args)
	root.SetIn(std.in)
	root.SetOut(std.out)
	root.SetErr(std.err)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if !errors.Is(err, errTold) {
		fmt.Fprintln(std.err, "holdfast:", readable(err.Error()))
	}
	if errors.Is(err, errUsage) {
		return exitUsage
	}
	return exitFailure
}

func newRoot(std streams, signals <-chan os.Signal) *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "An MCP entrypoint that outlives the server behind it",
		Long: `holdfast is started by an MCP client in place of a server. It runs the server,
starts it again when it dies, and tells the client the truth about what was
under way.

Exit codes: 0 the session ended, 1 failure, 2 wrong usage.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown command %q; see `holdfast --help`", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(flagError)
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) { interruptible(cmd, signals) }
	root.AddCommand(
		newRun(std, signals), newDev(std, signals), newStatus(), newSwap(), newLogs(), newStop(), newDoctor(),
		newInstall(), newUninstall(), newVersion(), newCompletion(root), newMan(root),
	)
	addCompletions(root)
	return root
}

// noArgs refuses arguments as wrong usage.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no arguments; see `%s --help`", cmd.CommandPath(), cmd.CommandPath())}
	}
	return nil
}

func flagError(cmd *cobra.Command, err error) error {
	return usageError{fmt.Errorf("%w; see `%s --help`", err, cmd.CommandPath())}
}
