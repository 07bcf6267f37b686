package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/integration/harness"
	"github.com/holdfast-mcp/holdfast/protocol"
)

// TestCAT3WarmStart: CAT-3. With a cache, initialize is answered after a second,
// however long the server needs, and lists at once then; a server that is faster
// answers itself.
func TestCAT3WarmStart(t *testing.T) {
	sideBySide(t, map[string]string{"3 s": "3s", "20 s": "20s", "at once": "", "200 ms": "200ms", "never": never}, func(t *testing.T, delay string) {
		s := newStarter(t, nil, "-era", "dual")
		earlier := s.warm()
		h := s.start(delay)
		hello := h.greet()
		slow := delay != "" && delay != "200ms"
		if slow {
			hello.within(t, "initialize", cacheAfter, cacheAfter)
		}
		if cached := earlier[processOf(hello.Frame)]; cached != slow {
			t.Errorf("initialize is answered from the cache: %v, after %v", cached, hello.after)
		}
		list := timely(h.Request("tools/list", nil))
		list.within(t, "tools/list", 0, 0)
		if cached := earlier[processOf(list.Frame)]; cached != slow {
			t.Errorf("tools/list is answered from the cache: %v, after %v", cached, list.after)
		}
	})
}

// TestC21NoEmptyList: C21, CAT-3. A server that needs 6 s, and a client that
// sends initialize, initialized and tools/list at once. The first time
// initialize is answered within 5 s and the list is held for the server; with a
// cache both are answered within two seconds, and a list that has changed since
// is corrected by list_changed.
func TestC21NoEmptyList(t *testing.T) {
	const delay = "6s"
	start := func(s *starter) (h held, hello, list timed) {
		h = s.start(delay)
		initialize := h.Request("initialize", helloParams())
		h.Notify("notifications/initialized", nil)
		tools := h.Request("tools/list", nil)
		hello = timely(initialize)
		list = timely(tools)
		list.after += hello.after
		return h, hello, list
	}
	offered := func(names ...string) offer {
		var tools []map[string]any
		for _, name := range names {
			tools = append(tools, tool(name, nil))
		}
		return offerTools(tools...)
	}
	sideBySide(t, map[string]func(*testing.T){
		"cold": func(t *testing.T) {
			_, hello, list := start(newStarter(t, nil, "-era", "legacy").offering(offered("a")))
			hello.within(t, "initialize", greetTimeout, greetTimeout)
			if !minimal(hello.Frame) {
				t.Errorf("initialize: %s", hello.Raw)
			}
			list.within(t, "tools/list", 6*time.Second, 6*time.Second)
			checkNames(t, list.Frame, "a")
		},
		"warm": func(t *testing.T) {
			s := newStarter(t, nil, "-era", "legacy").offering(offered("a"))
			s.warm()
			h, hello, list := start(s)
			hello.within(t, "initialize", cacheAfter, cacheAfter)
			list.within(t, "tools/list", cacheAfter, cacheAfter)
			checkNames(t, list.Frame, "a")
			h.CallTool("a", nil).Text(t) // once the server is up
			h.quiet()
			if n := h.changes(); n != 0 {
				t.Errorf("%d list_changed for a list that is as it was", n)
			}
		},
		"warm, other tools": func(t *testing.T) {
			s := newStarter(t, nil, "-era", "legacy").offering(offered("a"))
			s.warm()
			s.write(offered("a", "b"))
			h, _, list := start(s)
			checkNames(t, list.Frame, "a")
			h.WaitFor(toolsChanged, func(f harness.Frame) bool { return f.Method == toolsChanged })
			checkNames(t, h.Request("tools/list", nil).Wait(), "a", "b")
		},
	}, func(t *testing.T, f func(*testing.T)) { f(t) })
}

// checkNames compares the names in the result of tools/list.
func checkNames(t *testing.T, f harness.Frame, want ...string) {
	t.Helper()
	if got := namesIn(t, f, "tools"); !slices.Equal(got, want) {
		t.Errorf("the tools are %q, want %q", got, want)
	}
}

// quiet waits until what a new worker has to tell must have been told: longer
// than lists that are compared are put off.
func (h held) quiet() { <-time.After(2 * time.Second) }

// TestCAT3PagesBecomeOne: CAT-3, CAT-5. A list of several pages is cached as one,
// without a cursor that no later server would know; a client of another kind
// gets nothing of it.
func TestCAT3PagesBecomeOne(t *testing.T) {
	s := newStarter(t, nil, "-era", "legacy")
	o := offerTools(tool("a", nil), tool("b", nil), tool("c", nil))
	o.Page = 2
	s.offering(o).warm()
	sideBySide(t, map[string]func(*testing.T){
		"same client": func(t *testing.T) {
			h := s.in(t).start(never)
			h.greet()
			f := h.Request("tools/list", nil).Wait()
			checkNames(t, f, "a", "b", "c")
			if _, paged := members(t, f)["nextCursor"]; paged {
				t.Errorf("a cursor out of the cache: %s", f.Raw)
			}
		},
		"other client": func(t *testing.T) {
			h := s.in(t).start("6s")
			params := helloParams()
			params["clientInfo"] = map[string]any{"name": "another", "version": "1"}
			hello := timely(h.Request("initialize", params))
			hello.within(t, "initialize", greetTimeout, greetTimeout)
			if !minimal(hello.Frame) {
				t.Errorf("initialize: %s", hello.Raw)
			}
		},
	}, func(t *testing.T, f func(*testing.T)) { f(t) })
}

// TestCAT6CacheProvesNothing: CAT-6. A cached list publishes nothing and a cached
// capability is not one: no list_changed comes of them while no server is up,
// and what the server turns out not to have is not there.
func TestCAT6CacheProvesNothing(t *testing.T) {
	sideBySide(t, map[string]func(*testing.T){
		"no server": func(t *testing.T) {
			s := newStarter(t, nil, "-era", "legacy")
			s.warm()
			h := s.start(never)
			h.greet()
			h.listKinds()
			h.quiet()
			for _, f := range h.Frames() {
				if f.Method != "" {
					t.Errorf("told without a server: %s", f.Raw)
				}
			}
		},
		"capability gone": func(t *testing.T) {
			s := newStarter(t, nil, "-era", "legacy").offering(offer{
				Capabilities: map[string]any{"tools": map[string]any{}, "prompts": map[string]any{"listChanged": true}},
				Lists:        map[string][]map[string]any{"tools": {tool("a", nil)}, "prompts": {{"name": "greeting"}}},
			})
			s.warm()
			s.write(offerTools(tool("a", nil)))
			h := s.start("3s")
			if _, ok := members(t, h.greet().Frame)["capabilities"]; !ok {
				t.Error("no capabilities")
			}
			if got := namesIn(t, h.Request("prompts/list", nil).Wait(), "prompts"); !slices.Equal(got, []string{"greeting"}) {
				t.Errorf("prompts of the cache: %q", got)
			}
			h.CallTool("a", nil).Text(t) // once the server is up
			if got := namesIn(t, h.Request("prompts/list", nil).Wait(), "prompts"); len(got) != 0 {
				t.Errorf("prompts of a server that has none: %q", got)
			}
			if f := h.Request("prompts/get", map[string]any{"name": "greeting"}).Wait(); f.Error == nil || f.Error.Code != -32601 {
				t.Errorf("prompts/get: %.300s", f.Raw)
			}
		},
		"part of a list": func(t *testing.T) {
			o := offerTools(tool("a", nil), tool("b", nil))
			o.Page, o.Broken = 1, true
			s := newStarter(t, nil, "-era", "legacy").offering(o)
			s.warm()
			o.Broken = false
			s.write(o)
			h := s.start("3s")
			h.greet()
			list := timely(h.Request("tools/list", nil))
			list.within(t, "a list of which only a part is known", 2*time.Second, 2*time.Second)
			checkNames(t, list.Frame, "a")
		},
	}, func(t *testing.T, f func(*testing.T)) { f(t) })
}

// TestC50SlowStart: C50 (c). A server that needs longer than a request is held:
// initialize is answered in time, a call is refused as worker_starting after the
// hold time, and the first one after the start succeeds in the same session. With
// HOLDFAST_EXTENDED it needs 40 s.
func TestC50SlowStart(t *testing.T) {
	delay := 14 * time.Second
	if extended() {
		delay = 40 * time.Second
	}
	h := newStarter(t, nil, "-era", "legacy").start(delay.String())
	began := time.Now()
	hello := h.greet()
	hello.within(t, "initialize", greetTimeout, greetTimeout)
	call := timely(h.Request("tools/call", harness.Call("pid", nil)))
	call.within(t, "the call", holdTimeout, holdTimeout)
	if e := call.Typed(); e == nil || e.Kind != protocol.WorkerStarting || !e.Retryable {
		t.Errorf("the call was answered with %.500s", call.Raw)
	}
	if up := time.Since(began); up > delay {
		t.Logf("the machine is slow: %v", up)
	}
	h.WaitFor("news of a list", func(f harness.Frame) bool { return f.Method == toolsChanged })
	h.CallTool("pid", nil).Text(t)
	h.works()
}

// TestC50BrokenStart: C50 (b). A server that says why and exits before it answers
// initialize: the client gets its initialize answer at once, and what it asks for
// then is refused with the command, the exit code and the last words, within a
// second of the exit. With a cache, the lists that the client needs to show
// anything come from there.
func TestC50BrokenStart(t *testing.T) {
	sideBySide(t, map[string]bool{"cold": false, "warm": true}, func(t *testing.T, warm bool) {
		s := newStarter(t, nil, "-era", "legacy").offering(offerTools(tool("a", nil)))
		if warm {
			s.warm()
		}
		if err := os.Remove(s.offer); err != nil { // without it, it complains and ends
			t.Fatal(err)
		}
		h := s.start("")
		hello := h.greet()
		hello.within(t, "initialize", 0, cacheAfter)
		list := timely(h.Request("tools/list", nil))
		list.within(t, "tools/list", 0, cacheAfter)
		call := timely(h.Request("tools/call", harness.Call("a", nil)))
		call.within(t, "the call", 0, cacheAfter)
		refused := []harness.Frame{call.Frame}
		if warm {
			checkNames(t, list.Frame, "a")
		} else {
			refused = append(refused, list.Frame)
		}
		for _, f := range refused {
			e := f.Typed()
			if e == nil || e.Kind != protocol.WorkerUnavailable || e.Exit == nil || e.Exit.Code != 1 ||
				!slices.ContainsFunc(e.StderrTail, func(line string) bool { return strings.Contains(line, s.offer) }) ||
				!strings.Contains(e.Message, filepath.Base(harness.StartServer(t))) {
				t.Errorf("the answer is %.800s", f.Raw)
			}
		}
	})
}

// TestC34BufferedAndSlow: C34. A server whose answers stay in a buffer: the client
// has its initialize answer in time, what it asks for is refused with the usual
// suspect, and starts are not repeated without end.
func TestC34BufferedAndSlow(t *testing.T) {
	h := startHeld(t, bridged, []string{"--start-timeout", "6s", "--crash-budget", "1/1h", "--backoff", "1ms..2ms"}, badServer(t, "buffered")...)
	hello := h.greet()
	hello.within(t, "initialize", greetTimeout, greetTimeout)
	if !minimal(hello.Frame) {
		t.Errorf("initialize: %s", hello.Raw)
	}
	call := timely(h.Request("tools/call", harness.Call("x", nil)))
	call.within(t, "the call", 0, 6*time.Second)
	if e := call.Typed(); e == nil || e.Kind != protocol.WorkerUnavailable || !strings.Contains(e.Message, "buffered") {
		t.Errorf("the call is answered with %.500s", call.Raw)
	}
	h.awaitState("open")
}
