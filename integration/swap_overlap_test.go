package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

func init() {
	badServers["older"] = (*rawServer).older
}

// older speaks an older version of MCP than asked for.
func (s *rawServer) older() int {
	for {
		m, ok := s.read()
		if !ok {
			return 0
		}
		switch {
		case m.Method == "initialize":
			s.result(m.ID, strings.Replace(rawInitialize, "2025-11-25", "2024-11-05", 1))
		case !s.ordinary(m):
			s.result(m.ID, rawText("older"))
		}
	}
}

// TestC15CallsEndWhereTheyBegan: C15, SUP-9. A call that spans a swap ends on
// the worker that began it; what is asked after the swap goes to the new one.
func TestC15CallsEndWhereTheyBegan(t *testing.T) {
	eachSupervised(t, func(t *testing.T, v variant) {
		journal := filepath.Join(t.TempDir(), "journal")
		h := startHeldServer(t, v, nil, "-journal", journal)
		h.Initialize()
		old := h.pid()
		long := h.Request("tools/call", harness.Call("append", map[string]any{"key": "long", "ms": 1000}))
		h.swapTo(2)
		now := h.pid()
		if now == old || long.Answered() {
			t.Errorf("pids %s, %s; the long call is answered: %v", old, now, long.Answered())
		}
		if s := h.status(); !slices.Equal(s.Worker.Draining, []uint64{1}) {
			t.Errorf("%+v", s.Worker)
		}
		if got := strings.TrimSpace(long.Wait().Text(t)); got != "appended long by "+old {
			t.Errorf("the long call says %q", got)
		}
		var s status
		harness.Await(t, "the end of the old worker", func() bool {
			s = h.status()
			return len(s.Worker.Draining) == 0
		})
		if slices.ContainsFunc(h.Descendants(), func(p harness.Proc) bool { return fmt.Sprint(p.PID) == old }) {
			t.Error("the old process is left")
		}
		if s.Worker.Crashes != 0 || s.Worker.Generation != 2 {
			t.Errorf("%+v", s.Worker)
		}
	})
}

// TestC52SwapDoublesNothing: C52, SUP-9. A mutation in whose middle the worker
// is replaced runs once, and its own worker answers it.
func TestC52SwapDoublesNothing(t *testing.T) {
	for _, mode := range []string{"overlap", "sequential"} {
		t.Run(mode, func(t *testing.T) {
			eachSupervised(t, func(t *testing.T, v variant) {
				journal := filepath.Join(t.TempDir(), "journal")
				h := startHeldServer(t, v, []string{"--swap", mode}, "-journal", journal)
				h.Initialize()
				old := h.pid()
				long := h.Request("tools/call", harness.Call("append", map[string]any{"key": "once", "ms": 500}))
				h.swapTo(2)
				if got := strings.TrimSpace(long.Wait().Text(t)); got != "appended once by "+old {
					t.Errorf("the call says %q", got)
				}
				if n := readJournal(t, journal)["once"]; n != 1 {
					t.Errorf("the mutation ran %d times", n)
				}
				h.pid()
			})
		})
	}
}

// TestSUP9DrainTimeout: SUP-9, C15. What an old worker has not answered within
// the drain timeout follows the outcome table: a mutation is unknown, a read
// is asked again.
func TestSUP9DrainTimeout(t *testing.T) {
	eachSupervised(t, func(t *testing.T, v variant) {
		h := startHeldServer(t, v, []string{"--drain-timeout", "200ms"})
		h.Initialize()
		h.pid()
		long := h.Request("tools/call", harness.Call("sleep", map[string]any{"ms": 600_000}))
		h.swapTo(2)
		got := long.Wait()
		if outcomeOf(got) != unknown || !strings.Contains(got.Typed().Message, "drain timeout") {
			t.Errorf("the call was answered with %.900s", got.Raw)
		}
	})
}

// TestSUP9ConversationSpansASwap: SUP-9. A call whose worker is replaced in its
// middle still gets the client's answer, and its progress, its log messages and
// its next question reach the client.
func TestSUP9ConversationSpansASwap(t *testing.T) {
	eachSupervised(t, func(t *testing.T, v variant) {
		h := startHeldWith(t, harness.Config{
			Handlers:     map[string]harness.Handler{"sampling/createMessage": nil, "elicitation/create": nil}, // answered below
			Capabilities: map[string]any{"sampling": map[string]any{}, "elicitation": map[string]any{}},
		}, v.command(t, nil, harness.TestServer(t)))
		h.Initialize()
		h.Request("logging/setLevel", map[string]any{"level": "debug"}).Wait()
		old := h.pid()
		call := h.Request("tools/call", map[string]any{
			"name": "converse", "arguments": map[string]any{}, "_meta": map[string]any{"progressToken": "talk"},
		})
		method := func(name string) func(harness.Frame) bool {
			return func(f harness.Frame) bool { return f.Method == name }
		}
		question := h.WaitFor("the question before the swap", method("sampling/createMessage"))
		h.swapTo(2)
		if now := h.pid(); now == old {
			t.Error("the old worker takes new calls")
		}
		h.SendJSON(map[string]any{"jsonrpc": "2.0", "id": question.ID, "result": map[string]any{
			"role": "assistant", "model": "m", "content": map[string]any{"type": "text", "text": "x"},
		}})
		h.WaitFor("progress from the old worker", method("notifications/progress"))
		h.WaitFor("a log message from the old worker", method("notifications/message"))
		question = h.WaitFor("the question after the swap", method("elicitation/create"))
		if call.Answered() {
			t.Error("answered before the end of the conversation")
		}
		h.SendJSON(map[string]any{"jsonrpc": "2.0", "id": question.ID, "result": map[string]any{"action": "accept", "content": map[string]any{}}})
		if got := call.Wait().Text(t); got != "m, accept, "+old {
			t.Errorf("the call says %q", got)
		}
	})
}

// TestC09ListsAreAsBefore: C09. After a crash while idle, and after a swap, the
// lists are what they were, byte for byte, and none is said to have changed.
func TestC09ListsAreAsBefore(t *testing.T) {
	harness.RequireLinux(t)
	eachSupervised(t, func(t *testing.T, v variant) {
		h := startHeldServer(t, v, nil)
		hello := h.Initialize()
		if !bytes.Contains(hello.Result, []byte(`"tools"`)) {
			t.Errorf("initialize: %s", hello.Raw)
		}
		lists := func() string {
			var all []json.RawMessage
			for _, m := range []string{"tools/list", "resources/list", "resources/templates/list", "prompts/list"} {
				all = append(all, h.Request(m, nil).Wait().Result)
			}
			return fmt.Sprintf("%s", all)
		}
		before := lists()
		if !strings.Contains(before, "test://counter") || !strings.Contains(before, "greeting") {
			t.Errorf("lists: %s", before)
		}
		serverProc(t, h.Client, h.pid()).Kill()
		h.awaitGeneration(2)
		if after := lists(); after != before {
			t.Errorf("after the crash: %s\nbefore: %s", after, before)
		}
		h.swapTo(3)
		if after := lists(); after != before {
			t.Errorf("after the swap: %s\nbefore: %s", after, before)
		}
		for _, f := range h.Frames() {
			if strings.HasSuffix(f.Method, "list_changed") {
				t.Errorf("the client was told %s", f.Raw)
			}
		}
	})
}

// TestC11NewBuildServes: C11, SUP-5. A build that took the place of the old one
// by rename serves after a swap, and the status says what runs.
func TestC11NewBuildServes(t *testing.T) {
	eachSupervised(t, func(t *testing.T, v variant) {
		server := filepath.Join(t.TempDir(), "server"+exe())
		copyFile(t, harness.TestServerVersion(t, "one"), server)
		h := startHeld(t, v, nil, server)
		h.Initialize()
		if got := h.CallTool("version", nil).Text(t); got != "one" {
			t.Errorf("version %q", got)
		}
		copyFile(t, harness.TestServerVersion(t, "two"), server)
		h.swapTo(2)
		if got := h.CallTool("version", nil).Text(t); got != "two" {
			t.Errorf("version %q after the swap", got)
		}
	})
}

// TestC12KilledAtExec: C12, SUP-10. A program that the system kills at its exec,
// without a word, leaves the serving worker alone, costs nothing of its budget,
// and the failure names the usual cause.
func TestC12KilledAtExec(t *testing.T) {
	harness.RequireLinux(t)
	script := filepath.Join(t.TempDir(), "killed")
	if err := os.WriteFile(script, []byte("#!"+harness.RequireProgram(t, "sh")+"\nkill -9 $$\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	const hint = "killed at exec, probably code signature: replace by rename"
	eachSupervised(t, func(t *testing.T, v variant) {
		server := newLink(t, harness.TestServer(t))
		h := startHeld(t, v, nil, string(server))
		h.Initialize()
		pid := h.pid()
		server.point(t, script)
		// On a loaded machine the script may take longer than an exec.
		harness.Await(t, "the hint", func() bool {
			n, reason := h.swap()
			if n != 0 || !strings.Contains(reason, "SIGKILL") || !strings.Contains(reason, "generation 1 still serves") {
				t.Fatalf("swap: generation %d, reason %q", n, reason)
			}
			return strings.Contains(reason, hint)
		})
		s := h.status()
		if exits := s.Worker.Exits; len(exits) == 0 || !strings.Contains(exits[len(exits)-1].Cause.Message, hint) {
			t.Errorf("the status says %+v", exits)
		}
		if s.Worker.Generation != 1 || s.Worker.Crashes != 0 || h.pid() != pid {
			t.Errorf("%+v", s.Worker)
		}
	})
}

// TestSUP10BadCandidate: SUP-10. Half a file, no program at all, one that says
// nothing, one that dies and one of another version of MCP leave the serving
// worker in place, and the failure is in the answer and in the status.
func TestSUP10BadCandidate(t *testing.T) {
	dir := t.TempDir()
	whole, err := os.ReadFile(harness.TestServer(t))
	if err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(dir, "half"+exe())
	if err := os.WriteFile(half, whole[:len(whole)/2], 0o700); err != nil {
		t.Fatal(err)
	}
	self := badServer(t, "x")[0]
	for name, test := range map[string]struct {
		kind, to string
		says     string
		bridged  bool // for a bridged server alone
	}{
		"half a file":     {"", half, "", false},
		"missing":         {"", filepath.Join(dir, "missing"), "server", false},
		"silent":          {"silent", self, "alive but silent", false},
		"dies":            {"early-exit", self, "exited with code 1", false},
		"another version": {"older", self, "version_changed", true},
	} {
		t.Run(name, func(t *testing.T) {
			eachSupervised(t, func(t *testing.T, v variant) {
				if test.bridged && v.native {
					return // it speaks what its SDK does
				}
				// The arguments are those of the candidate; the test server
				// gets its own from a script that drops them.
				server := newLink(t, dropArgs(t, harness.TestServer(t)))
				h := startHeld(t, v, []string{"--start-timeout", "3s"}, string(server), badServerArg, test.kind)
				h.Initialize()
				pid := h.pid()
				server.point(t, test.to)
				n, reason := h.swap()
				if n != 0 || !strings.Contains(reason, test.says) || !strings.Contains(reason, "generation 1 still serves") {
					t.Errorf("swap: generation %d, reason %q", n, reason)
				}
				h.WaitFor("a log message about it", func(f harness.Frame) bool {
					return f.Method == "notifications/message" && bytes.Contains(f.Raw, []byte("the old one still serves"))
				})
				s := h.status()
				if s.Worker.State != "serving" || s.Worker.Generation != 1 || s.Worker.Crashes != 0 || len(s.Worker.Exits) != 1 {
					t.Errorf("%+v", s.Worker)
				}
				if h.pid() != pid {
					t.Error("another process answers")
				}
			})
		})
	}
}

// dropArgs returns a script that runs a program without its arguments.
func dropArgs(t *testing.T, program string) string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!"+harness.RequireProgram(t, "sh")+"\nexec "+program+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return script
}

// TestC53SwapHandshake: C53, EDGE-15. A strict server that is killed and then
// swapped sees one handshake per life, in its order.
func TestC53SwapHandshake(t *testing.T) {
	journal := filepath.Join(t.TempDir(), "journal")
	h := startHeld(t, bridged, nil, badServer(t, "strict", journal)...)
	h.Initialize()
	h.pid()
	if got := h.CallTool("die", nil); outcomeOf(got) != unknown {
		t.Errorf("the kill was answered with %.500s", got.Raw)
	}
	h.pid()
	h.swapTo(3)
	h.pid()
	b, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string][]string{}
	for line := range strings.Lines(string(b)) {
		pid, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		seen[pid] = append(seen[pid], what)
	}
	if len(seen) != 3 {
		t.Errorf("%d processes for 3 lives", len(seen))
	}
	for pid, what := range seen {
		if !slices.Equal(what, []string{"initialize", "initialized"}) {
			t.Errorf("process %s saw %q", pid, what)
		}
	}
}
