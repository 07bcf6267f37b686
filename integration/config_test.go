package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// writeConfig writes a configuration file and returns its path.
func writeConfig(t *testing.T, dir, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, "config.toml")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // the umask would take it back
		t.Fatal(err)
	}
	return path
}

// TestSEC1Origins: SEC-1, SUP-15. A flag wins over the environment, that over
// the file of HOLDFAST_CONFIG or of the user's folder, and the status says
// where each setting is from. Nothing is read from the working directory.
func TestSEC1Origins(t *testing.T) {
	dir := t.TempDir()
	here, home := filepath.Join(dir, "here"), filepath.Join(dir, "home")
	const ours = "hold-timeout = \"1m\"\ncrash-cooldown = \"2m\"\ndrain-timeout = \"3m\"\n"
	chosen := writeConfig(t, filepath.Join(dir, "chosen"), ours, 0o600)
	for _, name := range []string{".", "holdfast", ".holdfast", ".config/holdfast"} {
		writeConfig(t, filepath.Join(here, name), "hold-timeout = \"9m\"\nhang-timeout = \"9m\"\n", 0o600)
	}
	writeConfig(t, filepath.Join(home, "holdfast"), "hold-timeout = \"7m\"\n", 0o600)
	base := []string{"HOME=" + dir, "XDG_CONFIG_HOME=" + home}

	start := func(t *testing.T, env ...string) held {
		t.Helper()
		return startHeldWith(t, harness.Config{Dir: here, Env: append(env, base...)},
			harness.Native(t, []string{"--drain-timeout", "4m"}, harness.TestServer(t)))
	}
	check := func(t *testing.T, s status, name, value, origin string) {
		t.Helper()
		if got := s.Settings[name]; got.Value != value || got.Origin != origin {
			t.Errorf("%s is %q from %q, want %q from %q", name, got.Value, got.Origin, value, origin)
		}
	}
	t.Run("all", func(t *testing.T) {
		s := start(t, "HOLDFAST_CONFIG="+chosen, "HOLDFAST_CRASH_COOLDOWN=5m").status()
		check(t, s, "drain-timeout", "4m0s", "flag")
		check(t, s, "crash-cooldown", "5m0s", "environment")
		check(t, s, "hold-timeout", "1m0s", "file")
		check(t, s, "hang-timeout", "0s", "default")
		if _, ok := s.Settings["env"]; ok {
			t.Error("the status tells values that may be secret")
		}
	})
	t.Run("user's folder", func(t *testing.T) {
		s := start(t).status()
		check(t, s, "hold-timeout", "7m0s", "file")
		check(t, s, "hang-timeout", "0s", "default")
	})
	t.Run("none", func(t *testing.T) {
		if err := os.RemoveAll(home); err != nil {
			t.Fatal(err)
		}
		check(t, start(t).status(), "hold-timeout", "8s", "default")
	})
}

// TestSEC1BadSettings: SEC-1. A setting that makes no sense ends the start with
// one clear line, which names it and the right form, and exit code 2; so does a
// configuration file that others could have written, or that says what nobody
// knows.
func TestSEC1BadSettings(t *testing.T) {
	holdfast := harness.Holdfast(t)
	dir := t.TempDir()
	const budget, backoff = "must be COUNT/PERIOD such as 5/30s", "must be SHORTEST..LONGEST such as 100ms..10s"
	file := func(name, text string, mode os.FileMode) []string {
		return []string{"--config", writeConfig(t, filepath.Join(dir, name), text, mode)}
	}
	for name, test := range map[string]struct {
		flags []string
		env   string
		says  []string
	}{
		"budget without period":  {[]string{"--crash-budget", "5"}, "", []string{"--crash-budget", `"5"`, budget}},
		"budget of no period":    {[]string{"--crash-budget", "5/0s"}, "", []string{"--crash-budget", "5/0s", budget}},
		"negative budget":        {[]string{"--crash-budget", "-1/30s"}, "", []string{"--crash-budget", "-1/30s", budget}},
		"budget without unit":    {[]string{"--handoff-budget", "5/30"}, "", []string{"--handoff-budget", "5/30", budget}},
		"reversed backoff":       {[]string{"--backoff", "10s..100ms"}, "", []string{"--backoff", "10s..100ms", backoff}},
		"backoff of one":         {[]string{"--backoff", "100ms"}, "", []string{"--backoff", "100ms", backoff}},
		"negative backoff":       {[]string{"--backoff", "-1s..1s"}, "", []string{"--backoff", "-1s..1s", backoff}},
		"no cooldown":            {[]string{"--crash-cooldown", "0"}, "", []string{"--crash-cooldown", "must be positive"}},
		"negative hang timeout":  {[]string{"--hang-timeout", "-1s"}, "", []string{"--hang-timeout", "0 turns it off"}},
		"negative drain timeout": {[]string{"--drain-timeout", "-1s"}, "", []string{"--drain-timeout", "must not be negative"}},
		"no hold":                {[]string{"--hold-max", "0"}, "", []string{"--hold-max", "must be positive"}},
		"unknown swap":           {[]string{"--swap", "sideways"}, "", []string{"--swap", "sideways", "overlap or sequential"}},
		"environment":            {nil, "HOLDFAST_CRASH_BUDGET=5/0s", []string{"HOLDFAST_CRASH_BUDGET", "5/0s", budget}},
		"file":                   {file("value", "backoff = \"1s..0s\"\n", 0o600), "", []string{"config.toml: backoff", "1s..0s", backoff}},
		"unknown key":            {file("key", "crash-budgets = \"5/30s\"\n", 0o600), "", []string{"config.toml: crash-budgets", "no such setting", "--help"}},
		"section":                {file("section", "[restart]\ncrash-budget = \"5/30s\"\n", 0o600), "", []string{"config.toml", "restart", "no such setting"}},
		"file of a file":         {file("nested", "config = \"other\"\n", 0o600), "", []string{"config.toml: config", "no such setting"}},
		"no TOML":                {file("syntax", "crash-budget = = 5\n", 0o600), "", []string{"config.toml"}},
		"writable by group":      {file("group", "", 0o620), "", []string{"config.toml", "can be written by others", "chmod go-w"}},
		"writable by others":     {file("others", "", 0o602), "", []string{"config.toml", "can be written by others", "chmod go-w"}},
		"missing file":           {nil, "HOLDFAST_CONFIG=" + filepath.Join(dir, "none"), []string{filepath.Join(dir, "none")}},
		"folder":                 {[]string{"--config", dir}, "", []string{dir}},
	} {
		t.Run(name, func(t *testing.T) {
			command := append([]string{holdfast, "run"}, test.flags...)
			p := harness.Start(t, harness.Config{
				Command: append(command, "--", "true"), Env: []string{"XDG_CONFIG_HOME=" + dir, test.env},
			})
			code := p.WaitExit().ExitCode()
			line := strings.TrimSpace(p.Stderr())
			if code != 2 || line == "" || strings.Contains(line, "\n") {
				t.Errorf("exit code %d, stderr %q", code, line)
			}
			for _, say := range test.says {
				if !strings.Contains(line, say) {
					t.Errorf("%q does not say %q", line, say)
				}
			}
			t.Log(line)
		})
	}
}
