package integration

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// trace is what a scripted client saw of a server. Steps are compared as a
// multiset; of what the server sends by itself only whether it came, since
// how often depends on time.
type trace struct {
	Steps  []string
	Events []string
}

func newTrace(lines []string) trace {
	var tr trace
	for _, line := range lines {
		if strings.HasPrefix(line, "event ") {
			tr.Events = append(tr.Events, line)
		} else {
			tr.Steps = append(tr.Steps, line)
		}
	}
	slices.Sort(tr.Steps)
	slices.Sort(tr.Events)
	tr.Events = slices.Compact(tr.Events)
	return tr
}

// has reports whether a line starts with the text.
func (tr trace) has(text string) bool {
	return slices.ContainsFunc(slices.Concat(tr.Steps, tr.Events), func(line string) bool {
		return strings.HasPrefix(line, text)
	})
}

// compareTraces runs a client against each command and requires that it sees
// the same as in the first, in which all of wants must occur.
func compareTraces(t *testing.T, run func(t *testing.T, command []string) trace, commands []namedCommand, wants []string) {
	t.Helper()
	direct := run(t, commands[0].argv)
	for _, want := range wants {
		if !direct.has(want) {
			t.Errorf("the trace without holdfast lacks %q", want)
		}
	}
	if t.Failed() {
		t.Fatalf("trace without holdfast:\n%s", strings.Join(slices.Concat(direct.Steps, direct.Events), "\n"))
	}
	for _, c := range commands[1:] {
		if diff := cmp.Diff(direct, run(t, c.argv)); diff != "" {
			t.Errorf("%s: what the client sees (-direct +supervised):\n%s", c.name, diff)
		}
	}
	t.Logf("%d steps, %d kinds of events, alike in %d ways to run the server", len(direct.Steps), len(direct.Events), len(commands))
}

type namedCommand struct {
	name string
	argv []string
}

// everythingCommands are the ways to run the conformance server of the Go SDK.
func everythingCommands(t *testing.T) []namedCommand {
	t.Helper()
	server := harness.Everything(t)
	return []namedCommand{
		{"direct", harness.Direct(server)},
		{"bridged", harness.Bridged(t, nil, server)},
		{"native", harness.Native(t, nil, harness.EverythingWorker(t))},
	}
}

// npmCommands are the ways to run the everything server of npm.
func npmCommands(t *testing.T) []namedCommand {
	t.Helper()
	server := []string{
		harness.RequireNode(t),
		filepath.Join(harness.RequireClients(t), "@modelcontextprotocol", "server-everything", "dist", "index.js"), "stdio",
	}
	return []namedCommand{
		{"direct", server},
		{"bridged", harness.Bridged(t, nil, server...)},
	}
}

// TestTypeScriptClient: EDGE-12, EDGE-13. Both SDKs of TypeScript, in
// each way to find the version, see the same server with and without holdfast.
func TestTypeScriptClient(t *testing.T) {
	common := []string{"connect [", "tools/list [", "resources/list [", "prompts/list [", "resources/read [", "subscribe true", "progress [", "event updated", "closed"}
	legacy := []string{"ping true", "logging/setLevel true", "event log", "asked sampling", "asked elicitation"}
	goServer := []string{"call test_simple_text [false", "prompts/get test_simple_prompt [", "unknown tool failed"}
	npmServer := []string{"call echo [false", "prompts/get simple-prompt [", "call get-roots-list [false", "event asked roots", "call trigger-long-running-operation failed"}
	for _, mode := range []string{"v1", "legacy", "auto", "pin"} {
		wants := slices.Concat(common, goServer)
		if mode == "v1" || mode == "legacy" {
			wants = append(wants, legacy...)
		}
		t.Run(mode+" go server", func(t *testing.T) {
			t.Parallel()
			compareTraces(t, typeScript(mode), everythingCommands(t), wants)
		})
		if mode == "pin" {
			continue // the npm server speaks the legacy era only
		}
		t.Run(mode+" npm server", func(t *testing.T) {
			t.Parallel()
			compareTraces(t, typeScript(mode), npmCommands(t), slices.Concat(common, legacy, npmServer))
		})
	}
}

// typeScript runs testdata/tsclient.mjs.
func typeScript(mode string) func(*testing.T, []string) trace {
	return func(t *testing.T, command []string) trace {
		t.Helper()
		node, modules := harness.RequireNode(t), harness.RequireClients(t)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		args := append([]string{filepath.Join("testdata", "tsclient.mjs"), modules, mode}, command...)
		cmd := exec.CommandContext(ctx, node, args...)
		// The SDKs pass HOME to servers, and nothing that names the cache.
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s client: %v\n%s%s", mode, err, out, stderr.String())
		}
		return newTrace(strings.Split(strings.TrimSpace(string(out)), "\n"))
	}
}
