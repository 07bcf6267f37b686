package config

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Config)
		says   string // of the error; empty: none
	}{
		{"default", func(*Config) {}, ""},
		{"worker alone", func(c *Config) { c.Worker, c.Args = "./worker", nil }, ""},
		{"no command", func(c *Config) { c.Args = nil }, "no server given"},
		{"small frame", func(c *Config) { c.MaxFrame = 64<<10 - 1 }, "--max-frame 65535: must be at least 64KiB"},
		{"least frame", func(c *Config) { c.MaxFrame = 64 << 10 }, ""},
		{"large frame", func(c *Config) { c.MaxFrame = 1<<30 + 1 }, "--max-frame 1073741825: must be at most 1GiB"},
		{"no grace", func(c *Config) { c.EOFGrace = 0 }, ""},
		{"grace", func(c *Config) { c.EOFGrace = -1 }, "--eof-grace -1ns: must not be negative"},
		{"start timeout", func(c *Config) { c.StartTimeout = 0 }, "--start-timeout 0s: must be positive"},
		{"hold timeout", func(c *Config) { c.HoldTimeout = -time.Second }, "--hold-timeout -1s: must be positive"},
		{"empty value", func(c *Config) { c.Env = []string{"A="} }, ""},
		{"no value", func(c *Config) { c.Env = []string{"A=1", "B"} }, `--env "B": must be NAME=VALUE`},
		{"no name", func(c *Config) { c.Env = []string{"=1"} }, `--env "=1": must be NAME=VALUE`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := Default()
			c.Args = []string{"server"}
			tt.change(&c)
			err := c.Validate()
			switch {
			case tt.says == "" && err != nil:
				t.Errorf("Validate() = %v", err)
			case tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)):
				t.Errorf("Validate() = %v, want %q", err, tt.says)
			case err != nil && strings.Contains(err.Error(), "\n"):
				t.Errorf("more than one line: %v", err)
			}
		})
	}
}

func TestWorkDir(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if err := os.Mkdir("sub", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ dir, want, says string }{
		{"", dir, ""},
		{"sub", filepath.Join(dir, "sub"), ""},
		{dir, dir, ""},
		{file, "", "not a directory"},
		{"none", "", "none"},
	} {
		got, err := Config{Dir: tt.dir}.WorkDir()
		if tt.says != "" {
			if err == nil || !strings.Contains(err.Error(), tt.says) || !strings.HasPrefix(err.Error(), "--cwd") {
				t.Errorf("WorkDir() of %q = %v, want %q", tt.dir, err, tt.says)
			}
			continue
		}
		if err != nil || !filepath.IsAbs(got) || resolved(t, got) != resolved(t, tt.want) {
			t.Errorf("WorkDir() of %q = %q, %v, want %q", tt.dir, got, err, tt.want)
		}
	}
}

// resolved returns a path without symlinks, of which that of a temporary
// folder may consist.
func resolved(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func writeEnvFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEnvFile(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
		says       string
	}{
		{"plain", "A=1\nB=two words\n", []string{"A=1", "B=two words"}, ""},
		{"no line feed at the end", "A=1", []string{"A=1"}, ""},
		{"CRLF and blanks", "\r\n  A = 1 \r\n\t\r\n", []string{"A=1"}, ""},
		{"comments", "# A=0\n  # B=0\nA=1 # no comment\n", []string{"A=1 # no comment"}, ""},
		{"export", "export A=1\nexport  B=2\nexported=3\n", []string{"A=1", "B=2", "exported=3"}, ""},
		{"quotes", `A="a b"` + "\nB='c \"d\"'\nC=\"\nD=\"x'\nE=\"\"\n", []string{"A=a b", `B=c "d"`, `C="`, `D="x'`, "E="}, ""},
		{"blanks in quotes", `A="  a "`, []string{"A=  a "}, ""},
		{"more equal signs", "A=b=c==\n", []string{"A=b=c=="}, ""},
		{"empty value", "A=\n", []string{"A="}, ""},
		{"empty file", "", nil, ""},
		{"byte order mark", "\uFEFFA=1\n", []string{"A=1"}, ""},
		{"long line", "A=" + strings.Repeat("x", 100_000) + "\n", []string{"A=" + strings.Repeat("x", 100_000)}, ""},
		{"no value", "A=1\n\nB\n", nil, "line 3 is not NAME=VALUE"},
		{"no name", "=1\n", nil, "line 1 is not NAME=VALUE"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := Config{EnvFile: writeEnvFile(t, tt.text)}
			_, got, err := c.Environment(nil)
			if tt.says != "" {
				if err == nil || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), c.EnvFile) {
					t.Errorf("error %v, want %q and the path", err, tt.says)
				}
				return
			}
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("got %.200q, %v, want %.200q", got, err, tt.want)
			}
		})
	}
	if _, _, err := (Config{EnvFile: filepath.Join(t.TempDir(), "none")}).Environment(nil); err == nil ||
		!strings.HasPrefix(err.Error(), "--env-file: ") || !strings.Contains(err.Error(), "none") {
		t.Errorf("a file that does not exist: %v", err)
	}
}

// EDGE-11, SUP-18: entries stand behind the file, the file behind what was
// inherited, and the last of one name counts. holdfast's own settings and
// handshake are not passed on unless they are configured.
func TestEnvironment(t *testing.T) {
	c := Config{
		EnvFile: writeEnvFile(t, "A=file\nB=file\n"),
		Env:     []string{"B=flag", "HOLDFAST_LOG=inner"},
	}
	inherited := []string{
		"A=inherited", "B=inherited", "C=inherited", "HOLDFAST_LOG=outer",
		"PLUGIN_UNIX_SOCKET_DIR=/x", "PLUGIN_PROTOCOL_VERSIONS=1", "PLUGIN_OWN=kept",
	}
	before := slices.Clone(inherited)
	all, configured, err := c.Environment(inherited)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"A=file", "B=file", "B=flag", "HOLDFAST_LOG=inner"}; !slices.Equal(configured, want) {
		t.Errorf("configured %q, want %q", configured, want)
	}
	want := append([]string{"A=inherited", "B=inherited", "C=inherited", "PLUGIN_OWN=kept"}, configured...)
	if !slices.Equal(all, want) {
		t.Errorf("all %q, want %q", all, want)
	}
	if !slices.Equal(inherited, before) {
		t.Error("the inherited environment was changed")
	}
}

func TestSize(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Size
		says string // what String makes of it
	}{
		{"0", 0, "0"},
		{"1", 1, "1"},
		{"1000B", 1000, "1000"},
		{"512KiB", 512 << 10, "512KiB"},
		{"512K", 512 << 10, "512KiB"},
		{"64MiB", 64 << 20, "64MiB"},
		{"64M", 64 << 20, "64MiB"},
		{"1024MiB", 1 << 30, "1GiB"},
		{"1G", 1 << 30, "1GiB"},
		{"1536K", 1536 << 10, "1536KiB"},
	} {
		var s, again Size
		if err := s.Set(tt.text); err != nil || s != tt.want || s.String() != tt.says {
			t.Errorf("Set(%q) = %d (%v), %v, want %d (%s)", tt.text, int(s), s, err, int(tt.want), tt.says)
		}
		if err := again.Set(s.String()); err != nil || again != s {
			t.Errorf("%v does not read back: %d, %v", s, int(again), err)
		}
	}
	for _, text := range []string{"", "KiB", "x", "-1", "1.5M", "1e3", " 1", "1 KiB", "5MB", "64mib", "9999999999999999999", "9223372036854775807G"} {
		s := Size(7)
		if err := s.Set(text); err == nil || s != 7 {
			t.Errorf("Set(%q) = %v, %v, want an error and no change", text, s, err)
		}
	}
	if got := Size(math.MaxInt).String(); strings.ContainsAny(got, "KMG") {
		t.Errorf("String() of an odd size = %s", got)
	}
}
