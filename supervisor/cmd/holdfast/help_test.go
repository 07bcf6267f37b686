package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "write what is printed into testdata")

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(read(t, path), got); diff != "" {
		t.Errorf("-want +got, see -update:\n%s", diff)
	}
}

// commands are those that people see, the root first.
func commands() []*cobra.Command {
	root := newRoot(streams{}, nil)
	all := []*cobra.Command{root}
	for _, cmd := range root.Commands() {
		if !cmd.Hidden {
			all = append(all, cmd)
		}
	}
	return all
}

// The help texts are what users see first; their changes are to be seen too.
// They fit into some 80 columns, but for the lists of flags.
func TestHelp(t *testing.T) {
	for _, cmd := range commands() {
		name := strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), "holdfast"), " ")
		t.Run(cmd.CommandPath(), func(t *testing.T) {
			code, stdout, stderr := call(t, strings.Fields(name+" --help")...)
			if code != exitOK || stderr != "" {
				t.Errorf("exit code %d, stderr %q", code, stderr)
			}
			golden(t, strings.TrimPrefix(name+"-help.txt", "-"), stdout)
			for line := range strings.Lines(cmd.Long + "\n" + cmd.Example) {
				if len([]rune(line)) > 83 && !strings.Contains(line, "completion bash >") {
					t.Errorf("a line of %d columns: %s", len(line), line)
				}
			}
		})
	}
}

// The manual has a page for each command, with all that its help has.
func TestMan(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "man1")
	if code, stdout, stderr := call(t, "man", dir); code != exitOK || stdout+stderr != "" {
		t.Fatalf("exit code %d, %q, %q", code, stdout, stderr)
	}
	pages, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := commands()
	if len(pages) != len(all) {
		t.Errorf("%d pages for %d commands", len(pages), len(all))
	}
	for _, cmd := range all {
		page := read(t, filepath.Join(dir, manName(cmd)+".1"))
		for _, want := range []string{".TH ", ".SH NAME\n", ".SH SYNOPSIS\n", ".SH DESCRIPTION\n", ".SH SEE ALSO\n"} {
			if !strings.Contains(page, want) {
				t.Errorf("%s has no %q", manName(cmd), want)
			}
		}
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, "'") {
				t.Errorf("%s: a request by accident: %s", manName(cmd), line)
			}
		}
	}
	golden(t, "holdfast-swap.1", strings.ReplaceAll(read(t, filepath.Join(dir, "holdfast-swap.1")), roff(version()), "VERSION"))
	if code, _, stderr := call(t, "man"); code != exitUsage || !strings.Contains(stderr, "one DIR") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

func TestVersion(t *testing.T) {
	code, stdout, stderr := call(t, "version")
	first, _, _ := strings.Cut(stdout, "\n")
	if code != exitOK || stderr != "" || first != "holdfast "+version() || !strings.Contains(stdout, "wire      1 to 1\n") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	code, stdout, stderr = call(t, "version", "--json")
	var b build
	if err := json.Unmarshal([]byte(stdout), &b); err != nil || code != exitOK || stderr != "" || b != thisBuild() || b.Go == "" || b.Wire.Max == 0 {
		t.Errorf("exit code %d, stdout %q, stderr %q: %v", code, stdout, stderr, err)
	}
}

// Completions are scripts; names of clients and of what they have are completed
// without one being run.
func TestCompletion(t *testing.T) {
	for _, shell := range shells {
		code, stdout, stderr := call(t, "completion", shell)
		if code != exitOK || stderr != "" || !strings.Contains(stdout, "holdfast") || strings.Count(stdout, "\n") < 50 {
			t.Errorf("%s: exit code %d, %d bytes, %q", shell, code, len(stdout), stderr)
		}
	}
	for _, args := range []string{"completion", "completion tcsh", "completion bash zsh"} {
		if code, _, stderr := call(t, strings.Fields(args)...); code != exitUsage || !strings.Contains(stderr, "bash, zsh") {
			t.Errorf("%s: exit code %d, %q", args, code, stderr)
		}
	}
	cursor := func(home string) {
		text := `{"mcpServers":{"notes":{"command":"/x/holdfast","args":["run","--","n"]},"direct":{"command":"n"}}}`
		if err := os.MkdirAll(filepath.Join(home, ".cursor"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, ".cursor", "mcp.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for args, want := range map[string]string{
		"swa":                     "swap\tReplace",
		"install c":               "claude-code\tClaude Code\nclaude-desktop\tClaude Desktop\ncursor\tCursor\n",
		"uninstall cursor ":       "notes\tuser\n:4\n",
		"completion z":            "zsh\n",
		"run --swap o":            "overlap\nsequential\n",
		"dev --stale-schema ":     "refuse\nforward\n",
		"install cursor -- ":      ":0\n",
		"doctor notes -- ":        ":0\n",
		"uninstall cursor notes ": ":4\n",
	} {
		words := strings.Split(args, " ")
		code, stdout, _ := callIn(t, cursor, append([]string{"__complete"}, words...)...)
		if code != exitOK || !strings.HasPrefix(stdout, want) {
			t.Errorf("%q completes to %q, want %q", args, stdout, want)
		}
	}
}
