package integration

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// TestInstall: the scripts in testdata/install, each with a home of its own.
// They have files of all clients, and what becomes of them.
func TestInstall(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("skipped: the files are where Linux has them; the other systems are tested in package editor")
	}
	bin := filepath.Dir(harness.Holdfast(t))
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "install"),
		Setup: func(e *testscript.Env) error {
			home := filepath.Join(e.WorkDir, "home")
			tools := filepath.Join(e.WorkDir, "tools")
			e.Setenv("BIN", bin)
			e.Setenv("HOME", home)
			e.Setenv("PATH", strings.Join([]string{bin, tools, "/usr/bin", "/bin"}, ":"))
			if err := os.MkdirAll(tools, 0o700); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(tools, "server"), []byte("#!/bin/sh\n"), 0o700); err != nil {
				return err
			}
			return expandKeys(e, filepath.Join(home, ".claude.json"))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// expandKeys puts the work folder into a file that has paths as keys.
func expandKeys(e *testscript.Env, path string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(strings.ReplaceAll(string(text), "$WORK", e.WorkDir)), 0o600)
}

// exits runs a program that has to end with an exit code: exits 2 holdfast x.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	if neg || err != nil || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS...")
	}
	err = ts.Exec(args[1], args[2:]...)
	code := 0
	if exit, ok := err.(*exec.ExitError); ok {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

// TestInstallDocument: docs/install.md has the clients and the flags of the
// program.
func TestInstallDocument(t *testing.T) {
	text := readDoc(t, "docs", "install.md")
	at := newClientHome(t)
	var places []struct{ Client, Scope string }
	if err := json.Unmarshal([]byte(at.run(t, harness.Holdfast(t), "install", "--list", "--json")), &places); err != nil {
		t.Fatal(err)
	}
	for _, p := range places {
		if !strings.Contains(text, "\n| `"+p.Client+"` |") || !strings.Contains(text, "`--"+p.Scope+"`") {
			t.Errorf("docs/install.md does not have %s --%s", p.Client, p.Scope)
		}
	}
	if len(places) < 7 {
		t.Errorf("%d places", len(places))
	}
	flags := firstGroups(regexp.MustCompile(`(?m)^      --([a-z-]+)`), at.run(t, harness.Holdfast(t), "install", "--help"))
	for _, flag := range flags {
		if !strings.Contains(text, "--"+flag) {
			t.Errorf("docs/install.md does not have --%s", flag)
		}
	}
	if len(flags) < 8 {
		t.Errorf("%d flags", len(flags))
	}
}
