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

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// realServer is a server that others wrote, and what to ask it.
type realServer struct {
	command []string
	dir     string // to start it in, which answers may name
	env     []string
	// tools, prompts and resources are how many it lists, on the first page.
	// It may take a while until all are there; none is an answer of any kind.
	tools, prompts, resources int
	calls                     []map[string]any
	// forgets is set if its answers depend on what it keeps in its memory, or
	// on the time.
	forgets bool
}

// realServers, by name, work in temporary folders of the test. Each is a function
// so that what it needs is asked for in its own subtest.
var realServers = map[string]func(t *testing.T) realServer{
	"npm everything": func(t *testing.T) realServer {
		return realServer{
			command: npmServer(t, harness.RequireClients(t), "everything", "stdio"),
			tools:   17, prompts: 4, resources: 7,
			calls: []map[string]any{
				harness.Call("echo", map[string]any{"message": "hi"}),
				harness.Call("get-sum", map[string]any{"a": 2, "b": 3}),
			},
		}
	},
	"npm filesystem": func(t *testing.T) realServer {
		dir := tempTree(t, map[string]string{"a.txt": "text of a"})
		return realServer{
			command: npmServer(t, extendedServers(t), "filesystem", dir), dir: dir,
			tools: 14,
			calls: []map[string]any{
				harness.Call("list_directory", map[string]any{"path": dir}),
				harness.Call("read_text_file", map[string]any{"path": filepath.Join(dir, "a.txt")}),
			},
		}
	},
	"npm memory": func(t *testing.T) realServer {
		return realServer{
			command: npmServer(t, extendedServers(t), "memory"),
			env:     []string{"MEMORY_FILE_PATH=" + filepath.Join(t.TempDir(), "memory.jsonl")},
			tools:   9, resources: 1,
			calls: []map[string]any{createEntity, harness.Call("read_graph", nil)},
		}
	},
	"npm sequential-thinking": func(t *testing.T) realServer {
		return realServer{
			command: npmServer(t, extendedServers(t), "sequential-thinking"),
			tools:   1, forgets: true,
			calls: []map[string]any{harness.Call("sequentialthinking", map[string]any{
				"thought": "first", "nextThoughtNeeded": true, "thoughtNumber": 1, "totalThoughts": 2,
			})},
		}
	},
	"go-sdk everything": func(t *testing.T) realServer {
		return realServer{
			command: harness.Direct(harness.Everything(t)),
			tools:   28, prompts: 5, resources: 3,
			calls: []map[string]any{harness.Call("test_simple_text", nil)},
		}
	},
	"go-sdk memory": func(t *testing.T) realServer {
		return realServer{
			command: []string{harness.RequireGoServer(t, "memory"), "-memory", filepath.Join(t.TempDir(), "memory.json")},
			tools:   9,
			calls:   []map[string]any{createEntity, harness.Call("read_graph", nil)},
		}
	},
	"go-sdk sequentialthinking": func(t *testing.T) realServer {
		return realServer{
			command: []string{harness.RequireGoServer(t, "sequentialthinking")},
			tools:   3, resources: 1, forgets: true,
			calls: []map[string]any{harness.Call("start_thinking", map[string]any{"problem": "which", "sessionId": "s", "estimatedSteps": 2})},
		}
	},
	"go-sdk hello": func(t *testing.T) realServer {
		return realServer{
			command: []string{harness.RequireGoServer(t, "hello")},
			tools:   1,
			calls:   []map[string]any{harness.Call("greet", map[string]any{"name": "you"})},
		}
	},
	"gopls": func(t *testing.T) realServer {
		dir := tempTree(t, map[string]string{
			"go.mod": "module example.test/small\n\ngo 1.25\n", "small.go": "package small\n\n// Small is small.\nfunc Small() {}\n",
		})
		return realServer{
			command: []string{harness.RequireGoServer(t, "gopls"), "mcp"}, dir: dir,
			tools: 8,
			calls: []map[string]any{
				harness.Call("go_workspace", nil),
				harness.Call("go_search", map[string]any{"query": "Small"}),
			},
		}
	},
	"mcp-grafana": func(t *testing.T) realServer {
		return realServer{
			command: []string{harness.RequireGoServer(t, "mcp-grafana")},
			env:     []string{"GRAFANA_URL=http://127.0.0.1:9"}, // where nothing listens: calls fail, and fail alike
			tools:   81, resources: 1,
			calls: []map[string]any{harness.Call("list_datasources", nil)},
		}
	},
	"mcp-go everything": func(t *testing.T) realServer {
		return realServer{
			command: []string{harness.RequireGoServer(t, "everything")},
			tools:   6, prompts: 2, resources: 101,
			calls: []map[string]any{
				harness.Call("echo", map[string]any{"message": "hi"}),
				harness.Call("add", map[string]any{"a": 2, "b": 3}),
			},
		}
	},
}

var createEntity = harness.Call("create_entities", map[string]any{"entities": []any{
	map[string]any{"name": "holdfast", "entityType": "program", "observations": []string{"it holds"}},
}})

func extendedServers(t *testing.T) string {
	t.Helper()
	return filepath.Dir(harness.RequireExtendedPackage(t, "servers", "@modelcontextprotocol"))
}

func npmServer(t *testing.T, modules, name string, args ...string) []string {
	t.Helper()
	path := filepath.Join(modules, "@modelcontextprotocol", "server-"+name, "dist", "index.js")
	return append([]string{harness.RequireNode(t), path}, args...)
}

func tempTree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestRealServers: C26, SUP-1. Servers that others wrote say the same with
// and without holdfast, byte for byte, and with holdfast also after they were
// killed.
func TestRealServers(t *testing.T) {
	harness.RequireExtended(t)
	harness.RequireLinux(t)
	table := []string{fmt.Sprintf("%-26s %-11s %14s %8s %8s %8s %8s %8s", "server", "version", "tools/prom/res", "start", "held", "exit", "held", "kill")}
	for name, prepare := range realServers {
		t.Run(name, func(t *testing.T) {
			direct := probe(t, prepare(t), false)
			supervised := probe(t, prepare(t), true)
			if diff := cmp.Diff(direct.said, supervised.said); diff != "" {
				t.Errorf("what the server says (-direct +supervised):\n%s", diff)
			}
			table = append(table, fmt.Sprintf("%-26s %-11s %14s %8s %8s %8s %8s %8s", name, direct.version, direct.counts,
				ms(direct.start), ms(supervised.start), direct.exit, supervised.exit, ms(supervised.recovery)))
		})
	}
	slices.Sort(table[1:])
	t.Logf("times in ms; kill is from kill -9 to the next answer\n%s", strings.Join(table, "\n"))
}

func ms(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }

// probed is what a probe found.
type probed struct {
	said            map[string]string // by question
	dir             string            // replaced by DIR in what was said
	version, counts string
	start, recovery time.Duration
	exit            string
}

// probe asks a server everything, twice. Behind holdfast it is killed in
// between.
func probe(t *testing.T, server realServer, supervised bool) probed {
	t.Helper()
	config := harness.Config{
		Command: server.command, Dir: server.dir, Env: append(server.env, privateTemp(t)),
		Capabilities: map[string]any{
			"roots": map[string]any{"listChanged": true}, "sampling": map[string]any{},
			"elicitation": map[string]any{"form": map[string]any{}, "url": map[string]any{}},
		},
		Handlers: map[string]harness.Handler{
			"roots/list": func(json.RawMessage) (any, *harness.Error) { return map[string]any{"roots": []any{}}, nil },
			"ping":       func(json.RawMessage) (any, *harness.Error) { return map[string]any{}, nil },
		},
	}
	if supervised {
		config.Command = harness.Bridged(t, nil, server.command...)
	}
	began := time.Now()
	c := harness.Start(t, config)
	p := probed{said: map[string]string{}, dir: server.dir}
	opened := c.Initialize()
	p.start = time.Since(began)
	p.note("initialize", opened)
	p.version = field(opened, "protocolVersion")
	p.ask(t, c, server, "before")
	if supervised {
		killed := time.Now()
		killServer(t, c, server.command)
		p.list(t, c, "tools", server.tools)
		p.recovery = time.Since(killed)
	}
	p.ask(t, c, server, "after")
	p.exit = endOf(t, c, supervised)
	return p
}

// ask puts all questions. The answers to when "after" are noted unless the
// server forgets.
func (p *probed) ask(t *testing.T, c *harness.Client, server realServer, when string) {
	t.Helper()
	counts := make([]string, 0, 3)
	for _, kind := range []struct {
		name  string
		floor int
	}{{"tools", server.tools}, {"prompts", server.prompts}, {"resources", server.resources}} {
		f, n := p.list(t, c, kind.name, kind.floor)
		p.note(when+" "+kind.name+"/list", f)
		counts = append(counts, fmt.Sprint(n))
	}
	p.counts = strings.Join(counts, "/")
	for i, call := range server.calls {
		f := c.Request("tools/call", call).Wait()
		if f.Typed() != nil {
			t.Errorf("%s %v: holdfast answered: %.500s", when, call["name"], f.Raw)
		}
		if !server.forgets {
			p.note(fmt.Sprint(when, " call ", i, " ", call["name"]), f)
		}
	}
	p.note(when+" ping", c.Request("ping", nil).Wait())
}

// list asks until the list has as many entries as it must have.
func (p *probed) list(t *testing.T, c *harness.Client, kind string, floor int) (f harness.Frame, n int) {
	t.Helper()
	harness.Await(t, fmt.Sprintf("%d %s", floor, kind), func() bool {
		f = c.Request(kind+"/list", map[string]any{}).Wait()
		var result map[string]json.RawMessage
		var entries []json.RawMessage
		if f.Error == nil && json.Unmarshal(f.Result, &result) == nil {
			_ = json.Unmarshal(result[kind], &entries) // no list has no entries
		}
		n = len(entries)
		return n >= floor
	})
	return f, n
}

// note keeps the result or the error, as it came.
func (p *probed) note(question string, f harness.Frame) {
	answer := string(f.Result)
	if f.Error != nil {
		answer = fmt.Sprintf("error %d %s %s", f.Error.Code, f.Error.Message, f.Error.Data)
	}
	if p.dir != "" {
		answer = strings.ReplaceAll(answer, p.dir, "DIR")
	}
	p.said[question] = answer
}

func field(f harness.Frame, name string) string {
	var fields map[string]json.RawMessage
	var s string
	if json.Unmarshal(f.Result, &fields) == nil {
		_ = json.Unmarshal(fields[name], &s) // what is no string has no text
	}
	return s
}

// killServer kills the process of the command, of which there must be one.
func killServer(t *testing.T, c *harness.Client, command []string) {
	t.Helper()
	var victims []harness.Proc
	for _, p := range c.Descendants() {
		if slices.Equal(p.Args, command) {
			victims = append(victims, p)
		}
	}
	if len(victims) != 1 {
		t.Fatalf("processes of the server: %v of %v", victims, c.Descendants())
	}
	victims[0].Kill()
}

// endOf closes the client's end and returns how long the process took to end.
// A server alone that stays is killed; holdfast must not stay.
func endOf(t *testing.T, c *harness.Client, supervised bool) string {
	t.Helper()
	closed := time.Now()
	c.CloseStdin()
	if !supervised {
		select {
		case <-c.Exited():
		case <-time.After(4 * time.Second):
			_ = c.Process().Kill()
			return ">4000"
		}
	}
	if state := c.WaitExit(); supervised && !state.Success() {
		t.Errorf("holdfast: %v", state)
	}
	return ms(time.Since(closed))
}
