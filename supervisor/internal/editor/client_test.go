package editor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The files of each client, and what an entry looks like in them.
func TestClients(t *testing.T) {
	claude := `{
  "mcpServers": {
    "notes": {
      "type": "stdio",
      "command": "/opt/holdfast",
      "args": [
        "run",
        "--",
        "/usr/bin/node"
      ],
      "env": {}
    }
  }
}
`
	plain := strings.ReplaceAll(strings.ReplaceAll(claude, "      \"type\": \"stdio\",\n", ""), "],\n      \"env\": {}\n", "]\n")
	for _, tt := range []struct {
		client        string
		user, project string
		want          string
	}{
		{"claude-code", ".claude.json", ".mcp.json", claude},
		{"claude-desktop", "C/Claude/claude_desktop_config.json", "", plain},
		{"cursor", ".cursor/mcp.json", ".cursor/mcp.json", plain},
		{"vscode", "C/Code/User/mcp.json", ".vscode/mcp.json", strings.ReplaceAll(strings.ReplaceAll(claude, "mcpServers", "servers"), "],\n      \"env\": {}\n", "]\n")},
		{"codex", ".codex/config.toml", ".codex/config.toml", "[mcp_servers.notes]\ncommand = \"/opt/holdfast\"\nargs = [\"run\", \"--\", \"/usr/bin/node\"]\n"},
		{"gemini", ".gemini/settings.json", ".gemini/settings.json", plain},
		{"zed", "Z/settings.json", ".zed/settings.json", strings.ReplaceAll(strings.ReplaceAll(claude, "mcpServers", "context_servers"), "      \"type\": \"stdio\",\n", "")},
	} {
		t.Run(tt.client, func(t *testing.T) {
			e := home(t)
			user := strings.NewReplacer("C/", ".config/", "Z/", ".config/zed/").Replace(tt.user)
			e.Host.OS = "linux"
			c, _ := ByName(tt.client)
			for _, scope := range c.Scopes() {
				p := placeOf(t, e, tt.client, scope)
				server := Server{Name: "notes", Command: "/opt/holdfast", Args: []string{"run", "--", "/usr/bin/node"}}
				if scope == Local {
					continue // see TestLocal
				}
				want := filepath.Join(e.Host.Home, user)
				if scope == Project {
					want = filepath.Join(e.Host.Dir, tt.project)
				}
				if p.File != want {
					t.Errorf("%s: %s, want %s", scope, p.File, want)
				}
				applied(t)(e.Install(p, server, false))
				if diff := cmp.Diff(tt.want, read(t, p.File)); diff != "" {
					t.Errorf("%s: -want +got:\n%s", scope, diff)
				}
				applied(t)(e.Uninstall(p, "notes"))
				if _, err := os.Stat(p.File); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s: what was made is not removed: %v", scope, err)
				}
			}
			if _, err := c.Place(e.Host, Project); (err == nil) != (tt.project != "") || err != nil && !errors.Is(err, ErrScope) {
				t.Errorf("project: %v", err)
			}
		})
	}
}

// Where files are elsewhere, and with the variables that the clients know.
func TestPlaces(t *testing.T) {
	for _, tt := range []struct{ client, os, variable, want string }{
		{"claude-code", "linux", "CLAUDE_CONFIG_DIR=/x", "/x/.claude.json"},
		{"claude-desktop", "darwin", "", "/home/me/Library/Application Support/Claude/claude_desktop_config.json"},
		{"claude-desktop", "windows", "APPDATA=/data", "/data/Claude/claude_desktop_config.json"},
		{"claude-desktop", "windows", "", "/home/me/AppData/Roaming/Claude/claude_desktop_config.json"},
		{"claude-desktop", "linux", "XDG_CONFIG_HOME=/x", "/x/Claude/claude_desktop_config.json"},
		{"cursor", "windows", "APPDATA=/data", "/home/me/.cursor/mcp.json"},
		{"vscode", "darwin", "", "/home/me/Library/Application Support/Code/User/mcp.json"},
		{"vscode", "windows", "APPDATA=/data", "/data/Code/User/mcp.json"},
		{"codex", "linux", "CODEX_HOME=/x", "/x/config.toml"},
		{"gemini", "linux", "GEMINI_CLI_HOME=/x", "/x/.gemini/settings.json"},
		{"zed", "darwin", "XDG_CONFIG_HOME=/x", "/home/me/.config/zed/settings.json"},
		{"zed", "linux", "XDG_CONFIG_HOME=/x", "/x/zed/settings.json"},
		{"zed", "windows", "APPDATA=/data", "/data/Zed/settings.json"},
	} {
		name, value, _ := strings.Cut(tt.variable, "=")
		h := Host{OS: tt.os, Home: "/home/me", Dir: "/p", Getenv: func(n string) string {
			if n == name {
				return value
			}
			return ""
		}}
		c, _ := ByName(tt.client)
		p, err := c.Place(h, User)
		if err != nil || filepath.ToSlash(p.File) != tt.want {
			t.Errorf("%s on %s: %s, %v, want %s", tt.client, tt.os, p.File, err, tt.want)
		}
	}
	for system, want := range map[string]string{
		"linux": "/home/me/.local/state/holdfast/install", "darwin": "/home/me/Library/Application Support/holdfast/install",
		"windows": "/home/me/AppData/Local/holdfast/install",
	} {
		h := Host{OS: system, Home: "/home/me", Getenv: func(string) string { return "" }}
		if got := filepath.ToSlash(h.state()); got != want {
			t.Errorf("state on %s: %s", system, got)
		}
	}
}
