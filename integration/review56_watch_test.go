package integration

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

func init() { badServers["curt"] = (*rawServer).curt }

// curt answers no request that was cancelled, as the TypeScript SDK does not: a
// subscription to a resource "slow" waits until it is, but for one that follows.
func (s *rawServer) curt() int {
	slow := 0
	for {
		m, ok := s.read()
		if !ok {
			return 0
		}
		switch {
		case m.Method == "initialize":
			s.result(m.ID, strings.Replace(rawInitialize, `{"tools":{}}`, `{"tools":{},"resources":{"subscribe":true}}`, 1))
		case m.Method == "resources/subscribe" && strings.Contains(string(m.Params), "slow") && slow == 0:
			slow++
		case m.Method == "resources/subscribe", m.Method == "resources/unsubscribe":
			s.result(m.ID, "{}")
		case m.Method == "tools/call":
			s.result(m.ID, rawText("told"))
			s.write(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"slow"}}` + "\n")
		default:
			s.ordinary(m)
		}
	}
}

// TestLEASE2CancelledWithoutAnswer: LEASE-2, EDGE-14. A subscription whose cancel
// its server does not answer keeps none to the same resource waiting.
func TestLEASE2CancelledWithoutAnswer(t *testing.T) {
	h := startHeld(t, bridged, nil, badServer(t, "curt")...)
	h.Initialize()
	slow := map[string]any{"uri": "slow"}
	first := h.Request("resources/subscribe", slow)
	h.Notify("notifications/cancelled", map[string]any{"requestId": json.RawMessage(first.Token)})
	if f := h.Request("resources/subscribe", slow).Wait(); f.Error != nil {
		t.Fatalf("subscribe: %s", f.Raw)
	}
	h.CallTool("touch", nil)
	h.WaitFor("an update", func(f harness.Frame) bool { return isUpdate(f, "", "slow") })
	if first.Answered() {
		t.Error("a cancelled subscription was answered")
	}
}

// TestEDGE13InvalidListen: EDGE-13. A subscriptions/listen that is not valid is
// refused, and has no part in what later workers are told of the client: a swap
// and a death later, the listens of before are as they were.
func TestEDGE13InvalidListen(t *testing.T) {
	eachListener(t, nil, func(t *testing.T, w watcher) {
		a := w.listen(`"a"`, "test://u")
		f := w.RequestID(`"bad"`, "subscriptions/listen", map[string]any{
			"_meta":         map[string]any{"io.modelcontextprotocol/protocolVersion": "2026-07-28"},
			"notifications": filterFor("test://u"),
		}).Wait()
		if f.Error == nil {
			t.Fatalf("a listen without capabilities is answered with %s", f.Raw)
		}
		for _, next := range []func() string{w.replace, w.kill} {
			n := len(w.updates(`"a"`, "test://u"))
			next()
			w.awaitUpdates(`"a"`, "test://u", n+1)
			w.touch("test://u")
			w.awaitUpdates(`"a"`, "test://u", n+2)
		}
		if s := w.status(); s.Worker.Crashes > 1 || a.Answered() {
			t.Errorf("%d crashes, the listen has ended: %v", s.Worker.Crashes, a.Answered())
		}
	})
}

// TestSUP9RetiredBeforeItSpoke: SUP-9, CAT-3. A server that is replaced before it
// has answered initialize, with nothing beside it, never gets what the client
// asks after it was answered ahead of it.
func TestSUP9RetiredBeforeItSpoke(t *testing.T) {
	harness.RequireLinux(t)
	s := newStarter(t, []string{"--swap", "sequential", "--initialize-timeout", "500ms", "--hold-timeout", "30s"}, "-era", "legacy")
	h := s.start("2s")
	initialize := h.Request("initialize", map[string]any{
		"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "harness", "version": "1"},
	})
	h.awaitGeneration(1)
	var generation atomic.Uint64
	swapped := make(chan struct{})
	go func() { // ends with the swap
		defer close(swapped)
		n, _ := h.swap()
		generation.Store(n)
	}()
	if f := initialize.Wait(); f.Error != nil || processOf(f) != "" {
		t.Fatalf("initialize is answered with %s", f.Raw)
	}
	h.Notify("notifications/initialized", nil)
	f := h.CallTool("pid", nil)
	<-swapped
	if outcomeOf(f) != served || generation.Load() != 2 {
		t.Errorf("generation %d serves; the call ends with %s", generation.Load(), f.Raw)
	}
	processes := map[string]bool{}
	for line := range readJournal(t, s.journal) {
		pid, _, _ := strings.Cut(line, " ")
		processes[pid] = true
	}
	if len(processes) != 1 { // the first one was gone before it read anything
		t.Errorf("%d servers have got something", len(processes))
	}
}
