package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/integration/harness"
	"github.com/holdfast-mcp/holdfast/protocol"
)

// TestEDGE12QuestionsAcrossAKill: EDGE-12, EDGE-15, SUP-7. A question of a
// server that dies is withdrawn at the client; the client's late answer goes
// to nobody, and questions of the next server have new ids.
func TestEDGE12QuestionsAcrossAKill(t *testing.T) {
	harness.RequireLinux(t)
	c := harness.Start(t, harness.Config{
		Command: harness.Bridged(t, nil, badServer(t, "hostile")...),
		Handlers: map[string]harness.Handler{
			"sampling/createMessage": nil, "elicitation/create": nil, "roots/list": nil,
		},
		Capabilities: map[string]any{"sampling": map[string]any{}, "elicitation": map[string]any{}, "roots": map[string]any{}},
	})
	c.Initialize()
	ids := map[string]bool{}
	for _, method := range []string{"sampling/createMessage", "elicitation/create", "roots/list"} {
		n := len(c.Frames())
		send(c, order{Ask: method}).Wait().Text(t)
		i := slices.IndexFunc(since(c, n), func(f harness.Frame) bool { return f.Method == method })
		if i < 0 {
			t.Fatalf("%s did not reach the client", method)
		}
		id := since(c, n)[i].ID
		if ids[string(id)] {
			t.Errorf("the id %s was used before", id)
		}
		ids[string(id)] = true
		send(c, order{Instead: "die"}).Wait()
		c.WaitFor("the withdrawal", func(f harness.Frame) bool {
			var p struct{ RequestID json.RawMessage }
			return f.Method == "notifications/cancelled" && json.Unmarshal(f.Params, &p) == nil && string(p.RequestID) == string(id)
		})
		c.Send(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":{"late":true}}`)
		for _, line := range seenBy(t, c) {
			if strings.Contains(line, "late") {
				t.Errorf("the next server got the late answer: %s", line)
			}
		}
	}
}

// TestEDGE12Questions: EDGE-12. Sampling, elicitation and roots reach the
// client and their answers the server, native and bridged, with errors too.
func TestEDGE12Questions(t *testing.T) {
	eachSupervised(t, func(t *testing.T, v variant) {
		c := harness.Start(t, harness.Config{
			Command: v.command(t, nil, harness.TestServer(t)),
			Handlers: map[string]harness.Handler{
				"sampling/createMessage": func(json.RawMessage) (any, *harness.Error) {
					return map[string]any{"role": "assistant", "model": "m-1", "content": map[string]any{"type": "text", "text": "x"}}, nil
				},
				"elicitation/create": func(json.RawMessage) (any, *harness.Error) {
					return map[string]any{"action": "decline"}, nil
				},
				"roots/list": func(json.RawMessage) (any, *harness.Error) {
					return nil, &harness.Error{Code: -32603, Message: "no roots today"}
				},
			},
			Capabilities: map[string]any{"sampling": map[string]any{}, "elicitation": map[string]any{}, "roots": map[string]any{}},
		})
		c.Initialize()
		if got := c.CallTool("sample", nil).Text(t); got != "sampled with m-1" {
			t.Errorf("sampling: %q", got)
		}
		if got := c.CallTool("elicit", nil).Text(t); got != "user says decline" {
			t.Errorf("elicitation: %q", got)
		}
		if f := c.CallTool("roots", nil); !strings.Contains(string(f.Raw), "no roots today") {
			t.Errorf("roots: %.300s", f.Raw)
		}
	})
}

// TestEDGE5Cancel: EDGE-5, EDGE-14, SUP-23. A cancellation of initialize, of
// an unknown id and of a held request harm nothing; what was cancelled while
// it was held never runs; a burst of calls and their cancellations arrives in
// order.
func TestEDGE5Cancel(t *testing.T) {
	eachSupervised(t, func(t *testing.T, v variant) {
		journal := filepath.Join(t.TempDir(), "journal")
		c := startTestServer(t, v, "-journal", journal, "-start-delay", "700ms")
		initialize := c.RequestID(`0`, "initialize", map[string]any{
			"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "x", "version": "1"},
		})
		c.Notify("notifications/cancelled", map[string]any{"requestId": 0, "reason": "too slow"})
		c.Notify("notifications/cancelled", map[string]any{"requestId": "no such"})
		c.Notify("notifications/cancelled", map[string]any{})
		c.RequestID(`"held"`, "tools/call", harness.Call("append", map[string]any{"key": "held"}))
		kept := c.Request("tools/call", harness.Call("append", map[string]any{"key": "kept"}))
		c.Notify("notifications/cancelled", map[string]any{"requestId": "held"})
		ping := c.Request("ping", nil)
		ping.Wait()
		if initialize.Answered() || kept.Answered() {
			t.Error("the ping was not answered before the server was ready")
		}
		if f := initialize.Wait(); f.Error != nil {
			t.Errorf("initialize: %.300s", f.Raw)
		}
		c.Notify("notifications/initialized", nil)
		kept.Wait().Text(t)
		for i := range 50 {
			c.RequestID(fmt.Sprintf(`"burst%d"`, i), "tools/call", harness.Call("sleep", map[string]any{"ms": 600_000}))
		}
		c.CallTool("sleep", map[string]any{"ms": 300}) // the others have begun to sleep as well
		for i := range 50 {
			c.Notify("notifications/cancelled", map[string]any{"requestId": fmt.Sprintf("burst%d", i)})
		}
		harness.Await(t, "all calls of the burst to be cancelled", func() bool { return readJournal(t, journal)["cancelled"] == 50 })
		if got := readJournal(t, journal); got["held"] != 0 || got["kept"] != 1 {
			t.Errorf("the journal says %v", got)
		}
	})
}

// TestEDGE15CancelOrder: EDGE-15, EDGE-5. Each request of a burst reaches the
// server before its cancellation, and both in the order in which they came.
func TestEDGE15CancelOrder(t *testing.T) {
	c := startHostile(t, nil)
	c.Initialize()
	was := len(seenBy(t, c))
	const burst = 200
	for i := range burst {
		c.RequestID(fmt.Sprintf(`"b%d"`, i), "tools/call", do(order{Instead: "nothing"}))
		c.Notify("notifications/cancelled", map[string]any{"requestId": fmt.Sprintf("b%d", i)})
	}
	got := seenBy(t, c)[was:]
	if len(got) != 2*burst+1 {
		t.Fatalf("the server saw %d lines, want %d", len(got), 2*burst+1)
	}
	for i := range burst {
		var call struct{ ID json.RawMessage }
		var cancel struct {
			Params struct{ RequestID json.RawMessage }
		}
		if json.Unmarshal([]byte(got[2*i]), &call) != nil || json.Unmarshal([]byte(got[2*i+1]), &cancel) != nil ||
			call.ID == nil || string(call.ID) != string(cancel.Params.RequestID) {
			t.Fatalf("pair %d is %s and %s", i, got[2*i], got[2*i+1])
		}
	}
}

// TestEDGE8Grace: EDGE-8, EDGE-14. What is not answered within --eof-grace
// ends the session all the same, with exit code 0 and nothing left behind.
func TestEDGE8Grace(t *testing.T) {
	eachSupervised(t, func(t *testing.T, v variant) {
		c := harness.Start(t, harness.Config{Command: v.command(t, []string{"--eof-grace", "300ms"}, harness.TestServer(t))})
		c.Initialize()
		quick := c.Request("tools/call", harness.Call("sleep", map[string]any{"ms": 100}))
		slow := c.Request("tools/call", harness.Call("sleep", map[string]any{"ms": 600_000}))
		c.CallTool("pid", nil)
		c.CloseStdin()
		if got := quick.Wait().Text(t); got != "slept" {
			t.Errorf("the quick call: %q", got)
		}
		if state := c.WaitExit(); state.ExitCode() != 0 {
			t.Errorf("holdfast ended with %v", state)
		}
		if f := slow.Wait(); outcomeOf(f) != unknown {
			t.Errorf("the slow call got %.300s", f.Raw)
		}
	})
}

// TestEDGE11Commands: EDGE-11, C50. A relative path counts from --cwd and not
// from where holdfast was started; a missing command is told about at once,
// with the PATH that was searched; the client's initialize is answered.
func TestEDGE11Commands(t *testing.T) {
	dir := t.TempDir()
	for v, program := range map[string]string{"bridged": harness.TestServer(t), "native": harness.TestServer(t)} {
		if err := os.Symlink(program, filepath.Join(dir, v+"-server"+exe())); err != nil {
			t.Fatal(err)
		}
	}
	path := t.TempDir()
	initialize := func(c *harness.Client) *harness.Pending {
		return c.Request("initialize", map[string]any{
			"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "x", "version": "1"},
		})
	}
	eachSupervised(t, func(t *testing.T, v variant) {
		t.Run("relative", func(t *testing.T) {
			c := harness.Start(t, harness.Config{
				Command: v.command(t, []string{"--cwd", dir}, "./"+v.name+"-server"+exe()),
				Dir:     "/", Env: []string{"PATH=/usr/bin:/bin"},
			})
			c.Initialize()
			c.CallTool("pid", nil).Text(t)
		})
		t.Run("C50 missing", func(t *testing.T) {
			c := harness.Start(t, harness.Config{
				Command: v.command(t, nil, "no-such-server"), Dir: "/", Env: []string{"PATH=" + path},
			})
			began := time.Now()
			if f := initialize(c).Wait(); f.Error != nil {
				t.Errorf("initialize: %.300s", f.Raw)
			}
			for _, p := range []*harness.Pending{c.Request("tools/list", nil), c.Request("tools/call", harness.Call("x", nil))} {
				e := p.Wait().Typed()
				if e == nil || e.Kind != protocol.WorkerUnavailable || !strings.Contains(e.Message, "no-such-server") || !strings.Contains(e.Message, path) {
					t.Errorf("the answer is %+v", e)
				}
			}
			if d := time.Since(began); d > 10*time.Second {
				t.Errorf("that took %v", d)
			}
		})
	})
	t.Run("C50 dies at start", func(t *testing.T) {
		command := badServer(t, "early-exit")
		c := harness.Start(t, harness.Config{Command: harness.Bridged(t, nil, command...), Dir: "/"})
		if f := initialize(c).Wait(); f.Error != nil {
			t.Errorf("initialize: %.300s", f.Raw)
		}
		for _, p := range []*harness.Pending{c.Request("tools/list", nil), c.Request("tools/call", harness.Call("x", nil))} {
			e := p.Wait().Typed()
			if e == nil || e.Exit == nil || e.Exit.Code != 1 || !slices.Contains(e.StderrTail, "missing API_KEY") || !strings.Contains(e.Message, filepath.Base(command[0])) {
				t.Errorf("the answer is %+v, want the command, exit code 1 and the last words", e)
			}
		}
	})
}

// TestC34BufferedStdout: C34, SUP-8. A server whose answers stay in a buffer
// is named as such.
func TestC34BufferedStdout(t *testing.T) {
	c := harness.Start(t, harness.Config{
		Command: harness.Bridged(t, []string{"--start-timeout", "500ms"}, badServer(t, "buffered")...),
	})
	first := c.Request("initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "x", "version": "1"}})
	if f := first.Wait(); f.Error != nil {
		t.Errorf("initialize: %.300s", f.Raw)
	}
	e := c.CallTool("x", nil).Typed()
	if e == nil || e.Kind != protocol.WorkerUnavailable || !strings.Contains(e.Message, "buffered") {
		t.Errorf("the call is answered with %+v", e)
	}
}

// TestEDGE13InvalidMeta: EDGE-13. While no worker is ready, a request with an
// invalid _meta is refused at once, and starts none; with one that is ready,
// the server decides.
func TestEDGE13InvalidMeta(t *testing.T) {
	unknownVersion := modern(`"v"`, "tools/list", "2099-01-01")
	noCapabilities := legacy(`"c"`, "tools/call", fmt.Sprintf(`{"name":"pid",`+metaVersion+`}}`, "2026-07-28"))
	codes := map[string]int{`"v"`: -32022, `"c"`: -32602}
	refused := func(t *testing.T, c *harness.Client) {
		t.Helper()
		c.Send(unknownVersion)
		c.Send(noCapabilities)
		for id, code := range codes {
			f := c.WaitFor("the refusal of "+id, func(f harness.Frame) bool { return string(f.ID) == id })
			if f.Error == nil || f.Error.Code != code {
				t.Errorf("%s got %.300s", id, f.Raw)
			}
			var data struct {
				Supported []string
				Requested string
			}
			if id == `"v"` && (json.Unmarshal(f.Error.Data, &data) != nil || data.Requested != "2099-01-01" || !slices.Contains(data.Supported, "2026-07-28")) {
				t.Errorf("the data is %s", f.Error.Data)
			}
		}
	}
	t.Run("before a worker", func(t *testing.T) {
		// The worker never becomes ready, so what is answered was not held.
		c := harness.Start(t, harness.Config{Command: harness.Native(t, []string{"--eof-grace", "0s"}, badServer(t, "silent")...)})
		refused(t, c)
	})
	t.Run("after the last start", func(t *testing.T) {
		dir := t.TempDir()
		starts := filepath.Join(dir, "starts")
		sh := harness.RequireProgram(t, "sh")
		c := harness.Start(t, harness.Config{Command: harness.Bridged(t, []string{"--crash-budget", "1/1h", "--backoff", "1ms..2ms"},
			sh, "-c", "echo start >> "+starts+"; exit 1")})
		harness.Await(t, "the open circuit", func() bool { return strings.Contains(c.Stderr(), "not started again for now") })
		n := readJournal(t, starts)["start"]
		refused(t, c)
		if now := readJournal(t, starts)["start"]; now != n {
			t.Errorf("%d starts, %d before", now, n)
		}
		// A valid one is a reason to try again.
		harness.Await(t, "one more start", func() bool {
			c.CallTool("x", nil)
			return readJournal(t, starts)["start"] > n
		})
	})
	t.Run("by the server", func(t *testing.T) {
		eachSupervised(t, func(t *testing.T, v variant) {
			c := startTestServer(t, v)
			c.Initialize()
			refused(t, c)
		})
	})
}
