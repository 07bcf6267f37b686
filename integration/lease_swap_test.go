package integration

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// TestC23SubscriptionsOutliveACrash: C23, LEASE-1, LEASE-7. The next worker is
// subscribed once to each resource that the client holds, before it serves; the
// client is told once of each, hears of later changes, and is told the end of
// what the next worker refuses.
func TestC23SubscriptionsOutliveACrash(t *testing.T) {
	harness.RequireLinux(t)
	eachSupervised(t, func(t *testing.T, v variant) {
		w := startWatcher(t, v, false)
		w.watch("u1", "u1", "u2", "u4")
		if f := w.unsubscribe("u4").Wait(); f.Error != nil {
			t.Errorf("unsubscribe: %s", f.Raw)
		}
		pid := w.kill()
		for uri, want := range map[string]int{"u1": 1, "u2": 1, "u3": 0, "u4": 0} {
			if got := w.journaled(pid, "subscribe", uri); got != want {
				t.Errorf("the new worker was asked %d times for %s, want %d", got, uri, want)
			}
			if got := len(w.updates("", uri)); got != want {
				t.Errorf("%d updates of %s, want %d", got, uri, want)
			}
		}
		w.touch("u4", "u3", "u1", "u2")
		w.awaitUpdates("", "u1", 2)
		w.awaitUpdates("", "u2", 2)
		if n := len(w.updates("", "u3")) + len(w.updates("", "u4")); n != 0 {
			t.Errorf("%d updates of what is not subscribed to", n)
		}
		w.refuse("u2", "expired")
		w.kill()
		hasEnding(t, w.awaitUpdates("", "u2", 3), expiredKey)
		w.awaitUpdates("", "u1", 3)
		logs := slices.DeleteFunc(w.Frames(), func(f harness.Frame) bool { return f.Method != "notifications/message" })
		if len(logs) != 1 || !strings.Contains(string(logs[0].Params), "subscription to u2 has ended") {
			t.Errorf("%d log messages: %v", len(logs), logs)
		}
		w.refuse("u2", "none")
		w.kill()
		w.touch("u2", "u1")
		w.awaitUpdates("", "u1", 5)
		if n := len(w.updates("", "u2")); n != 3 {
			t.Errorf("%d updates of u2, the third was the last", n)
		}
	})
}

// startC24 opens the listens of C24.
func startC24(w watcher) (one, x *harness.Pending) {
	w.t.Helper()
	one, x = w.listen(`1001`, "tools", "u"), w.listen(`"x"`, "prompts")
	for _, token := range []string{one.Token, x.Token} {
		first := w.WaitFor("the first about "+token, func(f harness.Frame) bool { return aboutOf(f).sub() == token })
		if !isAck(first, token) {
			w.t.Errorf("the first that listen %s hears of is %s", token, first.Raw)
		}
	}
	return one, x
}

// checkC24 fails the test unless both listens hear of changes under their own
// ids, and have been acknowledged once.
func (w watcher) checkC24(one, x *harness.Pending) {
	w.t.Helper()
	u, tools, prompts := len(w.updates(`1001`, "u")), len(w.changes(`1001`, "tools")), len(w.changes(`"x"`, "prompts"))
	w.touch("u")
	w.awaitUpdates(`1001`, "u", u+1)
	w.do("grow", map[string]any{"name": "grown"})
	w.awaitChanged(`1001`, "tools", tools+1)
	w.do("grow", map[string]any{"name": "grown", "prompt": true})
	w.awaitChanged(`"x"`, "prompts", prompts+1)
	if one.Answered() || x.Answered() {
		w.t.Error("a listen has ended")
	}
	for _, f := range w.Frames() {
		if isUpdate(f, `"x"`, "u") || isChanged(f, `"x"`, "tools") || isChanged(f, `1001`, "prompts") || aboutOf(f).sub() == "1" {
			w.t.Errorf("a listen is told what is not its business: %s", f.Raw)
		}
	}
	for _, token := range []string{one.Token, x.Token} {
		acks := slices.DeleteFunc(w.Frames(), func(f harness.Frame) bool { return !isAck(f, token) })
		if len(acks) != 1 {
			w.t.Errorf("listen %s was acknowledged %d times", token, len(acks))
		}
	}
}

// TestC24ListensOutliveTheirWorker: C24 (a), LEASE-4, LEASE-7. Listens go on
// with the next worker, after a crash and after a swap, under their own ids;
// cancelling one leaves the other, and the end of the session completes it.
func TestC24ListensOutliveTheirWorker(t *testing.T) {
	eachListener(t, nil, func(t *testing.T, w watcher) {
		one, x := startC24(w)
		w.checkC24(one, x)
		for i, next := range []func() string{w.kill, w.replace, w.kill} {
			pid, before := next(), 2*i+1
			if n := w.journaled(pid, "subscribe", "u"); n != 1 {
				t.Errorf("the new worker was asked %d times for u", n)
			}
			w.awaitUpdates(`1001`, "u", before+1)
			if n := len(w.updates(`1001`, "u")); n != before+1 {
				t.Errorf("%d updates of u after a replacement, want one more than %d", n, before)
			}
			w.checkC24(one, x)
		}
		w.cancel(`1001`)
		w.completed(one)
		prompts := len(w.changes(`"x"`, "prompts"))
		w.do("grow", map[string]any{"name": "more", "prompt": true})
		w.awaitChanged(`"x"`, "prompts", prompts+1)
		w.CloseStdin()
		w.completed(x)
	})
}

// TestC24OtherEra: C24 (b), LEASE-7, SUP-7. A worker that does not speak the
// revision of the client's listens is a failed start, after a crash and as a
// candidate; the listens stay open for the one after it.
func TestC24OtherEra(t *testing.T) {
	eachListener(t, nil, func(t *testing.T, w watcher) {
		one, x := startC24(w)
		if err := os.WriteFile(w.file("older"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		before := w.pid()
		if n, reason := w.swap(); n != 0 || !strings.Contains(reason, "version_changed") {
			t.Errorf("the swap ends with generation %d: %q", n, reason)
		}
		if now := w.pid(); now != before {
			t.Error("the old worker does not serve any more")
		}
		w.checkC24(one, x)
		serverProc(t, w.Client, before).Kill()
		harness.Await(t, "a failed start", func() bool {
			s := w.status()
			return s.Worker.State != "serving" && strings.Contains(fmt.Sprint(s.Worker.Reason, exitsOf(s)), "version_changed")
		})
		if one.Answered() || x.Answered() {
			t.Error("a listen has ended")
		}
		if err := os.Remove(w.file("older")); err != nil {
			t.Fatal(err)
		}
		harness.Await(t, "the next worker", func() bool {
			return outcomeOf(w.ask("tools/call", harness.Call("pid", nil)).Wait()) == served
		})
		w.checkC24(one, x)
	})
}

func exitsOf(s status) (causes []string) {
	for _, e := range s.Worker.Exits {
		causes = append(causes, e.Cause.Message)
	}
	return causes
}

// TestLEASE7Offered: LEASE-7, LEASE-6. A candidate is asked for all that is
// held before it serves. What it takes is kept, with one update each; what it
// refuses has ended, with the key of its refusal or none; what has ended does
// not come back when a later worker would take it.
func TestLEASE7Offered(t *testing.T) {
	eachWatcher(t, nil, func(t *testing.T, w watcher) {
		w.watch("kept", "expired", "unavailable", "plain", "too")
		for _, why := range []string{"expired", "unavailable", "plain"} {
			w.refuse(why, why)
		}
		pid := w.replace()
		keys := map[string]string{"kept": "", "too": "", "plain": "", "expired": expiredKey, "unavailable": unavailableKey}
		for uri, key := range keys {
			hasEnding(t, w.awaitUpdates(w.sub(), uri, 1), key)
		}
		for uri := range keys {
			if n := len(w.updates(w.sub(), uri)); n != 1 {
				t.Errorf("%d updates of %s after the swap", n, uri)
			}
		}
		for _, uri := range []string{"kept", "too"} {
			if subscribed := w.journaled(pid, "subscribe", uri) - w.journaled(pid, "unsubscribe", uri); subscribed != 1 {
				t.Errorf("%s is subscribed to %d times", uri, subscribed)
			}
		}
		for _, why := range []string{"expired", "unavailable", "plain"} {
			w.refuse(why, "none")
		}
		w.replace()
		w.touch("expired", "plain", "unavailable", "kept", "too")
		w.awaitUpdates(w.sub(), "kept", 3)
		w.awaitUpdates(w.sub(), "too", 3)
		for uri, key := range keys {
			if n := len(w.updates(w.sub(), uri)); n != 1 && (key != "" || uri == "plain") {
				t.Errorf("%d updates of %s, which has ended", n, uri)
			}
		}
	})
}

// TestLEASE7WhileACandidateWaits: LEASE-7, LEASE-3, EDGE-14. What is acquired
// and released while a candidate is asked is neither lost nor revived.
func TestLEASE7WhileACandidateWaits(t *testing.T) {
	eachWatcher(t, nil, func(t *testing.T, w watcher) {
		w.watch("u")
		w.acquired(w.acquire("early", "v"))
		old := w.pid()
		if err := os.WriteFile(w.file("hold"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		swapped := make(chan uint64, 1)
		go func() { // ends with the swap
			n, _ := w.swap()
			swapped <- n
		}()
		w.awaitJournal("", "subscribe", "u", 2) // the candidate is asked
		late := w.acquire("late", "x")
		w.release("early", "v")
		w.awaitJournal(old, "unsubscribe", "v", 1)
		if err := os.Remove(w.file("hold")); err != nil {
			t.Fatal(err)
		}
		if n := <-swapped; n != 2 {
			t.Errorf("swap: generation %d", n)
		}
		w.acquired(late)
		pid, before, x := w.pid(), len(w.updates(w.sub(), "u")), len(w.updates(w.subOf("late"), "x"))
		w.touch("v", "u", "x")
		w.awaitUpdates(w.sub(), "u", before+1)
		w.awaitUpdates(w.subOf("late"), "x", x+1)
		if n := w.journaled(pid, "subscribe", "v") - w.journaled(pid, "unsubscribe", "v"); n != 0 {
			t.Errorf("v is subscribed to %d times, after it was released", n)
		}
		if n := len(w.updates(w.subOf("early"), "v")); n != 0 {
			t.Errorf("%d updates of v, which was released", n)
		}
	})
}

// acquire asks for a resource beside those of watch, in the modern era by a listen
// of that name.
func (w watcher) acquire(name, uri string) *harness.Pending {
	if w.modern {
		return w.asksToListen(`"`+name+`"`, uri)
	}
	return w.subscribe(uri)
}

// acquired waits until it is granted.
func (w watcher) acquired(p *harness.Pending) {
	w.t.Helper()
	f := w.WaitFor("an answer", func(f harness.Frame) bool { return isAck(f, p.Token) || string(f.ID) == p.Token })
	if f.Error != nil {
		w.t.Errorf("refused: %s", f.Raw)
	}
}

func (w watcher) release(name, uri string) {
	if w.modern {
		w.cancel(`"` + name + `"`)
	} else {
		w.unsubscribe(uri)
	}
}

func (w watcher) subOf(name string) string {
	if w.modern {
		return `"` + name + `"`
	}
	return ""
}
