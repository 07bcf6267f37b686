// Command holdfast is an MCP entrypoint that outlives the server behind it.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// The handlers are in place before anything else: a client may end us at
	// any moment, and a write to a client that is gone must be an error.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	signal.Ignore(syscall.SIGPIPE)
	os.Exit(run(os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}, signals))
}
