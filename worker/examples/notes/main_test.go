package main

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestNotesOutliveTheServer adds with one server and reads with another.
func TestNotesOutliveTheServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.jsonl")
	connect := func() *mcp.ClientSession {
		serverEnd, clientEnd := mcp.NewInMemoryTransports()
		server, err := newServer(&Store{path: path}).Connect(t.Context(), serverEnd, nil)
		if err != nil {
			t.Fatal(err)
		}
		client, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(t.Context(), clientEnd, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			client.Close()
			_ = server.Wait() // ended by the client
		})
		return client
	}
	call := func(c *mcp.ClientSession, name string, args map[string]any) []Note {
		t.Helper()
		result, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
		if err != nil || result.IsError {
			t.Fatalf("%s: %v, %v", name, result, err)
		}
		raw, err := json.Marshal(result.StructuredContent)
		if err != nil {
			t.Fatal(err)
		}
		var out struct{ Notes []Note }
		if err := json.Unmarshal(raw, &out); err != nil {
			t.Fatal(err)
		}
		return out.Notes
	}
	first := connect()
	call(first, "add", map[string]any{"text": "Buy milk"})
	call(first, "add", map[string]any{"text": "Call Ada"})

	second := connect()
	if notes := call(second, "list", map[string]any{}); len(notes) != 2 {
		t.Errorf("list: %v", notes)
	}
	if notes := call(second, "search", map[string]any{"query": "MILK"}); len(notes) != 1 || notes[0].Text != "Buy milk" {
		t.Errorf("search: %v", notes)
	}
	resource, err := second.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: notesURI})
	if err != nil {
		t.Fatal(err)
	}
	if want := "1. Buy milk\n2. Call Ada\n"; resource.Contents[0].Text != want {
		t.Errorf("resource %q, want %q", resource.Contents[0].Text, want)
	}
}
