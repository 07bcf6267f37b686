package integration

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// discoverParams are the params of a server/discover of the client that tests
// speak for.
func discoverParams() map[string]any {
	return map[string]any{"_meta": map[string]any{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientCapabilities": map[string]any{},
		"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "harness", "version": "1"},
	}}
}

func (h held) discover() *harness.Pending {
	h.t.Helper()
	return h.Request("server/discover", discoverParams())
}

// fellBack fails the test unless a server/discover was answered as clients take
// it that fall back to initialize.
func fellBack(t *testing.T, a timed) {
	t.Helper()
	if a.Error == nil || a.Error.Code != -32601 {
		t.Errorf("server/discover was answered with %.300s", a.Raw)
	}
}

// works fails the test unless a session of the legacy era has its tools, has
// cost nothing of the crash budget, and each answer came once.
func (h held) works() {
	h.t.Helper()
	if items, err := h.pages("tools/list", "tools"); err != nil || len(items) == 0 {
		h.t.Errorf("tools: %d, %v", len(items), err)
	}
	w := h.status().Worker
	if w.Crashes != 0 || w.Handoffs != 0 {
		h.t.Errorf("a probe was charged: %+v", w)
	}
	for token, n := range h.Answers() {
		if n > 1 {
			h.t.Errorf("request %s got %d answers", token, n)
		}
	}
}

// probeTest is a server and what becomes of a probe and the initialize after it.
type probeTest struct {
	args  []string
	delay string
	// refused: the server/discover is answered with -32601, after so long.
	refused bool
	from    time.Duration
	to      time.Duration
	// greeted is when initialize is answered, after its request.
	greeted time.Duration
	// lives are what each process was sent, up to the initialize that counts.
	lives []string
	// learnt: the next start refuses the probe at once and begins with
	// initialize.
	learnt bool
}

var probeTests = map[string]probeTest{
	"dual": {
		args: []string{"-era", "dual"}, lives: []string{"server/discover", "initialize"},
	},
	"legacy": {
		args: []string{"-era", "legacy"}, refused: true, lives: []string{"server/discover initialize"}, learnt: true,
	},
	"exits": {
		args: []string{"-era", "legacy", "-probe", "exit"}, refused: true,
		lives: []string{"server/discover", "initialize"}, learnt: true,
	},
	"silent": {
		args: []string{"-era", "legacy", "-probe", "silent"}, refused: true, from: 2 * time.Second, to: 2 * time.Second,
		lives: []string{"server/discover initialize"},
	},
	"silent, refuses then": {
		args: []string{"-era", "legacy", "-probe", "sulk"}, refused: true, from: 2 * time.Second, to: 2 * time.Second,
		lives: []string{"server/discover initialize", "initialize"},
	},
	"answers after 4 s": {
		args: []string{"-era", "legacy", "-probe", "late"}, refused: true, from: 2 * time.Second, to: 2 * time.Second,
		greeted: 2 * time.Second, lives: []string{"server/discover initialize"},
	},
	"starts in 3 s": {
		args: []string{"-era", "legacy"}, delay: "3s", refused: true, from: 2 * time.Second, to: 2 * time.Second,
		greeted: time.Second, lives: []string{"server/discover initialize"},
	},
}

// TestC44ProbeThenInitialize: C44, EDGE-7. A client probes and falls back to
// initialize on the same pipe: (b) with servers that take the probe, refuse it,
// die of it, keep silent, refuse initialize after it, answer it late or are not
// up yet. The probe is answered in time, initialize works, nothing is charged,
// no process is started without need, and the next start has learnt from it.
func TestC44ProbeThenInitialize(t *testing.T) {
	sideBySide(t, probeTests, func(t *testing.T, test probeTest) {
		s := newStarter(t, nil, test.args...)
		h := s.start(test.delay)
		probe := timely(h.discover())
		probe.within(t, "server/discover", test.from, test.to)
		if test.refused {
			fellBack(t, probe)
		} else if probe.Error != nil {
			t.Errorf("server/discover was refused: %.300s", probe.Raw)
		}
		hello := h.greet()
		hello.within(t, "initialize", test.greeted, test.greeted)
		if processOf(hello.Frame) == "" {
			t.Errorf("the server did not answer initialize: %.300s", hello.Raw)
		}
		h.works()
		h.end()
		checkLives(t, s.lives(), test.lives)
		if test.learnt {
			s.beginsWithInitialize()
		}
	})
}

// beginsWithInitialize starts the server again, after a start in which it was
// found that it takes no probe.
func (s *starter) beginsWithInitialize() {
	s.t.Helper()
	before := len(s.lives())
	h := s.start("")
	probe := timely(h.discover())
	probe.within(s.t, "server/discover of the next start", 0, 0)
	fellBack(s.t, probe)
	h.greet()
	h.works()
	h.end()
	checkLives(s.t, s.lives()[before:], []string{"initialize"})
}

// checkLives compares what each process was sent up to its initialize, and that
// there were no more.
func checkLives(t *testing.T, lives [][]string, want []string) {
	t.Helper()
	var got []string
	for _, methods := range lives {
		if at := slices.Index(methods, "initialize"); at >= 0 {
			methods = methods[:at+1]
		}
		got = append(got, strings.Join(methods, " "))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the processes of the server were sent %q, want %q", got, want)
	}
}

// TestC44ParamsRefused: C44. A server that answers the probe with -32602 is
// taken for one of the legacy era; its own answer reaches the client.
func TestC44ParamsRefused(t *testing.T) {
	s := newStarter(t, nil, "-era", "legacy", "-probe", "params")
	h := s.start("")
	probe := timely(h.discover())
	if probe.Error == nil || probe.Error.Code != -32602 {
		t.Errorf("server/discover was answered with %.300s", probe.Raw)
	}
	h.greet()
	h.works()
	h.end()
	checkLives(t, s.lives(), []string{"server/discover initialize"})
	s.beginsWithInitialize()
}

// TestEDGE7InitializeMeanwhile: EDGE-7, C44. An initialize that comes while a
// server/discover is open settles it with -32601, whatever the server does.
func TestEDGE7InitializeMeanwhile(t *testing.T) {
	sideBySide(t, map[string]probeTest{
		"dual":                 {args: []string{"-era", "dual"}, delay: "1s"},
		"legacy":               {args: []string{"-era", "legacy"}, delay: "1s"},
		"exits":                {args: []string{"-era", "legacy", "-probe", "exit"}, delay: "1s"},
		"silent":               {args: []string{"-era", "legacy", "-probe", "silent"}},
		"silent, refuses then": {args: []string{"-era", "legacy", "-probe", "sulk"}},
	}, func(t *testing.T, test probeTest) {
		h := newStarter(t, nil, test.args...).start(test.delay)
		probe := h.discover()
		hello := h.Request("initialize", helloParams())
		a := timely(probe)
		a.within(t, "server/discover", 0, 0)
		fellBack(t, a)
		if f := hello.Wait(); processOf(f) == "" {
			t.Errorf("initialize: %.300s", f.Raw)
		}
		h.Notify("notifications/initialized", nil)
		h.works()
	})
}

// TestEDGE7Orders: EDGE-7. A server/discover before, during and after
// initialize works on native workers and behind the bridge, with a server of the
// Go SDK, which refuses initialize after a discover. A native worker is not
// started anew for it.
func TestEDGE7Orders(t *testing.T) {
	type client struct {
		held

		hello *harness.Pending
	}
	steps := map[string]func(*client){
		"d": func(c *client) { c.discover().Wait() },
		"D": func(c *client) { c.discover() }, // and goes on at once
		"i": func(c *client) { c.hello = c.Request("initialize", helloParams()); c.hello.Wait() },
		"I": func(c *client) { c.hello = c.Request("initialize", helloParams()) },
	}
	for _, order := range []string{"d i", "D I", "d d i", "D D I", "i d", "I D", "D I D", "d I d", "D i d"} {
		t.Run(order, func(t *testing.T) {
			eachSupervised(t, func(t *testing.T, v variant) {
				journal := filepath.Join(t.TempDir(), "journal")
				c := &client{held: startHeldServer(t, v, nil, "-journal", journal)}
				for step := range strings.FieldsSeq(order) {
					steps[step](c)
				}
				if f := c.hello.Wait(); f.Error != nil || minimal(f) {
					t.Errorf("initialize: %.300s", f.Raw)
				}
				c.Notify("notifications/initialized", nil)
				c.works()
				pid := c.pid()
				if v.native {
					if w := c.status().Worker; w.Generation != 1 || fmt.Sprint(w.Pid) != pid {
						t.Errorf("process %s, %+v", pid, w)
					}
				}
				// Each discover is answered once it cannot be open any more.
				harness.Await(t, "all answers", func() bool {
					return len(c.Answers()) >= strings.Count(strings.ToLower(order), "d")+1
				})
			})
		})
	}
}

// TestC44TermWhileStarting: C44 (c). A client that probes and ends holdfast
// 100 ms later, by TERM or by the end of its input, leaves nothing of a server
// that is not up yet.
func TestC44TermWhileStarting(t *testing.T) {
	harness.RequireLinux(t)
	sideBySide(t, map[string]func(held){
		"TERM": func(h held) { h.Signal(h.t, "TERM") },
		"INT":  func(h held) { h.Signal(h.t, "INT") },
		"both": func(h held) { h.CloseStdin(); h.Signal(h.t, "TERM") },
	}, func(t *testing.T, end func(held)) {
		h := newStarter(t, nil, "-era", "legacy").start(never)
		h.discover()
		<-time.After(100 * time.Millisecond) // as the client does it
		began := time.Now()
		end(h)
		if state := h.WaitExit(); state.ExitCode() != 0 {
			t.Errorf("holdfast ended with %v", state)
		}
		if d := time.Since(began); d > 10*time.Second {
			t.Errorf("holdfast ended after %v", d)
		}
		if left := h.AwaitNoDescendants(5 * time.Second); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

// TestC44BeforeInitializedSlow: C44 (a). What comes between initialize and
// initialized is answered though the server is not up yet.
func TestC44BeforeInitializedSlow(t *testing.T) {
	sideBySide(t, map[string]bool{"cold": false, "warm": true}, func(t *testing.T, warm bool) {
		s := newStarter(t, nil, "-era", "dual")
		if warm {
			s.warm()
		}
		h := s.start("3s")
		pending := map[string]*harness.Pending{"initialize": h.Request("initialize", helloParams())}
		pending["setLevel"] = h.Request("logging/setLevel", map[string]any{"level": "debug"})
		pending["ping"] = h.Request("ping", nil)
		pending["tools"] = h.Request("tools/list", nil)
		h.Notify("notifications/initialized", nil)
		for what, p := range pending {
			if f := p.Wait(); f.Error != nil {
				t.Errorf("%s: %.300s", what, f.Raw)
			}
		}
	})
}

// TestC44AfterTheEnd: C44 (d). What comes after the end of the client's input
// cannot come; half a message before it is no request, also while the server is
// not up.
func TestC44AfterTheEnd(t *testing.T) {
	h := newStarter(t, nil, "-era", "legacy").start(never)
	h.Write([]byte(`{"jsonrpc":"2.0","id":"half","method":"server/disc`))
	h.CloseStdin()
	if state := h.WaitExit(); state.ExitCode() != 0 {
		t.Errorf("holdfast ended with %v", state)
	}
	for token := range h.Answers() {
		if token != "" { // a parse error has no id
			t.Errorf("half a message was answered under the id %s", token)
		}
	}
}
