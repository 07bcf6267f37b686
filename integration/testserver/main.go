// Command testserver is an MCP server made for tests: it dies on request, at
// chosen points of a call, and journals what it did in a file that outlives
// it. It serves as a native worker when a supervisor starts it, else on stdio.
//
// The journal is the witness of the tests: each effect is one line, appended
// by one write, so that what happened is known whatever the client was told.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-mcp/holdfast/worker"
)

// version is set by the linker to tell builds apart.
var version = "1"

func main() {
	err := run(context.Background(), os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testserver:", err)
	}
	os.Exit(worker.ExitCode(err))
}

// options are the command line.
type options struct {
	journal    string
	startDelay time.Duration
	gate       string
	fate       fate
	keepAlive  time.Duration
	banner     string
	cut        bool
	handoff    bool
	grace      time.Duration
}

func run(ctx context.Context, args []string) error {
	var o options
	flags := flag.NewFlagSet("testserver", flag.ContinueOnError)
	flags.StringVar(&o.journal, "journal", os.DevNull, "file to which each effect is appended")
	flags.DurationVar(&o.startDelay, "start-delay", 0, "time to wait before serving")
	flags.StringVar(&o.gate, "gate", "", "file during whose existence to wait before serving")
	flags.StringVar(&o.fate.starts, "starts", "", "file that counts the starts of this server")
	flags.StringVar(&o.fate.ends, "ends", "", "with -starts: exit code of the first start, the second and so on, - for one that lives; the last counts for all others")
	flags.DurationVar(&o.fate.after, "after", 0, "how long a start serves that ends by -ends")
	flags.BoolVar(&o.handoff, "handoff", false, "ask for an upgrade at once")
	flags.DurationVar(&o.grace, "handoff-grace", 0, "bound of a handoff")
	flags.DurationVar(&o.keepAlive, "keepalive", 0, "ping the client at this interval and close the session if it is silent")
	flags.StringVar(&o.banner, "banner", "", "text to print to stdout before serving")
	flags.BoolVar(&o.cut, "cut", false, "serve stdio through a writer that the call append at=midframe cuts")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.banner != "" {
		fmt.Println(o.banner)
	}
	if err := o.fate.meet(); err != nil {
		return err
	}
	<-time.After(o.startDelay)
	awaitGate(o.gate)
	if o.handoff {
		worker.Handoff("asked to by -handoff")
	}
	s := &server{journal: o.journal, cuts: o.cut, out: &cuttingWriter{w: os.Stdout}}
	m := s.build(&mcp.ServerOptions{KeepAlive: o.keepAlive})
	if o.cut {
		return m.Run(ctx, &mcp.IOTransport{Reader: os.Stdin, Writer: s.out})
	}
	return worker.Serve(ctx, m, &worker.Options{HandoffGrace: o.grace})
}
