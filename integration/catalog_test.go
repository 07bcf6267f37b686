package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

func init() {
	badServers["menu"] = (*rawServer).menu
}

const (
	menuInitialize = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},` +
		`"serverInfo":{"name":"menu","version":"1"}}`
	toolsChanged = "notifications/tools/list_changed"
)

// menu serves the tools named in a file, one a page, and says that the list has
// changed whenever the tool "tell" is called; with a second argument it says so
// before each list as well.
func (s *rawServer) menu() int {
	changed := func() { s.write(`{"jsonrpc":"2.0","method":"` + toolsChanged + `"}` + "\n") }
	for {
		m, ok := s.read()
		if !ok {
			return 0
		}
		switch {
		case m.Method == "initialize":
			s.result(m.ID, menuInitialize)
		case m.Method == "tools/list":
			if len(s.args) > 1 {
				changed()
			}
			s.result(m.ID, s.menuPage(string(m.Params)))
		case strings.Contains(string(m.Params), `"tell"`):
			changed()
			s.result(m.ID, rawText("told"))
		case !s.ordinary(m):
			s.result(m.ID, rawText("called"))
		}
	}
}

// menuPage returns the page that the cursor in params names: the tools before
// it are left out.
func (s *rawServer) menuPage(params string) string {
	text, err := os.ReadFile(s.args[0])
	if err != nil {
		return `{"tools":[]}`
	}
	names := strings.Fields(string(text))
	first := 0
	for i, name := range names {
		if strings.Contains(params, `"cursor":"`+name+`"`) {
			first = i
		}
	}
	if len(names) == 0 {
		return `{"tools":[]}`
	}
	page := `{"tools":[{"name":"` + names[first] + `","inputSchema":{"type":"object"}}]`
	if first+1 < len(names) {
		page += `,"nextCursor":"` + names[first+1] + `"`
	}
	return page + "}"
}

// openMenu starts the server behind holdfast, with a client that has listed
// all its tools.
func openMenu(t *testing.T, tools string, args ...string) (h held, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "tools")
	writeMenu(t, file, tools)
	server := badServer(t, "menu", append([]string{file}, args...)...)
	h = startHeldWith(t, harness.Config{}, harness.Bridged(t, nil, server...))
	h.Initialize()
	h.listAll()
	return h, file
}

func writeMenu(t *testing.T, file, tools string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(tools), 0o600); err != nil {
		t.Fatal(err)
	}
}

// listAll lists the tools, all pages.
func (h held) listAll() []string {
	h.t.Helper()
	var names []string
	for cursor := ""; ; {
		params := map[string]any{}
		if cursor != "" {
			params["cursor"] = cursor
		}
		result := string(h.Request("tools/list", params).Wait().Result)
		_, rest, _ := strings.Cut(result, `"name":"`)
		name, _, _ := strings.Cut(rest, `"`)
		names = append(names, name)
		_, rest, more := strings.Cut(result, `"nextCursor":"`)
		if !more {
			return names
		}
		cursor, _, _ = strings.Cut(rest, `"`)
	}
}

// changes counts the list_changed that the client has got.
func (h held) changes() int {
	n := 0
	for _, f := range h.Frames() {
		if f.Method == toolsChanged {
			n++
		}
	}
	return n
}

// TestCAT1ChangedByASwap: CAT-1, CAT-2, C09, C18. A new worker with the same
// list goes unnoticed; one with another tool is announced, once and after it
// serves, and the tool can be called by a client that has not listed again.
func TestCAT1ChangedByASwap(t *testing.T) {
	h, file := openMenu(t, "a b c")
	h.swapTo(2)
	if _, err := h.Request("tools/list", nil).Answer(); err != nil {
		t.Fatal(err)
	}
	h.listAll()
	if n := h.changes(); n != 0 {
		t.Errorf("%d list_changed for a list that is the same", n)
	}

	writeMenu(t, file, "a b c after")
	h.swapTo(3)
	h.WaitFor(toolsChanged, func(f harness.Frame) bool { return f.Method == toolsChanged })
	if got := h.CallTool("after", nil).Text(t); got != "called" {
		t.Errorf("the new tool says %q", got)
	}
	if got := h.listAll(); !slices.Equal(got, []string{"a", "b", "c", "after"}) {
		t.Errorf("listed %q", got)
	}
	h.swapTo(4) // the list is what the client has seen by now
	h.listAll()
	if n := h.changes(); n != 1 {
		t.Errorf("%d list_changed for one change", n)
	}
}

// TestC19ListThatSaysItChanges: C19, CAT-1. A server that says that its list
// has changed whenever it is listed does not make the client list for ever.
func TestC19ListThatSaysItChanges(t *testing.T) {
	h, _ := openMenu(t, "a", "noisy")
	for range 20 {
		h.listAll()
	}
	if n := h.changes(); n > 1 {
		t.Errorf("%d list_changed for a list that never changes", n)
	}
}

// TestCAT1ChangedByTheServer: CAT-1. What a server says of its list is passed
// on if it is true.
func TestCAT1ChangedByTheServer(t *testing.T) {
	h, file := openMenu(t, "a b")
	writeMenu(t, file, "a b more")
	h.CallTool("tell", nil)
	h.WaitFor(toolsChanged, func(f harness.Frame) bool { return f.Method == toolsChanged })
	if got := h.listAll(); !slices.Equal(got, []string{"a", "b", "more"}) {
		t.Errorf("listed %q", got)
	}
}

// TestCAT5CursorOfAnEarlierWorker: CAT-5. A cursor that a worker gave is worth
// nothing to the next one; it is refused and not forwarded.
func TestCAT5CursorOfAnEarlierWorker(t *testing.T) {
	h, _ := openMenu(t, "a b c")
	page := func() harness.Frame { return h.Request("tools/list", map[string]any{"cursor": "c"}).Wait() }
	if f := page(); f.Error != nil {
		t.Fatalf("the cursor is refused by its own worker: %s", f.Raw)
	}
	h.swapTo(2)
	if f := page(); f.Error == nil || f.Error.Code != -32602 {
		t.Errorf("after the swap: %s", f.Raw)
	}
	if got := h.listAll(); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("listed anew: %q", got)
	}
	if f := page(); f.Error != nil {
		t.Errorf("the cursor of the new worker: %s", f.Raw)
	}
}
