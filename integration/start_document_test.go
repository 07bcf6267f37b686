package integration

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

var updateStartMatrix = flag.Bool("update-start-matrix", false, "run the whole start matrix and write docs/start-matrix.md")

const startPreface = `# Starts

What clients see, and when, of servers that need their time to start. Generated and checked by ` + "`TestStartMatrix`" + `:

` + "```" + `
go test ./integration -run TestStartMatrix -update-start-matrix
` + "```" + `

Each client sends its own first messages: those of Claude Code, Codex, Gemini CLI and the SDKs are as recorded, those of VS
Code as in its source. The server waits before it reads anything. Cold is the first start of a command, warm one after a
fast start with the same client.

A cell has the requests in their order and who answered each: the worker, as soon as it can; the cache of holdfast; or
holdfast itself, by its minimal answer to ` + "`initialize`" + `, by an error code or by a kind of error. The time is that of the
deadline after which the answer came, counted from the request. A server that refuses ` + "`initialize`" + ` after a
` + "`server/discover`" + ` is started once more, and needs its time twice. If the client has no tools, or no session, at the end,
the cell says so.
`

func startDocument(t *testing.T) string {
	t.Helper()
	return filepath.Join(harness.Workspace(t), "docs", "start-matrix.md")
}

// seen returns the cells that were run and are in the document, by their names.
func (m *startMatrix) seen() map[string]string {
	seen := map[string]string{}
	for c, steps := range m.cells {
		if m.possible[c.startPair] {
			seen[c.String()] = steps
		}
	}
	return seen
}

// documented returns what the document says of the cells that were run.
func (m *startMatrix) documented(t *testing.T) map[string]string {
	t.Helper()
	b, err := os.ReadFile(startDocument(t))
	if err != nil && (!*updateStartMatrix || !errors.Is(err, fs.ErrNotExist)) {
		t.Fatal(err)
	}
	documented, section, ran := map[string]string{}, "", m.seen()
	for line := range strings.Lines(string(b)) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = strings.TrimSpace(title)
		}
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if section == "" || len(cells) != 2+len(startColumns) {
			continue
		}
		for i, column := range startColumns {
			name := strings.Join([]string{section, strings.TrimPrefix(cells[0], "| "), cells[1], column}, ", ")
			if _, ok := ran[name]; ok {
				documented[name] = strings.TrimSuffix(cells[2+i], " |")
			}
		}
	}
	return documented
}

// write writes the document.
func (m *startMatrix) write(t *testing.T) {
	t.Helper()
	var text strings.Builder
	text.WriteString(startPreface)
	for _, era := range startEras {
		fmt.Fprintf(&text, "\n## %s\n\n| client | start | %s | %s |\n|---|---|---|---|\n", startSections[era], startColumns[0], startColumns[1])
		var impossible []string
		for _, kind := range startClients {
			pair := startPair{kind, era}
			if !m.possible[pair] {
				impossible = append(impossible, kind.name)
				continue
			}
			for _, delay := range startDelays {
				fmt.Fprintf(&text, "| %s | %s | %s | %s |\n", kind.name, delay.name,
					m.cells[startCell{pair, delay, false}], m.cells[startCell{pair, delay, true}])
			}
		}
		if len(impossible) > 0 {
			fmt.Fprintf(&text, "\nNot possible without holdfast either: %s.\n", strings.Join(impossible, ", "))
		}
	}
	if err := os.WriteFile(startDocument(t), []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
