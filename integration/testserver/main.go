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
)

// version is set by the linker to tell builds apart.
var version = "1"

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "testserver:", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	journal    string
	startDelay time.Duration
	keepAlive  time.Duration
	banner     string
	cut        bool
}

func run(ctx context.Context, args []string) error {
	var o options
	flags := flag.NewFlagSet("testserver", flag.ContinueOnError)
	flags.StringVar(&o.journal, "journal", os.DevNull, "file to which each effect is appended")
	flags.DurationVar(&o.startDelay, "start-delay", 0, "time to wait before serving")
	flags.DurationVar(&o.keepAlive, "keepalive", 0, "ping the client at this interval and close the session if it is silent")
	flags.StringVar(&o.banner, "banner", "", "text to print to stdout before serving")
	flags.BoolVar(&o.cut, "cut", false, "serve stdio through a writer that the call append at=midframe cuts")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.banner != "" {
		fmt.Println(o.banner)
	}
	<-time.After(o.startDelay)
	s := &server{journal: o.journal, cuts: o.cut, out: &cuttingWriter{w: os.Stdout}}
	m := s.build(&mcp.ServerOptions{KeepAlive: o.keepAlive})
	if o.cut {
		return m.Run(ctx, &mcp.IOTransport{Reader: os.Stdin, Writer: s.out})
	}
	return serve(ctx, m)
}
