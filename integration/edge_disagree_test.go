package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// disagreement is one input that servers of the field answer differently. A
// proxy forwards it and does not imitate one of them: what a server of the Go
// SDK does with it bare is what it has to do behind holdfast, where no reason
// stands beside it.
type disagreement struct {
	name  string
	lines []string
	bare  string // what comes back, as answersTo writes it
	// supervised and why are empty where nothing differs.
	supervised, why string
}

const (
	metaVersion = `"_meta":{"io.modelcontextprotocol/protocolVersion":"%s"`
	metaCaps    = `"io.modelcontextprotocol/clientCapabilities":{}`
)

func modern(id, method, version string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{`+metaVersion+`,`+metaCaps+`}}}`, id, method, version)
}

func legacy(id, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params)
}

func greet(version string) []string {
	return []string{
		legacy(`"g"`, "initialize", `{"protocolVersion":"`+version+`","capabilities":{},"clientInfo":{"name":"x","version":"1"}}`),
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
	}
}

func after(first []string, more ...string) []string { return append(slices.Clone(first), more...) }

// Reasons for a difference.
const (
	whyJunk   = "an illegal line does not cost a server of the Go SDK its life, and the client is told"
	whyFresh  = "initialize goes to a fresh session, where the server has seen no discover"
	whyListen = "what the client watches is kept for it by its own _meta; SDKs but that for Go refuse it too"
	whyBatch  = "the elements of a batch are answered one by one"
	whyID     = "the id is echoed as it came, where the SDK cuts it to a whole number"
	whyNull   = "a request under the id null is refused instead of ignored"
)

func disagreements() []disagreement {
	ok := greet("2025-11-25")
	pid := legacy("1", "tools/call", `{"name":"pid","arguments":{}}`)
	return []disagreement{
		{name: "tools/list before initialize", lines: []string{legacy("1", "tools/list", "{}")}, bare: "1:0"},
		{name: "discover without _meta", lines: []string{legacy("1", "server/discover", "{}")}, bare: "1:-32601"},
		{name: "discover with capabilities only", lines: []string{legacy("1", "server/discover", `{"_meta":{`+metaCaps+`}}`)}, bare: "1:-32601"},
		{name: "discover with a version only", lines: []string{legacy("1", "server/discover", fmt.Sprintf(`{`+metaVersion+`}}`, "2026-07-28"))}, bare: "1:-32602"},
		{name: "discover", lines: []string{modern("1", "server/discover", "2026-07-28")}, bare: "1:ok"},
		{name: "discover with 2025-11-25", lines: []string{modern("1", "server/discover", "2025-11-25")}, bare: "1:-32601"},
		{name: "discover with 2099-01-01", lines: []string{modern("1", "server/discover", "2099-01-01")}, bare: "1:-32022"},
		{name: "tools/list with 2099-01-01", lines: after(ok, modern("1", "tools/list", "2099-01-01")), bare: `"g":ok 1:-32022`},
		{name: "tools/list with 1900-01-01", lines: after(ok, modern("1", "tools/list", "1900-01-01")), bare: `"g":ok 1:ok`},
		{name: "legacy request after discover", lines: []string{modern(`"d"`, "server/discover", "2026-07-28"), legacy("1", "tools/list", "{}")}, bare: `"d":ok 1:ok`},
		{name: "initialize after discover", lines: []string{modern(`"d"`, "server/discover", "2026-07-28"), ok[0]}, bare: `"d":ok "g":0`, supervised: `"d":ok "g":ok`, why: whyFresh},
		{name: "second initialize", lines: after(ok, strings.Replace(ok[0], `"g"`, `"h"`, 1)), bare: `"g":ok "h":0`},
		{name: "listen without _meta", lines: after(ok, legacy("1", "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`)), bare: `"g":ok -:notifications/subscriptions/acknowledged`, supervised: `"g":ok 1:-32601`, why: whyListen},
		{name: "unknown tool", lines: after(ok, legacy("1", "tools/call", `{"name":"none"}`)), bare: `"g":ok 1:-32602`},
		{name: "unknown method", lines: after(ok, legacy("1", "x/y", `{}`)), bare: `"g":ok 1:-32601`},
		{name: "unknown resource", lines: after(ok, legacy("1", "resources/read", `{"uri":"x:y"}`)), bare: `"g":ok 1:-32602`},
		{name: "setLevel silly", lines: after(ok, legacy("1", "logging/setLevel", `{"level":"silly"}`)), bare: `"g":ok 1:ok`},
		{name: "junk line", lines: after(ok, "junk"), bare: `"g":ok dies`, supervised: `"g":ok -:-32700`, why: whyJunk},
		{name: "truncated line", lines: after(ok, pid[:30]), bare: `"g":ok dies`, supervised: `"g":ok -:-32700`, why: whyJunk},
		{name: "empty batch", lines: after(ok, "[]"), bare: `"g":ok dies`, supervised: `"g":ok -:-32600`, why: whyJunk},
		{name: "batch in 2025-11-25", lines: after(ok, "["+pid+"]"), bare: `"g":ok dies`, supervised: `"g":ok -:-32600`, why: whyJunk},
		{name: "no jsonrpc", lines: after(ok, `{"id":1,"method":"ping"}`), bare: `"g":ok dies`, supervised: `"g":ok 1:-32600`, why: whyJunk},
		{name: "jsonrpc 1.0", lines: after(ok, `{"jsonrpc":"1.0","id":1,"method":"ping"}`), bare: `"g":ok dies`, supervised: `"g":ok 1:-32600`, why: whyJunk},
		{name: "batch in 2025-03-26", lines: after(greet("2025-03-26"), "["+pid+","+legacy("2", "tools/list", "{}")+"]"), bare: `"g":ok [1:ok 2:ok]`, supervised: `"g":ok 1:ok 2:ok`, why: whyBatch},
		{name: "blank line", lines: after(ok, "", "  ", pid), bare: `"g":ok 1:ok`},
		{name: "CRLF", lines: after(ok, pid+"\r"), bare: `"g":ok 1:ok`},
		{name: "stray answer", lines: after(ok, `{"jsonrpc":"2.0","id":77,"result":{}}`, pid), bare: `"g":ok 1:ok`},
		{name: "id 9.5", lines: after(ok, strings.Replace(pid, `"id":1`, `"id":9.5`, 1)), bare: `"g":ok 9:ok`, supervised: `"g":ok 9.5:ok`, why: whyID},
		{name: "id null", lines: after(ok, strings.Replace(pid, `"id":1`, `"id":null`, 1)), bare: `"g":ok`, supervised: `"g":ok -:-32600`, why: whyNull},
	}
}

// TestDisagreements: EDGE-1, EDGE-3, EDGE-12, EDGE-13. Where the reference
// servers disagree, holdfast adds nothing of its own, but for the differences
// that have a reason in the table.
func TestDisagreements(t *testing.T) {
	server := harness.TestServer(t)
	commands := map[string][]string{
		"bare":    harness.Direct(server),
		"bridged": harness.Bridged(t, nil, server),
		"native":  harness.Native(t, nil, server),
	}
	for _, d := range disagreements() {
		for name, command := range commands {
			t.Run(d.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				want := d.bare
				if name != "bare" && d.why != "" {
					want = d.supervised
				}
				if got := answersTo(t, command, d.lines, want); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			})
		}
	}
}

// answersTo sends lines, one after the answer to the other where the other is
// the first, and tells in words what comes back: for each frame its id, - if
// there is none, and ok, the code of an error, or the method. It waits for as
// much as is wanted, and for a request behind all that.
func answersTo(t *testing.T, command []string, lines []string, want string) string {
	t.Helper()
	c := startRaw(t, command)
	c.must(lines[0])
	var got []string
	wanted := len(strings.Fields(want))
	read := func(last string) (over bool) {
		t.Helper()
		if err := c.out.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		line, err := c.lines.ReadString('\n')
		switch text := inWords([]byte(line)); {
		case err != nil && errors.Is(err, os.ErrDeadlineExceeded):
			got = append(got, "silent")
			return true
		case err != nil:
			got = append(got, "dies")
			return true
		case strings.HasPrefix(text, last+":"):
			return true
		default:
			got = append(got, strings.Fields(text)...)
			return false
		}
	}
	over := read("none")
	for _, l := range lines[1:] {
		c.send(l, 20*time.Second)
	}
	for !over && len(got) < wanted {
		over = read("none")
	}
	if !over && got[len(got)-1] != "dies" {
		// A modern request, since it is answered in any state.
		c.send(modern(`"probe"`, "x/probe", "2026-07-28"), 20*time.Second)
		for !over {
			over = read(`"probe"`)
		}
	}
	slices.Sort(got)
	wants := strings.Fields(want)
	slices.Sort(wants)
	if slices.Equal(got, wants) {
		return want
	}
	return strings.Join(got, " ")
}

// inWords tells what a line is, or what the elements of a batch are.
func inWords(line []byte) string {
	var batch []harness.Frame
	if err := json.Unmarshal(line, &batch); err == nil {
		words := make([]string, len(batch))
		for i, f := range batch {
			words[i] = frameInWords(f)
		}
		slices.Sort(words)
		return "[" + strings.Join(words, " ") + "]"
	}
	var f harness.Frame
	if err := json.Unmarshal(line, &f); err != nil {
		return fmt.Sprintf("%q", line)
	}
	return frameInWords(f)
}

func frameInWords(f harness.Frame) string {
	id := string(f.ID)
	if id == "" {
		id = "-"
	}
	switch {
	case f.Method != "":
		return id + ":" + f.Method
	case f.Error != nil:
		return fmt.Sprintf("%s:%d", id, f.Error.Code)
	}
	return id + ":ok"
}
