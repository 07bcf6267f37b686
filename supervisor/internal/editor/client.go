package editor

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
)

// Scope says for whom a client starts a server.
type Scope string

// The scopes. Not every client has each.
const (
	User    Scope = "user"    // one user, in all projects
	Project Scope = "project" // everybody who has the project
	Local   Scope = "local"   // one user, in one project
)

// Host is where clients look for their files.
type Host struct {
	OS   string // as runtime.GOOS
	Home string
	// Dir is the project, an absolute path without symlinks.
	Dir    string
	Getenv func(string) string
}

// ThisHost returns this user, and the working directory as the project.
func ThisHost() (Host, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return Host{}, err
	}
	dir, err := os.Getwd()
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	return Host{OS: runtime.GOOS, Home: home, Dir: dir, Getenv: os.Getenv}, err
}

// folder is that of a variable, or one below the home.
func (h Host) folder(variable string, below ...string) string {
	if dir := h.Getenv(variable); dir != "" {
		return dir
	}
	return filepath.Join(append([]string{h.Home}, below...)...)
}

// config returns where desktop programs keep their settings.
func (h Host) config() string {
	switch h.OS {
	case "windows":
		return h.folder("APPDATA", "AppData", "Roaming")
	case "darwin":
		return filepath.Join(h.Home, "Library", "Application Support")
	}
	return h.folder("XDG_CONFIG_HOME", ".config")
}

// state returns where this package keeps what files were before.
func (h Host) state() string {
	switch h.OS {
	case "windows":
		return filepath.Join(h.folder("LOCALAPPDATA", "AppData", "Local"), "holdfast", "install")
	case "darwin":
		return filepath.Join(h.config(), "holdfast", "install")
	}
	return filepath.Join(h.folder("XDG_STATE_HOME", ".local", "state"), "holdfast", "install")
}

// Client is a program that starts MCP servers.
type Client struct {
	// Name is what people type, Title what it is called.
	Name, Title string
	// Desktop programs often have a short PATH.
	Desktop bool
	// Hint says what to do so that it reads its file again, ProjectHint what
	// else it asks for in a project.
	Hint, ProjectHint string

	user    func(Host) string
	project string   // below the project; empty: there is none
	local   bool     // whether the user's file has entries for one project
	keys    []string // above the entries
	toml    bool
	dialect
	shape
}

var jsonc = dialect{comments: true, commas: true}

// Clients returns the clients whose files are known.
//
// Where they keep them, and what they read there, was seen with the programs
// themselves for Claude Code 2.1, Codex 0.171 and Gemini CLI 0.61, in Zed's
// sources, and in the documentation of the others.
func Clients() []Client {
	servers := []string{"mcpServers"}
	return []Client{
		{
			Name: "claude-code", Title: "Claude Code", keys: servers, shape: shape{stdio: true, env: true},
			user:    func(h Host) string { return filepath.Join(h.folder("CLAUDE_CONFIG_DIR"), ".claude.json") },
			project: ".mcp.json", local: true,
			Hint:        "sessions that run do not see it; `claude mcp list` shows whether it works",
			ProjectHint: "Claude Code asks once whether the servers of a project may be started",
		},
		{
			Name: "claude-desktop", Title: "Claude Desktop", Desktop: true, keys: servers,
			user: func(h Host) string { return filepath.Join(h.config(), "Claude", "claude_desktop_config.json") },
			Hint: "quit Claude Desktop and start it again",
		},
		{
			Name: "cursor", Title: "Cursor", Desktop: true, keys: servers, dialect: jsonc,
			user:    func(h Host) string { return filepath.Join(h.Home, ".cursor", "mcp.json") },
			project: filepath.Join(".cursor", "mcp.json"),
			Hint:    "look at it under MCP in Cursor's settings",
		},
		{
			Name: "vscode", Title: "VS Code", Desktop: true, keys: []string{"servers"}, dialect: jsonc, shape: shape{stdio: true},
			user:        func(h Host) string { return filepath.Join(h.config(), "Code", "User", "mcp.json") },
			project:     filepath.Join(".vscode", "mcp.json"),
			Hint:        "start it by the command `MCP: List Servers`",
			ProjectHint: "VS Code asks once whether the servers of a project may be started",
		},
		{
			Name: "codex", Title: "Codex", keys: []string{"mcp_servers"}, toml: true,
			user:        func(h Host) string { return filepath.Join(h.folder("CODEX_HOME", ".codex"), "config.toml") },
			project:     filepath.Join(".codex", "config.toml"),
			Hint:        "sessions that run do not see it",
			ProjectHint: "Codex reads it in trusted projects only",
		},
		{
			Name: "gemini", Title: "Gemini CLI", keys: servers, dialect: dialect{comments: true},
			user:        func(h Host) string { return filepath.Join(h.folder("GEMINI_CLI_HOME"), ".gemini", "settings.json") },
			project:     filepath.Join(".gemini", "settings.json"),
			Hint:        "sessions that run see it after `/mcp refresh`; `gemini mcp list` shows whether it works",
			ProjectHint: "Gemini CLI starts servers in trusted folders only",
		},
		{
			Name: "zed", Title: "Zed", Desktop: true, keys: []string{"context_servers"}, dialect: jsonc, shape: shape{env: true},
			user: func(h Host) string {
				switch h.OS {
				case "windows":
					return filepath.Join(h.config(), "Zed", "settings.json")
				case "darwin":
					return filepath.Join(h.Home, ".config", "zed", "settings.json")
				}
				return filepath.Join(h.config(), "zed", "settings.json")
			},
			project:     filepath.Join(".zed", "settings.json"),
			Hint:        "Zed sees it at once; look at it under MCP in its settings",
			ProjectHint: "Zed starts the servers of a project once it is trusted",
		},
	}
}

// ByName returns the client of a name.
func ByName(name string) (Client, bool) {
	clients := Clients()
	i := slices.IndexFunc(clients, func(c Client) bool { return c.Name == name })
	if i < 0 {
		return Client{}, false
	}
	return clients[i], true
}

// Scopes returns the scopes of the client, the user's first.
func (c Client) Scopes() []Scope {
	scopes := []Scope{User}
	if c.project != "" {
		scopes = append(scopes, Project)
	}
	if c.local {
		scopes = append(scopes, Local)
	}
	return scopes
}

// Place is where a client looks for servers: some keys of a file.
type Place struct {
	Client Client
	Scope  Scope
	File   string
	keys   []string
	// root is the project, for a file of it.
	root string
}

// Place returns where the client has the servers of a scope, or [ErrScope].
func (c Client) Place(h Host, s Scope) (Place, error) {
	p := Place{Client: c, Scope: s, keys: c.keys}
	if !slices.Contains(c.Scopes(), s) {
		return p, fmt.Errorf("%s: %w: %s", c.Title, ErrScope, s)
	}
	switch s {
	case Project:
		p.File, p.root = filepath.Join(h.Dir, c.project), h.Dir
	case Local:
		p.File, p.keys = c.user(h), append([]string{"projects", repository(h.Dir)}, c.keys...)
	default:
		p.File = c.user(h)
	}
	return p, nil
}

// repository returns the top of the git repository that a folder is in, as
// Claude Code names projects; without one, the folder.
func repository(dir string) string {
	for up := dir; ; {
		if _, err := os.Lstat(filepath.Join(up, ".git")); err == nil {
			return filepath.ToSlash(up)
		}
		parent := filepath.Dir(up)
		if parent == up {
			return filepath.ToSlash(dir)
		}
		up = parent
	}
}

// parse reads a text as the client does.
func (p Place) parse(src []byte) (document, error) {
	if p.Client.toml {
		return newTOML(src, p.keys[0])
	}
	return newJSON(src, p.keys, p.Client.dialect, p.Client.shape)
}
