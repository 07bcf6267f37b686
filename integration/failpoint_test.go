package integration

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

const hits = 20

// TestFailpoints: SUP-16, C05, C33, C52. The worker dies at a chosen
// point of a mutation; the answer says what is true at that point, and the
// journal proves it.
func TestFailpoints(t *testing.T) {
	harness.RequireLinux(t)
	eachSupervised(t, func(t *testing.T, v variant) {
		t.Run("before send", func(t *testing.T) { t.Parallel(); neverSent(t, v) })
		t.Run("sent", func(t *testing.T) { t.Parallel(); dieAt(t, v, "receipt", 0) })
		t.Run("executing", func(t *testing.T) { t.Parallel(); dieAt(t, v, "execution", 0) })
		t.Run("done but unanswered", func(t *testing.T) { t.Parallel(); dieAt(t, v, "effect", 1) })
		t.Run("in mid-frame", func(t *testing.T) { t.Parallel(); midframe(t, v) })
	})
}

// neverSent: a call that comes while no worker can take it is kept and run
// once by the next one.
func neverSent(t *testing.T, v variant) {
	journal := filepath.Join(t.TempDir(), "journal")
	c := startToBeKilled(t, v, "-journal", journal, "-start-delay", "30ms")
	c.Initialize()
	for i := range hits {
		pid := c.CallTool("pid", nil).Text(t)
		serverProc(t, c, pid).Kill()
		// The next process exists and does not serve yet.
		harness.Await(t, "the next process", func() bool {
			for _, p := range c.Descendants() {
				if isServer(p) && fmt.Sprint(p.PID) != pid {
					return true
				}
			}
			return false
		})
		key := fmt.Sprint("key", i)
		if got := c.CallTool("append", map[string]any{"key": key}); outcomeOf(got) != served {
			t.Fatalf("a call that was never sent is not served by the next worker: %.500s", got.Raw)
		}
		if n := readJournal(t, journal)[key]; n != 1 {
			t.Fatalf("%s ran %d times", key, n)
		}
	}
	t.Logf("%d hits", hits)
}

// dieAt: the outcome is unknown, and the effect is in the journal as often as
// the point says.
func dieAt(t *testing.T, v variant, point string, effects int) {
	journal := filepath.Join(t.TempDir(), "journal")
	c := startToBeKilled(t, v, "-journal", journal)
	c.Initialize()
	for i := range hits {
		key := fmt.Sprint("key", i)
		got := c.CallTool("append", map[string]any{"key": key, "at": point})
		if outcomeOf(got) != unknown {
			t.Fatalf("the outcome is not unknown: %.500s", got.Raw)
		}
		checkExit(t, got)
		// The next worker answers, and does not repeat the call.
		c.CallTool("pid", nil).Text(t)
		if n := readJournal(t, journal)[key]; n != effects {
			t.Fatalf("%s ran %d times, want %d", key, n, effects)
		}
	}
	t.Logf("%d hits", hits)
}

// midframe: half an answer is no answer. A bridged server cuts the line; a
// native one dies while a large answer is under way: the delay closes in on the
// moment at which the answer is just sent, so that deaths fall on both sides.
func midframe(t *testing.T, v variant) {
	journal := filepath.Join(t.TempDir(), "journal")
	args := []string{"-journal", journal}
	if !v.native {
		args = append(args, "-cut")
	}
	c := startToBeKilled(t, v, args...)
	c.Initialize()
	cut, whole := 0, 0
	delay := 30_000 // µs
	for i := 0; cut < hits; i++ {
		if i == 20*hits {
			t.Fatalf("%d of %d answers were cut", cut, i)
		}
		key := fmt.Sprint("key", i)
		got := c.CallTool("append", map[string]any{"key": key, "at": "midframe", "bytes": 4 << 20, "delay": delay})
		switch outcomeOf(got) {
		case unknown:
			cut++
			delay += delay / 4
		case served:
			whole++
			delay -= delay / 5
			awaitDeath(t, c, strings.Fields(got.Text(t))[3])
		default:
			t.Fatalf("neither cut nor whole: %.500s", got.Raw)
		}
		if n := readJournal(t, journal)[key]; n != 1 {
			t.Fatalf("%s ran %d times", key, n)
		}
	}
	if v.native != (whole > 0) {
		t.Errorf("%d answers got through whole", whole)
	}
	t.Logf("%d hits, %d answers got through whole", cut, whole)
}

// awaitDeath waits until another process than the one that is about to die
// answers, so that the next call does not go to it.
func awaitDeath(t *testing.T, c *harness.Client, pid string) {
	t.Helper()
	harness.Await(t, "the successor of process "+pid, func() bool {
		got := c.CallTool("pid", nil)
		return outcomeOf(got) == served && got.Text(t) != pid
	})
}

// checkExit: an unknown outcome says how the worker ended.
func checkExit(t *testing.T, f harness.Frame) {
	t.Helper()
	if e := f.Typed(); e.Exit == nil || e.Exit.Signal != "SIGKILL" {
		t.Errorf("the answer does not say how the worker ended: %.500s", f.Raw)
	}
}

// isServer tells the test server from the bridge above it.
func isServer(p harness.Proc) bool { return filepath.Base(p.Args[0]) == "testserver" }

// serverProc returns the process that the server itself named.
func serverProc(t *testing.T, c *harness.Client, pid string) harness.Proc {
	t.Helper()
	for _, p := range c.Descendants() {
		if fmt.Sprint(p.PID) == pid {
			return p
		}
	}
	t.Fatalf("no process %s among %v", pid, c.Descendants())
	return harness.Proc{}
}
