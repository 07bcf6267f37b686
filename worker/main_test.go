package worker

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

// The test binary, started with this variable, is a worker or a plain server.
const processVariable = "WORKER_TEST_PROCESS"

func TestMain(m *testing.M) {
	switch os.Getenv(processVariable) {
	case "":
		goleak.VerifyTestMain(m)
	case "serve":
		os.Exit(ExitCode(Serve(context.Background(), newTestServer(), &Options{Name: "test", HandoffGrace: time.Second})))
	case "serve each":
		servers := 0
		os.Exit(ExitCode(ServeFunc(context.Background(), func() *mcp.Server {
			servers++ // one session after the other asks for one here
			s, n := newTestServer(), servers
			addTool(s, "number", func(context.Context, *mcp.CallToolRequest, string) (*mcp.CallToolResult, error) {
				return text("server %d", n), nil
			})
			return s
		}, nil)))
	case "children": // a child of the worker
		fmt.Println(strings.Join(os.Environ(), "\n"))
	case "stubborn": // its main does not end with Serve
		_ = Serve(context.Background(), newTestServer(), nil)
		time.Sleep(time.Hour)
	}
}

type textArgs struct {
	Text string `json:"text,omitempty"`
}

func text(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

// addTool adds a tool whose handler gets a text.
func addTool(s *mcp.Server, name string, do func(ctx context.Context, req *mcp.CallToolRequest, text string) (*mcp.CallToolResult, error)) {
	mcp.AddTool(s, &mcp.Tool{Name: name}, func(ctx context.Context, req *mcp.CallToolRequest, args textArgs) (*mcp.CallToolResult, any, error) {
		result, err := do(ctx, req, args.Text)
		return result, nil, err
	})
}

func newTestServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	addTool(s, "echo", func(_ context.Context, _ *mcp.CallToolRequest, t string) (*mcp.CallToolResult, error) {
		return text("%s", t), nil
	})
	addTool(s, "print", func(_ context.Context, _ *mcp.CallToolRequest, t string) (*mcp.CallToolResult, error) {
		fmt.Println("out", t)
		fmt.Fprintln(os.Stderr, "err", t)
		return text("printed"), nil
	})
	addTool(s, "child_env", func(ctx context.Context, _ *mcp.CallToolRequest, _ string) (*mcp.CallToolResult, error) {
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), processVariable+"=children")
		out, err := cmd.Output()
		return text("%s", out), err
	})
	addTool(s, "handoff", func(_ context.Context, _ *mcp.CallToolRequest, reason string) (*mcp.CallToolResult, error) {
		Handoff(reason)
		return text("wanted"), nil
	})
	addTool(s, "until_draining", func(ctx context.Context, _ *mcp.CallToolRequest, _ string) (*mcp.CallToolResult, error) {
		select {
		case <-Draining(ctx):
			return text("draining"), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	addTool(s, "until_cancelled", func(ctx context.Context, _ *mcp.CallToolRequest, _ string) (*mcp.CallToolResult, error) {
		<-ctx.Done()
		return text("cancelled"), nil
	})
	addTool(s, "exit", func(context.Context, *mcp.CallToolRequest, string) (*mcp.CallToolResult, error) {
		os.Exit(3)
		return nil, nil
	})
	return s
}
