package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// call runs a command line and returns what it wrote.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return callIn(t, func(string) {}, args...)
}

// callIn is call with something in the home of the user.
func callIn(t *testing.T, prepare func(home string), args ...string) (code int, stdout, stderr string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"HOME", "USERPROFILE", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "APPDATA", "LOCALAPPDATA"} {
		t.Setenv(name, dir) // nobody's own settings
	}
	for _, name := range []string{"CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"} {
		t.Setenv(name, "")
	}
	prepare(dir)
	file := func(name string) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	std := streams{file("in"), file("out"), file("err")}
	code = run(args, std, make(chan os.Signal))
	return code, read(t, std.out.Name()), read(t, std.err.Name())
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Wrong usage is exit code 2, any other failure 1, each with one line on
// stderr and nothing on stdout.
func TestErrors(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for _, tt := range []struct {
		args string
		code int
		says string
	}{
		{"frobnicate", exitUsage, `unknown command "frobnicate"`},
		{"--bogus", exitUsage, "--bogus"},
		{"version extra", exitUsage, "takes no arguments"},
		{"run", exitUsage, "no server given"},
		{"run --", exitUsage, "no server given"},
		{"run --bogus -- server", exitUsage, "--bogus"},
		{"run --max-frame 1 -- server", exitUsage, "--max-frame 1: must be at least 64KiB"},
		{"run --max-frame many -- server", exitUsage, "must be a size"},
		{"run --start-timeout 0 -- server", exitUsage, "--start-timeout"},
		{"run --hold-timeout soon -- server", exitUsage, "--hold-timeout"},
		{"run --env NOVALUE -- server", exitUsage, "--env"},
		{"run --log-level loud -- server", exitUsage, "loud"},
		{"run --cwd " + none + " -- server", exitUsage, none},
		{"run --env-file " + none + " -- server", exitFailure, none},
	} {
		t.Run(tt.args, func(t *testing.T) {
			code, stdout, stderr := call(t, strings.Fields(tt.args)...)
			if code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if stdout != "" {
				t.Errorf("stdout %q", stdout)
			}
			if !strings.HasPrefix(stderr, "holdfast: ") || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, tt.says) {
				t.Errorf("stderr %q, want one line with %q", stderr, tt.says)
			}
		})
	}
}

// A server without a bridge to run it is a failure that says where it looked.
func TestNoBridge(t *testing.T) {
	empty := t.TempDir()
	t.Setenv("PATH", empty)
	code, stdout, stderr := call(t, "run", "--log-level", "off", "--", "server")
	if code != exitFailure || stdout != "" || !strings.Contains(stderr, "holdfast-worker") || !strings.Contains(stderr, empty) {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if strings.Count(stderr, "\n") != 1 {
		t.Errorf("more than one line: %q", stderr)
	}
}
