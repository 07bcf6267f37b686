package integration

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

var controlTools = []string{"holdfast_status", "holdfast_swap", "holdfast_logs"}

// toolNames returns the names of a tools/list answer.
func toolNames(t *testing.T, f harness.Frame) []string {
	t.Helper()
	var page struct {
		Tools []struct{ Name string }
	}
	if err := json.Unmarshal(f.Result, &page); err != nil {
		t.Fatalf("%v: %s", err, f.Raw)
	}
	var names []string
	for _, tool := range page.Tools {
		names = append(names, tool.Name)
	}
	return names
}

// said returns the text of a tool's result, and whether that is an error.
func said(t *testing.T, f harness.Frame) (text string, failed bool) {
	t.Helper()
	var result struct {
		Content []struct{ Text string }
		IsError bool
	}
	if err := json.Unmarshal(f.Result, &result); err != nil || len(result.Content) != 1 {
		t.Fatalf("%v: %s", err, f.Raw)
	}
	return result.Content[0].Text, result.IsError
}

// TestSUP4ControlTools: SUP-4, SUP-15. A client's model that may sees, replaces
// and reads the log of its server by tools beside the server's own; one that may
// not has none of them.
func TestSUP4ControlTools(t *testing.T) {
	eachSupervised(t, func(t *testing.T, v variant) {
		c := harness.Start(t, harness.Config{Command: v.command(t, []string{"--control-tools"}, harness.TestServer(t))})
		c.Initialize()
		names := toolNames(t, c.Request("tools/list", nil).Wait())
		if n := len(names) - len(controlTools); n < 1 || !slices.Equal(names[n:], controlTools) {
			t.Errorf("tools %q", names)
		}
		if text, failed := said(t, c.CallTool("holdfast_status", nil)); failed || !strings.Contains(text, "generation 1") {
			t.Errorf("status: %s", text)
		}
		if text, failed := said(t, c.CallTool("holdfast_swap", nil)); failed || !strings.Contains(text, "Generation 2") {
			t.Errorf("swap: %s", text)
		}
		if text, failed := said(t, c.CallTool("holdfast_logs", map[string]any{"lines": 20})); failed || !strings.Contains(text, "worker serves") {
			t.Errorf("logs: %s", text)
		}
		if text, failed := said(t, c.CallTool("holdfast_logs", map[string]any{"lines": 0})); !failed || !strings.Contains(text, "1 to 500") {
			t.Errorf("logs: %s", text)
		}

		plain := startTestServer(t, v)
		plain.Initialize()
		if names := toolNames(t, plain.Request("tools/list", nil).Wait()); slices.Contains(names, "holdfast_swap") {
			t.Errorf("tools without --control-tools: %q", names)
		}
	})
}

// TestSUP4ControlToolsWithoutServer: SUP-4, C50. They are there when no server
// can be started, and say why.
func TestSUP4ControlToolsWithoutServer(t *testing.T) {
	c := harness.Start(t, harness.Config{Command: []string{harness.Holdfast(t), "run", "--control-tools", "--", "no-such-server"}})
	c.Initialize()
	if names := toolNames(t, c.Request("tools/list", nil).Wait()); !slices.Equal(names, controlTools) {
		t.Errorf("tools %q", names)
	}
	for _, tool := range []string{"holdfast_swap", "holdfast_logs", "holdfast_status"} {
		if text, failed := said(t, c.CallTool(tool, nil)); failed != (tool == "holdfast_swap") || !strings.Contains(text, "no-such-server") {
			t.Errorf("%s: %s", tool, text)
		}
	}
}

// TestSUP10ControlToolTellsTheBuild: SUP-10, SEC-5. In dev holdfast_swap builds
// by the configured command, and answers with the build's errors; a broken edit
// is harmless.
func TestSUP10ControlToolTellsTheBuild(t *testing.T) {
	requireShell(t)
	eachSupervised(t, func(t *testing.T, v variant) {
		p := newDevProject(t)
		p.buildScript(p.install("1"))
		h := p.startBuilt(v)
		h.Initialize()
		h.awaitVersion("1", "1")
		p.buildScript("echo server.go:7: syntax error >&2", "exit 3")
		h.awaitBuild("failed")
		if text, failed := said(t, h.CallTool("holdfast_status", nil)); failed || !strings.Contains(text, "server.go:7: syntax error") {
			t.Errorf("status: %s", text)
		}
		text, failed := said(t, h.CallTool("holdfast_swap", map[string]any{"command": "echo harmful"}))
		if !failed || !strings.Contains(text, "server.go:7: syntax error") || !strings.Contains(text, "Generation 1 still serves") {
			t.Errorf("swap: %s", text)
		}
		if got := h.version(); got != "1" {
			t.Errorf("version %s answers", got)
		}
		p.buildScript(p.install("2"))
		h.awaitVersion("2", "1")
	})
}
