package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

func init() {
	badServers["busy"] = (*rawServer).busy
}

// busy works 1.5 s on each call: it reports progress all the time, and reads
// nothing meanwhile, pings included.
func (s *rawServer) busy() int {
	for {
		m, ok := s.read()
		if !ok {
			return 0
		}
		if s.ordinary(m) {
			continue
		}
		if m.Method == "ping" {
			s.result(m.ID, "{}")
			continue
		}
		for i := range 30 {
			s.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"busy","progress":%d}}`+"\n", i))
			<-time.After(50 * time.Millisecond)
		}
		s.result(m.ID, rawText("done"))
	}
}

// TestSUP11HungIsReplaced: SUP-11. A worker that is stopped while a call waits
// is replaced; the call is unknown, and says why.
func TestSUP11HungIsReplaced(t *testing.T) {
	harness.RequireLinux(t)
	eachSupervised(t, func(t *testing.T, v variant) {
		h := startHeldServer(t, v, []string{"--hang-timeout", "500ms"})
		h.Initialize()
		pid := h.pid()
		serverProc(t, h.Client, pid).Signal(t, "STOP")
		got := h.CallTool("pid", nil)
		if outcomeOf(got) != unknown || !strings.Contains(got.Typed().Message, "hung") {
			t.Errorf("the call was answered with %.900s", got.Raw)
		}
		if now := h.pid(); now == pid {
			t.Error("the stopped process answers")
		}
		if s := h.status(); s.Worker.Crashes != 1 || !strings.Contains(s.Worker.Exits[0].Cause.Message, "hung") {
			t.Errorf("%+v", s.Worker)
		}
	})
}

// TestSUP11SlowIsNotHung: SUP-11. A call that takes long is no hang as long as
// pings are answered, and one that keeps a server from answering pings is none
// as long as it says anything. By default nothing is a hang.
func TestSUP11SlowIsNotHung(t *testing.T) {
	flags := []string{"--hang-timeout", "500ms"}
	eachSupervised(t, func(t *testing.T, v variant) {
		h := startHeldServer(t, v, flags)
		h.Initialize()
		h.CallTool("sleep", map[string]any{"ms": 1500}).Text(t)
		if s := h.status(); s.Worker.Generation != 1 {
			t.Errorf("%+v", s.Worker)
		}
	})
	t.Run("busy", func(t *testing.T) {
		h := startHeld(t, bridged, flags, badServer(t, "busy")...)
		h.Initialize()
		got := h.Request("tools/call", map[string]any{
			"name": "x", "arguments": map[string]any{}, "_meta": map[string]any{"progressToken": "busy"},
		}).Wait()
		got.Text(t)
		if s := h.status(); s.Worker.Generation != 1 {
			t.Errorf("%+v", s.Worker)
		}
	})
	t.Run("off", func(t *testing.T) {
		h := startHeld(t, bridged, nil, badServer(t, "silent")...)
		if set := h.status().Settings["hang-timeout"]; set.Value != "0s" {
			t.Errorf("%+v", set)
		}
	})
}

// TestSUP11SuspensionIsNoHang: SUP-11. When all processes were stopped for
// longer than the hang timeout, as in a container that is paused, nobody was
// silent.
func TestSUP11SuspensionIsNoHang(t *testing.T) {
	harness.RequireLinux(t)
	eachSupervised(t, func(t *testing.T, v variant) {
		h := startHeldServer(t, v, []string{"--hang-timeout", "1s"})
		h.Initialize()
		pid := h.pid()
		call := h.Request("tools/call", harness.Call("sleep", map[string]any{"ms": 1000}))
		h.pid()
		all := append(h.Descendants(), harness.Proc{PID: h.Process().Pid})
		for _, p := range all {
			p.Signal(t, "STOP")
		}
		<-time.After(2 * time.Second) // the suspension
		// The worker wakes last: the supervisor looks before it can say anything.
		for i := range all {
			all[len(all)-1-i].Signal(t, "CONT")
		}
		call.Wait().Text(t)
		if now := h.pid(); now != pid {
			t.Error("another process answers")
		}
	})
}
