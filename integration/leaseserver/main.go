// Command leaseserver is an MCP server made for tests of what clients watch: its
// resources change, end and are refused on request, its lists grow, and it has
// a tool that asks first (input_required). It serves as a native worker when a
// supervisor starts it, else on stdio.
//
// What it decides by is in files that outlive it, so that a test can prepare the
// next life of it while this one serves; what it is asked is in its journal.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-mcp/holdfast/worker"
)

func main() {
	err := run(context.Background(), os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "leaseserver:", err)
	}
	os.Exit(worker.ExitCode(err))
}

func run(ctx context.Context, args []string) error {
	var w watched
	flags := flag.NewFlagSet("leaseserver", flag.ContinueOnError)
	flags.StringVar(&w.journal, "journal", os.DevNull, "file to which what is subscribed to and done is appended, with the process id")
	flags.StringVar(&w.refuse, "refuse", "", "file of refused resources, a line each: URI and expired, unavailable or plain")
	flags.StringVar(&w.hold, "hold", "", "file during whose existence subscriptions wait")
	older := flags.String("older", "", "file that makes this life one of the initialize era alone")
	if err := flags.Parse(args); err != nil {
		return err
	}
	m := mcp.NewServer(&mcp.Implementation{Name: "leaseserver", Version: "1"}, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{
			Tools:     &mcp.ToolCapabilities{ListChanged: true},
			Prompts:   &mcp.PromptCapabilities{ListChanged: true},
			Resources: &mcp.ResourceCapabilities{Subscribe: true, ListChanged: true},
			Logging:   &mcp.LoggingCapabilities{},
		},
		SubscribeHandler:   w.subscribe,
		UnsubscribeHandler: w.unsubscribe,
	})
	addTools(m, &w)
	addChain(m)
	if *older != "" {
		if _, err := os.Stat(*older); err == nil {
			m.AddReceivingMiddleware(refuseDiscover)
		}
	}
	return worker.Serve(ctx, m, nil)
}

// refuseDiscover answers as servers do that know of no revision without
// initialize.
func refuseDiscover(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method == "server/discover" {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found"}
		}
		return next(ctx, method, req)
	}
}
