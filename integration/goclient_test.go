package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// TestGoClient: EDGE-12, EDGE-13. The client of the Go SDK, in both eras, sees
// the same server with and without holdfast.
func TestGoClient(t *testing.T) {
	wants := map[string][]string{
		"":           {"version 2026-07-28", "tools [", "resources [", "prompts [", "progress ", "prompt ", "resource "},
		"2025-11-25": {"version 2025-11-25", "tools [", "asked sampling", "asked elicitation", "event log", "progress "},
	}
	for version, want := range wants {
		name := "discover"
		if version != "" {
			name = version
		}
		t.Run(name+" go server", func(t *testing.T) {
			t.Parallel()
			compareTraces(t, goClient(version), everythingCommands(t), append(want, "event updated"))
		})
		t.Run(name+" test server", func(t *testing.T) {
			t.Parallel()
			server := harness.TestServer(t)
			compareTraces(t, goClient(version), []namedCommand{
				{"direct", harness.Direct(server)},
				{"bridged", harness.Bridged(t, nil, server)},
				{"native", harness.Native(t, nil, server)},
			}, append(want, "call sleep cancelled"))
		})
	}
	t.Run("fallback npm server", func(t *testing.T) {
		t.Parallel()
		compareTraces(t, goClient(""), npmCommands(t), []string{
			"version 2025-11-25", "tools [", "asked sampling", "asked elicitation", "progress ", "call get-roots-list [false", "call trigger-long-running-operation cancelled",
		})
	})
}

// goClient runs a scripted session of the Go SDK's client that asks for the
// protocol version, the newest if it is empty.
func goClient(version string) func(*testing.T, []string) trace {
	return func(t *testing.T, command []string) trace {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		s := &goSession{ctx: ctx, updated: make(chan struct{})}
		client := mcp.NewClient(&mcp.Implementation{Name: "goclient", Version: "1"}, s.options())
		client.AddRoots(&mcp.Root{URI: "file:///somewhere", Name: "somewhere"})
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Env = append(os.Environ(), harness.ColdCache(t)...)
		session, err := client.Connect(ctx, &mcp.CommandTransport{
			Command: cmd, TerminateDuration: 2 * time.Second,
		}, &mcp.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		s.ClientSession = session
		s.run()
		_ = session.Close() // the npm server needs a signal to end, which is an error here
		s.mu.Lock()
		defer s.mu.Unlock()
		return newTrace(s.lines)
	}
}

// goSession is the script and what it saw.
type goSession struct {
	*mcp.ClientSession

	ctx     context.Context // the life of one script
	updated chan struct{}   // closed by the first resources/updated
	once    sync.Once

	mu    sync.Mutex // guards lines
	lines []string
}

func (s *goSession) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// step says what f gave, or its error.
func (s *goSession) step(name string, f func() (any, error)) {
	v, err := f()
	if err != nil {
		if wire, ok := errors.AsType[*jsonrpc.Error](err); ok {
			s.say("%s failed: %d %s", name, wire.Code, wire.Message)
			return
		}
		s.say("%s failed: %v", name, err)
		return
	}
	b, err := json.Marshal(v)
	if err != nil {
		b = []byte(err.Error())
	}
	s.say("%s %s", name, b)
}

func (s *goSession) options() *mcp.ClientOptions {
	return &mcp.ClientOptions{
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			s.say("asked sampling")
			return &mcp.CreateMessageResult{Role: "assistant", Model: "none", Content: &mcp.TextContent{Text: "sampled"}}, nil
		},
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			s.say("asked elicitation")
			return &mcp.ElicitResult{Action: "accept", Content: fillForm(r.Params.RequestedSchema)}, nil
		},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { s.say("event tools changed") },
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			s.say("event updated %s", r.Params.URI)
			s.once.Do(func() { close(s.updated) })
		},
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) { s.say("event log %s", r.Params.Level) },
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			if r.Params.Progress < r.Params.Total { // the answer may overtake the last one, within the SDK
				s.say("progress %v of %v", r.Params.Progress, r.Params.Total)
			}
		},
	}
}

// fillForm answers the required fields of a form.
func fillForm(schema any) map[string]any {
	var form struct {
		Properties map[string]struct {
			Type, Format string
			Minimum      float64
		}
		Required []string
	}
	b, err := json.Marshal(schema)
	if err != nil || json.Unmarshal(b, &form) != nil {
		return nil
	}
	content := map[string]any{}
	for _, name := range form.Required {
		switch field := form.Properties[name]; field.Type {
		case "boolean":
			content[name] = true
		case "integer", "number":
			content[name] = field.Minimum
		default:
			content[name] = "text"
		}
	}
	return content
}

func (s *goSession) run() {
	ctx := s.ctx
	s.say("version %s", s.InitializeResult().ProtocolVersion)
	s.step("server", func() (any, error) { return s.InitializeResult().ServerInfo, nil })
	<-time.After(400 * time.Millisecond) // servers may register more when they know their client
	tools := map[string]bool{}
	s.step("tools", func() (any, error) {
		var names []string
		for tool, err := range s.Tools(ctx, nil) {
			if err != nil {
				return nil, err
			}
			names, tools[tool.Name] = append(names, tool.Name), true
		}
		return names, nil
	})
	var uris []string
	s.step("resources", func() (any, error) {
		for r, err := range s.Resources(ctx, nil) {
			if err != nil {
				return nil, err
			}
			uris = append(uris, r.URI)
		}
		return uris, nil
	})
	var prompts []string
	s.step("prompts", func() (any, error) {
		for p, err := range s.Prompts(ctx, nil) {
			if err != nil {
				return nil, err
			}
			prompts = append(prompts, p.Name)
		}
		return prompts, nil
	})
	if len(prompts) > 0 {
		s.step("prompt "+prompts[len(prompts)-1], func() (any, error) {
			return s.GetPrompt(ctx, &mcp.GetPromptParams{Name: prompts[len(prompts)-1]})
		})
	}
	s.read(uris)
	s.calls(tools)
	s.cancel(tools)
	s.step("unknown tool", func() (any, error) { return s.CallTool(ctx, &mcp.CallToolParams{Name: "nope"}) })
	s.step("unknown resource", func() (any, error) {
		return s.ReadResource(ctx, &mcp.ReadResourceParams{URI: "x://nope"})
	})
	s.awaitUpdate(uris)
}

const watchedURI = "test://watched-resource"

// read reads the first resource, unless it counts its readers, and subscribes
// to the one that changes.
func (s *goSession) read(uris []string) {
	for _, uri := range uris {
		if uri == "test://static-text" || uri == "demo://resource/static/document/architecture.md" {
			s.step("resource "+uri, func() (any, error) {
				return s.ReadResource(s.ctx, &mcp.ReadResourceParams{URI: uri})
			})
		}
		if uri == "test://counter" {
			s.step("resource "+uri, func() (any, error) {
				r, err := s.ReadResource(s.ctx, &mcp.ReadResourceParams{URI: uri})
				if err != nil {
					return nil, err
				}
				return len(r.Contents), nil
			})
		}
		if uri == watchedURI {
			s.step("subscribe", func() (any, error) { return true, s.Subscribe(s.ctx, &mcp.SubscribeParams{URI: uri}) })
		}
	}
	s.step("level", func() (any, error) { return true, s.SetLoggingLevel(s.ctx, &mcp.SetLoggingLevelParams{Level: "debug"}) })
	s.step("ping", func() (any, error) { return true, s.Ping(s.ctx, nil) })
}

func (s *goSession) calls(tools map[string]bool) {
	for _, c := range []struct {
		name string
		args map[string]any
	}{
		{"echo", map[string]any{echoArgument(tools): "hello"}},
		{"test_simple_text", nil},
		{"test_tool_with_logging", nil},
		{"test_tool_with_progress", nil},
		{"test_sampling", map[string]any{"prompt": "x"}},
		{"test_elicitation", map[string]any{"message": "x"}},
		{"test_input_required_result_elicitation", nil},
		{"progress", map[string]any{"steps": 3}},
		{"log", nil},
		{"sample", nil},
		{"elicit", nil},
		{"roots", nil},
		{"trigger-long-running-operation", map[string]any{"duration": 0.4, "steps": 2}},
		{"trigger-sampling-request", map[string]any{"prompt": "x"}},
		{"trigger-elicitation-request", nil},
		{"get-roots-list", nil},
	} {
		if !tools[c.name] {
			continue
		}
		s.step("call "+c.name, func() (any, error) {
			p := &mcp.CallToolParams{Name: c.name, Arguments: c.args}
			if c.args == nil {
				p.Arguments = map[string]any{}
			}
			p.SetProgressToken("token-" + c.name)
			r, err := s.CallTool(s.ctx, p)
			if err != nil {
				return nil, err
			}
			return []any{r.IsError, r.Content}, nil
		})
	}
}

// echoArgument is the argument of echo, which several servers have.
func echoArgument(tools map[string]bool) string {
	if tools["pid"] {
		return "text"
	}
	return "message"
}

// cancel gives a call up while it runs.
func (s *goSession) cancel(tools map[string]bool) {
	for name, args := range map[string]map[string]any{
		"sleep":                          {"ms": 20_000},
		"trigger-long-running-operation": {"duration": 20, "steps": 20},
	} {
		if !tools[name] {
			continue
		}
		ctx, cancel := context.WithTimeout(s.ctx, 30*time.Millisecond)
		_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			s.say("call %s cancelled", name)
		} else {
			s.say("call %s: %v", name, err)
		}
	}
}

func (s *goSession) awaitUpdate(uris []string) {
	for _, uri := range uris {
		if uri == watchedURI {
			select {
			case <-s.updated:
			case <-time.After(10 * time.Second):
			}
		}
	}
}
