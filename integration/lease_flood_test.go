package integration

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// TestLEASE8Flood: LEASE-8, LEASE-6. While the client sleeps, 100,000 updates of
// one resource become a few, at bounded memory. When it reads, the update of
// another resource comes soon; of two signals that have ended a third one
// meanwhile it is told the stronger, once.
func TestLEASE8Flood(t *testing.T) {
	harness.RequireLinux(t)
	const flood = 100_000
	for _, v := range supervised() {
		for era, modern := range map[string]bool{"legacy": false, "modern": true} {
			t.Run(v.name+" "+era, func(t *testing.T) {
				w := watcher{held: held{t: t}, v: v, modern: modern, dir: t.TempDir()}
				c := startRaw(t, v.command(t, nil, w.server(t)...))
				s := sleeper{rawClient: c, modern: modern}
				s.watch("noisy", "quiet", "over")
				s.fill()
				var before, asleep int
				peak := c.peak(func() {
					before, _ = rss(c.cmd.Process.Pid)
					s.call("touch", map[string]any{"uri": "noisy", "times": flood, "then": "quiet"})
					w.awaitJournal("", "touched", "noisy", 1)
					for _, why := range []string{"unavailable", "expired", "unavailable"} {
						s.call("end", map[string]any{"uri": "over", "why": why})
					}
					w.awaitJournal("", "ended", "over", 3)
					s.settled()
					asleep, _ = rss(c.cmd.Process.Pid)
				})
				_, lines := c.until(`"uri":"quiet"`)
				last, more := c.until(`"uri":"over"`)
				hasEnding(t, rawFrame(t, last), expiredKey)
				id := s.call("pid", nil)
				if line, n := c.until(fmt.Sprintf(`"id":%d,`, id)); n > lines+10 || strings.Contains(line, "error") {
					t.Errorf("%d lines came before the answer %s", n, line)
				}
				t.Logf("%d KiB before, %d at the end, %d at most, for %d updates, %d of which were told before that of another resource",
					before, asleep, peak, flood, lines)
				if lines+more > flood/20 {
					t.Errorf("%d lines came before the update of another resource", lines+more)
				}
				if peak == 0 || peak > queuesKB {
					t.Errorf("holdfast grew to %d KiB", peak)
				}
			})
		}
	}
}

// sleeper is a client of the leaseserver that reads only when it is told to.
type sleeper struct {
	*rawClient

	modern bool
	id     int
}

// settled waits until holdfast has the answers to all calls, and so what the
// server said before them.
func (s *sleeper) settled() {
	s.t.Helper()
	harness.Await(s.t, "the answers to all calls", func() bool {
		out, err := exec.Command(harness.Holdfast(s.t), "status", strconv.Itoa(s.cmd.Process.Pid), "--json").Output()
		return err == nil && !strings.Contains(string(out), `"tools/call"`)
	})
}

// fill has so much wait for the client that nothing else is told it before it
// reads: more than the pipe takes, and than waits when updates are told.
func (s *sleeper) fill() {
	s.t.Helper()
	for i := range 1000 {
		s.must(fmt.Sprintf(`{"jsonrpc":"2.0","id":"%0256d","method":"ping"}`, i))
	}
}

func (s *sleeper) ask(method string, params map[string]any) int {
	s.t.Helper()
	if s.modern {
		params = perRequest(params)
	}
	s.id++
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": s.id, "method": method, "params": params})
	if err != nil {
		s.t.Fatal(err)
	}
	s.must(string(b))
	return s.id
}

func (s *sleeper) call(tool string, args map[string]any) int {
	s.t.Helper()
	return s.ask("tools/call", harness.Call(tool, args))
}

func (s *sleeper) watch(uris ...string) {
	s.t.Helper()
	if s.modern {
		s.ask("subscriptions/listen", map[string]any{"notifications": filterFor(uris...)})
		s.until("acknowledged")
		return
	}
	s.initialize()
	for _, uri := range uris {
		s.until(fmt.Sprintf(`"id":%d,`, s.ask("resources/subscribe", map[string]any{"uri": uri})))
	}
}

func rawFrame(t *testing.T, line string) harness.Frame {
	t.Helper()
	f := harness.Frame{Raw: []byte(line)}
	if err := json.Unmarshal(f.Raw, &f); err != nil {
		t.Fatal(err)
	}
	return f
}
