package integration

import (
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// TestTwoListens: LEASE-1, LEASE-4, CAT-1. Two listens on one connection to a
// server of the Go SDK are both told of a changed list, and cancelling one leaves
// the other, also with the next worker. Without holdfast the SDK forgets the
// first for the second, and both when one is cancelled; when it has learnt
// better, this test says so.
func TestTwoListens(t *testing.T) {
	harness.RequireLinux(t)
	grown := 0
	grow := func(w watcher) {
		grown++
		w.do("grow", map[string]any{"name": "grown" + string(rune('a'+grown))})
	}
	t.Run("bare", func(t *testing.T) {
		w := watcher{modern: true, dir: t.TempDir()}
		w.held = held{harness.Start(t, harness.Config{Command: w.server(t)}), t, ""}
		w.listen(`"a"`, "tools")
		b := w.listen(`"b"`, "tools")
		grow(w)
		w.awaitChanged(`"b"`, "tools", 1)
		w.pid() // what was sent before has come
		if len(w.changes(`"a"`, "tools")) > 0 {
			t.Error("the Go SDK tells the first listen as well now")
		}
		w.cancel(`"a"`)
		w.nth("the end of the first listen", 1, func(f harness.Frame) bool { return string(f.ID) == `"a"` })
		grow(w)
		grow(w)
		w.do("sleep", map[string]any{"ms": 100}) // the SDK waits 10 ms for more changes
		if len(w.changes(`"b"`, "tools")) > 1 || b.Answered() {
			t.Error("the Go SDK leaves the second listen its lists now")
		}
	})
	eachListener(t, nil, func(t *testing.T, w watcher) {
		a, b := w.listen(`"a"`, "tools", "u"), w.listen(`"b"`, "tools", "u")
		for _, next := range []func() string{w.pid, w.replace, w.kill} {
			next()
			inA, inB := len(w.changes(`"a"`, "tools")), len(w.changes(`"b"`, "tools"))
			grow(w)
			w.awaitChanged(`"a"`, "tools", inA+1)
			w.awaitChanged(`"b"`, "tools", inB+1)
		}
		w.cancel(`"a"`)
		w.completed(a)
		inA := len(w.changes(`"a"`, "tools"))
		for _, next := range []func() string{w.pid, w.replace, w.kill} {
			next()
			inB, updates := len(w.changes(`"b"`, "tools")), len(w.updates(`"b"`, "u"))
			grow(w)
			w.awaitChanged(`"b"`, "tools", inB+1)
			w.touch("u")
			w.awaitUpdates(`"b"`, "u", updates+1)
		}
		if n := len(w.changes(`"a"`, "tools")); n != inA || b.Answered() {
			t.Errorf("the cancelled listen was told %d times more; the other one has ended: %v", n-inA, b.Answered())
		}
	})
}
