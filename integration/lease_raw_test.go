package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

func init() { badServers["watched"] = (*rawServer).watched }

// watched has resources to watch, in both eras, and is as curt as the protocol
// allows: it completes no listen that is cancelled, does not say which resource
// it refuses, and tells of changes whether anybody has subscribed to them or
// not. Its arguments are the file of what it refuses, as that of the
// leaseserver, and a journal.
func (s *rawServer) watched() int {
	listens := map[string][]string{} // URIs by id
	for {
		m, ok := s.read()
		if !ok {
			return 0
		}
		var p struct {
			URI           string
			RequestID     json.RawMessage
			Notifications struct{ ResourceSubscriptions []string }
			Name          string
			Arguments     struct {
				URI   string
				Token json.RawMessage
			}
		}
		_ = json.Unmarshal(m.Params, &p) // other params have none of these
		switch m.Method {
		case "initialize":
			s.result(m.ID, strings.Replace(rawInitialize, `{"tools":{}}`, `{"tools":{},"logging":{},"resources":{"subscribe":true}}`, 1))
		case "server/discover":
			s.result(m.ID, rawDiscover)
		case "resources/subscribe", "resources/unsubscribe":
			s.admit(m, p.URI)
		case "subscriptions/listen":
			if s.admit(m, p.Notifications.ResourceSubscriptions...) {
				listens[string(m.ID)] = p.Notifications.ResourceSubscriptions
			}
		case "notifications/cancelled":
			delete(listens, string(p.RequestID))
		case "tools/call":
			s.told(listens, p.Name, p.Arguments.URI, p.Arguments.Token)
			s.result(m.ID, rawText(fmt.Sprint(os.Getpid())))
		default:
			s.ordinary(m)
		}
	}
}

const rawDiscover = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"resources":{"subscribe":true,"listChanged":true}},` +
	`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"raw","version":"1"}},"ttlMs":0,"cacheScope":"private"}`

// admit answers a subscription to resources, and reports whether it is granted.
func (s *rawServer) admit(m message, uris ...string) bool {
	refused := map[string]string{}
	b, _ := os.ReadFile(s.args[0]) // none: nothing is refused
	for line := range strings.Lines(string(b)) {
		uri, why, _ := strings.Cut(strings.TrimSpace(line), " ")
		refused[uri] = why
	}
	journal, err := os.OpenFile(s.args[1], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	defer journal.Close()
	_, what, _ := strings.Cut(m.Method, "/")
	for _, uri := range uris {
		fmt.Fprintf(journal, "%d %s %s\n", os.Getpid(), what, uri)
	}
	for _, uri := range uris {
		switch key := map[string]string{"expired": expiredKey, "unavailable": unavailableKey}[refused[uri]]; {
		case key != "":
			s.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no","data":{%q:{"message":"raw"}}}}`+"\n", m.ID, key))
			return false
		case refused[uri] == "plain":
			s.fail(m.ID, "no")
			return false
		}
	}
	if what != "listen" {
		s.result(m.ID, "{}")
		return true
	}
	granted, _ := json.Marshal(map[string]any{"resourceSubscriptions": uris}) // strings always marshal
	s.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{%q:%s},"notifications":%s}}`+"\n", subscriptionKey, m.ID, granted))
	return true
}

// told sends what a call asks for: an update, as it is in the initialize era and
// to each listen, or progress.
func (s *rawServer) told(listens map[string][]string, tool, uri string, token json.RawMessage) {
	switch tool {
	case "touch":
		s.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":%q}}`+"\n", uri))
		for _, id := range slices.Sorted(maps.Keys(listens)) {
			if slices.Contains(listens[id], uri) {
				s.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":%q,"_meta":{%q:%s,"mine":1}}}`+"\n", uri, subscriptionKey, id))
			}
		}
	case "progress":
		s.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`+"\n", token))
	case "die":
		die()
	}
}

// startRawWatcher starts the server above for a client of one era.
func startRawWatcher(t *testing.T, modern bool, flags ...string) watcher {
	t.Helper()
	harness.RequireLinux(t)
	w := watcher{v: bridged, modern: modern, dir: t.TempDir()}
	flags = append([]string{"--crash-budget", "1000/30s", "--backoff", "50ms..50ms"}, flags...)
	w.held = startHeld(t, bridged, flags, badServer(t, "watched", w.file("refuse"), w.file("journal"))...)
	if !modern {
		w.Initialize()
	}
	return w
}

// TestC23OnlyWhatIsSubscribedTo: C23, LEASE-1, LEASE-6. A server that tells of
// changes nobody has subscribed to is not passed on, and a refusal of the next
// worker is known by the key in its data.
func TestC23OnlyWhatIsSubscribedTo(t *testing.T) {
	w := startRawWatcher(t, false)
	w.watch("u1", "u2", "u5")
	w.refuse("u2", "unavailable")
	w.refuse("u5", "plain")
	w.kill()
	hasEnding(t, w.awaitUpdates("", "u2", 1), unavailableKey)
	hasEnding(t, w.awaitUpdates("", "u5", 1), "")
	w.touch("u2", "u3", "u4", "u5", "u1")
	w.awaitUpdates("", "u1", 2)
	for uri, want := range map[string]int{"u2": 1, "u3": 0, "u4": 0, "u5": 1} {
		if n := len(w.updates("", uri)); n != want {
			t.Errorf("%d updates of %s, want %d", n, uri, want)
		}
	}
}

// TestLEASE7RefusedWithoutAName: LEASE-7, LEASE-6, LEASE-3. A worker with one
// session that refuses a listen and does not say for which of its resources is
// asked until that is known: this one ends, for all who listen for it, and the
// others are kept.
func TestLEASE7RefusedWithoutAName(t *testing.T) {
	for why, key := range map[string]string{"expired": expiredKey, "plain": ""} {
		t.Run(why, func(t *testing.T) {
			w := startRawWatcher(t, true)
			a, b := w.listen(`"a"`, "u1", "u2", "u3", "u4", "u5"), w.listen(`"b"`, "u3", "u6")
			c := w.listen(`"c"`, "u3")
			w.pid() // the updates after each new resource have come
			ends := map[string]int{}
			for _, sub := range []string{`"a"`, `"b"`, `"c"`} {
				ends[sub] = len(w.updates(sub, "u3")) + 1
			}
			w.refuse("u3", why)
			for _, next := range []func() string{w.replace, w.kill} {
				next()
				for sub, n := range ends {
					hasEnding(t, w.awaitUpdates(sub, "u3", n), key)
				}
				w.completed(c)
				for _, uri := range []string{"u1", "u2", "u4", "u5"} {
					n := len(w.updates(`"a"`, uri))
					w.touch(uri)
					hasEnding(t, w.awaitUpdates(`"a"`, uri, n+1), "")
				}
				n := len(w.updates(`"b"`, "u6"))
				w.touch("u3", "u6")
				w.awaitUpdates(`"b"`, "u6", n+1)
			}
			if n := len(w.updates(`"a"`, "u3")); n != ends[`"a"`] || a.Answered() || b.Answered() {
				t.Errorf("%d updates of what has ended; listens have ended: %v, %v", n, a.Answered(), b.Answered())
			}
		})
	}
}

// TestLEASE1NeverCompleted: LEASE-1, LEASE-2, LEASE-3, LEASE-4. A worker with one
// session that says nothing to a cancelled listen: those of the client come and
// go without a trace of one another, a new resource as well, and a refused one.
func TestLEASE1NeverCompleted(t *testing.T) {
	w := startRawWatcher(t, true)
	a := w.listen(`"a"`, "u")
	w.listen(`"b"`, "v", "u")
	w.refuse("no", "plain")
	if f := w.asksToListen(`"bad"`, "v", "no").Wait(); f.Error == nil || f.Error.Message != "no" {
		t.Errorf("the refusal is %s", f.Raw)
	}
	both := func() (int, int) { return len(w.updates(`"a"`, "u")), len(w.updates(`"b"`, "u")) }
	inA, inB := both()
	w.touch("u", "v")
	f := w.awaitUpdates(`"a"`, "u", inA+1)
	if len(aboutOf(f).Meta) != 1 {
		t.Errorf("the client sees what is the worker's own: %s", f.Raw)
	}
	w.awaitUpdates(`"b"`, "u", inB+1)
	w.cancel(`"a"`)
	w.completed(a)
	w.listen(`"c"`, "u", "x")
	inA, inB = both()
	w.touch("u", "x")
	w.awaitUpdates(`"c"`, "x", 1)
	w.awaitUpdates(`"b"`, "u", inB+1)
	if now, _ := both(); now != inA {
		t.Errorf("%d updates for a listen that was cancelled after %d", now, inA)
	}
	w.cancel(`"b"`)
	w.cancel(`"c"`)
	w.listen(`"d"`, "u")
	w.touch("u")
	w.awaitUpdates(`"d"`, "u", 1)
}

// TestC41ProgressOfAnEarlierWorker: C41, EDGE-6, SUP-7. Progress under the token
// of a call that is cancelled, or was lost with an earlier worker, or under the
// same token in another JSON type, does not reach the client.
func TestC41ProgressOfAnEarlierWorker(t *testing.T) {
	w := startRawWatcher(t, false)
	progress := func(token string) {
		w.do("progress", map[string]any{"token": json.RawMessage(token)})
	}
	withToken := func(id, tool, token string) *harness.Pending {
		return w.RequestID(id, "tools/call", map[string]any{
			"name": tool, "arguments": map[string]any{"token": json.RawMessage(token)}, "_meta": map[string]any{"progressToken": 6},
		})
	}
	withToken(`1001`, "progress", `6`).Wait()
	withToken(`1002`, "progress", `"6"`).Wait()
	progress(`6`)
	if f := withToken(`1003`, "die", `6`).Wait(); outcomeOf(f) != unknown {
		t.Errorf("the call got %s", f.Raw)
	}
	progress(`6`)
	progress(`"6"`)
	var seen []string
	for _, f := range w.Frames() {
		if f.Method == "notifications/progress" {
			seen = append(seen, string(f.Params))
		}
	}
	if len(seen) != 1 || !strings.Contains(seen[0], `"progressToken":6,`) {
		t.Errorf("the client saw %q", seen)
	}
}
