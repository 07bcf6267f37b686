package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-mcp/holdfast/worker"
)

type none struct{}

func text(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

// add adds a tool with input type In.
func add[In any](m *mcp.Server, name, about string, f func(context.Context, *mcp.CallToolRequest, In) (*mcp.CallToolResult, error)) {
	mcp.AddTool(m, &mcp.Tool{Name: name, Description: about},
		func(ctx context.Context, r *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
			result, err := f(ctx, r, in)
			return result, nil, err
		})
}

// update says that a resource has changed, with a member of _meta that is the
// server's own business.
func update(ctx context.Context, m *mcp.Server, uri string) error {
	return m.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: uri, Meta: mcp.Meta{"vendor.example/k": 1}})
}

func addTools(m *mcp.Server, w *watched) {
	add(m, "pid", "tells the process id", func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, error) {
		return text("%d", os.Getpid()), nil
	})
	type sleep struct {
		Millis int `json:"ms"`
	}
	add(m, "sleep", "waits, or journals that it was cancelled", func(ctx context.Context, _ *mcp.CallToolRequest, in sleep) (*mcp.CallToolResult, error) {
		select {
		case <-time.After(time.Duration(in.Millis) * time.Millisecond):
			return text("slept in %d", os.Getpid()), nil
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), w.note("cancelled", "sleep"))
		}
	})
	type touch struct {
		URI   string `json:"uri"`
		Times int    `json:"times,omitempty"`
		Then  string `json:"then,omitempty"`
	}
	add(m, "touch", "says that a resource has changed, so many times, and then another one", func(ctx context.Context, _ *mcp.CallToolRequest, in touch) (*mcp.CallToolResult, error) {
		for range max(1, in.Times) {
			if err := update(ctx, m, in.URI); err != nil {
				return nil, err
			}
		}
		if in.Then != "" {
			if err := update(ctx, m, in.Then); err != nil {
				return nil, err
			}
		}
		return text("touched"), w.note("touched", in.URI)
	})
	type end struct {
		URI string `json:"uri"`
		Why string `json:"why"`
	}
	add(m, "end", "ends all subscriptions to a resource", func(ctx context.Context, _ *mcp.CallToolRequest, in end) (*mcp.CallToolResult, error) {
		why, err := terminal(in.Why)
		if err != nil {
			return nil, err
		}
		if err := worker.EndSubscription(ctx, m, in.URI, why, "it is "+in.Why); err != nil {
			return nil, err
		}
		return text("ended"), w.note("ended", in.URI)
	})
	type grow struct {
		Name   string `json:"name"`
		Prompt bool   `json:"prompt,omitempty"`
	}
	add(m, "grow", "adds a tool or a prompt of that name", func(_ context.Context, _ *mcp.CallToolRequest, in grow) (*mcp.CallToolResult, error) {
		if in.Prompt {
			m.AddPrompt(&mcp.Prompt{Name: in.Name}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				return &mcp.GetPromptResult{}, nil
			})
			return text("grown"), nil
		}
		add(m, in.Name, "was added later", func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, error) {
			return text("grown"), nil
		})
		return text("grown"), nil
	})
}
