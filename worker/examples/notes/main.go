// Command notes is an MCP server that keeps notes in a file, and a holdfast
// worker. It is an example of a server that survives its own replacement: what
// it has promised to keep is on disk before it answers.
//
//	notes [-file notes.jsonl]
//
// Run by an MCP client it serves stdio; under holdfast run --worker it is
// supervised.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-mcp/holdfast/worker"
)

func main() {
	file := flag.String("file", "notes.jsonl", "where the notes are kept")
	flag.Parse()
	server := newServer(&Store{path: *file})
	os.Exit(worker.ExitCode(worker.Serve(context.Background(), server, &worker.Options{Name: "notes"})))
}

// notesURI is the resource of all notes.
const notesURI = "notes://all"

type (
	addInput struct {
		Text string `json:"text" jsonschema:"the note"`
	}
	searchInput struct {
		Query string `json:"query" jsonschema:"text to look for, case does not matter"`
	}
	notesOutput struct {
		Notes []Note `json:"notes"`
	}
)

func newServer(store *Store) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1.0.0"}, &mcp.ServerOptions{
		Instructions:       "Keeps short notes across sessions.",
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true}

	mcp.AddTool(server, &mcp.Tool{Name: "add", Description: "Add a note"},
		func(ctx context.Context, _ *mcp.CallToolRequest, in addInput) (*mcp.CallToolResult, Note, error) {
			note, err := store.Add(in.Text)
			if err != nil {
				return nil, Note{}, err
			}
			if err := server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: notesURI}); err != nil {
				log.Printf("telling subscribers: %v", err)
			}
			return nil, note, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "list", Description: "List all notes, oldest first", Annotations: readOnly},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, notesOutput, error) {
			notes, err := store.Search("")
			return nil, notesOutput{notes}, err
		})
	mcp.AddTool(server, &mcp.Tool{Name: "search", Description: "Find notes that contain a text", Annotations: readOnly},
		func(_ context.Context, _ *mcp.CallToolRequest, in searchInput) (*mcp.CallToolResult, notesOutput, error) {
			notes, err := store.Search(in.Query)
			return nil, notesOutput{notes}, err
		})
	server.AddResource(&mcp.Resource{URI: notesURI, Name: "notes", MIMEType: "text/plain"},
		func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			notes, err := store.Search("")
			if err != nil {
				return nil, err
			}
			var text strings.Builder
			for _, note := range notes {
				fmt.Fprintf(&text, "%d. %s\n", note.ID, note.Text)
			}
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{
				{URI: notesURI, MIMEType: "text/plain", Text: text.String()},
			}}, nil
		})
	return server
}
