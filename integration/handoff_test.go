package integration

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// TestSUP3PlannedHandoff: SUP-3, SUP-5, C16. A server that asks for its upgrade
// by worker.Handoff is replaced by what its path is now, uncharged. The call
// that asked is answered, and calls under way end where they began. A native
// worker is overlapped, so that all that come meanwhile are served; a bridged
// server, whom nobody hears, refuses them until it has ended.
func TestSUP3PlannedHandoff(t *testing.T) {
	eachSupervised(t, func(t *testing.T, v variant) {
		journal := filepath.Join(t.TempDir(), "journal")
		server := newLink(t, harness.TestServerVersion(t, "one"))
		h := startHeld(t, v, nil, string(server), "-journal", journal)
		h.Initialize()
		old := h.pid()
		long := h.Request("tools/call", harness.Call("append", map[string]any{"key": "long", "ms": 500}))
		server.point(t, harness.TestServerVersion(t, "two"))
		if got := h.CallTool("handoff", nil).Text(t); got != old {
			t.Errorf("handoff of %s, not of %s", got, old)
		}
		if v.native {
			harness.Await(t, "the new version", func() bool { return h.CallTool("version", nil).Text(t) == "two" })
		}
		if got := strings.TrimSpace(long.Wait().Text(t)); got != "appended long by "+old {
			t.Errorf("the long call says %q", got)
		}
		if n := readJournal(t, journal)["long"]; n != 1 {
			t.Errorf("the mutation ran %d times", n)
		}
		h.awaitGeneration(2)
		if got := h.CallTool("version", nil).Text(t); got != "two" {
			t.Errorf("version %q", got)
		}
		s := h.status()
		if s.Worker.Generation != 2 || s.Worker.Handoffs != 1 || s.Worker.Crashes != 0 {
			t.Errorf("%+v", s.Worker)
		}
	})
}

// TestSUP3HandoffToABadBuild: SUP-3, SUP-10. A worker whose new build cannot be
// started goes on until its own grace is over; the client is told why nothing
// serves then, and a mended build serves.
func TestSUP3HandoffToABadBuild(t *testing.T) {
	server := newLink(t, harness.TestServer(t))
	h := startHeld(t, native, nil, string(server), "-handoff-grace", "600ms")
	h.Initialize()
	h.pid()
	server.point(t, filepath.Join(t.TempDir(), "missing"))
	h.CallTool("handoff", nil).Text(t)
	h.pid() // still the old one, which ends after half of its grace
	harness.Await(t, "the end of the old worker", func() bool { return outcomeOf(h.CallTool("pid", nil)) != served })
	harness.Await(t, "the reason", func() bool {
		e := h.CallTool("pid", nil).Typed()
		return e != nil && strings.Contains(e.Message, string(server))
	})
	server.point(t, harness.TestServer(t))
	harness.Await(t, "the mended build", func() bool { return outcomeOf(h.CallTool("pid", nil)) == served })
}
