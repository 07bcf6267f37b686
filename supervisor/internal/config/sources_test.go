package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// flagSet has one flag of each kind.
func flagSet(t *testing.T, args ...string) (*pflag.FlagSet, *Config) {
	t.Helper()
	c := Default()
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	flags.String(fileFlag, "", "")
	flags.StringArrayVar(&c.Env, "env", nil, "")
	flags.Var(&c.MaxFrame, "max-frame", "")
	flags.Var(&c.Restart.Crash, "crash-budget", "")
	flags.DurationVar(&c.HoldTimeout, "hold-timeout", c.HoldTimeout, "")
	flags.IntVar(&c.HoldMax, "hold-max", c.HoldMax, "")
	flags.BoolVar(&c.ReplayAnnotated, "replay-annotated", false, "")
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return flags, &c
}

// file writes a configuration file for nobody but this user.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// noHome lets no configuration of the user's own be found.
func noHome(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("XDG_CONFIG_HOME", dir)
}

// SEC-1: a flag wins over the environment, that over the file.
func TestSEC1Load(t *testing.T) {
	noHome(t)
	path := file(t, `
max-frame = "1MiB"
crash-budget = "2/1s"
hold-timeout = "3s"
hold-max = 5
replay-annotated = true
env = ["A=1", "B=x,y"]
`)
	flags, c := flagSet(t, "--max-frame", "2MiB")
	origins, err := Load(flags, []string{"HOLDFAST_CONFIG=" + path, "HOLDFAST_MAX_FRAME=4MiB", "HOLDFAST_CRASH_BUDGET=9/9s", "HOLDFAST_NO_SUCH=1", "PATH=/"})
	if err != nil {
		t.Fatal(err)
	}
	if c.MaxFrame != 2<<20 || c.Restart.Crash.String() != "9/9s" || c.HoldTimeout.String() != "3s" || c.HoldMax != 5 || !c.ReplayAnnotated {
		t.Errorf("settings %+v", c)
	}
	if got := strings.Join(c.Env, "|"); got != "A=1|B=x,y" {
		t.Errorf("env %q", got)
	}
	for name, want := range map[string]string{
		"max-frame": OriginFlag, "crash-budget": OriginEnvironment, "config": OriginEnvironment,
		"hold-timeout": OriginFile, "hold-max": OriginFile, "replay-annotated": OriginFile, "env": OriginFile,
	} {
		if origins[name] != want {
			t.Errorf("%s is from %q, want %q", name, origins[name], want)
		}
	}
}

// SEC-1: without a file that somebody named, that of the user's folder counts,
// and its absence is no error.
func TestSEC1UserFile(t *testing.T) {
	noHome(t)
	flags, c := flagSet(t)
	if origins, err := Load(flags, nil); err != nil || origins["hold-max"] != OriginDefault {
		t.Errorf("Load() without a file = %v, %v", origins, err)
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "holdfast"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "holdfast", "config.toml"), []byte("hold-max = 6"), 0o600); err != nil {
		t.Fatal(err)
	}
	if origins, err := Load(flags, nil); err != nil || origins["hold-max"] != OriginFile || c.HoldMax != 6 {
		t.Errorf("Load() = %v, %v, hold-max %d", origins, err, c.HoldMax)
	}
}

func TestBadSources(t *testing.T) {
	noHome(t)
	open := file(t, "hold-max = 1")
	if err := os.Chmod(open, 0o646); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		path string
		env  string
		says string
	}{
		"unknown key":   {file(t, "hold-maximum = 5"), "", "hold-maximum: no such setting"},
		"section":       {file(t, "[hold]\nmax = 5"), "", "no such setting"},
		"help":          {file(t, "help = true"), "", "help: no such setting"},
		"another file":  {file(t, "config = 'x'"), "", "config: no such setting"},
		"bad value":     {file(t, "hold-max = 'many'"), "", `hold-max: invalid argument "many"`},
		"wrong type":    {file(t, "hold-max = [1, 'x']"), "", "hold-max"},
		"syntax":        {file(t, "hold-max"), "", "configuration file"},
		"too large":     {file(t, "#"+strings.Repeat("x", maxFile)), "", "larger than 1MiB"},
		"missing":       {filepath.Join(t.TempDir(), "none"), "", "no such file"},
		"of others":     {open, "", "can be written by others"},
		"environment":   {file(t, ""), "HOLDFAST_HOLD_TIMEOUT=soon", "HOLDFAST_HOLD_TIMEOUT: invalid argument"},
		"empty setting": {file(t, "hold-timeout = ''"), "", "hold-timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			flags, _ := flagSet(t, "--config", tt.path)
			_, err := Load(flags, []string{tt.env})
			if err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Load() = %v, want one line with %q", err, tt.says)
			}
		})
	}
}

// FuzzFile: no file makes Load panic, or apply half of a setting silently.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{"", "hold-max = 5", "[a]\nb=1", "hold-max = 1979-05-27", "env = [['x']]", "\"\" = 1", "a.b.c = {d=1}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		noHome(t)
		flags, c := flagSet(t, "--config", file(t, text))
		before := c.HoldMax
		origins, err := Load(flags, nil)
		if err == nil && origins["hold-max"] == OriginDefault && c.HoldMax != before {
			t.Errorf("hold-max became %d and nobody said so", c.HoldMax)
		}
	})
}

// SEC-1: a file in a project counts where --project names the project, before
// that of the user, behind one that --config names; and nowhere else.
func TestSEC1Project(t *testing.T) {
	noHome(t)
	project := t.TempDir()
	if err := os.WriteFile(filepath.Join(project, projectFile), []byte("hold-max = 7\nwatch = ['a', '!b']\nbuild = 'make'"), 0o600); err != nil {
		t.Fatal(err)
	}
	withDev := func(args ...string) (*pflag.FlagSet, *Config) {
		flags, c := flagSet(t)
		c.Dev = &Dev{}
		flags.StringVar(&c.Dev.Project, projectFlag, "", "")
		flags.StringArrayVar(&c.Dev.Watch, "watch", nil, "")
		flags.StringVar(&c.Dev.Build, "build", "", "")
		if err := flags.Parse(args); err != nil {
			t.Fatal(err)
		}
		return flags, c
	}
	t.Chdir(project)
	flags, c := withDev()
	if _, err := Load(flags, nil); err != nil || c.HoldMax == 7 {
		t.Errorf("a project that nobody named was read: %v, %+v", err, c)
	}
	flags, c = withDev("--"+projectFlag, project)
	if _, err := Load(flags, nil); err != nil || c.HoldMax != 7 || strings.Join(c.Dev.Watch, "|") != "a|!b" || c.Dev.Build != "make" {
		t.Errorf("Load() = %v, %+v", err, c)
	}
	flags, c = withDev("--"+projectFlag, project, "--config", file(t, "hold-max = 8"))
	if _, err := Load(flags, nil); err != nil || c.HoldMax != 8 || c.Dev.Build != "make" {
		t.Errorf("beside --config: Load() = %v, %+v", err, c)
	}
	flags, _ = withDev("--"+projectFlag, project)
	if err := os.Chmod(filepath.Join(project, projectFile), 0o646); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(flags, nil); err == nil || !strings.Contains(err.Error(), "can be written by others") {
		t.Errorf("a file of others: %v", err)
	}
}

// Settings of dev may stand in the user's file, which run reads as well.
func TestSettingsOfDev(t *testing.T) {
	noHome(t)
	flags, _ := flagSet(t, "--config", file(t, "shadow = 'off'"))
	if _, err := Load(flags, nil); err != nil {
		t.Error(err)
	}
	flags, _ = flagSet(t, "--config", file(t, "project = '/x'"))
	if _, err := Load(flags, nil); err == nil || !strings.Contains(err.Error(), "no such setting") {
		t.Errorf("a file that names a project: %v", err)
	}
}
