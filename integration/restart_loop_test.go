package integration

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/integration/harness"
	"github.com/holdfast-mcp/holdfast/protocol"
)

// startDoomed starts a test server whose starts end as told, and returns the
// file that has the time of each start.
func startDoomed(t *testing.T, v variant, flags []string, ends string, after time.Duration, more ...string) (h held, starts string) {
	t.Helper()
	starts = filepath.Join(t.TempDir(), "starts")
	args := append([]string{"-starts", starts, "-ends", ends, "-after", after.String()}, more...)
	return startHeldServer(t, v, flags, args...), starts
}

// readStarts returns the times of the starts.
func readStarts(t *testing.T, path string) []time.Time {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []time.Time
	for field := range strings.FieldsSeq(string(b)) {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, time.Unix(0, n))
	}
	return out
}

// TestC06CrashLoopSettles: C06, SUP-2. A server that always dies is started six
// times with growing pauses, then no more. Calls are answered at once with its
// exit code and its last words, and a swap starts it again. A server that
// answers initialize and lives for 200 ms is no better.
func TestC06CrashLoopSettles(t *testing.T) {
	for name, after := range map[string]time.Duration{"at start": 0, "after 200ms": 200 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			eachSupervised(t, func(t *testing.T, v variant) {
				h, starts := startDoomed(t, v, []string{"--crash-budget", "5/60s"}, "3,3,3,3,3,3,-", after)
				h.Initialize()
				s := h.awaitState("open")
				times := readStarts(t, starts)
				if len(times) != 6 || s.Worker.Crashes != 6 || !strings.Contains(s.Worker.Reason, "--crash-budget") || s.Worker.RetryAt.IsZero() {
					t.Errorf("%d starts, %+v", len(times), s.Worker)
				}
				// The second start is immediate; jitter takes at most half of the others.
				for i, pause := range []time.Duration{0, 100, 200, 400, 800} {
					if got := times[i+1].Sub(times[i]); got < after+pause*time.Millisecond/2 {
						t.Errorf("start %d came %v after the one before, want a pause of %vms", i+2, got, int(pause))
					}
				}
				asked := time.Now()
				got := h.CallTool("pid", nil)
				if d := time.Since(asked); d > 4*time.Second { // it would be held for 8 s
					t.Errorf("answered after %v", d)
				}
				e := got.Typed()
				if e == nil || e.Kind != protocol.WorkerUnavailable || !e.Retryable || e.Exit == nil || e.Exit.Code != 3 ||
					!strings.Contains(strings.Join(e.StderrTail, "\n"), "start 6 ends with code 3") ||
					!strings.Contains(e.Message, "exited with code 3") || !strings.Contains(e.Message, "--crash-budget") {
					t.Errorf("the call was answered with %.900s", got.Raw)
				}
				if n := len(readStarts(t, starts)); n != 6 {
					t.Errorf("%d starts after the circuit has opened", n)
				}
				h.swapTo(7)
				h.pid()
				if s := h.status(); s.Worker.State != "serving" || s.Worker.Crashes != 0 {
					t.Errorf("after the swap: %+v", s.Worker)
				}
			})
		})
	}
}

// TestSUP2HalfOpen: SUP-2. Once the longest backoff is over, a request makes
// one try and waits for it; without one, the cooldown does.
func TestSUP2HalfOpen(t *testing.T) {
	eachSupervised(t, func(t *testing.T, v variant) {
		t.Run("by a request", func(t *testing.T) {
			h, starts := startDoomed(t, v, []string{"--crash-budget", "1/60s", "--backoff", "1ms..50ms"}, "3,3,3,-", 0)
			h.Initialize()
			h.awaitState("open")
			harness.Await(t, "the try that fails", func() bool {
				h.CallTool("pid", nil)
				return len(readStarts(t, starts)) == 3
			})
			harness.Await(t, "the try that serves", func() bool { return outcomeOf(h.CallTool("pid", nil)) == served })
			if n := len(readStarts(t, starts)); n != 4 {
				t.Errorf("%d starts", n)
			}
		})
		t.Run("by itself", func(t *testing.T) {
			h, starts := startDoomed(t, v, []string{"--crash-budget", "1/60s", "--backoff", "1ms..10m", "--crash-cooldown", "500ms"}, "3,3,-", 0)
			h.Initialize()
			h.awaitState("open")
			h.awaitState("serving")
			if n := len(readStarts(t, starts)); n != 3 {
				t.Errorf("%d starts", n)
			}
		})
	})
}

// TestC16UpgradesAreNoCrashes: C16, SUP-3. Exits with 75 are followed at once
// and charge no crash; crashes that follow have their whole budget.
func TestC16UpgradesAreNoCrashes(t *testing.T) {
	for name, after := range map[string]time.Duration{"at start": 0, "after 50ms": 50 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			eachSupervised(t, func(t *testing.T, v variant) {
				h, starts := startDoomed(t, v, []string{"--backoff", "1ms..4ms"}, "75,75,75,75,1,1,1,1,1,-", after)
				h.Initialize()
				harness.Await(t, "the tenth start", func() bool { return len(readStarts(t, starts)) == 10 })
				harness.Await(t, "an answer", func() bool { return outcomeOf(h.CallTool("pid", nil)) == served })
				if s := h.status(); s.Worker.Handoffs != 4 || s.Worker.Crashes != 5 || s.Worker.State != "serving" {
					t.Errorf("%+v", s.Worker)
				}
			})
		})
	}
}

// TestC16UpgradesForEver: C16, SUP-3. Endless handoffs meet a limiter of their
// own, whose reason the client is told; the crash budget stays untouched.
func TestC16UpgradesForEver(t *testing.T) {
	for name, test := range map[string]struct {
		after time.Duration
		more  []string
	}{
		"at start":   {0, nil},
		"after 50ms": {50 * time.Millisecond, nil},
		"planned":    {time.Hour, []string{"-handoff", "-handoff-grace", "100ms"}},
	} {
		t.Run(name, func(t *testing.T) {
			eachSupervised(t, func(t *testing.T, v variant) {
				h, starts := startDoomed(t, v, []string{"--handoff-budget", "3/60s"}, "75", test.after, test.more...)
				h.Initialize()
				s := h.awaitState("open")
				if n := len(readStarts(t, starts)); n != 4 || s.Worker.Handoffs != 4 || s.Worker.Crashes != 0 {
					t.Errorf("%d starts, %+v", n, s.Worker)
				}
				got := h.CallTool("pid", nil)
				e := got.Typed()
				if e == nil || e.Kind != protocol.WorkerUnavailable || !strings.Contains(e.Message, "asked for an upgrade more than 3 times") {
					t.Errorf("the call was answered with %.900s", got.Raw)
				}
			})
		})
	}
}

// TestC16UpgradeWithACall: C16, SUP-3, SUP-16. A mutation that was under way
// when the process exited with 75 is unknown and not repeated; what is asked
// next is answered by the file that is there now.
func TestC16UpgradeWithACall(t *testing.T) {
	eachSupervised(t, func(t *testing.T, v variant) {
		journal := filepath.Join(t.TempDir(), "journal")
		server := newLink(t, harness.TestServerVersion(t, "one"))
		h := startHeld(t, v, nil, string(server), "-journal", journal)
		h.Initialize()
		h.pid()
		server.point(t, harness.TestServerVersion(t, "two"))
		if got := h.CallTool("exit", map[string]any{"code": 75, "key": "once"}); outcomeOf(got) != unknown || got.Typed().Exit.Code != 75 {
			t.Errorf("the call was answered with %.900s", got.Raw)
		}
		if got := h.CallTool("version", nil).Text(t); got != "two" {
			t.Errorf("version %q answers", got)
		}
		if n := readJournal(t, journal)["once"]; n != 1 {
			t.Errorf("the mutation ran %d times", n)
		}
		if s := h.status(); s.Worker.Crashes != 0 || s.Worker.Handoffs != 1 {
			t.Errorf("%+v", s.Worker)
		}
	})
}
