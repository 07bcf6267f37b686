package integration

import (
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// TestLEASE6Ended: LEASE-6, LEASE-4. A terminal signal of the worker ends its
// resource and no other: its key is passed on, nothing follows, also not after
// the worker is replaced, until the client asks anew.
func TestLEASE6Ended(t *testing.T) {
	eachWatcher(t, nil, func(t *testing.T, w watcher) {
		w.watch("u", "v", "w")
		w.end("u", "expired")
		last := w.awaitUpdates(w.sub(), "u", 1)
		hasEnding(t, last, expiredKey)
		if got := string(aboutOf(last).Meta[expiredKey]); got != `{"message":"it is expired"}` {
			t.Errorf("under the key stands %s", got)
		}
		w.end("u", "expired")
		w.touch("u", "w")
		w.awaitUpdates(w.sub(), "w", 1)
		for _, next := range []func() string{w.replace, w.kill} {
			if pid := next(); w.journaled(pid, "subscribe", "u") != 0 || w.journaled(pid, "subscribe", "v") != 1 {
				t.Errorf("the next worker was asked %d times for u and %d times for v", w.journaled(pid, "subscribe", "u"), w.journaled(pid, "subscribe", "v"))
			}
		}
		if n := len(w.updates(w.sub(), "u")); n != 1 {
			t.Errorf("%d updates of u, one of which was the last", n)
		}
		again, sub := w.again("u")
		w.touch("u")
		hasEnding(t, w.awaitUpdates(sub, "u", 1+again), "")
		if w.modern {
			return
		}
		said := func(f harness.Frame) bool {
			return f.Method == "notifications/message" && strings.Contains(string(f.Params), "subscription to u has ended")
		}
		w.WaitFor("a log message", said)
	})
}

// again subscribes anew to a resource, and returns how many updates of it the
// subscription that tells of it has had.
func (w watcher) again(uri string) (had int, sub string) {
	w.t.Helper()
	if w.modern {
		w.listen(`"again"`, uri)
		return 0, `"again"`
	}
	had = len(w.updates("", uri))
	w.watch(uri)
	return had, ""
}

// TestLEASE6LastOne: LEASE-6, LEASE-7. A listen of resources alone is complete
// after its last one, whichever key ended each; one that asked for lists too
// stays open and hears of them.
func TestLEASE6LastOne(t *testing.T) {
	eachListener(t, nil, func(t *testing.T, w watcher) {
		alone := w.listen(`"alone"`, "u", "v", "x")
		both := w.listen(`"both"`, "u", "v", "x", "tools")
		w.end("u", "expired")
		w.end("v", "unavailable")
		hasEnding(t, w.awaitUpdates(`"alone"`, "u", 1), expiredKey)
		hasEnding(t, w.awaitUpdates(`"alone"`, "v", 1), unavailableKey)
		hasEnding(t, w.awaitUpdates(`"both"`, "v", 1), unavailableKey)
		if alone.Answered() {
			t.Error("complete before its last resource has ended")
		}
		w.refuse("x", "plain")
		w.replace()
		hasEnding(t, w.awaitUpdates(`"alone"`, "x", 1), "")
		w.completed(alone)
		for _, next := range []func() string{w.pid, w.replace, w.kill} {
			next()
			n := len(w.changes(`"both"`, "tools"))
			w.do("grow", map[string]any{"name": "grown"})
			w.awaitChanged(`"both"`, "tools", n+1)
		}
		if both.Answered() || len(w.changes(`"alone"`, "tools")) > 0 {
			t.Error("the listen for lists has ended, or the other one hears of them")
		}
		w.cancel(both.Token)
		if w.v.native {
			w.completed(both)
		}
	})
}

// TestCAT7Separate: CAT-7. A changed list ends no subscription, and the end of a
// subscription is no changed list.
func TestCAT7Separate(t *testing.T) {
	eachWatcher(t, nil, func(t *testing.T, w watcher) {
		w.watch("u", "v")
		if w.modern {
			w.listen(`"l"`, "tools", "resources", "prompts")
		}
		w.ask("tools/list", map[string]any{}).Wait()
		lists := w.listsSub()
		for _, list := range []string{"resources", "prompts", "tools"} {
			if n := len(w.changes(lists, list)); n != 0 {
				t.Errorf("%d changes of %s", n, list)
			}
		}
		w.do("grow", map[string]any{"name": "grown"})
		w.awaitChanged(lists, "tools", 1)
		w.touch("u", "v")
		w.awaitUpdates(w.sub(), "u", 1)
		w.awaitUpdates(w.sub(), "v", 1)
		w.end("u", "expired")
		hasEnding(t, w.awaitUpdates(w.sub(), "u", 2), expiredKey)
		w.touch("v")
		w.awaitUpdates(w.sub(), "v", 2)
		w.refuse("v", "unavailable")
		w.ask("tools/list", map[string]any{}).Wait()
		w.replace() // without the tool: one more change, which is none of resources
		hasEnding(t, w.awaitUpdates(w.sub(), "v", 3), unavailableKey)
		w.awaitChanged(lists, "tools", 2)
		if n := len(w.changes(lists, "resources")) + len(w.changes(lists, "prompts")); n != 0 {
			t.Errorf("%d changes of lists that are as they were", n)
		}
	})
}

// listsSub is the subscription id of changes of lists in TestCAT7Separate.
func (w watcher) listsSub() string {
	if w.modern {
		return `"l"`
	}
	return ""
}

// TestCAT1Modern: CAT-1, CAT-7. A client of the 2026-07-28 era that has listed
// the tools and listens for them is told of a change once, by the server or with
// the next worker, and of nothing when the list is as it was.
func TestCAT1Modern(t *testing.T) {
	eachListener(t, nil, func(t *testing.T, w watcher) {
		w.listen(`"l"`, "tools", "prompts")
		told := func(want int) {
			t.Helper()
			w.awaitChanged(`"l"`, "tools", max(want, 1))
			w.ask("tools/list", map[string]any{}).Wait()
			if n := len(w.changes(`"l"`, "tools")); n != want {
				t.Errorf("%d changes of the tools, want %d", n, want)
			}
		}
		w.ask("tools/list", map[string]any{}).Wait()
		w.ask("prompts/list", map[string]any{}).Wait()
		w.replace()
		w.kill()
		if n := len(w.changes(`"l"`, "tools")); n != 0 {
			t.Errorf("%d changes of a list that is the same", n)
		}
		w.do("grow", map[string]any{"name": "grown"})
		told(1)
		w.replace() // without the tool
		told(2)
		w.kill()
		told(2)
		w.do("grow", map[string]any{"name": "pid"}) // in the place of one of that name
		told(3)
		if n := len(w.changes(`"l"`, "prompts")); n != 0 {
			t.Errorf("%d changes of the prompts", n)
		}
	})
}

// TestEDGE14CancelEndsOneWait: EDGE-14, SUP-9. Cancelling a call, a listen or a
// subscription while the worker is replaced ends that and nothing else.
func TestEDGE14CancelEndsOneWait(t *testing.T) {
	harness.RequireLinux(t)
	eachSupervised(t, func(t *testing.T, v variant) {
		w := startWatcher(t, v, false)
		w.watch("u")
		first, second := w.listen(`"first"`, "u", "tools"), w.listen(`"second"`, "u", "tools")
		old := w.pid()
		sleep := func(token string, ms int) *harness.Pending {
			return w.RequestID(token, "tools/call", harness.Call("sleep", map[string]any{"ms": ms}))
		}
		sleep(`"slow"`, 600_000)
		other := sleep(`"other"`, 700)
		w.pid()
		swapped := make(chan uint64, 1)
		go func() { // ends with the swap
			n, _ := w.swap()
			swapped <- n
		}()
		w.cancel(`"slow"`)
		w.cancel(`"first"`)
		if n := <-swapped; n != 2 {
			t.Errorf("swap: generation %d", n)
		}
		w.awaitJournal(old, "cancelled", "sleep", 1)
		w.cancel(`"slow"`)
		w.completed(first)
		now := w.pid()
		if now == old {
			t.Error("the swap was cancelled")
		}
		connection, listen := len(w.updates("", "u")), len(w.updates(`"second"`, "u"))
		w.touch("u")
		w.awaitUpdates("", "u", connection+1)
		w.awaitUpdates(`"second"`, "u", listen+1)
		if got := other.Wait().Text(t); got != "slept in "+old || second.Answered() {
			t.Errorf("the other call says %q, the other listen has ended: %v", got, second.Answered())
		}
		if n := w.journaled(now, "cancelled", "sleep"); n != 0 {
			t.Errorf("%d calls of the new worker were cancelled", n)
		}
	})
}

// TestEDGE14EndOfTransport: EDGE-14, LEASE-7, SUP-12. The orderly end of the
// session completes each open listen, answers the calls under way and leaves
// nothing.
func TestEDGE14EndOfTransport(t *testing.T) {
	ends := map[string]func(watcher){
		"EOF":  func(w watcher) { w.CloseStdin() },
		"TERM": func(w watcher) { w.Signal(w.t, "TERM") },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			eachListener(t, []string{"--eof-grace", "300ms"}, func(t *testing.T, w watcher) {
				listens := []*harness.Pending{w.listen(`1001`, "u"), w.listen(`"1001"`, "u", "v"), w.listen(`"lists"`, "prompts", "tools")}
				call := w.RequestID(`"call"`, "tools/call", perRequest(harness.Call("sleep", map[string]any{"ms": 600_000})))
				w.pid()
				end(w)
				for _, p := range listens {
					w.completed(p)
				}
				if f := call.Wait(); outcomeOf(f) != unknown {
					t.Errorf("the call got %.300s", f.Raw)
				}
				w.WaitExit()
				if left := w.AwaitNoDescendants(harness.Patience); len(left) > 0 {
					t.Errorf("left behind: %v", left)
				}
			})
		})
	}
}
