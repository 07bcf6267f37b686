package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/integration/harness"
	"github.com/holdfast-mcp/holdfast/protocol"
)

// startBad starts one of the bad servers behind holdfast and the bridge.
func startBad(t *testing.T, kind string, args ...string) *harness.Client {
	t.Helper()
	return harness.Start(t, harness.Config{Command: harness.Bridged(t, nil, badServer(t, kind, args...)...)})
}

// TestC01DeadServerComesBack: C01, SUP-1, SUP-7. A server killed while idle is
// replaced before the next call, with the client's own handshake; the client
// sees nothing but its answers.
func TestC01DeadServerComesBack(t *testing.T) {
	harness.RequireLinux(t)
	eachSupervised(t, func(t *testing.T, v variant) {
		c := startTestServer(t, v)
		c.Initialize()
		c.Request("tools/list", nil).Wait()
		pid := c.CallTool("pid", nil).Text(t)
		serverProc(t, c, pid).Kill()
		harness.Await(t, "the end of the old and the start of a new process", func() bool {
			procs := c.Descendants()
			return slices.ContainsFunc(procs, isServer) &&
				!slices.ContainsFunc(procs, func(p harness.Proc) bool { return fmt.Sprint(p.PID) == pid })
		})
		if now := c.CallTool("pid", nil).Text(t); now == pid {
			t.Errorf("process %s answers, which was killed", now)
		}
		for _, f := range c.Frames() {
			if !f.IsResponse() {
				t.Errorf("the client saw more than its answers: %s", f.Raw)
			}
		}
	})
}

// TestC02RespawnKeepsItsTools: C02, SUP-1. An exit with code 0 inside a call
// is a crash; all later calls are served by one new process.
func TestC02RespawnKeepsItsTools(t *testing.T) {
	eachSupervised(t, func(t *testing.T, v variant) {
		c := startTestServer(t, v)
		c.Initialize()
		a := c.CallTool("pid", nil).Text(t)
		got := c.CallTool("exit", map[string]any{"code": 0})
		if outcomeOf(got) != unknown {
			t.Errorf("exit was answered with %.500s", got.Raw)
		}
		if e := got.Typed(); e != nil && (e.Exit == nil || e.Exit.Code != 0 || e.Exit.Signal != "") {
			t.Errorf("the answer says that the process ended by %+v", e.Exit)
		}
		b, again := c.CallTool("pid", nil).Text(t), c.CallTool("pid", nil).Text(t)
		if a == b || b != again {
			t.Errorf("processes %s, then %s and %s", a, b, again)
		}
	})
}

// TestC03CallInFlightIsAnswered: C03, C05, SUP-13, SUP-16. A call in flight
// when the server is killed is answered soon, with how it ended and what it
// said last, and is not to be repeated blindly.
func TestC03CallInFlightIsAnswered(t *testing.T) {
	harness.RequireLinux(t)
	eachSupervised(t, func(t *testing.T, v variant) {
		c := startTestServer(t, v)
		c.Initialize()
		pid := c.CallTool("pid", nil).Text(t)
		c.CallTool("stderr", map[string]any{"bytes": 10}).Text(t)
		call := c.Request("tools/call", harness.Call("sleep", map[string]any{"ms": 600_000}))
		c.CallTool("echo", map[string]any{"text": "the call before is under way"}).Text(t)
		killed := time.Now()
		serverProc(t, c, pid).Kill()
		got := call.Wait()
		if d := time.Since(killed); d > 10*time.Second {
			t.Errorf("answered after %v", d)
		}
		r := got.Tool(t)
		if !r.IsError || len(r.Content) == 0 || !strings.Contains(r.Content[0].Text, "unknown") {
			t.Errorf("the text does not tell the model: %.800s", got.Raw)
		}
		e := got.Typed()
		if e == nil || e.Kind != protocol.OutcomeUnknown || e.Retryable {
			t.Fatalf("the typed error is %+v", e)
		}
		checkExit(t, got)
		if !slices.Contains(e.StderrTail, "eeeeeeeeee") {
			t.Errorf("the stderr tail is %q", e.StderrTail)
		}
		if now := c.CallTool("pid", nil).Text(t); now == pid {
			t.Error("the dead process answers")
		}
	})
}

// TestC26ResultsAreVerbatim: C26, EDGE-12. What the server wrote as a result
// reaches the client byte for byte.
func TestC26ResultsAreVerbatim(t *testing.T) {
	c := startBad(t, "verbatim")
	for _, got := range []struct {
		frame harness.Frame
		want  string
	}{
		{c.Initialize(), verbatimInitialize},
		{c.Request("tools/list", nil).Wait(), verbatimList},
		{c.CallTool("t", nil), verbatimResult},
	} {
		if !strings.Contains(string(got.frame.Raw), `"result":`+got.want) {
			t.Errorf("got  %s\nwant %s", got.frame.Raw, got.want)
		}
	}
}

// TestC33LateAnswerAfterEOF: C33, EDGE-8. The end of the client's input ends
// requests, not answers.
func TestC33LateAnswerAfterEOF(t *testing.T) {
	c := startBad(t, "slow-answer")
	c.Initialize()
	call := c.Request("tools/call", harness.Call("x", nil))
	c.CloseStdin()
	if got := call.Wait().Text(t); got != "late" {
		t.Errorf("the answer is %q", got)
	}
	if state := c.WaitExit(); state.ExitCode() != 0 {
		t.Errorf("holdfast ended with %v", state)
	}
}

// TestC33Truncated: C33, SUP-16. Half a line is no answer.
func TestC33Truncated(t *testing.T) {
	c := startBad(t, "half-answer")
	c.Initialize()
	if got := c.CallTool("x", nil); outcomeOf(got) != unknown {
		t.Errorf("half an answer became %.500s", got.Raw)
	}
}

// TestC33NoNewline: C33, SUP-1. A whole answer counts without its line feed,
// also if it is the last thing that the server does.
func TestC33NoNewline(t *testing.T) {
	c := startBad(t, "no-newline")
	c.Initialize()
	if got := c.CallTool("x", nil).Text(t); got != "whole" {
		t.Errorf("the answer is %q", got)
	}
}

// TestC35IDsAreOpaque: C35, EDGE-1. Ids come back byte for byte, whatever the
// order of the answers.
func TestC35IDsAreOpaque(t *testing.T) {
	tokens := []string{`101`, `"101"`, `""`, `"a\"b"`, `0`, `-1`, `9007199254740993`, `9.5`, `"\u00e9"`, `1e2`}
	c := startBad(t, "reversing", fmt.Sprint(len(tokens)))
	c.Initialize()
	pending := make([]*harness.Pending, len(tokens))
	for i, token := range tokens {
		pending[i] = c.RequestID(token, "tools/call", map[string]any{"n": i})
	}
	for i, p := range pending {
		var got struct{ Params struct{ N int } }
		if err := json.Unmarshal(p.Wait().Result, &got); err != nil || got.Params.N != i {
			t.Errorf("id %s got the answer of call %d (%v)", tokens[i], got.Params.N, err)
		}
	}
}

// TestC39CancelReachesItsCall: C39, EDGE-5, EDGE-14. A cancellation reaches
// the call under way, at once, and nothing else.
func TestC39CancelReachesItsCall(t *testing.T) {
	eachSupervised(t, func(t *testing.T, v variant) {
		journal := filepath.Join(t.TempDir(), "journal")
		c := startTestServer(t, v, "-journal", journal)
		c.Initialize()
		c.RequestID(`"slow"`, "tools/call", harness.Call("sleep", map[string]any{"ms": 600_000}))
		other := c.Request("tools/call", harness.Call("sleep", map[string]any{"ms": 200}))
		c.CallTool("pid", nil)
		c.Notify("notifications/cancelled", map[string]any{"requestId": "no such"})
		c.Notify("notifications/cancelled", map[string]any{"requestId": "slow"})
		harness.Await(t, "the server to see the cancellation", func() bool { return readJournal(t, journal)["cancelled"] == 1 })
		if got := other.Wait().Text(t); got != "slept" {
			t.Errorf("the other call says %q", got)
		}
		if n := c.Answers()[`"slow"`]; n > 1 {
			t.Errorf("the cancelled call got %d answers", n)
		}
	})
}

// TestC41NoProgressAfterTheAnswer: C41, EDGE-6. Progress keeps the token as
// the client wrote it, and ends with the answer.
func TestC41NoProgressAfterTheAnswer(t *testing.T) {
	c := startBad(t, "late-progress")
	c.Initialize()
	for _, token := range []string{`6`, `"6"`, `0`, `""`} {
		c.Request("tools/call", map[string]any{
			"name": "x", "arguments": map[string]any{}, "_meta": map[string]any{"progressToken": json.RawMessage(token)},
		}).Wait()
		c.CallTool("x", nil).Text(t) // what came late came before this answer
		var seen []string
		for _, f := range c.Frames() {
			var p struct{ ProgressToken, Progress json.RawMessage }
			if f.Method == "notifications/progress" && json.Unmarshal(f.Params, &p) == nil && string(p.ProgressToken) == token {
				seen = append(seen, string(p.Progress))
			}
		}
		if !slices.Equal(seen, []string{"1"}) {
			t.Errorf("token %s: the client saw progress %v", token, seen)
		}
	}
}

// TestC52RecoveryDoublesNothing: C52, SUP-16. A mutation that was under way
// when the process exited is in the journal once, and answered as unknown.
func TestC52RecoveryDoublesNothing(t *testing.T) {
	eachSupervised(t, func(t *testing.T, v variant) {
		journal := filepath.Join(t.TempDir(), "journal")
		c := startTestServer(t, v, "-journal", journal)
		c.Initialize()
		if got := c.CallTool("exit", map[string]any{"code": 3, "key": "once"}); outcomeOf(got) != unknown || got.Typed().Exit.Code != 3 {
			t.Errorf("the answer is %.500s", got.Raw)
		}
		c.CallTool("pid", nil).Text(t)
		if n := readJournal(t, journal)["once"]; n != 1 {
			t.Errorf("the mutation ran %d times", n)
		}
	})
}

// TestC53StrictHandshake: C53, EDGE-15. Each life of a server sees exactly one
// initialize and one initialized, in that order and before all else.
func TestC53StrictHandshake(t *testing.T) {
	journal := filepath.Join(t.TempDir(), "journal")
	c := startBad(t, "strict", journal)
	c.Initialize()
	const lives = 3
	for range lives - 1 {
		c.CallTool("pid", nil).Text(t)
		if got := c.CallTool("die", nil); outcomeOf(got) != unknown {
			t.Errorf("the kill was answered with %.500s", got.Raw)
		}
	}
	c.CallTool("pid", nil).Text(t)
	b, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string][]string{}
	for line := range strings.Lines(string(b)) {
		pid, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		seen[pid] = append(seen[pid], what)
	}
	if len(seen) != lives {
		t.Errorf("%d processes for %d lives", len(seen), lives)
	}
	for pid, what := range seen {
		if !slices.Equal(what, []string{"initialize", "initialized"}) {
			t.Errorf("process %s saw %q", pid, what)
		}
	}
}
