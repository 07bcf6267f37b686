package integration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
	"github.com/holdfast-mcp/holdfast/protocol"
)

// everyCapability is an offer of everything that a client of the legacy era can
// be told of.
func everyCapability() offer {
	changes := map[string]any{"listChanged": true}
	return offer{
		Capabilities: map[string]any{
			"tools": changes, "prompts": changes, "resources": map[string]any{"listChanged": true, "subscribe": true},
			"completions": map[string]any{}, "logging": map[string]any{},
		},
		Lists: map[string][]map[string]any{
			"tools":             {tool("a", nil)},
			"prompts":           {{"name": "greeting"}},
			"resources":         {{"name": "counter", "uri": "test://counter"}},
			"resourceTemplates": {{"name": "any", "uriTemplate": "test://{x}"}},
		},
	}
}

// capabilityRequests are a request for each capability, and what of its answer
// is what the client needs.
var capabilityRequests = map[string]struct {
	method string
	params map[string]any
}{
	"prompts/get":           {"prompts/get", map[string]any{"name": "greeting"}},
	"resources/read":        {"resources/read", map[string]any{"uri": "test://counter"}},
	"resources/subscribe":   {"resources/subscribe", map[string]any{"uri": "test://counter"}},
	"completion/complete":   {"completion/complete", map[string]any{"ref": map[string]any{"type": "ref/prompt", "name": "greeting"}, "argument": map[string]any{"name": "x", "value": ""}}},
	"logging/setLevel":      {"logging/setLevel", map[string]any{"level": "info"}},
	"prompts/list":          {"prompts/list", map[string]any{}},
	"resources/list":        {"resources/list", map[string]any{}},
	"resources/templates":   {"resources/templates/list", map[string]any{}},
	"tools/list":            {"tools/list", map[string]any{}},
	"resources/unsubscribe": {"resources/unsubscribe", map[string]any{"uri": "test://counter"}},
}

// TestCAT2LostCapabilities: CAT-2, EDGE-15. What the client was told of and the
// next worker does not offer: lists are empty, completions have no values,
// setLevel is taken, the rest is no method. Lists that the client has seen are
// announced as changed.
func TestCAT2LostCapabilities(t *testing.T) {
	s := newStarter(t, nil, "-era", "legacy").offering(everyCapability())
	h := s.start("")
	h.Initialize()
	h.listKinds()
	for name, r := range capabilityRequests {
		if f := h.Request(r.method, r.params).Wait(); f.Error != nil {
			t.Errorf("%s before the swap: %.300s", name, f.Raw)
		}
	}
	s.write(offerTools(tool("a", nil)))
	h.swapTo(2)
	for _, capability := range []string{"prompts", "resources"} {
		method := "notifications/" + capability + "/list_changed"
		h.WaitFor(method, func(f harness.Frame) bool { return f.Method == method })
	}
	ask := func(name string) harness.Frame {
		r := capabilityRequests[name]
		return h.Request(r.method, r.params).Wait()
	}
	for name, member := range map[string]string{"prompts/list": "prompts", "resources/list": "resources", "resources/templates": "resourceTemplates"} {
		if got := namesIn(t, ask(name), member); len(got) != 0 {
			t.Errorf("%s: %q", name, got)
		}
	}
	var completion struct{ Values []string }
	if f := ask("completion/complete"); json.Unmarshal(members(t, f)["completion"], &completion) != nil || completion.Values == nil || len(completion.Values) != 0 {
		t.Errorf("completion/complete: %.300s", f.Raw)
	}
	if f := ask("logging/setLevel"); string(f.Result) != "{}" {
		t.Errorf("logging/setLevel: %.300s", f.Raw)
	}
	for _, name := range []string{"prompts/get", "resources/read", "resources/subscribe"} {
		if f := ask(name); f.Error == nil || f.Error.Code != -32601 {
			t.Errorf("%s: %.300s", name, f.Raw)
		}
	}
	checkNames(t, ask("tools/list"), "a")
	if n := h.changes(); n != 0 {
		t.Errorf("%d list_changed for tools that are as they were", n)
	}
	// They come back.
	s.write(everyCapability())
	h.swapTo(3)
	for name, r := range capabilityRequests {
		if f := h.Request(r.method, r.params).Wait(); f.Error != nil {
			t.Errorf("%s after they came back: %.300s", name, f.Raw)
		}
	}
}

// TestCAT2GainedCapabilities: CAT-2. What a later worker offers and the client
// was not told of can be used by a client that tries.
func TestCAT2GainedCapabilities(t *testing.T) {
	s := newStarter(t, nil, "-era", "legacy").offering(offerTools(tool("a", nil)))
	h := s.start("")
	h.Initialize()
	if f := h.Request("prompts/get", map[string]any{"name": "greeting"}).Wait(); f.Error == nil {
		t.Errorf("prompts/get before the swap: %.300s", f.Raw)
	}
	s.write(everyCapability())
	h.swapTo(2)
	for name, r := range capabilityRequests {
		if f := h.Request(r.method, r.params).Wait(); f.Error != nil {
			t.Errorf("%s: %.300s", name, f.Raw)
		}
	}
}

// TestEDGE13MinimalVersion: EDGE-13. A server that agrees to an older version
// than the minimal answer has promised is served all the same; the next start
// promises what the server speaks.
func TestEDGE13MinimalVersion(t *testing.T) {
	o := offerTools(tool("a", nil))
	o.Version = "2024-11-05"
	s := newStarter(t, nil, "-era", "legacy").offering(o)
	version := func(f harness.Frame) string { return string(members(t, f)["protocolVersion"]) }
	h := s.start("5s")
	if hello := h.greet(); !minimal(hello.Frame) || version(hello.Frame) != `"2025-11-25"` {
		t.Errorf("initialize: %.300s", hello.Raw)
	}
	if got := h.CallTool("a", nil).Text(t); got != "a {}" {
		t.Errorf("the call says %q", got)
	}
	if got := h.status().Client.Protocol; got != o.Version {
		t.Errorf("the status says that the protocol is %q", got)
	}
	h.swapTo(2)
	h.CallTool("a", nil).Text(t)
	h.end()
	h = s.start("3s")
	hello := h.greet()
	hello.within(t, "initialize of the next start", cacheAfter, cacheAfter)
	if minimal(hello.Frame) || version(hello.Frame) != `"`+o.Version+`"` {
		t.Errorf("initialize of the next start: %.300s", hello.Raw)
	}
}

// guardTest is a tool that has changed, and what becomes of a call by its old
// schema.
type guardTest struct {
	flags []string
	shown map[string]any
	live  map[string]any
	args  map[string]any
	// stale: the call is refused; otherwise the tool gets the arguments.
	stale bool
}

var guardTests = map[string]guardTest{
	"argument renamed": {
		shown: tool("send", []string{"to", "text"}, "to", "text"), live: tool("send", []string{"recipient", "text"}, "recipient"),
		args: map[string]any{"to": "x", "text": "y"}, stale: true,
	},
	"argument renamed, and none but known ones": {
		shown: tool("send", []string{"to"}, "to"), live: closed(tool("send", []string{"recipient"})),
		args: map[string]any{"to": "x"}, stale: true,
	},
	"forward": {
		flags: []string{"--stale-schema", "forward"},
		shown: tool("send", []string{"to"}, "to"), live: tool("send", []string{"recipient"}),
		args: map[string]any{"to": "x"},
	},
	"argument kept, no longer required": {
		shown: tool("send", []string{"to"}, "to"), live: tool("send", []string{"to", "recipient"}),
		args: map[string]any{"to": "x"},
	},
	"argument was optional": {
		shown: tool("send", []string{"to", "note"}, "to"), live: tool("send", []string{"to"}, "to"),
		args: map[string]any{"to": "x", "note": "y"},
	},
	"argument not given": {
		shown: tool("send", []string{"to", "text"}, "to", "text"), live: tool("send", []string{"text"}),
		args: map[string]any{"text": "y"},
	},
	"any arguments": {
		shown: tool("send", []string{"to"}, "to"), live: openTool("send", []string{"recipient"}),
		args: map[string]any{"to": "x"},
	},
}

func closed(tool map[string]any) map[string]any {
	tool["inputSchema"].(map[string]any)["additionalProperties"] = false
	return tool
}

func openTool(name string, properties []string) map[string]any {
	t := tool(name, properties)
	t["inputSchema"].(map[string]any)["additionalProperties"] = true
	return t
}

// TestCAT4StaleSchema: CAT-4. A call with an argument which the schema that the
// client was shown required, and the tool of today does not know, is refused as
// stale_schema, with a list_changed; it does not reach the tool. Once the client
// has listed again, the call is its own business. All other calls pass as they
// are.
func TestCAT4StaleSchema(t *testing.T) {
	for name, test := range guardTests {
		t.Run(name, func(t *testing.T) {
			s := newStarter(t, test.flags, "-era", "legacy").offering(offerTools(test.shown))
			h := s.start("")
			h.Initialize()
			h.listKinds()
			s.write(offerTools(test.live))
			h.swapTo(2)
			h.WaitFor(toolsChanged, func(f harness.Frame) bool { return f.Method == toolsChanged })
			before := h.changes()
			checkGuarded(t, h, s, test, before)
		})
	}
}

// TestCAT4CachedSchema: CAT-4, CAT-6. The schema that counts is the one that the
// client was shown, also where it came from the cache.
func TestCAT4CachedSchema(t *testing.T) {
	test := guardTests["argument renamed"]
	s := newStarter(t, nil, "-era", "legacy").offering(offerTools(test.shown))
	s.warm()
	s.write(offerTools(test.live))
	h := s.start("3s")
	h.greet()
	h.Request("tools/list", nil).Wait()
	h.WaitFor(toolsChanged, func(f harness.Frame) bool { return f.Method == toolsChanged })
	checkGuarded(t, h, s, test, h.changes())
}

func checkGuarded(t *testing.T, h held, s *starter, test guardTest, changes int) {
	t.Helper()
	calls := func() (n int) {
		for _, methods := range s.lives() {
			n += len(slices.DeleteFunc(slices.Clone(methods), func(m string) bool { return m != "tools/call" }))
		}
		return n
	}
	args, err := json.Marshal(test.args)
	if err != nil {
		t.Fatal(err)
	}
	delivered := fmt.Sprintf("send %s", args)
	was := calls()
	f := h.CallTool("send", test.args)
	if !test.stale {
		if got := f.Text(t); got != delivered {
			t.Errorf("the tool got %q, want %q", got, delivered)
		}
		return
	}
	e := f.Typed()
	if f.Error == nil || f.Error.Code != -32014 || e == nil || e.Kind != protocol.StaleSchema || !strings.Contains(e.Message, "to") {
		t.Errorf("the call was answered with %.500s", f.Raw)
	}
	if n := calls(); n != was {
		t.Errorf("the server was sent %d calls", n-was)
	}
	harness.Await(t, "a list_changed with the refusal", func() bool { return h.changes() > changes })
	h.listKinds()
	if got := h.CallTool("send", test.args).Text(t); got != delivered {
		t.Errorf("listed again, the tool got %q, want %q", got, delivered)
	}
}
