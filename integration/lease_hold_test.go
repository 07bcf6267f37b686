package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// TestLEASE1OneSubscription: LEASE-1. However often a client of the initialize
// era subscribes, one unsubscribe ends it; a second one harms nothing.
func TestLEASE1OneSubscription(t *testing.T) {
	harness.RequireLinux(t)
	eachSupervised(t, func(t *testing.T, v variant) {
		w := startWatcher(t, v, false)
		w.watch("u", "u", "v")
		w.touch("u", "v")
		w.awaitUpdates("", "u", 1)
		w.awaitUpdates("", "v", 1)
		for range 2 {
			if f := w.unsubscribe("u").Wait(); f.Error != nil {
				t.Errorf("unsubscribe: %s", f.Raw)
			}
		}
		w.touch("u", "v")
		w.awaitUpdates("", "v", 2)
		if n := len(w.updates("", "u")); n != 1 {
			t.Errorf("%d updates of u, one before it was released", n)
		}
		pid := w.replace()
		if u, v := w.journaled(pid, "subscribe", "u"), w.journaled(pid, "subscribe", "v"); u != 0 || v != 1 {
			t.Errorf("the next worker was asked %d times for u, which is released, and %d times for v", u, v)
		}
	})
}

// TestLEASE1Listeners: LEASE-1, LEASE-4, EDGE-14. Two listens to one resource
// are independent: each is told under its own id, in its JSON type, with
// nothing else of the worker's _meta; cancelling one leaves the other, and the
// last ends the subscription.
func TestLEASE1Listeners(t *testing.T) {
	eachListener(t, nil, func(t *testing.T, w watcher) {
		tokens := []string{`1001`, `"1001"`, `"x"`}
		var listens []*harness.Pending
		for _, token := range tokens {
			listens = append(listens, w.listen(token, "u"))
		}
		w.touch("u")
		for _, token := range tokens {
			f := w.awaitUpdates(token, "u", 1)
			if meta := aboutOf(f).Meta; len(meta) != 1 {
				t.Errorf("the client sees what is the worker's own: %s", f.Raw)
			}
		}
		subscribed := w.journaled("", "subscribe", "u")
		if want := map[bool]int{true: 3, false: 1}[w.v.native]; subscribed != want {
			t.Errorf("%d subscriptions at the worker, want %d", subscribed, want)
		}
		w.cancel(tokens[0])
		w.cancel(tokens[0])
		w.completed(listens[0])
		w.touch("u")
		w.awaitUpdates(tokens[1], "u", 2)
		w.awaitUpdates(tokens[2], "u", 2)
		w.cancel(tokens[1])
		w.touch("u")
		w.awaitUpdates(tokens[2], "u", 3)
		if n := len(w.updates(tokens[0], "u")); n != 1 {
			t.Errorf("%d updates for a listen that was cancelled after the first", n)
		}
		if listens[2].Answered() {
			t.Error("the last listen has ended")
		}
		w.cancel(tokens[2])
		w.awaitJournal("", "unsubscribe", "u", subscribed)
	})
}

// TestLEASE2CancelledAcquisition: LEASE-2, LEASE-5, EDGE-14. What a client
// cancels while the worker takes its time is undone when the worker has done
// it; only then there is room for something else.
func TestLEASE2CancelledAcquisition(t *testing.T) {
	eachWatcher(t, []string{"--max-leases", "1"}, func(t *testing.T, w watcher) {
		w.pid()
		if err := os.WriteFile(w.file("hold"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		acquire := func(token, uri string) *harness.Pending {
			if w.modern {
				return w.asksToListen(token, uri)
			}
			return w.RequestID(token, "resources/subscribe", map[string]any{"uri": uri})
		}
		first := acquire(`"first"`, "u")
		w.awaitJournal("", "subscribe", "u", 1)
		w.cancel(first.Token)
		if f := acquire(`"early"`, "v").Wait(); f.Error == nil || !strings.Contains(f.Error.Message, "--max-leases") {
			t.Errorf("before the worker has cleaned up: %s", f.Raw)
		}
		if err := os.Remove(w.file("hold")); err != nil {
			t.Fatal(err)
		}
		w.awaitJournal("", "unsubscribe", "u", 1)
		n := 0
		harness.Await(t, "room", func() bool {
			n++
			if w.modern {
				p := acquire(fmt.Sprintf(`"w%d"`, n), "v")
				f := w.WaitFor("an answer", func(f harness.Frame) bool { return isAck(f, p.Token) || string(f.ID) == p.Token })
				return f.Method != ""
			}
			return acquire(fmt.Sprintf(`"w%d"`, n), "v").Wait().Error == nil
		})
		for _, f := range w.Frames() {
			if isAck(f, first.Token) || isUpdate(f, w.sub(), "u") {
				t.Errorf("the client was told of what it has cancelled: %s", f.Raw)
			}
		}
	})
}

// TestLEASE3Refused: LEASE-3, LEASE-6. A listen with a URI that the worker
// refuses gets the worker's error and no acknowledgement, and nothing of it is
// kept; other listens do not notice.
func TestLEASE3Refused(t *testing.T) {
	eachListener(t, []string{"--max-leases", "3"}, func(t *testing.T, w watcher) {
		w.refuse("gone", "expired")
		other := w.listen(`"other"`, "u", "tools")
		f := w.asksToListen(`"bad"`, "v", "gone").Wait()
		var data map[string]json.RawMessage
		if f.Error == nil || json.Unmarshal(f.Error.Data, &data) != nil || string(data[expiredKey]) != `{"message":"it is expired"}` {
			t.Errorf("the refusal is %s", f.Raw)
		}
		w.awaitJournal("", "unsubscribe", "v", 1)
		w.listen(`"fits"`, "v", "w") // there is room: nothing was kept of the bad one
		w.touch("u", "v")
		w.awaitUpdates(`"fits"`, "v", 1)
		harness.Await(t, "an update for the other listen", func() bool { return len(w.updates(`"other"`, "u")) > 0 })
		if n := len(w.updates(`"bad"`, "v")); n > 0 || other.Answered() {
			t.Errorf("%d updates for the refused listen; the other one has ended: %v", n, other.Answered())
		}
		for _, f := range w.Frames() {
			if isAck(f, `"bad"`) {
				t.Errorf("acknowledged: %s", f.Raw)
			}
		}
	})
}

// TestLEASE3RefusedHolder: LEASE-3, LEASE-6. The worker admits each holder of its
// own, also for what another one has; a plain refusal ends nothing that is held.
func TestLEASE3RefusedHolder(t *testing.T) {
	harness.RequireLinux(t)
	eachSupervised(t, func(t *testing.T, v variant) {
		w := startWatcher(t, v, false)
		w.watch("u")
		w.refuse("u", "plain")
		if f := w.subscribe("u").Wait(); f.Error == nil {
			t.Errorf("the worker refuses: %s", f.Raw)
		}
		w.touch("u")
		w.awaitUpdates("", "u", 1)
		if w.v.native {
			f := w.asksToListen(`"l"`, "u").Wait()
			if f.Error == nil {
				t.Errorf("the worker refuses: %s", f.Raw)
			}
			w.touch("u")
			w.awaitUpdates("", "u", 2)
		}
	})
}

// TestLEASE5Capacity: LEASE-5. A connection has 128 leases, over all its
// holders, and each one released makes room for another.
func TestLEASE5Capacity(t *testing.T) {
	harness.RequireLinux(t)
	eachSupervised(t, func(t *testing.T, v variant) {
		w := startWatcher(t, v, false)
		var uris []string
		for i := range 100 {
			uris = append(uris, fmt.Sprint("u", i))
		}
		w.listen(`"l"`, uris...)
		for i := range 28 {
			w.watch(fmt.Sprint("u", i)) // the same URIs, for another holder
		}
		full := []*harness.Pending{w.subscribe("v"), w.asksToListen(`"m"`, "u1"), w.asksToListen(`"n"`, "u1", "u2")}
		for _, p := range full {
			if f := p.Wait(); f.Error == nil || f.Error.Code != -32603 || !strings.Contains(f.Error.Message, "128") {
				t.Errorf("beyond the limit: %s", f.Raw)
			}
		}
		if f := w.subscribe("u3").Wait(); f.Error != nil {
			t.Errorf("what is held already needs no room: %s", f.Raw)
		}
		if f := w.unsubscribe("u3").Wait(); f.Error != nil {
			t.Errorf("unsubscribe: %s", f.Raw)
		}
		w.watch("v")
		w.listen(`"o"`, "tools") // holds no lease
		w.touch("u99", "v")
		w.awaitUpdates(`"l"`, "u99", 1)
		w.awaitUpdates("", "v", 1)
	})
}
