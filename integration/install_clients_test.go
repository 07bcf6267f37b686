package integration

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// installedClient is a client for which `holdfast install` writes.
type installedClient struct {
	name string
	file string // below the home
	// add lets the client itself write an entry x that starts a program.
	add func(t *testing.T, at clientHome, program ...string)
	// list is what the client says of its servers.
	list    func(t *testing.T, at clientHome) string
	healthy *regexp.Regexp
}

func installedClients(t *testing.T) []installedClient {
	t.Helper()
	claude := harness.RequireExtendedPackage(t, "clients", "@anthropic-ai", "claude-code-linux-x64", "claude")
	gemini := []string{harness.RequireNode(t), harness.RequireExtendedPackage(t, "clients", "@google", "gemini-cli", "bundle", "gemini.js")}
	codex := harness.RequireExtendedPackage(t, "clients", "@openai", "codex-linux-x64", "vendor", "*", "bin", "codex")
	quiet := func(at clientHome) clientHome {
		at.env = append(at.env, "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "GEMINI_CLI_TRUST_WORKSPACE=true")
		return at
	}
	return []installedClient{
		{
			name: "claude-code", file: ".claude.json", healthy: regexp.MustCompile(`x: .*Connected`),
			add: func(t *testing.T, at clientHome, program ...string) {
				quiet(at).run(t, append([]string{claude, "mcp", "add", "-s", "user", "x", "--"}, program...)...)
			},
			list: func(t *testing.T, at clientHome) string { return quiet(at).run(t, claude, "mcp", "list") },
		},
		{
			name: "gemini", file: filepath.Join(".gemini", "settings.json"), healthy: regexp.MustCompile(`x: .*Connected`),
			add: func(t *testing.T, at clientHome, program ...string) {
				// The first -- is Gemini CLI's own.
				quiet(at).run(t, append(append(gemini, "mcp", "add", "-s", "user", "x", program[0], "--"), program[1:]...)...)
			},
			list: func(t *testing.T, at clientHome) string {
				return quiet(at).run(t, append(gemini, "mcp", "list")...)
			},
		},
		{
			name: "codex", file: filepath.Join(".codex", "config.toml"), healthy: regexp.MustCompile(`"serverInfo":\{`),
			add: func(t *testing.T, at clientHome, program ...string) {
				if err := os.MkdirAll(filepath.Join(at.dir, ".codex"), 0o700); err != nil {
					t.Fatal(err)
				}
				at.run(t, append([]string{codex, "mcp", "add", "x", "--"}, program...)...)
			},
			list: func(t *testing.T, at clientHome) string { return codexStatus(t, at, codex) },
		},
	}
}

// holdfast runs a command of holdfast in the home of a client.
func (at clientHome) holdfast(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), harness.Holdfast(t), args...)
	cmd.Dir, cmd.Env = at.dir, at.env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("holdfast %q: %v\n%s", args, err, out)
	}
}

func (at clientHome) read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(at.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestInstallRealClients: what install writes is what the client writes itself
// for the same server, is read by it, and works; so does a server of the
// client's own that is wrapped. uninstall leaves what the client had.
func TestInstallRealClients(t *testing.T) {
	harness.RequireExtended(t)
	harness.RequireLinux(t)
	for _, client := range installedClients(t) {
		t.Run(client.name, func(t *testing.T) {
			server := shim(t, harness.Direct(harness.TestServer(t)))

			own := newClientHome(t)
			client.add(t, own, harness.Holdfast(t), "run", "--name", "x", "--", server.path)
			ours := newClientHome(t)
			ours.holdfast(t, "install", client.name, "--name", "x", "--", server.path)
			if diff := cmp.Diff(entryX(t, own.read(t, client.file)), entryX(t, ours.read(t, client.file))); diff != "" {
				t.Errorf("-what %s writes +what install writes:\n%s", client.name, diff)
			}
			if says := client.list(t, ours); !client.healthy.MatchString(says) {
				t.Errorf("installed: the client says:\n%s", says)
			}
			ours.holdfast(t, "uninstall", client.name, "x")
			if b, err := os.ReadFile(filepath.Join(ours.dir, client.file)); !errors.Is(err, fs.ErrNotExist) && entryX(t, string(b)) != nil {
				t.Errorf("after uninstall: %v\n%s", err, b)
			}

			wrapped := newClientHome(t)
			client.add(t, wrapped, server.path, "unused")
			before := wrapped.read(t, client.file)
			wrapped.holdfast(t, "install", client.name, "--wrap", "x")
			installed := wrapped.read(t, client.file)
			wrapped.holdfast(t, "uninstall", client.name, "x")
			if diff := cmp.Diff(before, wrapped.read(t, client.file)); diff != "" {
				t.Errorf("uninstall does not restore the file (-was +is):\n%s", diff)
			}
			wrapped.holdfast(t, "install", client.name, "--wrap", "x")
			if diff := cmp.Diff(installed, wrapped.read(t, client.file)); diff != "" {
				t.Errorf("wrapped twice (-first +second):\n%s", diff)
			}
			if says := client.list(t, wrapped); !client.healthy.MatchString(says) {
				t.Errorf("wrapped: the client says:\n%s", says)
			}
			wrapped.holdfast(t, "uninstall", client.name, "x")
			if diff := cmp.Diff(entryX(t, before), entryX(t, wrapped.read(t, client.file))); diff != "" {
				t.Errorf("after uninstall (-was +is):\n%s", diff)
			}
			if left := server.left(t); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestInstallForMcporter: mcporter reads the files of editors that do not run
// here, and finds the servers in them healthy.
func TestInstallForMcporter(t *testing.T) {
	harness.RequireExtended(t)
	harness.RequireLinux(t)
	server := shim(t, harness.Direct(harness.TestServer(t)))
	at := newClientHome(t)
	for _, client := range []string{"cursor", "vscode", "codex", "claude-code"} {
		at.holdfast(t, "install", client, "--name", "x-"+client, "--", server.path)
	}
	says := at.run(t, mcporter(t, "list")...)
	for _, client := range []string{"cursor", "vscode", "codex", "claude-code"} {
		if !regexp.MustCompile(`x-` + client + ` \(\d+ tools`).MatchString(says) {
			t.Errorf("%s: mcporter says:\n%s", client, says)
		}
	}
}

// entryX returns the entry x of a file, nil without it: the members of an
// object in JSON, the text in TOML.
func entryX(t *testing.T, text string) any {
	t.Helper()
	if text == "" || text[0] != '{' {
		found := regexp.MustCompile(`(?ms)^\[mcp_servers\.x\]\n.*?(?:^$|\z)`).FindString(text)
		if found == "" {
			return nil
		}
		return found
	}
	var file struct {
		MCPServers map[string]any `json:"mcpServers"`
	}
	if err := json.Unmarshal([]byte(text), &file); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return file.MCPServers["x"]
}
