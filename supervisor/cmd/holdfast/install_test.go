package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/holdfast-mcp/holdfast/supervisor/internal/config"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/editor"
)

// How install and uninstall may be called. Nothing is written by a call that
// is refused.
func TestInstallUsage(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, tt := range []struct {
		args string
		code int
		says string
	}{
		{"install", exitUsage, "needs one CLIENT"},
		{"install cursor", exitUsage, "either --name or --wrap"},
		{"install cursor --name a --wrap b -- x", exitUsage, "either --name or --wrap"},
		{"install cursor other --name a -- x", exitUsage, "needs one CLIENT"},
		{"install cursor --name a x", exitUsage, "needs one CLIENT"},
		{"install emacs --name a -- x", exitUsage, `no client "emacs"; known are claude-code, claude-desktop`},
		{"install cursor --name a", exitUsage, "no server given"},
		{"install cursor --name a.b -- x", exitUsage, `--name "a.b"`},
		{"install cursor --name a --user --project -- x", exitUsage, "one of --user"},
		{"install cursor --name a --local -- x", exitUsage, "Cursor has no servers for --local"},
		{"install claude-desktop --name a --project -- x", exitUsage, "Claude Desktop has no servers for --project"},
		{"install cursor --name a --json -- x", exitUsage, "--json belongs to --list"},
		{"install cursor --name a --bogus -- x", exitUsage, "--bogus"},
		{"install cursor --name a --max-frame 1 -- x", exitUsage, "--max-frame 1"},
		{"install cursor --name a --log-level loud -- x", exitUsage, "loud"},
		{"install cursor --name a --cwd none -- x", exitUsage, "none"},
		{"install cursor --name a --env A -- x", exitUsage, "--env"},
		{"install cursor --wrap a -- x", exitUsage, "--wrap takes its command"},
		{"install cursor --wrap a --worker x", exitUsage, "--wrap takes its command"},
		{"install cursor --wrap a --force", exitUsage, "--wrap takes its command"},
		{"install cursor --wrap a", exitFailure, "no entry of that name"},
		{"install --list a b", exitUsage, "at most one CLIENT"},
		{"install --list emacs", exitUsage, "no client"},
		{"uninstall", exitUsage, "needs CLIENT and NAME"},
		{"uninstall emacs a", exitUsage, "no client"},
		{"uninstall cursor a", exitFailure, "no entry of that name"},
		{"uninstall cursor a --local", exitUsage, "--local"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			code, stdout, stderr := call(t, strings.Fields(tt.args)...)
			if code != tt.code || stdout != "" || !strings.Contains(stderr, tt.says) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("exit code %d, stdout %q, stderr %q, want %d, %q", code, stdout, stderr, tt.code, tt.says)
			}
			if _, err := os.Stat(filepath.Join(os.Getenv("HOME"), ".cursor")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("something was written: %v", err)
			}
		})
	}
}

// entryOf returns the entry that a command line makes, and what is noted.
func entryOf(t *testing.T, client string, args ...string) (editor.Server, []string) {
	t.Helper()
	c, ok := editor.ByName(client)
	if !ok {
		t.Fatal(client)
	}
	in := &installation{config: config.Default(), run: pflag.NewFlagSet("run", pflag.ContinueOnError), given: pflag.NewFlagSet("install", pflag.ContinueOnError)}
	in.given.SortFlags = false
	in.given.BoolVar(&in.asGiven, "as-given", false, "")
	in.given.BoolVar(&in.project, "project", false, "")
	addRunFlags(in.run, &in.config)
	in.given.AddFlagSet(in.run)
	if err := in.given.Parse(args); err != nil {
		t.Fatal(err)
	}
	in.name = "n"
	var n notes
	w, err := newWriter(in, c, &n)
	if err != nil {
		t.Fatal(err)
	}
	return w.entry(in.given.Args()), n
}

// TestEntry: what of a command line becomes which part of an entry.
func TestEntry(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("skipped: executables have other names on Windows")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	tools := filepath.Join(dir, "tools")
	for _, path := range []string{filepath.Join(tools, "server"), filepath.Join(dir, "local"), filepath.Join(dir, "sub", "local")} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", tools)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args string
		want string // "$" is the folder
		env  string
		note string
	}{
		{"-- server x", "run --name n -- $/tools/server x", "", "server is written as $/tools/server; Cursor may start it with a short PATH"},
		{"--env PATH=/x -- server", "run --name n -- $/tools/server", "PATH=/x", "!short PATH"},
		{"-- ./local", "run --name n -- $/local", "", "!note"},
		{"--cwd sub -- ./local", "run --name n --cwd $/sub -- $/sub/local", "", "!relative"},
		{"-- none x", "run --name n -- none x", "", "not found in PATH"},
		{"-- ./none", "run --name n -- ./none", "", "does not exist"},
		{"-- ${workspaceFolder}/server", "run --name n -- ${workspaceFolder}/server", "", "!found"},
		{"-- server local", "run --name n -- $/tools/server local", "", "local is a relative path"},
		{"-- server -v --local $/local", "run --name n -- $/tools/server -v --local $/local", "", "!relative"},
		{"--worker ./local -- server local", "run --name n --worker $/local -- server local", "", ""},
		{"--worker server", "run --name n --worker $/tools/server", "", ""},
		{"--replay-annotated --hold-timeout 5s --env-file e --log-file l --config c -- server", "run --name n --replay-annotated --hold-timeout 5s --env-file $/e --log-file $/l --config $/c -- $/tools/server", "", ""},
		{"--replay-annotated=false --crash-budget 9/1m -- server", "run --name n --replay-annotated=false --crash-budget 9/1m0s -- $/tools/server", "", ""},
		{"--env A=1 --env B= --env A=2=3 --env HOLDFAST_X=1 -- server", "run --name n --env HOLDFAST_X=1 -- $/tools/server", "B= A=2=3", ""},
		{"--as-given --cwd sub -- server x", "run --name n --cwd sub -- server x", "", "!note"},
		{"--project -- ./local", "run --name n -- $/local", "", "--as-given"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			expand := func(s string) string { return strings.ReplaceAll(s, "$/", dir+"/") }
			s, notes := entryOf(t, "cursor", strings.Fields(expand(tt.args))...)
			wantCommand := self
			if strings.Contains(tt.args, "--as-given") {
				wantCommand = "holdfast"
			}
			if got := strings.Join(s.Args, " "); got != expand(tt.want) || s.Command != wantCommand {
				t.Errorf("%s %s, want %s %s", s.Command, got, wantCommand, expand(tt.want))
			}
			var env []string
			for _, v := range s.Env {
				env = append(env, v.Name+"="+v.Value)
			}
			if got := strings.Join(env, " "); got != tt.env {
				t.Errorf("env %q, want %q", got, tt.env)
			}
			said := strings.Join(slices.DeleteFunc(notes, func(n string) bool { return strings.Contains(n, "holdfast-worker") }), "\n")
			if unwanted, ok := strings.CutPrefix(tt.note, "!"); ok {
				if strings.Contains(said, unwanted) || unwanted == "note" && said != "" {
					t.Errorf("notes: %s", said)
				}
			} else if !strings.Contains(said, expand(tt.note)) {
				t.Errorf("notes: %q, want %q", said, tt.note)
			}
		})
	}
	if _, notes := entryOf(t, "claude-code", "--", "server"); strings.Contains(strings.Join(notes, " "), "short PATH") {
		t.Errorf("a program of the terminal has no short PATH: %q", notes)
	}
}

// The path of this program is that on PATH, which an update keeps.
func TestOwnPath(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	link := filepath.Join(dir, "holdfast")
	if runtime.GOOS == "windows" {
		link += ".exe"
	}
	t.Setenv("PATH", dir)
	if got, err := ownPath(); err != nil || got != self {
		t.Errorf("without one on PATH: %s, %v", got, err)
	}
	if err := os.Link(self, link); err != nil {
		t.Skipf("skipped: %v", err)
	}
	if got, err := ownPath(); err != nil || got != link {
		t.Errorf("%s, %v, want %s", got, err, link)
	}
	if err := errors.Join(os.Remove(link), os.WriteFile(link, []byte("x"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if got, err := ownPath(); err != nil || got != self {
		t.Errorf("beside another holdfast: %s, %v", got, err)
	}
}

// SEC-3: what a foreign file says does not reach the terminal as it is.
func TestSEC3ForTerminal(t *testing.T) {
	diff := []byte("@@ -1 +1 @@\n-a\x1b]0;x\x07\r\n+b\u009b31m\n c\t\n")
	const bad = "\uFFFD"
	if got, want := string(forTerminal(diff, false)), "@@ -1 +1 @@\n-a"+bad+"]0;x"+bad+"\n+b"+bad+"31m\n c\t\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := string(forTerminal([]byte("+a\n c\n"), true)); got != "\x1b[32m+a\x1b[m\n c\n" {
		t.Errorf("%q", got)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := printDiff(file, diff); err != nil || read(t, file.Name()) != string(diff) {
		t.Errorf("a file gets %q, %v, want it as it is", read(t, file.Name()), err)
	}
}

// The list says of each place what is there, without env and without what a
// terminal would act on.
func TestInstallList(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(home string) {
		if err := os.WriteFile(filepath.Join(home, ".claude.json"), []byte(`{"mcpServers": {"a\u001b[m": {"command": "/x/holdfast", "args": ["run", "--", "node"], "env": {"T": "secret"}}, "r": {"url": "x"}}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Mkdir(filepath.Join(home, ".codex"), 0o700), os.WriteFile(filepath.Join(home, ".codex", "config.toml"), []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	code, stdout, stderr := callIn(t, write, "install", "--list")
	if code != exitOK || stderr != "" || strings.ContainsAny(stdout, "\x1b") || strings.Contains(stdout, "secret") {
		t.Errorf("exit code %d, %q, stderr %q", code, stdout, stderr)
	}
	for _, want := range []string{"a\uFFFD[m", "  holdfast  /x/holdfast run -- node\n", "  remote\n", "cursor          user     ", "cannot be read\n", "line 1, column 1"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	code, stdout, _ = callIn(t, write, "install", "--list", "--json", "claude-code")
	var places []listedPlace
	if err := json.Unmarshal([]byte(stdout), &places); err != nil || code != exitOK || strings.Contains(stdout, "secret") {
		t.Fatalf("exit code %d, %v, %s", code, err, stdout)
	}
	if len(places) != 3 || len(places[0].Has) != 2 || !places[0].Has[0].Holdfast || places[0].Has[1].Holdfast || !places[0].Exists || places[1].Exists || places[1].Scope != editor.Project {
		t.Errorf("%+v", places)
	}
}
