package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// watcher is a client of the leaseserver, of one of the eras.
type watcher struct {
	held

	v      variant
	modern bool
	dir    string // of the files that the server decides by
}

// Keys in the _meta of notifications.
const (
	subscriptionKey = "io.modelcontextprotocol/subscriptionId"
	expiredKey      = "io.github.holdfast-mcp/attachmentExpired"
	unavailableKey  = "io.github.holdfast-mcp/attachmentUnavailable"
)

// startWatcher starts a leaseserver behind holdfast, whose worker may die as
// often as a test likes.
func startWatcher(t *testing.T, v variant, modern bool, flags ...string) watcher {
	t.Helper()
	w := watcher{v: v, modern: modern, dir: t.TempDir()}
	flags = append([]string{"--crash-budget", "1000/30s", "--backoff", "50ms..50ms"}, flags...)
	w.held = startHeld(t, v, flags, w.server(t)...)
	if !modern {
		w.Initialize()
	}
	return w
}

func (w watcher) server(t *testing.T) []string {
	t.Helper()
	return []string{
		harness.LeaseServer(t), "-journal", w.file("journal"), "-refuse", w.file("refuse"), "-hold", w.file("hold"), "-older", w.file("older"),
	}
}

func (w watcher) file(name string) string { return filepath.Join(w.dir, name) }

// eachWatcher runs f as a subtest for each era of clients and each way to run
// the server.
func eachWatcher(t *testing.T, flags []string, f func(t *testing.T, w watcher)) {
	t.Helper()
	harness.RequireLinux(t)
	for _, v := range supervised() {
		for era, modern := range map[string]bool{"legacy": false, "modern": true} {
			t.Run(v.name+" "+era, func(t *testing.T) { f(t, startWatcher(t, v, modern, flags...)) })
		}
	}
}

// eachListener is eachWatcher for the modern era alone.
func eachListener(t *testing.T, flags []string, f func(t *testing.T, w watcher)) {
	t.Helper()
	harness.RequireLinux(t)
	eachSupervised(t, func(t *testing.T, v variant) { f(t, startWatcher(t, v, true, flags...)) })
}

// perRequest adds to params what each request of the 2026-07-28 revision has.
func perRequest(params map[string]any) map[string]any {
	all := map[string]any{"_meta": map[string]any{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "harness", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": map[string]any{"elicitation": map[string]any{}},
	}}
	maps.Copy(all, params)
	return all
}

// ask sends a request as the client's era has it.
func (w watcher) ask(method string, params map[string]any) *harness.Pending {
	if w.modern {
		params = perRequest(params)
	}
	return w.Request(method, params)
}

// do calls a tool and returns its text.
func (w watcher) do(tool string, args map[string]any) string {
	w.t.Helper()
	return w.ask("tools/call", harness.Call(tool, args)).Wait().Text(w.t)
}

func (w watcher) pid() string { w.t.Helper(); return w.do("pid", nil) }

// touch changes resources.
func (w watcher) touch(uris ...string) {
	w.t.Helper()
	for _, uri := range uris {
		w.do("touch", map[string]any{"uri": uri})
	}
}

// end has the server end all subscriptions to a resource.
func (w watcher) end(uri, why string) {
	w.t.Helper()
	w.do("end", map[string]any{"uri": uri, "why": why})
}

// kill ends the worker by SIGKILL, and returns the process of the next one once
// that serves.
func (w watcher) kill() string {
	w.t.Helper()
	old := w.pid()
	serverProc(w.t, w.Client, old).Kill()
	var now string
	harness.Await(w.t, "the next worker", func() bool {
		f := w.ask("tools/call", harness.Call("pid", nil)).Wait()
		if outcomeOf(f) == served {
			now = f.Text(w.t)
		}
		return now != "" && now != old
	})
	return now
}

// replace swaps the worker, and returns the process of the new one.
func (w watcher) replace() string {
	w.t.Helper()
	if n, reason := w.swap(); n == 0 {
		w.t.Fatalf("swap: %s", reason)
	}
	return w.pid()
}

// refuse makes later subscriptions to a resource fail: expired, unavailable or
// plain; none undoes that.
func (w watcher) refuse(uri, why string) {
	w.t.Helper()
	f, err := os.OpenFile(w.file("refuse"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	if _, err := fmt.Fprintln(f, uri, why); err != nil {
		w.t.Fatal(err)
	}
}

// subscribe asks for a resource as the legacy era does.
func (w watcher) subscribe(uri string) *harness.Pending {
	return w.Request("resources/subscribe", map[string]any{"uri": uri})
}

func (w watcher) unsubscribe(uri string) *harness.Pending {
	return w.Request("resources/unsubscribe", map[string]any{"uri": uri})
}

// filterFor is what a listen asks for: words for the lists, the rest are URIs.
func filterFor(what ...string) map[string]any {
	filter, uris := map[string]any{}, []string{}
	for _, word := range what {
		switch word {
		case "tools", "prompts", "resources":
			filter[word+"ListChanged"] = true
		default:
			uris = append(uris, word)
		}
	}
	if len(uris) > 0 {
		filter["resourceSubscriptions"] = uris
	}
	return filter
}

// asksToListen sends a subscriptions/listen.
func (w watcher) asksToListen(token string, what ...string) *harness.Pending {
	return w.RequestID(token, "subscriptions/listen", perRequest(map[string]any{"notifications": filterFor(what...)}))
}

// listen sends a subscriptions/listen and waits for its acknowledgement.
func (w watcher) listen(token string, what ...string) *harness.Pending {
	w.t.Helper()
	p := w.asksToListen(token, what...)
	w.WaitFor("the acknowledgement of "+token, func(f harness.Frame) bool { return isAck(f, token) })
	return p
}

// watch subscribes to resources as the client's era does: by one listen with
// the id "w", or one by one.
func (w watcher) watch(uris ...string) {
	w.t.Helper()
	if w.modern {
		w.listen(`"w"`, uris...)
		return
	}
	for _, uri := range uris {
		if f := w.subscribe(uri).Wait(); f.Error != nil {
			w.t.Fatalf("subscribe %s: %s", uri, f.Raw)
		}
	}
}

// sub is the subscription id that notifications to watch have.
func (w watcher) sub() string {
	if w.modern {
		return `"w"`
	}
	return ""
}

// cancel cancels a request.
func (w watcher) cancel(token string) {
	w.Notify("notifications/cancelled", map[string]any{"requestId": json.RawMessage(token)})
}

// about is what a notification says of a subscription.
type about struct {
	URI  string                     `json:"uri"`
	Meta map[string]json.RawMessage `json:"_meta"`
}

func aboutOf(f harness.Frame) (a about) {
	_ = json.Unmarshal(f.Params, &a) // other params are about nothing
	return a
}

func (a about) sub() string { return string(a.Meta[subscriptionKey]) }

func isAck(f harness.Frame, sub string) bool {
	return f.Method == "notifications/subscriptions/acknowledged" && aboutOf(f).sub() == sub
}

// isUpdate reports whether a frame says that a resource has changed, to the
// listen of that id; "" stands for the connection.
func isUpdate(f harness.Frame, sub, uri string) bool {
	a := aboutOf(f)
	return f.Method == "notifications/resources/updated" && a.sub() == sub && a.URI == uri
}

func isChanged(f harness.Frame, sub, list string) bool {
	return f.Method == "notifications/"+list+"/list_changed" && aboutOf(f).sub() == sub
}

// updates returns those that have come.
func (w watcher) updates(sub, uri string) []harness.Frame {
	return slices.DeleteFunc(w.Frames(), func(f harness.Frame) bool { return !isUpdate(f, sub, uri) })
}

// awaitUpdates waits until n updates have come, and returns the last of them.
func (w watcher) awaitUpdates(sub, uri string, n int) harness.Frame {
	w.t.Helper()
	return w.nth(fmt.Sprintf("update %d of %s for %q", n, uri, sub), n, func(f harness.Frame) bool { return isUpdate(f, sub, uri) })
}

func (w watcher) changes(sub, list string) []harness.Frame {
	return slices.DeleteFunc(w.Frames(), func(f harness.Frame) bool { return !isChanged(f, sub, list) })
}

func (w watcher) awaitChanged(sub, list string, n int) {
	w.t.Helper()
	w.nth(fmt.Sprintf("change %d of %s for %q", n, list, sub), n, func(f harness.Frame) bool { return isChanged(f, sub, list) })
}

// nth waits for the nth frame for which match holds.
func (w watcher) nth(what string, n int, match func(harness.Frame) bool) harness.Frame {
	w.t.Helper()
	seen := 0
	return w.WaitFor(what, func(f harness.Frame) bool {
		if match(f) {
			seen++
		}
		return seen == n
	})
}

// journaled counts a line of the server's journal: of one process, or of all if
// pid is empty.
func (w watcher) journaled(pid, what, uri string) int {
	w.t.Helper()
	count := 0
	for line, n := range readJournal(w.t, w.file("journal")) {
		if p, rest, _ := strings.Cut(line, " "); rest == what+" "+uri && (pid == "" || pid == p) {
			count += n
		}
	}
	return count
}

func (w watcher) awaitJournal(pid, what, uri string, n int) {
	w.t.Helper()
	harness.Await(w.t, fmt.Sprintf("%d times %s %s", n, what, uri), func() bool { return w.journaled(pid, what, uri) == n })
}

// isComplete reports whether a listen was ended as the protocol says.
func isComplete(f harness.Frame, sub string) bool {
	var r struct {
		ResultType string
		Meta       map[string]json.RawMessage `json:"_meta"`
	}
	return json.Unmarshal(f.Result, &r) == nil && r.ResultType == "complete" && string(r.Meta[subscriptionKey]) == sub
}

func (w watcher) completed(p *harness.Pending) {
	w.t.Helper()
	if f := p.Wait(); !isComplete(f, p.Token) {
		w.t.Errorf("listen %s ends with %s", p.Token, f.Raw)
	}
}

// hasEnding fails the test unless an update is the last one, with that key of a
// terminal signal or none.
func hasEnding(t *testing.T, f harness.Frame, key string) {
	t.Helper()
	meta := aboutOf(f).Meta
	for _, k := range []string{expiredKey, unavailableKey} {
		if _, has := meta[k]; has != (k == key) {
			t.Errorf("want the key %q: %s", key, f.Raw)
		}
	}
}
