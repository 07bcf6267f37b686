package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
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

// readDoc returns a file of the project, by its path from the top.
func readDoc(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(append([]string{harness.Workspace(t)}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// blocks returns the fenced blocks of one language in a Markdown text.
func blocks(text, language string) []string {
	var found []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	return found
}

// TestReadmeSnippet: the one Go snippet of README.md is a whole program that
// builds as it stands there, and serves plain stdio without a supervisor.
func TestReadmeSnippet(t *testing.T) {
	snippets := blocks(readDoc(t, "README.md"), "go")
	if len(snippets) != 1 {
		t.Fatalf("README.md has %d Go snippets, want 1", len(snippets))
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
		filepath.Join(module, "readme_snippet", "main.go"): source,
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
	harness.Go(t, module, "build", "-overlay", overlayFile, "-o", program, "./readme_snippet")

	c := harness.Start(t, harness.Config{Command: harness.Direct(program)})
	c.Initialize()
	if got := c.CallTool("greet", map[string]any{"name": "Ada"}).Text(t); got != "Hello, Ada!" {
		t.Errorf("the snippet's tool says %q", got)
	}
}

// TestReadmeConfigurations: the configurations that README.md shows are JSON
// that clients understand, and start holdfast as it wants to be started.
func TestReadmeConfigurations(t *testing.T) {
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
	for _, block := range blocks(readDoc(t, "README.md"), "json") {
		if !strings.Contains(block, `"command"`) {
			continue
		}
		var c config
		decoder := json.NewDecoder(strings.NewReader(block))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&c); err != nil {
			t.Errorf("%v in\n%s", err, block)
		}
		mcpServers += len(c.MCPServers)
		servers += len(c.Servers)
		for _, entries := range []map[string]entry{c.MCPServers, c.Servers} {
			for name, e := range entries {
				at := slices.Index(e.Args, "--")
				if e.Command != "holdfast" || len(e.Args) < 3 || e.Args[0] != "run" || at < 1 || at == len(e.Args)-1 {
					t.Errorf("entry %s does not start `holdfast run ... -- COMMAND`: %+v", name, e)
				}
			}
		}
	}
	if mcpServers == 0 || servers == 0 {
		t.Errorf("%d entries under mcpServers and %d under servers, want some of each", mcpServers, servers)
	}
}

// TestReadmeOutcome: the example of an unknown outcome in README.md has the
// shape that clients get.
func TestReadmeOutcome(t *testing.T) {
	for _, block := range blocks(readDoc(t, "README.md"), "json") {
		if !strings.Contains(block, protocol.MetaError) {
			continue
		}
		var shown struct {
			Meta map[string]json.RawMessage `json:"_meta"`
		}
		if err := json.Unmarshal([]byte(block), &shown); err != nil {
			t.Fatal(err)
		}
		var typed protocol.Error
		decoder := json.NewDecoder(bytes.NewReader(shown.Meta[protocol.MetaError]))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&typed); err != nil {
			t.Fatal(err)
		}
		if typed.Kind != protocol.OutcomeUnknown || typed.Retryable != typed.Kind.Retryable() {
			t.Errorf("the example is %s, retryable %v", typed.Kind, typed.Retryable)
		}
		if diff := cmp.Diff(compact(t, typed.ToolResult(false)), compact(t, []byte(block))); diff != "" {
			t.Errorf("the example and what a client gets (-client +README.md):\n%s", diff)
		}
		return
	}
	t.Error("README.md shows no " + protocol.MetaError)
}

// compact returns a JSON text with its members in a fixed order.
func compact(t *testing.T, text []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestReadmeFlags: the table of flags in README.md and those of the program
// are the same.
func TestReadmeFlags(t *testing.T) {
	flag := regexp.MustCompile("(?m)^\\| `--([a-z-]+)")
	help := regexp.MustCompile(`(?m)^(?:      |  -\w, )--([a-z-]+)`)
	documented := firstGroups(flag, readDoc(t, "README.md"))
	text, err := exec.CommandContext(t.Context(), harness.Holdfast(t), "dev", "--help").Output() // it has those of run
	if err != nil {
		t.Fatal(err)
	}
	existing := firstGroups(help, string(text))
	existing = slices.DeleteFunc(existing, func(name string) bool { return name == "help" })
	if diff := cmp.Diff(existing, documented); diff != "" {
		t.Errorf("flags of holdfast run and dev (-program +README.md):\n%s", diff)
	}
}

func firstGroups(pattern *regexp.Regexp, text string) []string {
	var found []string
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	slices.Sort(found)
	return found
}

// TestProtocolDocument: docs/protocol.md names the values that authors of
// workers in other languages copy from it.
func TestProtocolDocument(t *testing.T) {
	text := readDoc(t, "docs", "protocol.md")
	handshake := protocol.Handshake()
	wanted := []string{
		handshake.MagicCookieKey, handshake.MagicCookieValue,
		fmt.Sprintf("1|%d|unix|", protocol.WireVersion),
		"`" + protocol.MetaError + "`", "`" + protocol.MetaAttachmentExpired + "`", "`" + protocol.MetaAttachmentUnavailable + "`",
		"`" + protocol.FeatureMultiSession + "`", "`" + protocol.FeatureDrain + "`", "`" + protocol.FeatureExit + "`",
	}
	for _, k := range []protocol.Kind{
		protocol.OutcomeUnknown, protocol.WorkerUnavailable, protocol.WorkerStarting, protocol.FrameTooLarge, protocol.StaleSchema,
	} {
		wanted = append(wanted, fmt.Sprintf("| `%s` | %d | %s |", k, k.Code(), map[bool]string{true: "yes", false: "no"}[k.Retryable()]))
	}
	for _, w := range wanted {
		if !strings.Contains(text, w) {
			t.Errorf("docs/protocol.md does not say %s", w)
		}
	}
}

// TestLinks: files that the documents link to exist.
func TestLinks(t *testing.T) {
	top := harness.Workspace(t)
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	documents, err := filepath.Glob(filepath.Join(top, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	decisions, err := filepath.Glob(filepath.Join(top, "docs", "adr", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"} {
		documents = append(documents, filepath.Join(top, name))
	}
	for _, path := range append(documents, decisions...) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, target := range firstGroups(link, string(b)) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), target)); err != nil {
				t.Errorf("%s: %v", filepath.Base(path), err)
			}
		}
	}
}
