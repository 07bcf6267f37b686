// Command holdfast is an MCP entrypoint that outlives the server behind it.
package main

import (
	"os"
	"os/signal"
)

func main() {
	// The handlers are in place before anything else: a client may end us at
	// any moment.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, handled()...)
	os.Exit(run(os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}, signals))
}
