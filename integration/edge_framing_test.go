package integration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// startHostile starts the hostile server behind holdfast and the bridge.
func startHostile(t *testing.T, flags []string, early ...string) *harness.Client {
	t.Helper()
	return harness.Start(t, harness.Config{Command: harness.Bridged(t, flags, badServer(t, "hostile", early...)...)})
}

// send gives an order to the hostile server.
func send(c *harness.Client, o order) *harness.Pending { return c.Request("tools/call", do(o)) }

// seenBy returns the lines that the hostile server has read.
func seenBy(t *testing.T, c *harness.Client) []string {
	t.Helper()
	var r struct{ Seen []string }
	if f := c.CallTool("seen", nil); json.Unmarshal(f.Result, &r) != nil {
		t.Fatalf("no list of lines: %.300s", f.Raw)
	}
	return r.Seen
}

// since returns the frames after the first n.
func since(c *harness.Client, n int) []harness.Frame { return c.Frames()[n:] }

// checkWire fails the test for each frame that is no UTF-8 (C29, EDGE-2).
func checkWire(t *testing.T, c *harness.Client) {
	t.Helper()
	for _, f := range c.Frames() {
		if !utf8.Valid(f.Raw) {
			t.Errorf("the client got bytes that are not UTF-8: %.300q", f.Raw)
		}
		if strings.HasSuffix(string(f.Raw), "\r") || strings.HasPrefix(string(f.Raw), "\xef\xbb\xbf") {
			t.Errorf("the client got a CR or a byte order mark: %.300q", f.Raw)
		}
	}
}

// TestEDGE2ForeignFraming: EDGE-2. Headers as in the Language Server Protocol,
// CRLF, blank lines and a byte order mark are taken in.
func TestEDGE2ForeignFraming(t *testing.T) {
	c := startHostile(t, nil)
	c.Write([]byte("\xef\xbb\xbf"))
	c.Initialize()
	body := func(id string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"pid"}}`
	}
	header := func(b string) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(b), b) }
	pretty := "{\n \"jsonrpc\": \"2.0\",\n \"id\": \"p\",\n \"method\": \"tools/call\",\n \"params\": {\"name\": \"pid\"}\n}"
	for id, text := range map[string]string{
		`"h"`:  header(body(`"h"`)),
		`"i"`:  "Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: " + fmt.Sprint(len(body(`"i"`))) + "\r\n\r\n" + body(`"i"`),
		`"p"`:  header(pretty),
		`"c"`:  body(`"c"`) + "\r\n",
		`"b"`:  "\n\r\n  \n" + body(`"b"`) + "\n",
		`"sp"`: "  " + body(`"sp"`) + "\t \n",
	} {
		c.Write([]byte(text))
		c.WaitFor("the answer to "+id, func(f harness.Frame) bool { return string(f.ID) == id && f.Result != nil })
	}
	for _, line := range seenBy(t, c) {
		if !json.Valid([]byte(line)) || strings.Contains(line, "Content-") {
			t.Errorf("the server got %.200q", line)
		}
	}
	checkWire(t, c)
}

// TestEDGE3IllegalLines: EDGE-3, SEC-6, C29, C37. A line that is no legal
// message is answered without harm or dropped, never reaches the server, and
// the stream goes on.
func TestEDGE3IllegalLines(t *testing.T) {
	const call = `"method":"tools/call","params":{"name":"pid"}`
	deep := strings.Repeat(`{"a":`, 2000) + "1" + strings.Repeat("}", 2000)
	cases := []struct {
		name, line string
		code       int    // 0: no answer
		id         string // of the answer, empty: without an id member
	}{
		{"C37 broken", `{broken`, -32700, ""},
		{"C37 empty object", `{}`, -32600, ""},
		{"C37 null id", `{"jsonrpc":"2.0","id":null,` + call + `}`, -32600, ""},
		{"C29 not UTF-8", "\xff\xfe", -32700, ""},
		{"C29 not UTF-8 in a string", `{"jsonrpc":"2.0","id":"u","method":"tools/call","params":{"name":"` + "\xc3\x28" + `"}}`, -32700, ""},
		{"truncated", `{"jsonrpc":"2.0","id":"t","method":"tools/call","params":{`, -32700, ""},
		{"two on a line", `{"jsonrpc":"2.0","id":"t1",` + call + `}{"jsonrpc":"2.0","id":"t2",` + call + `}`, -32700, ""},
		{"string", `"str"`, -32600, ""},
		{"number", `17`, -32600, ""},
		{"null", `null`, -32600, ""},
		{"empty batch", `[]`, -32600, ""},
		{"batch", `[{"jsonrpc":"2.0","id":"b",` + call + `}]`, -32600, ""},
		{"no jsonrpc", `{"id":"n",` + call + `}`, -32600, `"n"`},
		{"jsonrpc 1.0", `{"jsonrpc":"1.0","id":"o",` + call + `}`, -32600, `"o"`},
		{"jsonrpc a number", `{"jsonrpc":2.0,"id":"o2",` + call + `}`, -32600, `"o2"`},
		{"method a number", `{"jsonrpc":"2.0","id":"m","method":7}`, -32600, `"m"`},
		{"params a string", `{"jsonrpc":"2.0","id":"ps","method":"tools/call","params":"x"}`, -32600, `"ps"`},
		{"id an object", `{"jsonrpc":"2.0","id":{},` + call + `}`, -32600, ""},
		{"id true", `{"jsonrpc":"2.0","id":true,` + call + `}`, -32600, ""},
		{"too deep", `{"jsonrpc":"2.0","id":"d","method":"tools/call","params":` + deep + `}`, -32600, `"d"`},
		{"method and result, whose id is nobody knows", `{"jsonrpc":"2.0","id":"mr",` + call + `,"result":{}}`, -32600, ""},
		{"SEC-6 two ids", `{"jsonrpc":"2.0","id":"d1","id":"d2",` + call + `}`, -32600, ""},
		{"SEC-6 two methods", `{"jsonrpc":"2.0","id":"d3","method":"tools/list",` + call + `}`, -32600, `"d3"`},
		{"SEC-6 Method", `{"jsonrpc":"2.0","id":"d4","Method":"tools/list",` + call + `}`, -32600, `"d4"`},
		{"SEC-6 PARAMS", `{"jsonrpc":"2.0","id":"d5",` + call + `,"PARAMS":{}}`, -32600, `"d5"`},
		{"SEC-6 escaped twin", `{"jsonrpc":"2.0","id":"d6",` + call + `,"m\u0065thod":"tools/list"}`, -32600, `"d6"`},
		{"SEC-6 ID", `{"jsonrpc":"2.0","id":"d7","ID":"d8",` + call + `}`, -32600, ""},
		{"SEC-6 JSONRPC", `{"jsonrpc":"2.0","JsonRpc":"2.0","id":"d9",` + call + `}`, -32600, `"d9"`},
		{"SEC-6 in a notification", `{"jsonrpc":"2.0","method":"notifications/x","method":"notifications/y"}`, -32600, ""},
		{"answer to nothing", `{"jsonrpc":"2.0","id":4711,"result":{}}`, 0, ""},
		{"illegal answer", `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`, 0, ""},
	}
	c := startHostile(t, nil)
	c.Initialize()
	pid := c.CallTool("pid", nil).Text(t)
	was := len(seenBy(t, c))
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			n := len(c.Frames())
			c.Send(tt.line)
			c.Request("ping", nil).Wait() // answered by holdfast, so at once after the line
			frames := since(c, n)
			frames = frames[:len(frames)-1]
			switch {
			case tt.code == 0 && len(frames) > 0:
				t.Errorf("answered with %.300s", frames[0].Raw)
			case tt.code == 0:
			case len(frames) != 1:
				t.Errorf("%d answers, want 1", len(frames))
			case frames[0].Error == nil || frames[0].Error.Code != tt.code || string(frames[0].ID) != tt.id:
				t.Errorf("answered with %.300s, want code %d and id %q", frames[0].Raw, tt.code, tt.id)
			case strings.Contains(string(frames[0].Raw), `"id":null`):
				t.Errorf("the answer has a null id, which breaks clients: %.300s", frames[0].Raw)
			}
		})
	}
	if got := c.CallTool("pid", nil).Text(t); got != pid {
		t.Error("an illegal line ended the server")
	}
	for _, line := range seenBy(t, c)[was:] {
		if !strings.Contains(line, `"name":"seen"`) && !strings.Contains(line, `"name":"pid"`) {
			t.Errorf("the server got %.300q", line)
		}
	}
	checkWire(t, c)
}

// TestEDGE1DuplicateID: EDGE-1. A second request under an id in flight is
// refused without an id member; the first is unharmed, and the id is free
// again after its answer.
func TestEDGE1DuplicateID(t *testing.T) {
	eachSupervised(t, func(t *testing.T, v variant) {
		c := startTestServer(t, v)
		c.Initialize()
		for _, id := range []string{`7`, `"seven"`} {
			n := len(c.Frames())
			first := c.RequestID(id, "tools/call", harness.Call("sleep", map[string]any{"ms": 300}))
			c.Send(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"pid","arguments":{}}}`)
			if got := first.Wait().Text(t); got != "slept" {
				t.Errorf("the first request got %q", got)
			}
			c.Request("ping", nil).Wait()
			var refused []harness.Frame
			for _, f := range since(c, n) {
				if f.Error != nil {
					refused = append(refused, f)
				}
			}
			if len(refused) != 1 || refused[0].Error.Code != -32600 || refused[0].ID != nil {
				t.Errorf("the duplicate of %s was answered with %v", id, refused)
			}
		}
		// An id may be used again. The harness counts answers by id, so this
		// one is told apart by a new spelling of the same id.
		c.RequestID(`"s\u0065ven"`, "tools/call", harness.Call("pid", nil)).Wait().Text(t)
	})
}

// TestC43Batches: C43, EDGE-3. Batches work where 2025-03-26 was negotiated,
// and are refused as a whole elsewhere.
func TestC43Batches(t *testing.T) {
	batch := func(elements ...string) string { return "[" + strings.Join(elements, ",") + "]" }
	call := func(id, o string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"do","arguments":` + o + `}}`
	}
	t.Run("2025-03-26", func(t *testing.T) {
		c := startHostile(t, nil)
		c.InitializeVersion("2025-03-26")
		answer := func(id string) harness.Frame {
			t.Helper()
			return c.WaitFor("the answer to "+id, func(f harness.Frame) bool { return string(f.ID) == id })
		}
		c.Send(batch(`{"jsonrpc":"2.0","id":"b1","method":"tools/list"}`, call(`"b2"`, `{}`), `{"jsonrpc":"2.0","method":"notifications/x"}`))
		if f := answer(`"b1"`); f.Result == nil {
			t.Errorf("the list in a batch got %.300s", f.Raw)
		}
		answer(`"b2"`).Text(t)
		for _, bad := range []string{"[]", "[1]", "[[]]"} {
			n := len(c.Frames())
			c.Send(bad)
			c.Request("ping", nil).Wait()
			if got := since(c, n); len(got) != 2 || got[0].Error == nil || got[0].Error.Code != -32600 || got[0].ID != nil {
				t.Errorf("%s got %v", bad, got)
			}
		}
		c.Send(batch(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-03-26"}}`, call(`"b3"`, `{}`)))
		if f := answer(`"i"`); f.Error == nil || f.Error.Code != -32600 {
			t.Errorf("initialize in a batch got %.300s", f.Raw)
		}
		answer(`"b3"`).Text(t)
		c.Send(batch(call(`"c1"`, `{}`), call(`"c2"`, `{"instead":"die"}`), call(`"c3"`, `{}`)))
		answer(`"c1"`).Text(t)
		if f := answer(`"c2"`); outcomeOf(f) != unknown {
			t.Errorf("the call that the server died in got %.300s", f.Raw)
		}
		// What came after it may have been on its way to the dead, too.
		if f := answer(`"c3"`); outcomeOf(f) != unknown && outcomeOf(f) != served {
			t.Errorf("the call after the crash got %.300s", f.Raw)
		}
		c.CallTool("pid", nil).Text(t)
	})
	t.Run("2025-11-25", func(t *testing.T) {
		c := startHostile(t, nil)
		c.Initialize()
		n := len(c.Frames())
		c.Send(batch(`{"jsonrpc":"2.0","id":"b1","method":"tools/list"}`, call(`"b2"`, `{}`), `{"jsonrpc":"2.0","method":"notifications/x"}`))
		c.Request("ping", nil).Wait()
		if got := since(c, n); len(got) != 2 || got[0].Error == nil || got[0].Error.Code != -32600 || got[0].ID != nil {
			t.Errorf("the batch got %v", got)
		}
		if got := seenBy(t, c); slices.ContainsFunc(got, func(s string) bool {
			return strings.Contains(s, "notifications/x") || strings.Contains(s, "tools/list")
		}) {
			t.Errorf("the server got %q", got)
		}
	})
}

// TestC27JunkBesideMessages: C27, C29, C37, EDGE-10. Whatever a server prints
// beside messages is kept from the client, told in the log with a hint, and
// costs the server nothing; an answer that cannot be read fails its request.
func TestC27JunkBesideMessages(t *testing.T) {
	answer := `{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"good"}]}}` + "\n"
	for name, tt := range map[string]struct {
		stdout string
		piece  int
		code   int    // of the answer, 0: the good one
		log    string // part of what the log says
	}{
		"C27 banner":          {stdout: "Server running on stdio\n" + answer, log: "Server running on stdio"},
		"C27 object dump":     {stdout: "{\n  level: 'info',\n  ready: true\n}\n" + answer, log: "level: 'info'"},
		"C27 batch of number": {stdout: "[1,2]\n" + answer, log: "a bare value"},
		"C27 string":          {stdout: "\"str\"\n" + answer, log: "a bare value"},
		"C27 null":            {stdout: "null\n" + answer, log: "a bare value"},
		"C27 log object":      {stdout: `{"level":"info","id":$ID}` + "\n" + answer, log: "an object that is no MCP message"},
		"C27 glued":           {stdout: "Loading..." + strings.ReplaceAll(answer, "$ID", "99") + answer, log: "text before a message"},
		"C29 bytes":           {stdout: "\xff\xfe\n" + answer, log: "dropped"},
		"C29 in a string":     {stdout: `{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"` + "\xc3\x28" + `"}]}}` + "\n", code: -32603, log: "not UTF-8"},
		"C29 lone surrogate":  {stdout: `{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"good"}],"s":"\ud800"}}` + "\n"},
		"C29 split":           {stdout: `{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"good"}],"s":"é€😀"}}` + "\n", piece: 1},
		"C37 null id error":   {stdout: `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}` + "\n" + answer, log: "an object that is no MCP message"},
		"C37 error of no id":  {stdout: `{"jsonrpc":"2.0","error":{"code":-32700,"message":"what?"}}` + "\n" + answer, log: "an object that is no MCP message"},
		"SEC-6 two ids":       {stdout: `{"jsonrpc":"2.0","id":$ID,"id":99,"result":{}}` + "\n" + answer, log: "an object that is no MCP message"},
		"CRLF":                {stdout: strings.ReplaceAll(answer, "\n", "\r\n")},
		"blank":               {stdout: "\n\r\n   \n" + answer},
		"BOM":                 {stdout: "\xef\xbb\xbf" + answer, log: "dropped"},
		"unknown id":          {stdout: strings.ReplaceAll(answer, "$ID", "99999") + answer, log: "an answer to no request"},
		"answered twice":      {stdout: answer + answer, log: "an answer to no request"},
	} {
		t.Run(name, func(t *testing.T) {
			c := startHostile(t, nil)
			c.Initialize()
			pid := c.CallTool("pid", nil).Text(t)
			n := len(c.Frames())
			got := send(c, order{Stdout: []byte(tt.stdout), Piece: tt.piece, Instead: "nothing"})
			if name == "BOM" {
				// A mark in the middle of a stream is no mark but junk before a
				// message: the call stays open, as it would without holdfast.
				send(c, order{}).Wait()
			} else {
				f := got.Wait()
				switch {
				case tt.code != 0:
					if f.Error == nil || f.Error.Code != tt.code {
						t.Errorf("answered with %.300s", f.Raw)
					}
				case f.Text(t) != "good":
					t.Errorf("answered with %.300s", f.Raw)
				}
				if name == "C29 lone surrogate" && !strings.Contains(string(f.Raw), `"s":"\ud800"`) || name == "C29 split" && !strings.Contains(string(f.Raw), `"s":"é€😀"`) {
					t.Errorf("the answer was changed: %.300s", f.Raw)
				}
			}
			if now := c.CallTool("pid", nil).Text(t); now != pid {
				t.Error("the server was replaced")
			}
			if more := since(c, n); len(more) != 2 {
				t.Errorf("the client got %v", more)
			}
			checkWire(t, c)
			if tt.log != "" {
				harness.Await(t, "the report in the log", func() bool { return strings.Contains(c.Stderr(), tt.log) })
			}
		})
	}
}

// TestC28NothingBeforeInitialize: C28. What a server says before it has
// answered initialize reaches the client after it.
func TestC28NothingBeforeInitialize(t *testing.T) {
	c := startHostile(t, nil,
		`{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}`,
		`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`,
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"early"}}`,
		`starting up`,
	)
	first := c.Request("initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "x", "version": "1"}})
	first.Wait()
	c.Request("ping", nil).Wait()
	frames := c.Frames()
	if len(frames) != 2 || string(frames[0].ID) != first.Token {
		t.Errorf("before initialized the client got %v", frames)
	}
	c.Notify("notifications/initialized", nil)
	c.WaitFor("the early message", func(f harness.Frame) bool { return strings.Contains(string(f.Raw), `"early"`) })
}

// TestEDGE15Order: EDGE-15, EDGE-6. Progress, log messages and the answer
// leave in the order in which the server wrote them in one burst.
func TestEDGE15Order(t *testing.T) {
	c := startHostile(t, nil)
	c.Initialize()
	for _, token := range []string{`0`, `"0"`, `"tok"`, `17`, `-1`, `""`} {
		var burst strings.Builder
		const steps = 50
		for i := range steps {
			fmt.Fprintf(&burst, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`+"\n", token, i)
			fmt.Fprintf(&burst, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%d}}`+"\n", i)
		}
		burst.WriteString(`{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}` + "\n")
		fmt.Fprintf(&burst, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`+"\n", token, steps)
		n := len(c.Frames())
		p := do(order{Stdout: []byte(burst.String()), Instead: "nothing"})
		p["_meta"] = map[string]any{"progressToken": json.RawMessage(token)}
		c.Request("tools/call", p).Wait()
		c.CallTool("pid", nil)
		got := since(c, n)
		if len(got) != 2*steps+2 {
			t.Fatalf("token %s: %d frames, want %d", token, len(got), 2*steps+2)
		}
		for i, f := range got[:2*steps] {
			var params struct {
				ProgressToken  json.RawMessage
				Progress, Data *int
			}
			if err := json.Unmarshal(f.Params, &params); err != nil {
				t.Fatal(err)
			}
			progress := i%2 == 0
			if progress && (params.Progress == nil || *params.Progress != i/2 || string(params.ProgressToken) != token) ||
				!progress && (params.Data == nil || *params.Data != i/2) {
				t.Fatalf("token %s: frame %d is %.200s", token, i, f.Raw)
			}
		}
		if !got[2*steps].IsResponse() {
			t.Errorf("token %s: the answer is not where it was", token)
		}
	}
}
