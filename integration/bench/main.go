package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/holdfast-mcp/holdfast/integration/usercache"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	holdfast, server, npm string
	only                  string
	reps, kills, swaps    int
	floods                int
	quick, escaped, json  bool
	as                    string
}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.holdfast, "holdfast", "bin/holdfast", "the supervisor, with holdfast-worker beside it")
	flags.StringVar(&o.server, "server", "bin/testserver", "the server: integration/testserver")
	flags.StringVar(&o.npm, "npm", ".cache/npm", "where sets of npm packages may be installed, each in a folder of its own")
	flags.StringVar(&o.only, "only", "", "measure targets whose name contains this, and direct")
	flags.IntVar(&o.reps, "reps", 7, "number of repetitions")
	flags.IntVar(&o.kills, "kill", 0, "instead, kill the worker so many times")
	flags.IntVar(&o.swaps, "swap", 0, "instead, replace the worker so many times under 1,000 calls a second; -only chooses a way")
	flags.IntVar(&o.floods, "flood", 0, "instead, so many times let one resource change 10,000 times a second; -only chooses a form")
	flags.BoolVar(&o.quick, "quick", false, "a tenth of the calls and two repetitions: to see that it works")
	flags.BoolVar(&o.escaped, "escaped", false, "texts that are JSON themselves, so that every second byte or so is escaped")
	flags.BoolVar(&o.json, "json", false, "print JSON with all samples instead of tables")
	flags.StringVar(&o.as, "as", "", "be one of the small programs to compare with: echo, passthrough, http")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.as != "" {
		return be(o.as, flags.Args(), stdin, stdout)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected arguments %q", flags.Args())
	}
	remove, err := usercache.Isolate()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	debug.SetGCPercent(400) // the measuring side shares the cores
	switch {
	case o.kills > 0:
		return benchKill(o, stdout, stderr)
	case o.swaps > 0:
		return benchSwap(o, stdout, stderr)
	case o.floods > 0:
		return benchFlood(o, stdout, stderr)
	}
	return benchTargets(o, stdout, stderr)
}
