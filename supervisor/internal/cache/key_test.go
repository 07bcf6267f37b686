package cache

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// SEC-2: each part of a command is part of its identity.
func TestSEC2CommandKey(t *testing.T) {
	c, _ := open(t, t.TempDir()+"/cache")
	base := program(t)
	base.Argv = []string{base.Executable, "serve", "--all"}
	base.Configured = []string{"MODE=a", "LEVEL=1"}
	base.Inherited = []string{"HOME=/home/a", "API_KEY=a", "my_token=a", "EMPTY_SECRET="}
	if err := os.Chtimes(base.Executable, time.Unix(1000, 0), time.Unix(1000, 0)); err != nil {
		t.Fatal(err)
	}
	seen := map[[32]byte]string{storeOf(t, c, base).command: "base"}
	for name, change := range map[string]func(*Command){
		"argument":           func(c *Command) { c.Argv[1] = "serves" },
		"order of arguments": func(c *Command) { c.Argv[1], c.Argv[2] = c.Argv[2], c.Argv[1] },
		"argument more":      func(c *Command) { c.Argv = append(c.Argv, "") },
		"arguments joined":   func(c *Command) { c.Argv = []string{c.Argv[0], "serve--all"} },
		"arguments, halves":  func(c *Command) { c.Argv = []string{c.Argv[0], "serve-", "-all"} },
		"directory":          func(c *Command) { c.Dir += "/below" },
		"configured":         func(c *Command) { c.Configured[0] = "MODE=b" },
		"configured name":    func(c *Command) { c.Configured[0] = "MODES=a" },
		"configured more":    func(c *Command) { c.Configured = append(c.Configured, "X=") },
		"configured less":    func(c *Command) { c.Configured = c.Configured[:1] },
		"configured again":   func(c *Command) { c.Configured = append(c.Configured, "MODE=b2") },
		"KEY":                func(c *Command) { c.Inherited[1] = "API_KEY=b" },
		"TOKEN":              func(c *Command) { c.Inherited[2] = "my_token=b" },
		"SECRET":             func(c *Command) { c.Inherited[3] = "EMPTY_SECRET=b" },
		"SECRET, unset":      func(c *Command) { c.Inherited = c.Inherited[:3] },
		"PASS":               func(c *Command) { c.Inherited[0] = "GIT_ASKPASS=b" },
		"key overridden":     func(c *Command) { c.Configured = append(c.Configured, "API_KEY=c") },
		"another program": func(c *Command) {
			c.Executable = program(t).Executable
			touch(t, c.Executable, time.Unix(1000, 0))
		},
		"time of program": func(c *Command) { touch(t, c.Executable, time.Unix(1000, 1000)) },
		"size of program": func(c *Command) {
			if err := os.WriteFile(c.Executable, []byte("#!x"), 0o700); err != nil {
				t.Fatal(err)
			}
			touch(t, c.Executable, time.Unix(1000, 0))
		},
	} {
		changed := clone(base)
		change(&changed)
		sum := storeOf(t, c, changed).command
		if other, ok := seen[sum]; ok {
			t.Errorf("%s: the same key as %s", name, other)
		}
		seen[sum] = name
		if err := os.WriteFile(base.Executable, []byte("#!"), 0o700); err != nil {
			t.Fatal(err)
		}
		touch(t, base.Executable, time.Unix(1000, 0))
	}
}

// SEC-2: what changes between starts of one command and does not look like a
// credential changes nothing, nor does another way to say the same.
func TestSEC2SameCommand(t *testing.T) {
	c, _ := open(t, t.TempDir()+"/cache")
	base := program(t)
	base.Configured = []string{"MODE=a", "LEVEL=1"}
	base.Inherited = []string{"HOME=/home/a", "API_KEY=a"}
	want := storeOf(t, c, base).command
	for name, change := range map[string]func(*Command){
		"inherited":            func(c *Command) { c.Inherited[0] = "HOME=/home/b" },
		"inherited more":       func(c *Command) { c.Inherited = append(c.Inherited, "WINDOWID=7", "SSH_AUTH_SOCK=/s") },
		"word in a value":      func(c *Command) { c.Inherited = append(c.Inherited, "NOTE=TOKEN") },
		"order":                func(c *Command) { slices.Reverse(c.Configured); slices.Reverse(c.Inherited) },
		"the last one counts":  func(c *Command) { c.Configured = append([]string{"MODE=x"}, c.Configured...) },
		"inherited, not given": func(c *Command) { c.Inherited = append(c.Inherited, "MODE=b") },
	} {
		changed := clone(base)
		change(&changed)
		if storeOf(t, c, changed).command != want {
			t.Errorf("%s: another key", name)
		}
	}
	overridden := clone(base)
	overridden.Configured = append(overridden.Configured, "API_KEY=b")
	want = storeOf(t, c, overridden).command
	overridden.Inherited[1] = "API_KEY=c"
	if storeOf(t, c, overridden).command != want {
		t.Error("a credential that the server does not get counts")
	}
}

// SEC-2: each part of a client is part of its identity; its capabilities are, as
// JSON.
func TestSEC2ClientKey(t *testing.T) {
	c, _ := open(t, t.TempDir()+"/cache")
	s := storeOf(t, c, program(t))
	other := program(t)
	base := Client{Era: "legacy", Version: "2025-06-18", Capabilities: []byte(`{"roots":{"listChanged":true},"sampling":{}}`), Name: "a"}
	long := func(last string) []byte { return []byte(`{"a":"` + strings.Repeat("x", maxCanonical) + last + `"}`) }
	seen := map[string]string{s.entryName(base): "base"}
	for name, client := range map[string]Client{
		"era":                {"modern", base.Version, base.Capabilities, base.Name},
		"version":            {base.Era, "2025-03-26", base.Capabilities, base.Name},
		"capabilities":       {base.Era, base.Version, []byte(`{"sampling":{}}`), base.Name},
		"no capabilities":    {base.Era, base.Version, nil, base.Name},
		"empty capabilities": {base.Era, base.Version, []byte(`{}`), base.Name},
		"broken ones":        {base.Era, base.Version, []byte(`{"a":1e999}`), base.Name},
		"others":             {base.Era, base.Version, []byte(`{"a":1e998}`), base.Name},
		"deep ones":          {base.Era, base.Version, []byte(strings.Repeat("[", maxCanonical)), base.Name},
		"large ones":         {base.Era, base.Version, long("a"), base.Name},
		"other large ones":   {base.Era, base.Version, long("b"), base.Name},
		"name":               {base.Era, base.Version, base.Capabilities, "b"},
		"parts moved":        {base.Era + base.Version, "", base.Capabilities, base.Name},
	} {
		key := s.entryName(client)
		if same, ok := seen[key]; ok {
			t.Errorf("%s: the same key as %s", name, same)
		}
		seen[key] = name
	}
	if key := storeOf(t, c, other).entryName(base); seen[key] != "" {
		t.Error("another command: the same key")
	}
	base.Capabilities = []byte(`{ "sampling" : {}, "roots": {"listChanged": true} }`)
	if seen[s.entryName(base)] != "base" {
		t.Error("capabilities in other words: another key")
	}
}

func clone(c Command) Command {
	c.Argv, c.Configured, c.Inherited = slices.Clone(c.Argv), slices.Clone(c.Configured), slices.Clone(c.Inherited)
	return c
}

func touch(t *testing.T, path string, at time.Time) {
	t.Helper()
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}
