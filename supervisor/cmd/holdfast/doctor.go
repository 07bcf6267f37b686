package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-mcp/holdfast/supervisor/internal/config"
)

const doctorHelp = `doctor looks at all that holdfast needs, and says of each what to do if it is
not well: its own parts, the directories and files that it uses, the running
supervisors, and the entries of MCP clients that start it. With NAME it looks at
that supervisor alone.

With COMMAND, which is the server's as behind "holdfast run", it starts the
server twice at most, speaks MCP to it without anything in between but what
"holdfast run" has there, and ends it: does it answer, how fast, in which
revisions of the protocol, does it survive being asked for a newer one, and
does it print to stdout what is no message? Flags of "holdfast run" may be
given as well, such as --cwd, --env, --worker and --start-timeout.

Exit codes: 0 nothing fails, 1 something does, 2 wrong usage. A warning is no
failure.`

// Verdicts of a check.
const (
	good   = "ok"
	notYet = "warn"
	bad    = "fail"
)

var verdictColours = map[string]string{good: green, notYet: yellow, bad: red}

// finding is what one check has found.
type finding struct {
	Check   string `json:"check"`
	Verdict string `json:"verdict"` // ok, warn or fail
	Text    string `json:"text"`
	Next    string `json:"next,omitempty"`
}

// findings are what all checks have found, in their order.
type findings struct {
	all  []finding
	tell func(finding) // is called with each as it is found
}

func (f *findings) add(one finding) {
	f.all = append(f.all, one)
	f.tell(one)
}

func (f *findings) ok(check, format string, args ...any) {
	f.add(finding{check, good, fmt.Sprintf(format, args...), ""})
}

func (f *findings) warn(check, text, next string) { f.add(finding{check, notYet, text, next}) }

func (f *findings) fail(check, text, next string) { f.add(finding{check, bad, text, next}) }

func (f *findings) count(verdict string) (n int) {
	for _, one := range f.all {
		if one.Verdict == verdict {
			n++
		}
	}
	return n
}

// doctor is what doctor was called with.
type doctor struct {
	findings

	config config.Config
	flags  *pflag.FlagSet // with those of run
	by     string         // the instance, empty for all
	// Of the server: its environment, what of that may be secret, its directory.
	env, secrets []string
	dir          string
}

func newDoctor() *cobra.Command {
	var asJSON bool
	d := &doctor{config: config.Default()}
	cmd := &cobra.Command{
		Use:   "doctor [NAME|PID|DIR] [flags] [-- COMMAND ARGS...]",
		Short: "Check what holdfast needs, and a server before it is put behind it",
		Long:  doctorHelp,
		Example: `  holdfast doctor
  holdfast doctor -- node /home/me/notes/server.js
  holdfast doctor --worker ./my-worker --start-timeout 5s`,
		RunE: func(cmd *cobra.Command, args []string) error {
			dash := cmd.ArgsLenAtDash()
			if dash < 0 {
				dash = len(args)
			}
			if err := atMostOne(cmd, args[:dash]); err != nil {
				return err
			}
			d.by, d.config.Args, d.flags = meant(args[:dash]), args[dash:], cmd.Flags()
			out := cmd.OutOrStdout()
			d.tell = func(f finding) { printFinding(out, f) }
			if asJSON {
				d.tell = func(finding) {}
			}
			d.examine(cmd.Context())
			if asJSON {
				if err := printJSON(out, d.all); err != nil {
					return err
				}
			} else {
				fmt.Fprintf(out, "\n%d fail, %d warn, %d ok\n", d.count(bad), d.count(notYet), d.count(good))
			}
			if d.count(bad) > 0 {
				return errTold
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an array of check, verdict, text and next as JSON")
	run := pflag.NewFlagSet("run", pflag.ContinueOnError)
	addRunFlags(run, &d.config)
	run.VisitAll(func(f *pflag.Flag) { f.Hidden = true })
	cmd.Flags().AddFlagSet(run)
	return cmd
}

// examine does all checks.
func (d *doctor) examine(ctx context.Context) {
	usable := d.settings()
	d.holdfast(ctx)
	sockets := d.sockets()
	if sockets != nil {
		defer sockets.Remove()
	}
	d.cache()
	d.instances(ctx)
	d.clients()
	if !usable || d.config.Worker == "" && len(d.config.Args) == 0 {
		return
	}
	if d.command() && sockets != nil {
		d.server(ctx, sockets.Path)
	}
}

func printFinding(w io.Writer, f finding) {
	p := newPage(w)
	text := strings.Join(wrap(f.Check+": "+oneLine(f.Text), p.width, 6), "\n      ")
	fmt.Fprintf(&p.out, "%s  %s\n", p.paint(verdictColours[f.Verdict], fmt.Sprintf("%-4s", f.Verdict)), text)
	if f.Next != "" {
		fmt.Fprintln(&p.out, "      next: "+strings.Join(wrap(oneLine(f.Next), p.width, 12), "\n            "))
	}
	_, _ = io.WriteString(w, p.out.String()) // there is nobody to tell
}
