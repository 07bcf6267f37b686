package worker_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-mcp/holdfast/worker"
)

// A whole worker: the last line is the only one that differs from a server
// without holdfast.
func Example() {
	server := mcp.NewServer(&mcp.Implementation{Name: "greeter", Version: "1.0.0"}, nil)
	type input struct {
		Name string `json:"name" jsonschema:"who to greet"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "greet", Description: "Say hello"},
		func(_ context.Context, _ *mcp.CallToolRequest, in input) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "Hello, " + in.Name}}}, nil, nil
		})
	os.Exit(worker.ExitCode(worker.Serve(context.Background(), server, nil)))
}

// A program with something to clean up takes the exit code along.
func ExampleExitCode() {
	err := worker.ErrHandoff // as Serve returned it
	fmt.Println(worker.ExitCode(nil), worker.ExitCode(err), worker.ExitCode(context.Canceled))
	// Output: 0 75 1
}

// A server that keeps the state of its client gets one per session.
func ExampleServeFunc() {
	newServer := func() *mcp.Server {
		return mcp.NewServer(&mcp.Implementation{Name: "stateful"}, nil)
	}
	err := worker.ServeFunc(context.Background(), newServer, &worker.Options{Name: "stateful", Version: "1.0.0"})
	if err != nil {
		log.Print(err)
	}
	os.Exit(worker.ExitCode(err))
}

// A program that notices a newer build of itself asks to be replaced. Serve
// then returns ErrHandoff and the program exits with code 75.
func ExampleHandoff() {
	self, err := os.Executable()
	if err != nil {
		log.Fatal(err)
	}
	started, err := os.Stat(self)
	if err != nil {
		log.Fatal(err)
	}
	go func() { // ends with the process
		for range time.Tick(time.Minute) {
			if now, err := os.Stat(self); err == nil && now.ModTime() != started.ModTime() {
				worker.Handoff("the executable has changed")
			}
		}
	}()
}

// A tool that waits for long comes to an end of its own when the worker is
// about to be replaced.
func ExampleDraining() {
	events := make(chan string)
	wait := func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		text := "nothing yet, call again"
		select {
		case text = <-events:
		case <-worker.Draining(ctx):
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "events"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "wait_for_event"}, wait)
	// Output:
}

// A server whose resources come and go says so to its subscribers: to those who
// come too late, and to those who are there.
func ExampleRefuseSubscription() {
	open := func(uri string) bool { return uri == "note://today" }
	server := mcp.NewServer(&mcp.Implementation{Name: "notes"}, &mcp.ServerOptions{
		SubscribeHandler: func(_ context.Context, req *mcp.SubscribeRequest) error {
			if !open(req.Params.URI) {
				return worker.RefuseSubscription(req.Params.URI, worker.AttachmentExpired, "the note was closed")
			}
			return nil
		},
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	closeNote := func(ctx context.Context, uri string) error {
		return worker.EndSubscription(ctx, server, uri, worker.AttachmentExpired, "the note was closed")
	}
	if err := closeNote(context.Background(), "note://today"); err != nil {
		log.Fatal(err)
	}
	// Output:
}
