package integration

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// link of a chain of requests (input_required): what the client goes on with.
type chainLink struct {
	ResultType   string
	RequestState string
}

// deploy calls the tool that asks first, with the state of the link before.
func (w watcher) deploy(state string) harness.Frame {
	w.t.Helper()
	params := harness.Call("deploy", nil)
	if state != "" {
		params["requestState"] = state
		params["inputResponses"] = map[string]any{"sure": map[string]any{"action": "accept", "content": map[string]any{}}}
	}
	return w.ask("tools/call", params).Wait()
}

// nextState fails the test unless the server wants to know more.
func (w watcher) nextState(f harness.Frame) string {
	w.t.Helper()
	var l chainLink
	if err := json.Unmarshal(f.Result, &l); err != nil || l.ResultType != "input_required" || l.RequestState == "" {
		w.t.Fatalf("no question: %s", f.Raw)
	}
	return l.RequestState
}

// refusedState fails the test unless the answer is that of a server which cannot
// read a state.
func refusedState(t *testing.T, f harness.Frame) {
	t.Helper()
	if f.Error == nil || f.Error.Code != -32602 || f.Error.Message != "invalid requestState: tampered" {
		t.Errorf("a new worker says %s", f.Raw)
	}
}

// TestSUP9ChainStaysWithItsWorker: SUP-9, EDGE-12. A chain of requests whose
// worker is replaced in its middle, twice, is served by the worker that has
// begun it, since only that can read its state; that is beyond the drain timeout
// and ends with the chain.
func TestSUP9ChainStaysWithItsWorker(t *testing.T) {
	eachListener(t, []string{"--drain-timeout", "100ms"}, func(t *testing.T, w watcher) {
		old := w.pid()
		state := w.nextState(w.deploy(""))
		now := w.replace()
		w.do("sleep", map[string]any{"ms": 300}) // three times the drain timeout
		if s := w.status(); !slices.Equal(s.Worker.Draining, []uint64{1}) {
			t.Errorf("draining: %v", s.Worker.Draining)
		}
		state = w.nextState(w.deploy(state))
		last := w.replace()
		if got := w.deploy(state).Text(t); got != "deployed by "+old || now == old || last == now {
			t.Errorf("processes %s, %s, %s; %s", old, now, last, got)
		}
		harness.Await(t, "the end of the old worker", func() bool { return len(w.status().Worker.Draining) == 0 })
		if slices.ContainsFunc(w.Descendants(), func(p harness.Proc) bool { return strings.Contains(p.String(), "pid "+old+" ") }) {
			t.Error("the old process is left")
		}
		refusedState(t, w.deploy(state)) // the chain is over
		if s := w.status(); s.Worker.Crashes != 0 {
			t.Errorf("%+v", s.Worker)
		}
	})
}

// TestSUP9ChainTimeout: SUP-9. An open chain extends the drain of its worker up
// to --chain-timeout; then the new worker gets the next request, and its refusal
// passes.
func TestSUP9ChainTimeout(t *testing.T) {
	eachListener(t, []string{"--drain-timeout", "100ms", "--chain-timeout", "1s"}, func(t *testing.T, w watcher) {
		began := time.Now()
		state := w.nextState(w.deploy(""))
		w.replace()
		harness.Await(t, "the end of the drain", func() bool { return len(w.status().Worker.Draining) == 0 })
		if d := time.Since(began); d < 900*time.Millisecond || d > harness.Patience/2 {
			t.Errorf("the chain was ended after %v", d)
		}
		refusedState(t, w.deploy(state))
	})
}

// TestSUP7ChainOfALostWorker: SUP-7, EDGE-12. A chain whose worker is lost goes
// on with the next worker, and its refusal passes.
func TestSUP7ChainOfALostWorker(t *testing.T) {
	eachListener(t, nil, func(t *testing.T, w watcher) {
		state := w.nextState(w.deploy(""))
		w.kill()
		refusedState(t, w.deploy(state))
		state = w.nextState(w.deploy(""))
		w.deploy(w.nextState(w.deploy(state))).Text(t)
	})
}

// questions are the requests of servers to clients of the initialize era, by the
// tool of the test server that asks, with the client's answer and what the tool
// makes of it.
var questions = []struct {
	tool, method string
	answer       map[string]any
	says         string
}{
	{"sample", "sampling/createMessage", map[string]any{"role": "assistant", "model": "m", "content": map[string]any{"type": "text", "text": "x"}}, "sampled with m"},
	{"elicit", "elicitation/create", map[string]any{"action": "accept", "content": map[string]any{}}, "user says accept"},
	{"roots", "roots/list", map[string]any{"roots": []any{map[string]any{"uri": "file:///x", "name": "x"}}}, "1 roots"},
}

// startAsked starts the test server for a client that answers late.
func startAsked(t *testing.T, v variant, flags ...string) held {
	t.Helper()
	config := harness.Config{Handlers: map[string]harness.Handler{}, Capabilities: map[string]any{}}
	for _, q := range questions {
		config.Handlers[q.method] = nil
		kind, _, _ := strings.Cut(q.method, "/")
		config.Capabilities[kind] = map[string]any{}
	}
	h := startHeldWith(t, config, v.command(t, append([]string{"--crash-budget", "1000/30s", "--backoff", "50ms..50ms"}, flags...), harness.TestServer(t)))
	h.Initialize()
	return h
}

// asked waits for the nth question of a kind.
func (h held) asked(method string, n int) harness.Frame {
	h.t.Helper()
	seen := 0
	return h.WaitFor(method, func(f harness.Frame) bool {
		if f.Method == method {
			seen++
		}
		return seen == n
	})
}

func (h held) answer(question harness.Frame, result map[string]any) {
	h.SendJSON(map[string]any{"jsonrpc": "2.0", "id": question.ID, "result": result})
}

// TestEDGE12QuestionsAcrossASwap: EDGE-12, SUP-9. A question that is open while
// its worker is replaced is answered to that worker, beside one of the new
// worker with an id of its own.
func TestEDGE12QuestionsAcrossASwap(t *testing.T) {
	harness.RequireLinux(t)
	eachSupervised(t, func(t *testing.T, v variant) {
		h := startAsked(t, v)
		var calls []*harness.Pending
		for _, q := range questions {
			calls = append(calls, h.Request("tools/call", harness.Call(q.tool, nil)))
			h.asked(q.method, 1)
		}
		h.swapTo(2)
		for i, q := range questions {
			later := h.Request("tools/call", harness.Call(q.tool, nil))
			first, second := h.asked(q.method, 1), h.asked(q.method, 2)
			if string(first.ID) == string(second.ID) || calls[i].Answered() {
				t.Errorf("%s: ids %s and %s; answered: %v", q.method, first.ID, second.ID, calls[i].Answered())
			}
			h.answer(second, q.answer)
			if got := later.Wait().Text(t); got != q.says {
				t.Errorf("the later call says %q", got)
			}
			h.answer(first, q.answer)
			if got := calls[i].Wait().Text(t); got != q.says {
				t.Errorf("the first call says %q", got)
			}
		}
		if n := h.withdrawn(); len(n) != 0 {
			t.Errorf("withdrawn: %v", n)
		}
	})
}

// withdrawn returns the ids of the questions that the client need not answer
// any more.
func (h held) withdrawn() (ids []string) {
	for _, f := range h.Frames() {
		var p struct{ RequestID json.RawMessage }
		if f.Method == "notifications/cancelled" && json.Unmarshal(f.Params, &p) == nil {
			ids = append(ids, string(p.RequestID))
		}
	}
	return ids
}

// TestEDGE12QuestionsOfALostWorker: EDGE-12, SUP-7, SUP-9. A question is
// withdrawn once, when its worker dies or has not ended within the drain
// timeout; the client's late answer goes to nobody.
func TestEDGE12QuestionsOfALostWorker(t *testing.T) {
	harness.RequireLinux(t)
	losses := map[string]func(held, string){
		"kill": func(h held, pid string) { serverProc(h.t, h.Client, pid).Kill() },
		"swap": func(h held, _ string) { h.swap() },
	}
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			eachSupervised(t, func(t *testing.T, v variant) {
				h := startAsked(t, v, "--drain-timeout", "100ms")
				pid := h.pid()
				var calls []*harness.Pending
				var ids []string
				for _, q := range questions {
					calls = append(calls, h.Request("tools/call", harness.Call(q.tool, nil)))
					ids = append(ids, string(h.asked(q.method, 1).ID))
				}
				lose(h, pid)
				for _, call := range calls {
					if f := call.Wait(); outcomeOf(f) != unknown {
						t.Errorf("the call got %.300s", f.Raw)
					}
				}
				got := h.withdrawn()
				slices.Sort(got)
				if slices.Sort(ids); !slices.Equal(got, ids) {
					t.Errorf("withdrawn are %v, want %v", got, ids)
				}
				for _, q := range questions {
					later := h.Request("tools/call", harness.Call(q.tool, nil))
					question := h.asked(q.method, 2)
					h.answer(h.asked(q.method, 1), map[string]any{"late": true})
					h.answer(question, q.answer)
					if got := later.Wait().Text(t); got != q.says {
						t.Errorf("the next worker says %q", got)
					}
				}
			})
		})
	}
}

// TestC39CancelAfterASwap: C39, EDGE-14, SUP-9. A cancellation reaches the worker
// that has the call, also after a swap, and nothing of it the new one.
func TestC39CancelAfterASwap(t *testing.T) {
	harness.RequireLinux(t)
	eachSupervised(t, func(t *testing.T, v variant) {
		w := startWatcher(t, v, false)
		old := w.pid()
		call := w.RequestID(`101`, "tools/call", harness.Call("sleep", map[string]any{"ms": 600_000}))
		now := w.replace()
		w.cancel(`101`)
		after := w.RequestID(`102`, "tools/call", harness.Call("pid", nil))
		w.awaitJournal(old, "cancelled", "sleep", 1)
		if got := after.Wait().Text(t); got != now {
			t.Errorf("the next call is answered by %s, want %s", got, now)
		}
		harness.Await(t, "the end of the old worker", func() bool { return len(w.status().Worker.Draining) == 0 })
		if w.journaled(now, "cancelled", "sleep") != 0 {
			t.Error("the new worker was told of the cancellation")
		}
		if call.Answered() && call.Wait().Typed() != nil {
			t.Errorf("the call has an answer of ours: %s", call.Wait().Raw)
		}
	})
}
