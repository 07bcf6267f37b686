package integration

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
	"github.com/holdfast-mcp/holdfast/protocol"
)

// TestC51GivenUpIsNeverExecuted: C51, SUP-23. Of 100 calls that come while no
// worker serves, half are cancelled, and the others refused when their time is
// over. None of them is executed, neither by the next worker nor by the one
// after it.
func TestC51GivenUpIsNeverExecuted(t *testing.T) {
	harness.RequireLinux(t)
	eachSupervised(t, func(t *testing.T, v variant) {
		const calls = 100
		g := newGate(t)
		journal := filepath.Join(t.TempDir(), "journal")
		h := startHeldServer(t, v, []string{"--hold-timeout", "2s"}, "-gate", string(g), "-journal", journal)
		h.Initialize()
		pid := h.pid()
		g.shut(t)
		serverProc(t, h.Client, pid).Kill()
		h.awaitState("starting")
		pending := make([]*harness.Pending, calls)
		for i := range pending {
			token := fmt.Sprintf(`"held %d"`, i)
			pending[i] = h.RequestID(token, "tools/call", harness.Call("append", map[string]any{"key": fmt.Sprint("held", i)}))
		}
		for i := range calls / 2 {
			h.Notify("notifications/cancelled", map[string]any{"requestId": fmt.Sprint("held ", 2*i)})
		}
		for i := range calls / 2 {
			got := pending[2*i+1].Wait()
			if e := got.Typed(); e == nil || e.Kind != protocol.WorkerStarting || !e.Retryable {
				t.Fatalf("call %d was answered with %.500s", 2*i+1, got.Raw)
			}
		}
		g.open(t)
		h.awaitGeneration(2)
		h.CallTool("append", map[string]any{"key": "after"}).Text(t)
		h.swapTo(3)
		h.CallTool("append", map[string]any{"key": "after the swap"}).Text(t)
		effects := readJournal(t, journal)
		for i := range calls {
			if n := effects[fmt.Sprint("held", i)]; n != 0 {
				t.Errorf("call %d ran %d times", i, n)
			}
		}
		if effects["after"] != 1 || effects["after the swap"] != 1 {
			t.Errorf("the journal: %v", effects)
		}
		for i := range calls / 2 {
			if pending[2*i].Answered() {
				t.Errorf("call %d was cancelled and answered", 2*i)
			}
		}
	})
}

// TestSUP23HoldMax: SUP-23. What is beyond --hold-max is refused at once and
// never executed; what was held before it is.
func TestSUP23HoldMax(t *testing.T) {
	eachSupervised(t, func(t *testing.T, v variant) {
		g := newGate(t)
		g.shut(t)
		journal := filepath.Join(t.TempDir(), "journal")
		h := startHeldServer(t, v, []string{"--hold-max", "3", "--hold-timeout", "10m"}, "-gate", string(g), "-journal", journal)
		hello := h.Request("initialize", map[string]any{
			"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "x", "version": "1"},
		})
		h.Notify("notifications/initialized", nil)
		var calls []*harness.Pending
		for i := range 4 {
			calls = append(calls, h.Request("tools/call", harness.Call("append", map[string]any{"key": fmt.Sprint("k", i)})))
		}
		for i, p := range calls[2:] {
			if e := p.Wait().Typed(); e == nil || e.Kind != protocol.WorkerUnavailable || !e.Retryable {
				t.Errorf("call %d beyond the limit: %+v", i+2, e)
			}
		}
		g.open(t)
		if hello.Wait().Error != nil {
			t.Error("initialize failed")
		}
		for _, p := range calls[:2] {
			p.Wait().Text(t)
		}
		if effects := readJournal(t, journal); effects["k0"] != 1 || effects["k1"] != 1 || effects["k2"]+effects["k3"] != 0 {
			t.Errorf("the journal: %v", effects)
		}
	})
}
