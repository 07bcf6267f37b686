package config

import (
	"strings"
	"testing"
)

func TestCalled(t *testing.T) {
	for command, want := range map[string]string{
		"/usr/local/bin/notes --db x":                              "notes",
		`C:\Tools\Notes.exe`:                                       "notes",
		"node /home/me/notes/server.js":                            "server",
		"/usr/bin/node --inspect dist/index.mjs":                   "index",
		"npx -y @modelcontextprotocol/server-everything@1.2 stdio": "server-everything",
		"uvx mcp-server-git":                                       "mcp-server-git",
		"uv run server.py":                                         "server",
		"python3.12 -m mcp_server.main":                            "mcp_server.main",
		"python3 -c import(x);y":                                   "python3",
		"node":                                                     "node",
		"deno run -A main.ts":                                      "main",
		"./42":                                                     "server",
		"/":                                                        "server",
		"bin/naïve server":                                         "na-ve",
		"/bin/" + strings.Repeat("x", 100):                         strings.Repeat("x", 64),
	} {
		if got := (Config{Args: strings.Fields(command)}).Called(); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
	if got := (Config{Worker: "./python", Args: []string{"x"}}).Called(); got != "python" {
		t.Errorf("a worker: %q", got)
	}
	if got := (Config{Name: "mine", Args: []string{"x"}}).Called(); got != "mine" {
		t.Errorf("a given name: %q", got)
	}
}

func TestName(t *testing.T) {
	for name, good := range map[string]bool{
		"": true, "notes": true, "n.1_2-x": true, "42a": true, strings.Repeat("n", 64): true,
		"42": false, ".": false, "-a": false, ".a": false, "a b": false, "a/b": false, "ä": false, "a\n": false, strings.Repeat("n", 65): false,
	} {
		c := Default()
		c.Name, c.Args = name, []string{"server"}
		if err := c.Validate(); (err == nil) != good {
			t.Errorf("name %q: %v", name, err)
		}
	}
}
