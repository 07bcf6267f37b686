package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

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

// heading matches the headings of a Markdown text.
var heading = regexp.MustCompile("(?m)^#+ (.+)$")

// anchors returns the names by which the headings of a text can be linked to.
func anchors(text string) []string {
	text = regexp.MustCompile("(?ms)^ *```.*?^ *```$").ReplaceAllString(text, "")
	dropped := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	var names []string
	for _, title := range firstGroups(heading, text) {
		names = append(names, strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(title), ""), " ", "-"))
	}
	return names
}

// TestLinks: files that the documents link to exist, and have the headings.
func TestLinks(t *testing.T) {
	top := harness.Workspace(t)
	link := regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`)
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
		for _, m := range link.FindAllStringSubmatch(string(b), -1) {
			target, anchor := filepath.Join(filepath.Dir(path), m[1]), m[2]
			if m[1] == "" {
				target = path
			}
			there, err := os.ReadFile(target)
			if info, e := os.Stat(target); e == nil && info.IsDir() {
				err = nil
			}
			if err != nil {
				t.Errorf("%s: %v", filepath.Base(path), err)
			} else if anchor != "" && !slices.Contains(anchors(string(there)), anchor) {
				t.Errorf("%s: %s has no heading #%s", filepath.Base(path), m[1], anchor)
			}
		}
	}
}
