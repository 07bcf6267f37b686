package integration

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// TestSUP14SwapUnderLoad: SUP-14, SUP-9. Ten overlapping swaps under the load
// of 16 callers lose nothing, repeat nothing and leave no gap in which nobody
// is answered. The figures are those of `make bench-swap`; the bound here is
// wide, for a loaded machine.
func TestSUP14SwapUnderLoad(t *testing.T) {
	eachSupervised(t, func(t *testing.T, v variant) {
		const swaps = 10
		journal := filepath.Join(t.TempDir(), "journal")
		h := startHeldServer(t, v, nil, "-journal", journal, "-start-delay", "100ms")
		h.Initialize()
		l := &load{c: h.Client, journal: journal}
		l.start(seedOf(t))
		for i := range swaps {
			before := l.served.Load()
			harness.Await(t, "served calls", func() bool { return l.served.Load() > before+callers })
			h.swapTo(uint64(i + 2))
		}
		l.stop(t)
		effects := readJournal(t, journal)
		var last time.Time
		var gap time.Duration
		for _, c := range l.calls {
			if c.outcome != served || c.key != "" && effects[c.key] != 1 {
				t.Errorf("%s ran %d times and is %s: %.500s", c.key, effects[c.key], c.outcome, c.frame.Raw)
			}
		}
		for _, at := range answerTimes(l) {
			if !last.IsZero() {
				gap = max(gap, at.Sub(last))
			}
			last = at
		}
		if gap > 2*time.Second {
			t.Errorf("nobody was answered for %v", gap)
		}
		s := h.status()
		if s.Worker.Generation != swaps+1 || s.Worker.Crashes != 0 {
			t.Errorf("%+v", s.Worker)
		}
		t.Logf("%d calls, longest gap %v", len(l.calls), gap)
	})
}

// answerTimes returns when calls were answered, in order.
func answerTimes(l *load) []time.Time {
	times := make([]time.Time, 0, len(l.calls))
	for _, c := range l.calls {
		times = append(times, c.answered)
	}
	slices.SortFunc(times, time.Time.Compare)
	return times
}
