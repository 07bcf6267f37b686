package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// server holds what the tools share.
type server struct {
	journal string
	cuts    bool
	out     *cuttingWriter
	reads   atomic.Int64
}

type none struct{}

// text is the result of most tools.
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

func (s *server) build(o *mcp.ServerOptions) *mcp.Server {
	o.InitializedHandler = func(context.Context, *mcp.InitializedRequest) {
		if err := s.note(fmt.Sprintf("initialized %d", os.Getpid())); err != nil {
			fmt.Fprintln(os.Stderr, "testserver:", err)
		}
	}
	o.SubscribeHandler = func(context.Context, *mcp.SubscribeRequest) error { return nil }
	o.UnsubscribeHandler = func(context.Context, *mcp.UnsubscribeRequest) error { return nil }
	m := mcp.NewServer(&mcp.Implementation{Name: "testserver", Version: version}, o)
	s.addFacts(m)
	s.addEffects(m)
	s.addConversation(m)
	addUpdates(m)
	m.AddResource(&mcp.Resource{Name: "counter", URI: "test://counter"},
		func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{
				URI: "test://counter", Text: fmt.Sprintf("%d of %d", s.reads.Add(1), os.Getpid()),
			}}}, nil
		})
	m.AddPrompt(&mcp.Prompt{Name: "greeting"},
		func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "hello"}}}}, nil
		})
	m.AddReceivingMiddleware(s.dieOnReceipt)
	return m
}

// addFacts adds the tools that change nothing.
func (s *server) addFacts(m *mcp.Server) {
	add(m, "pid", "tells the process id", func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, error) {
		return text("%d", os.Getpid()), nil
	})
	add(m, "version", "tells the build", func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, error) {
		return text("%s", version), nil
	})
	add(m, "env", "tells the environment, a variable a line", func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, error) {
		return text("%s", strings.Join(os.Environ(), "\n")), nil
	})
	add(m, "cwd", "tells the working directory", func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, error) {
		dir, err := os.Getwd()
		return text("%s", dir), err
	})
	type echo struct {
		Text string `json:"text"`
	}
	add(m, "echo", "repeats the text", func(_ context.Context, _ *mcp.CallToolRequest, in echo) (*mcp.CallToolResult, error) {
		return text("%s", in.Text), nil
	})
	type big struct {
		Bytes int `json:"bytes"`
	}
	add(m, "big", "answers with so many bytes of text", func(_ context.Context, _ *mcp.CallToolRequest, in big) (*mcp.CallToolResult, error) {
		return text("%s", strings.Repeat("x", in.Bytes)), nil
	})
	type sleep struct {
		Millis int `json:"ms"`
	}
	add(m, "sleep", "waits, or ends early when cancelled", func(ctx context.Context, _ *mcp.CallToolRequest, in sleep) (*mcp.CallToolResult, error) {
		select {
		case <-time.After(time.Duration(in.Millis) * time.Millisecond):
			return text("slept"), nil
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), s.note("cancelled"))
		}
	})
	add(m, "stderr", "writes so many bytes to stderr", func(_ context.Context, _ *mcp.CallToolRequest, in big) (*mcp.CallToolResult, error) {
		_, err := os.Stderr.WriteString(strings.Repeat("e", in.Bytes) + "\n")
		return text("written"), err
	})
}

// addConversation adds the tools that talk to the client during the call.
func (s *server) addConversation(m *mcp.Server) {
	type steps struct {
		Steps int `json:"steps"`
	}
	add(m, "progress", "reports its steps", func(ctx context.Context, r *mcp.CallToolRequest, in steps) (*mcp.CallToolResult, error) {
		for i := range in.Steps {
			err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Total: float64(in.Steps),
			})
			if err != nil {
				return nil, err
			}
		}
		return text("done"), nil
	})
	add(m, "log", "sends a log message", func(ctx context.Context, r *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, error) {
		return text("logged"), r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "error", Data: "a message"})
	})
	add(m, "sample", "asks the client to sample", func(ctx context.Context, r *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, error) {
		answer, err := r.Session.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 1, Messages: []*mcp.SamplingMessage{}})
		if err != nil {
			return nil, err
		}
		return text("sampled with %s", answer.Model), nil
	})
	add(m, "elicit", "asks the user", func(ctx context.Context, r *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, error) {
		answer, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "well?"})
		if err != nil {
			return nil, err
		}
		return text("user says %s", answer.Action), nil
	})
	add(m, "converse", "asks the client, reports progress, logs, asks the user, and tells what it heard and the process id", s.converse)
	add(m, "roots", "asks for the roots", func(ctx context.Context, r *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, error) {
		answer, err := r.Session.ListRoots(ctx, nil)
		if err != nil {
			return nil, err
		}
		return text("%d roots", len(answer.Roots)), nil
	})
	add(m, "grow", "adds a tool named grown", func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, error) {
		add(m, "grown", "was added later", func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, error) {
			return text("grown"), nil
		})
		return text("grown"), nil
	})
}

func (s *server) converse(ctx context.Context, r *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, error) {
	sampled, err := r.Session.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 1, Messages: []*mcp.SamplingMessage{}})
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1}),
		r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "error", Data: "a message"}),
	)
	if err != nil {
		return nil, err
	}
	said, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "well?"})
	if err != nil {
		return nil, err
	}
	return text("%s, %s, %d", sampled.Model, said.Action, os.Getpid()), nil
}
