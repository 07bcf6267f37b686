package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
	"github.com/holdfast-mcp/holdfast/protocol"
)

// TestSUP20Deaf: SUP-20, EDGE-5, EDGE-4. A server that stops reading, and all
// of a native worker, costs bounded memory: pings are answered, requests
// beyond the bound are refused as never sent, and a cancellation still goes to
// its call.
func TestSUP20Deaf(t *testing.T) {
	harness.RequireLinux(t)
	eachSupervised(t, func(t *testing.T, v variant) {
		journal := filepath.Join(t.TempDir(), "journal")
		temp := shortTemp(t)
		c := harness.Start(t, harness.Config{
			Command: v.command(t, nil, harness.TestServer(t), "-journal", journal), Env: []string{"TMPDIR=" + temp},
		})
		c.Initialize()
		pid := c.CallTool("pid", nil).Text(t)
		c.RequestID(`"slow"`, "tools/call", harness.Call("sleep", map[string]any{"ms": 600_000}))
		c.CallTool("sleep", map[string]any{"ms": 100})
		server := serverProc(t, c, pid)
		server.Signal(t, "STOP")
		const size, calls = 256 << 10, 400 // 100 MB
		text := strings.Repeat("t", size)
		var pending []*harness.Pending
		flood := func() {
			for range calls {
				pending = append(pending, c.Request("tools/call", harness.Call("echo", map[string]any{"text": text})))
			}
			for range calls {
				c.Notify("notifications/x", map[string]any{"text": text})
			}
			c.Request("ping", nil).Wait()
		}
		measured := map[string]int{}
		measured["holdfast"] = peakOf(t, c.Process().Pid, func() {
			if v.native {
				flood()
				return
			}
			measured["bridge"] = peakOf(t, bridgeOf(t, c), flood)
		})
		t.Logf("%v KiB at most, while 200 MB came for a server that does not read", measured)
		for name, kb := range measured {
			if kb == 0 || kb > queuesKB {
				t.Errorf("%s grew to %d KiB", name, kb)
			}
		}
		status := exec.Command(harness.Holdfast(t), "status", strconv.Itoa(c.Process().Pid))
		status.Env = append(os.Environ(), "TMPDIR="+temp)
		if out, err := status.CombinedOutput(); err != nil || !strings.Contains(string(out), "tools/call") {
			t.Errorf("status: %v\n%.2000s", err, out)
		}
		refused := 0
		for _, p := range pending {
			if !p.Answered() {
				continue
			}
			e := p.Wait().Typed()
			if e == nil || e.Kind != protocol.WorkerUnavailable || !e.Retryable {
				t.Fatalf("a call is refused as %+v", e)
			}
			refused++
		}
		if refused < calls/4 || refused == calls {
			t.Errorf("%d of %d calls were refused", refused, calls)
		}
		c.Notify("notifications/cancelled", map[string]any{"requestId": "slow"})
		c.Request("ping", nil).Wait()
		server.Signal(t, "CONT")
		harness.Await(t, "the server to see the cancellation", func() bool { return readJournal(t, journal)["cancelled"] == 1 })
		for _, p := range pending {
			if f := p.Wait(); outcomeOf(f) == served && f.Text(t) != text {
				t.Error("an answer was changed")
			}
		}
		if got := c.CallTool("pid", nil).Text(t); got != pid {
			t.Error("the server was replaced")
		}
	})
}

// TestSUP20HungAtTheEnd: SUP-20, SUP-12. A server that is stopped altogether
// cannot keep holdfast from ending.
func TestSUP20HungAtTheEnd(t *testing.T) {
	harness.RequireLinux(t)
	eachSupervised(t, func(t *testing.T, v variant) {
		c := startTestServer(t, v)
		c.Initialize()
		pid := c.CallTool("pid", nil).Text(t)
		serverProc(t, c, pid).Signal(t, "STOP")
		call := c.Request("tools/call", harness.Call("pid", nil))
		c.Request("ping", nil).Wait() // the call was read before
		c.Signal(t, "TERM")
		c.WaitExit()
		if f := call.Wait(); outcomeOf(f) != unknown {
			t.Errorf("the call got %.300s", f.Raw)
		}
		if left := c.AwaitNoDescendants(harness.Patience); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

// TestC43BatchFlood: C43, EDGE-3. A batch of more elements than anybody needs
// is refused as a whole.
func TestC43BatchFlood(t *testing.T) {
	c := startHostile(t, nil)
	c.InitializeVersion("2025-03-26")
	n := len(c.Frames())
	c.Send("[" + strings.Repeat("1,", 100_000) + "1]")
	c.Request("ping", nil).Wait()
	if got := since(c, n); len(got) != 2 || got[0].Error == nil || got[0].Error.Code != -32600 {
		t.Errorf("%d frames for a large batch", len(got))
	}
	if slices.ContainsFunc(seenBy(t, c), func(s string) bool { return strings.HasPrefix(s, "[") }) {
		t.Error("the server got it")
	}
	c.Send("[" + strings.Repeat(`{"jsonrpc":"2.0","method":"notifications/x"},`, 4000) + `{"jsonrpc":"2.0","id":"last","method":"tools/list"}]`)
	c.WaitFor("the answer to the last element", func(f harness.Frame) bool { return string(f.ID) == `"last"` })
}
