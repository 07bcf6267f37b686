package integration

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mcp/holdfast/integration/harness"
	"github.com/holdfast-mcp/holdfast/protocol"
)

// TestWorkerProgram: the whole program in docs/writing-a-worker.md builds as it
// stands there, and serves plain stdio without a supervisor.
func TestWorkerProgram(t *testing.T) {
	snippets := blocks(readDoc(t, "docs", "writing-a-worker.md"), "go")
	if len(snippets) == 0 || !strings.HasPrefix(snippets[0], "package main\n") {
		t.Fatal("docs/writing-a-worker.md does not begin with a program")
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte(snippets[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	// The overlay puts the snippet into a package that exists only for this
	// build, where the workspace resolves its imports.
	module := filepath.Join(harness.Workspace(t), "integration")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(module, "docs_snippet", "main.go"): source,
	}})
	if err != nil {
		t.Fatal(err)
	}
	overlayFile := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlayFile, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "snippet")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	harness.Go(t, module, "build", "-overlay", overlayFile, "-o", program, "./docs_snippet")

	c := harness.Start(t, harness.Config{Command: harness.Direct(program)})
	c.Initialize()
	if got := c.CallTool("greet", map[string]any{"name": "Ada"}).Text(t); got != "Hello, Ada!" {
		t.Errorf("the snippet's tool says %q", got)
	}
}

// TestWorkerExamples: the other Go snippets of docs/writing-a-worker.md are
// those of the package's documentation, which are compiled and run there.
func TestWorkerExamples(t *testing.T) {
	source := readDoc(t, "worker", "example_test.go")
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "example_test.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	examples := map[string]bool{}
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Example") {
			body := source[files.Position(f.Body.Lbrace).Offset+1 : files.Position(f.Body.Rbrace).Offset]
			body, _, _ = strings.Cut(body, "\t// Output:")
			examples[formatted(t, body)] = true
		}
	}
	snippets := blocks(readDoc(t, "docs", "writing-a-worker.md"), "go")[1:]
	if len(snippets) == 0 {
		t.Error("docs/writing-a-worker.md has no examples")
	}
	for _, snippet := range snippets {
		if !examples[formatted(t, snippet)] {
			t.Errorf("no example in worker/example_test.go reads\n%s", snippet)
		}
	}
}

// formatted returns Go statements as gofmt writes them.
func formatted(t *testing.T, statements string) string {
	t.Helper()
	b, err := format.Source([]byte("package p\n\nfunc _() {\n" + strings.TrimSpace(statements) + "\n}\n"))
	if err != nil {
		t.Fatalf("%v in\n%s", err, statements)
	}
	return string(b)
}

// TestQuickstart: the server of docs/quickstart.md does behind holdfast
// what that page says, over its own death and over a swap.
func TestQuickstart(t *testing.T) {
	harness.RequireLinux(t) // a pid of the status is killed
	node := harness.RequireNode(t)
	snippets := blocks(readDoc(t, "docs", "quickstart.md"), "js")
	if len(snippets) != 1 {
		t.Fatalf("docs/quickstart.md has %d servers, want 1", len(snippets))
	}
	source := filepath.Join(t.TempDir(), "server.mjs")
	if err := os.WriteFile(source, []byte(snippets[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	h := startHeld(t, bridged, []string{"--name", "notes"}, node, source)
	h.Initialize()
	if names := toolNames(t, h.Request("tools/list", nil).Wait()); !slices.Equal(names, []string{"add_note", "list_notes"}) {
		t.Errorf("tools %q", names)
	}
	if got := h.CallTool("add_note", map[string]any{"text": "milk"}).Text(t); got != "milk" {
		t.Errorf("the note is %q", got)
	}
	worker, err := os.FindProcess(h.status().Worker.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Kill(); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, "the next worker", func() bool { return h.status().Worker.Generation == 2 })
	if got := h.CallTool("list_notes", nil).Text(t); got != "no notes" {
		t.Errorf("the new server says %q", got)
	}
	if out, _ := h.cli("swap"); out != "generation 3 serves\n" {
		t.Errorf("swap says %q", out)
	}
}

// userPages are README.md and the pages for users.
var userPages = []string{
	"README.md", "docs/README.md", "docs/quickstart.md", "docs/dev.md", "docs/flags.md", "docs/outcomes.md", "docs/writing-a-worker.md",
	"docs/troubleshooting.md", "docs/compared.md", "docs/install.md", "docs/control.md",
}

// TestConfigurations: the configurations of clients that the pages show are JSON
// that clients understand, and start holdfast as it wants to be started.
func TestConfigurations(t *testing.T) {
	type entry struct {
		Type, Command string
		Args          []string
		Env           map[string]string
	}
	type config struct {
		MCPServers map[string]entry `json:"mcpServers"`
		Servers    map[string]entry `json:"servers"`
	}
	var mcpServers, servers int
	for _, page := range userPages {
		for _, block := range blocks(readDoc(t, page), "json") {
			if !strings.Contains(block, `"command"`) {
				continue
			}
			var c config
			decoder := json.NewDecoder(strings.NewReader(block))
			decoder.DisallowUnknownFields()
			if err := decoder.Decode(&c); err != nil {
				t.Errorf("%s: %v in\n%s", page, err, block)
			}
			mcpServers += len(c.MCPServers)
			servers += len(c.Servers)
			for _, entries := range []map[string]entry{c.MCPServers, c.Servers} {
				for name, e := range entries {
					if e.Command != "holdfast" || !slices.Contains(e.Args, "--") {
						t.Errorf("%s: entry %s does not start `holdfast ... -- COMMAND`: %+v", page, name, e)
					}
					checkCommand(t, page, append([]string{e.Command}, e.Args...))
				}
			}
		}
	}
	if mcpServers == 0 || servers == 0 {
		t.Errorf("%d entries under mcpServers and %d under servers, want some of each", mcpServers, servers)
	}
}

// TestOutcomeExamples: docs/outcomes.md shows every kind of error, in the shape
// in which clients get it.
func TestOutcomeExamples(t *testing.T) {
	shown := map[protocol.Kind]bool{}
	for _, block := range blocks(readDoc(t, "docs", "outcomes.md"), "json") {
		var example struct {
			Code int                        `json:"code"`
			Data json.RawMessage            `json:"data"`
			Meta map[string]json.RawMessage `json:"_meta"`
		}
		if err := json.Unmarshal([]byte(block), &example); err != nil {
			t.Errorf("%v in\n%s", err, block)
			continue
		}
		inResult := example.Data == nil
		if inResult {
			example.Data = example.Meta[protocol.MetaError]
		}
		var typed protocol.Error
		decoder := json.NewDecoder(bytes.NewReader(example.Data))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&typed); err != nil {
			t.Errorf("%v in\n%s", err, block)
			continue
		}
		shown[typed.Kind] = true
		if typed.Retryable != typed.Kind.Retryable() {
			t.Errorf("the example of %s has retryable %v", typed.Kind, typed.Retryable)
		}
		told := typed.RPC()
		if inResult {
			told = typed.ToolResult(false)
		}
		if diff := cmp.Diff(compact(t, told), compact(t, []byte(block))); diff != "" {
			t.Errorf("an example of %s and what a client gets (-client +page):\n%s", typed.Kind, diff)
		}
	}
	for _, k := range []protocol.Kind{
		protocol.OutcomeUnknown, protocol.WorkerUnavailable, protocol.WorkerStarting, protocol.FrameTooLarge, protocol.StaleSchema,
	} {
		if !shown[k] {
			t.Errorf("docs/outcomes.md has no example of %s", k)
		}
	}
}

// helpOf returns the help of a command of holdfast or holdfast-worker; empty if
// there is no such command.
func helpOf(t *testing.T, words ...string) string {
	t.Helper()
	program := harness.Holdfast(t)
	if words[0] == "holdfast-worker" {
		program = harness.HoldfastWorker(t)
	}
	out, err := exec.CommandContext(t.Context(), program, append(slices.Clone(words[1:]), "--help")...).Output()
	if err != nil || !regexp.MustCompile(`(?m)^  `+strings.Join(words, " ")+`( |$)`).Match(out) {
		return ""
	}
	return string(out)
}

// flagsOf matches the lines about flags in a help.
var flagsOf = regexp.MustCompile(`(?m)^(?:      |  -\w, )(--[a-z-]+)`)

// TestFlagsDocument: docs/flags.md has one row for each flag of run and dev, with
// its default.
func TestFlagsDocument(t *testing.T) {
	rows := map[string]string{} // by flag, the cell with its default
	for _, m := range regexp.MustCompile("(?m)^\\| `(--[a-z-]+)[^|]*` \\|([^|]*)\\|").FindAllStringSubmatch(readDoc(t, "docs", "flags.md"), -1) {
		if _, twice := rows[m[1]]; twice {
			t.Errorf("docs/flags.md has two rows for %s", m[1])
		}
		rows[m[1]] = strings.ReplaceAll(m[2], "`", "")
	}
	value := regexp.MustCompile(`\(default:? "?(.*?)"?\)$`)
	existing := map[string]bool{}
	for _, command := range []string{"run", "dev"} {
		for line := range strings.Lines(helpOf(t, "holdfast", command)) {
			m := flagsOf.FindStringSubmatch(line)
			if m == nil || m[1] == "--help" {
				continue
			}
			existing[m[1]] = true
			row, documented := rows[m[1]]
			if !documented {
				t.Errorf("docs/flags.md does not name %s of %s", m[1], command)
			}
			if of := value.FindStringSubmatch(strings.TrimSpace(line)); of != nil && !saysDefault(row, of[1]) {
				t.Errorf("%s of %s has the default %q, docs/flags.md says %q", m[1], command, of[1], row)
			}
		}
	}
	for flag := range rows {
		if !existing[flag] {
			t.Errorf("docs/flags.md names %s, which neither run nor dev has", flag)
		}
	}
}

// saysDefault reports whether a cell names a default that a help names.
func saysDefault(cell, value string) bool {
	if value == "true" {
		value = "on"
	}
	return strings.Contains(cell, value) || strings.HasSuffix(value, "m0s") && strings.Contains(cell, strings.TrimSuffix(value, "0s"))
}

// TestShownCommands: what the pages show to be typed are commands that exist,
// with flags that they have.
func TestShownCommands(t *testing.T) {
	line := regexp.MustCompile(`(?m)^(holdfast(?:-worker)? .*)$`)
	inline := regexp.MustCompile("`(holdfast(?:-worker)? [^`\n]+)`")
	for _, page := range userPages {
		text := readDoc(t, page)
		var shown []string
		for _, block := range blocks(text, "") {
			shown = append(shown, firstGroups(line, block)...)
		}
		shown = append(shown, firstGroups(inline, text)...)
		for _, command := range shown {
			command, _, _ = strings.Cut(command, " #")
			command, _, _ = strings.Cut(command, "   ") // what follows is a picture
			checkCommand(t, page, strings.Fields(command))
		}
	}
}

var helps = map[string]string{}

// checkCommand checks the words of one command, up to what is the server's.
func checkCommand(t *testing.T, page string, words []string) {
	t.Helper()
	if at := slices.Index(words, "--"); at >= 0 {
		words = words[:at]
	}
	if len(words) < 2 || strings.ToUpper(words[1]) == words[1] {
		return // no certain command, such as `holdfast COMMAND --help`
	}
	name := words[:2]
	if words[1] == "room" && len(words) > 2 {
		name = words[:3]
	}
	help := func(words ...string) string {
		key := strings.Join(words, " ")
		if _, known := helps[key]; !known {
			helps[key] = helpOf(t, words...)
		}
		return helps[key]
	}
	text := help(name...)
	if text == "" {
		t.Errorf("%s: there is no command %q", page, strings.Join(name, " "))
		return
	}
	flags := firstGroups(flagsOf, text)
	if words[1] == "install" || words[1] == "doctor" {
		flags = append(flags, firstGroups(flagsOf, help("holdfast", "run"))...)
	}
	for _, word := range words {
		if flag, _, _ := strings.Cut(word, "="); strings.HasPrefix(flag, "--") && !slices.Contains(flags, flag) {
			t.Errorf("%s: %s has no flag %s", page, strings.Join(name, " "), flag)
		}
	}
}
