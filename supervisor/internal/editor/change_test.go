package editor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// home is a user without any files.
func home(t *testing.T) Editor {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	project := filepath.Join(dir, "project")
	if err := os.Mkdir(project, 0o755); err != nil {
		t.Fatal(err)
	}
	return Editor{Host{OS: runtime.GOOS, Home: dir, Dir: project, Getenv: func(string) string { return "" }}}
}

func placeOf(t *testing.T, e Editor, client string, s Scope) Place {
	t.Helper()
	c, ok := ByName(client)
	if !ok {
		t.Fatalf("no client %s", client)
	}
	p, err := c.Place(e.Host, s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func applied(t *testing.T) func(*Change, error) *Change {
	return func(c *Change, err error) *Change {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Apply(); err != nil {
			t.Fatal(err)
		}
		return c
	}
}

// around is what puts holdfast in front of an entry.
func around(s Server) (string, []string, error) {
	return "/opt/holdfast", []string{"run", "--", "/abs/" + s.Command}, nil
}

// TestLocal: the servers that Claude Code has for one user in one project are
// below the path of the repository.
func TestLocal(t *testing.T) {
	e := home(t)
	sub := filepath.Join(e.Host.Dir, "a", "b")
	if err := errors.Join(os.MkdirAll(sub, 0o755), os.Mkdir(filepath.Join(e.Host.Dir, ".git"), 0o755)); err != nil {
		t.Fatal(err)
	}
	top := filepath.ToSlash(e.Host.Dir)
	e.Host.Dir = sub
	p := placeOf(t, e, "claude-code", Local)
	before := "{\n  \"projects\": {\n    \"" + top + "\": {\n      \"mcpServers\": {\n        \"notes\": {\n          \"command\": \"node\"\n        }\n      }\n    }\n  }\n}"
	write(t, p.File, before)
	c := applied(t)(e.Wrap(p, "notes", around))
	if c.Server.Command != "/opt/holdfast" || !strings.Contains(read(t, p.File), "\"/abs/node\"\n") {
		t.Errorf("%+v in\n%s", c.Server, read(t, p.File))
	}
	applied(t)(e.Uninstall(p, "notes"))
	if diff := cmp.Diff(before, read(t, p.File)); diff != "" {
		t.Error(diff)
	}
}

// Whatever is in a file, an entry that is put in and taken out, or wrapped and
// unwrapped, leaves its bytes as they were.
func TestUndoRestoresBytes(t *testing.T) {
	for _, client := range []string{"claude-code", "zed", "codex"} {
		t.Run(client, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				e := home(t)
				p := placeOf(t, e, client, User)
				text := drawTOML(rt, "a", "b")
				if client != "codex" {
					text = strings.ReplaceAll(drawJSON(rt, drawLayout(rt, client == "zed"), "a", "b"), "mcpServers", p.keys[0])
				}
				write(t, p.File, text)
				name := "a"
				if rapid.Bool().Draw(rt, "wrap") {
					applied(t)(e.Wrap(p, name, around))
				} else {
					name = ours.Name
					applied(t)(e.Install(p, ours, false))
				}
				if c := applied(t)(e.Uninstall(p, name)); !c.Exact {
					rt.Error("not said to be exact")
				}
				if got := read(t, p.File); got != text {
					rt.Fatalf("was\n%q\nis\n%q", text, got)
				}
				if left, _ := filepath.Glob(filepath.Join(e.Host.state(), "*")); len(left) > 0 {
					rt.Errorf("left: %q", left)
				}
			})
		})
	}
}

// What was changed since is kept by an undo.
func TestUndoAfterChange(t *testing.T) {
	const before = "{\n  // mine\n  \"context_servers\": {\n    \"a\": { \"command\": \"node\", \"args\": [\"x\"] },\n  },\n}\n"
	change := func(text string) string {
		return strings.Replace(strings.ReplaceAll(text, "// mine", "// yours"), "\"x\"", "\"x\", \"y\"", 1)
	}
	for _, how := range []string{"install", "wrap"} {
		t.Run(how, func(t *testing.T) {
			e := home(t)
			p := placeOf(t, e, "zed", User)
			write(t, p.File, before)
			name := "a"
			if how == "wrap" {
				applied(t)(e.Wrap(p, name, around))
			} else {
				name = ours.Name
				applied(t)(e.Install(p, ours, false))
			}
			write(t, p.File, change(read(t, p.File)))
			if c := applied(t)(e.Uninstall(p, name)); c.Exact || c.Unwrapped != (how == "wrap") {
				t.Errorf("%+v", c)
			}
			if diff := cmp.Diff(change(before), read(t, p.File)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A command that was changed behind holdfast stays the new one.
func TestUndoOfChangedCommand(t *testing.T) {
	e := home(t)
	p := placeOf(t, e, "codex", User)
	write(t, p.File, "[mcp_servers.a]\ncommand = 'node'\n")
	applied(t)(e.Wrap(p, "a", around))
	write(t, p.File, strings.Replace(read(t, p.File), "/abs/node", "/abs/deno", 1))
	applied(t)(e.Uninstall(p, "a"))
	if want := "[mcp_servers.a]\ncommand = \"/abs/deno\"\nargs = []\n"; read(t, p.File) != want {
		t.Errorf("%s", read(t, p.File))
	}
}

// Keys that were made for an entry go with it, even when the file has changed.
func TestUndoOfKeys(t *testing.T) {
	e := home(t)
	p := placeOf(t, e, "claude-code", Local)
	write(t, p.File, "{\n  \"a\": 1\n}\n")
	applied(t)(e.Install(p, ours, false))
	write(t, p.File, strings.Replace(read(t, p.File), "1", "2", 1))
	applied(t)(e.Uninstall(p, ours.Name))
	if got := read(t, p.File); got != "{\n  \"a\": 2\n}\n" {
		t.Errorf("%s", got)
	}
}

// An entry that starts holdfast and was put there by hand gets its own command.
func TestUndoWithoutRecord(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{`["run", "--cwd", "/x", "--env=A=1", "--", "node", "a", "b"]`, `{"command": "node", "args": ["a", "b"]}`},
		{`["run", "--", "node"]`, `{"command": "node", "args": []}`},
		{`["run", "--worker", "/w", "--", "-v"]`, `{"command": "/w", "args": ["-v"]}`},
		{`["run", "--worker=/w"]`, `{"command": "/w", "args": []}`},
	} {
		e := home(t)
		p := placeOf(t, e, "cursor", User)
		write(t, p.File, `{"mcpServers": {"a": {"command": "holdfast", "args": `+tt.args+`}}}`)
		c := applied(t)(e.Uninstall(p, "a"))
		if want := `{"mcpServers": {"a": ` + tt.want + `}}`; read(t, p.File) != want || !c.Unwrapped {
			t.Errorf("%s became %s, want %s", tt.args, read(t, p.File), want)
		}
		if lost := strings.Join(c.Dropped, " "); strings.Contains(tt.args, "--cwd") != (lost == "--cwd --env") {
			t.Errorf("%s: dropped %q", tt.args, lost)
		}
	}
}

func TestRefusals(t *testing.T) {
	const text = `{"mcpServers": {"node": {"command": "node"}, "remote": {"url": "http://x"}, "ours": {"command": "/holdfast", "args": ["run", "node"]}}}`
	e := home(t)
	p := placeOf(t, e, "cursor", User)
	write(t, p.File, text)
	check := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
		if read(t, p.File) != text {
			t.Fatalf("%s has changed the file", what)
		}
	}
	_, err := e.Install(p, Server{Name: "node", Command: "x"}, false)
	check("install over another", err, ErrExists)
	_, err = e.Wrap(p, "none", around)
	check("wrap nothing", err, ErrNotFound)
	_, err = e.Wrap(p, "remote", around)
	check("wrap a remote server", err, ErrNoCommand)
	_, err = e.Wrap(p, "ours", around)
	check("wrap twice", err, ErrWrapped)
	_, err = e.Uninstall(p, "node")
	check("uninstall of another", err, ErrNotOurs)
	_, err = e.Uninstall(p, "none")
	check("uninstall of nothing", err, ErrNotFound)
	_, err = e.Uninstall(p, "ours")
	check("uninstall without a --", err, ErrNoCommand)
	if _, err := e.Install(p, Server{Name: "x", Command: "a\xff"}, false); err == nil {
		t.Error("a command that is not UTF-8 is written")
	}
	c, err := e.Install(p, ours, false)
	check("a change that is not applied", err, nil)
	write(t, p.File, text+"\n")
	if err := c.Apply(); !errors.Is(err, ErrChanged) || read(t, p.File) != text+"\n" {
		t.Errorf("a file that was changed meanwhile: %v", err)
	}
	if err := os.Remove(p.File); err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(); !errors.Is(err, ErrChanged) {
		t.Errorf("a file that was removed meanwhile: %v", err)
	}
}

// An entry that cannot be read is one as well; it can be overwritten, unless
// it is there twice.
func TestOverwriteUnreadable(t *testing.T) {
	for text, says := range map[string]string{
		`{"mcpServers": {"notes": {"command": "x", "args": "y"}}}`: "",
		`{"mcpServers": {"notes": 1}}`:                             "",
		`{"mcpServers": {"notes": {}, "notes": {}}}`:               "twice",
	} {
		e := home(t)
		p := placeOf(t, e, "cursor", User)
		write(t, p.File, text)
		if _, err := e.Install(p, ours, false); !errors.Is(err, ErrExists) {
			t.Errorf("%s: %v", text, err)
		}
		c, err := e.Install(p, ours, true)
		if says != "" {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		applied(t)(c, err)
		applied(t)(e.Uninstall(p, ours.Name))
		if got := read(t, p.File); got != text {
			t.Errorf("%s became %s", text, got)
		}
	}
}

// An entry that is overwritten comes back, and one of holdfast's own leaves
// nothing of the one before it.
func TestOverwrite(t *testing.T) {
	other := ours
	other.Args = []string{"run", "--", "other"}
	for _, tt := range []struct{ name, before string }{
		{"foreign", "{\n  \"mcpServers\": {\n    \"notes\": {\n      \"command\": \"node\"\n    }\n  }\n}\n"},
		{"own", "{\n  \"a\": 1\n}\n"},
		{"own in a new file", ""},
	} {
		for _, changed := range []bool{false, true} {
			e := home(t)
			p := placeOf(t, e, "gemini", User)
			if tt.before != "" {
				write(t, p.File, tt.before)
			}
			if tt.name != "foreign" {
				applied(t)(e.Install(p, other, false))
				if changed {
					write(t, p.File, read(t, p.File)+"// changed\n")
				}
			}
			applied(t)(e.Install(p, ours, true))
			if strings.Contains(read(t, p.File), "other") {
				t.Errorf("%s: not overwritten", tt.name)
			}
			applied(t)(e.Uninstall(p, ours.Name))
			b, err := os.ReadFile(p.File)
			switch {
			case tt.before == "" && !changed:
				if !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s: the file is still there: %v", tt.name, err)
				}
			case changed && tt.name != "foreign":
				want := tt.before
				if want == "" {
					want = "{}\n"
				}
				if string(b) != want+"// changed\n" || err != nil {
					t.Errorf("%s, changed: %q, %v", tt.name, b, err)
				}
			case string(b) != tt.before:
				t.Errorf("%s: %q, %v", tt.name, b, err)
			}
		}
	}
}

func TestListAndFind(t *testing.T) {
	e := home(t)
	write(t, placeOf(t, e, "claude-code", User).File, `{"mcpServers": {"a": {"command": "holdfast", "args": ["run", "--", "x"]}, "b": {"url": "http://x"}}}`)
	write(t, placeOf(t, e, "claude-code", Project).File, `{"mcpServers": {"a": {"command": "node"}}}`)
	write(t, placeOf(t, e, "codex", User).File, "x")
	var got []string
	for _, l := range e.List(Clients()) {
		if l.Exists || l.Err != nil {
			line := l.Place.Client.Name + " " + string(l.Place.Scope)
			for _, s := range l.Servers {
				line += " " + s.Name
				if s.Supervised() {
					line += "!"
				}
			}
			if l.Err != nil {
				line += " error"
			}
			got = append(got, line)
		}
	}
	want := []string{"claude-code user a! b", "claude-code project a", "claude-code local", "codex user error"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	claude, _ := ByName("claude-code")
	found, err := e.Find(claude, "a", claude.Scopes())
	if err != nil || len(found) != 2 || found[1].Place.Scope != Project {
		t.Errorf("%+v, %v", found, err)
	}
	// At home, the project's file is that of the user.
	cursor, _ := ByName("cursor")
	e.Host.Dir = e.Host.Home
	write(t, placeOf(t, e, "cursor", Project).File, `{"mcpServers": {"a": {"command": "x"}}}`)
	if found, err := e.Find(cursor, "a", cursor.Scopes()); err != nil || len(found) != 1 || found[0].Place.Scope != User {
		t.Errorf("at home: %+v, %v", found, err)
	}
	if l := e.List([]Client{cursor}); len(l) != 1 {
		t.Errorf("at home: %+v", l)
	}
	codex, _ := ByName("codex")
	if _, err := e.Find(codex, "a", codex.Scopes()); err == nil {
		t.Error("a file that cannot be read hides what is in it")
	}
}

func TestDiff(t *testing.T) {
	e := home(t)
	p := placeOf(t, e, "codex", User)
	c, err := e.Install(p, Server{Name: "n", Command: "h"}, false)
	if err != nil {
		t.Fatal(err)
	}
	if d := string(c.Diff()); !strings.Contains(d, "--- "+os.DevNull+"\n") || !strings.Contains(d, "\n+command = \"h\"\n") {
		t.Errorf("%s", d)
	}
	if _, err := os.Stat(p.File); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a diff writes: %v", err)
	}
	if err := c.Apply(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(read(t, p.File), "h") {
		t.Error("not written")
	}
}
