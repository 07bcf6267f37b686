package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// starter is one command of the start server behind holdfast. Its starts are
// the same command to holdfast, however long each takes, and share a cache.
type starter struct {
	t       *testing.T
	flags   []string // of holdfast
	program string   // the start server, or a copy of it
	args    []string // of the server
	env     []string // that holdfast inherits
	cache   string
	journal string
	offer   string // file of what the server offers, from writeOffer on
}

// newStarter returns a command of the start server with a cache of its own.
func newStarter(t *testing.T, flags []string, args ...string) *starter {
	t.Helper()
	dir := t.TempDir()
	s := &starter{t: t, flags: flags, program: harness.StartServer(t), cache: t.TempDir(), journal: filepath.Join(dir, "journal"), offer: filepath.Join(dir, "offer.json")}
	s.args = append([]string{"-journal", s.journal}, args...)
	return s
}

// offering has the server offer what a file says, which it reads at its start.
func (s *starter) offering(o offer) *starter {
	s.t.Helper()
	s.args = append(s.args, "-offer", s.offer)
	s.write(o)
	return s
}

// write changes what later starts of the server offer.
func (s *starter) write(o offer) {
	s.t.Helper()
	b, err := json.Marshal(o)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(s.offer+".new", b, 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(s.offer+".new", s.offer); err != nil {
		s.t.Fatal(err)
	}
}

// start starts the server, which is up after the delay: a duration, never, or
// "" for at once.
func (s *starter) start(delay string) held {
	s.t.Helper()
	server := append([]string{s.program}, s.args...)
	return startHeldWith(s.t, harness.Config{
		Cache: s.cache, Env: append(slices.Clone(s.env), delayVariable+"="+delay),
	}, harness.Bridged(s.t, s.flags, server...))
}

// warm is a first start with a client that opens the legacy era and lists all
// that the server offers; it has ended when warm returns.
func (s *starter) warm() (processes map[string]bool) {
	s.t.Helper()
	h := s.start("")
	processes = map[string]bool{processOf(h.Initialize()): true}
	h.listKinds()
	h.end()
	return processes
}

// end ends holdfast as a client does.
func (h held) end() {
	h.t.Helper()
	h.CloseStdin()
	h.WaitExit()
}

// lives returns the methods that each process of the server was sent, in the
// order of their first messages.
func (s *starter) lives() [][]string {
	s.t.Helper()
	b, err := os.ReadFile(s.journal)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.t.Fatal(err)
	}
	var lives [][]string
	at := map[string]int{}
	for line := range bytes.Lines(b) {
		process, method, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		if _, known := at[process]; !known {
			at[process] = len(lives)
			lives = append(lives, nil)
		}
		lives[at[process]] = append(lives[at[process]], method)
	}
	return lives
}

// extended reports whether this is the run that takes its time.
func extended() bool { return os.Getenv("HOLDFAST_EXTENDED") == "1" }

// sideBySide runs f as a subtest for each case, all at the same time: starts
// mostly wait.
func sideBySide[C any](t *testing.T, cases map[string]C, f func(*testing.T, C)) {
	t.Helper()
	var running sync.WaitGroup
	for name, c := range cases {
		running.Go(func() { // ends with the subtest
			t.Run(name, func(t *testing.T) { f(t, c) })
		})
	}
	running.Wait()
}

// offer is what the start server reads from a file.
type offer struct {
	Capabilities map[string]any              `json:"capabilities"`
	Lists        map[string][]map[string]any `json:"lists"`
	Page         int                         `json:"page,omitempty"`
	Version      string                      `json:"version,omitempty"`
	Broken       bool                        `json:"broken,omitempty"`
}

// offerTools is an offer of tools alone, as names or as whole items.
func offerTools(tools ...map[string]any) offer {
	return offer{
		Capabilities: map[string]any{"tools": map[string]any{"listChanged": true}},
		Lists:        map[string][]map[string]any{"tools": tools},
	}
}

// tool is a tool whose schema has the properties, of which some are required.
func tool(name string, properties []string, required ...string) map[string]any {
	known := map[string]any{}
	for _, p := range properties {
		known[p] = map[string]any{"type": "string"}
	}
	schema := map[string]any{"type": "object", "properties": known}
	if len(required) > 0 {
		schema["required"] = required
	}
	return map[string]any{"name": name, "inputSchema": schema}
}

// listMethods are the lists of MCP, by the member of the result with the items.
var listMethods = map[string]string{
	"tools": "tools/list", "prompts": "prompts/list", "resources": "resources/list", "resourceTemplates": "resources/templates/list",
}

// listKinds asks for all lists, all pages, and returns the names by member; a
// list that is refused is absent.
func (h held) listKinds() map[string][]string {
	h.t.Helper()
	all := map[string][]string{}
	for member, method := range listMethods {
		items, err := h.pages(method, member)
		if err == nil {
			all[member] = names(items)
		}
	}
	return all
}

// errRefused is returned when a page of a list is answered with an error.
var errRefused = errors.New("refused")

// pages returns the items of all pages of a list.
func (h held) pages(method, member string) ([]json.RawMessage, error) {
	items := []json.RawMessage{}
	params := map[string]any{}
	for {
		f, err := h.Request(method, params).Answer()
		if err != nil {
			return nil, err
		}
		if f.Error != nil {
			return nil, errRefused
		}
		var page map[string]json.RawMessage
		var more []json.RawMessage
		if err := json.Unmarshal(f.Result, &page); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(page[member], &more); err != nil {
			return nil, err
		}
		items = append(items, more...)
		if page["nextCursor"] == nil {
			return items, nil
		}
		params = map[string]any{"cursor": page["nextCursor"]}
	}
}

func names(items []json.RawMessage) []string {
	all := []string{}
	for _, raw := range items {
		var item struct{ Name string }
		if json.Unmarshal(raw, &item) == nil {
			all = append(all, item.Name)
		}
	}
	return all
}

// timed is an answer and how long after its request it came.
type timed struct {
	harness.Frame

	after time.Duration
}

// timely waits for the answer to a request that was sent just now.
func timely(p *harness.Pending) timed {
	began := time.Now()
	f := p.Wait()
	return timed{f, time.Since(began)}
}

// within fails the test if it came too early or too late. What is late by less
// than a second and a half is so by the load of the machine.
func (a timed) within(t *testing.T, what string, from, to time.Duration) {
	t.Helper()
	if a.after < from-early || a.after > to+tardy {
		t.Errorf("%s was answered after %v, want %v to %v: %.300s", what, a.after, from, to, a.Raw)
	}
}

// hello are the params of the client that tests speak for.
func helloParams() map[string]any {
	return map[string]any{
		"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "harness", "version": "1"},
	}
}

// greet sends initialize, waits for the answer and says initialized.
func (h held) greet() timed {
	h.t.Helper()
	a := timely(h.Request("initialize", helloParams()))
	h.Notify("notifications/initialized", nil)
	return a
}

// minimal reports whether an answer to initialize is that of holdfast.
func minimal(f harness.Frame) bool {
	var r struct{ ServerInfo struct{ Name string } }
	return f.Error == nil && json.Unmarshal(f.Result, &r) == nil && r.ServerInfo.Name == "holdfast"
}

// in returns the same command for a subtest, whose clean-up ends what it starts.
func (s *starter) in(t *testing.T) *starter {
	t.Helper()
	other := *s
	other.t = t
	return &other
}

// members returns the members of a result.
func members(t *testing.T, f harness.Frame) map[string]json.RawMessage {
	t.Helper()
	var m map[string]json.RawMessage
	if f.Error != nil || json.Unmarshal(f.Result, &m) != nil {
		t.Errorf("no result: %.500s", f.Raw)
	}
	return m
}

// namesIn returns the names of the items that a result lists.
func namesIn(t *testing.T, f harness.Frame, member string) []string {
	t.Helper()
	var items []json.RawMessage
	if err := json.Unmarshal(members(t, f)[member], &items); err != nil {
		t.Errorf("no list of %s: %.500s", member, f.Raw)
	}
	return names(items)
}
