package integration

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// realClient is a client that people use, asked whether a server is healthy.
// None of them is logged in or has a model.
type realClient struct {
	name string
	// check configures the server, a program without arguments, and returns
	// what the client says of it.
	check   func(t *testing.T, at clientHome, server string) string
	healthy *regexp.Regexp
	// version is what it speaks with the everything server of the Go SDK.
	version string
}

var realClients = []realClient{
	{"Claude Code", checkClaude, regexp.MustCompile(`Connected`), "2026-07-28"},
	{"Gemini CLI", checkGemini, regexp.MustCompile(`Connected`), "2025-06-18"},
	{"Codex", checkCodex, regexp.MustCompile(`"serverInfo":\{`), "2025-06-18"},
	{"mcporter", checkMcporter, regexp.MustCompile(`[1-9]\d* healthy|\d+ tools`), "2025-11-25"},
	{"Inspector legacy", checkInspector("legacy"), regexp.MustCompile(`"tools"`), "2025-11-25"},
	{"Inspector auto", checkInspector("auto"), regexp.MustCompile(`"tools"`), "2026-07-28"},
	{"Inspector modern", checkInspector("modern"), regexp.MustCompile(`"tools"`), "2026-07-28"},
}

func checkClaude(t *testing.T, at clientHome, server string) string {
	claude := harness.RequireExtendedPackage(t, "clients", "@anthropic-ai", "claude-code-linux-x64", "claude")
	at.env = append(at.env, "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
	at.run(t, claude, "mcp", "add", "-s", "user", "x", "--", server)
	return at.run(t, claude, "mcp", "list")
}

func checkGemini(t *testing.T, at clientHome, server string) string {
	gemini := []string{harness.RequireNode(t), harness.RequireExtendedPackage(t, "clients", "@google", "gemini-cli", "bundle", "gemini.js")}
	at.env = append(at.env, "GEMINI_CLI_TRUST_WORKSPACE=true")
	at.run(t, append(gemini, "mcp", "add", "-s", "user", "x", server)...)
	return at.run(t, append(gemini, "mcp", "list")...)
}

// checkCodex asks the server of Codex's own editors: its command line lists
// servers without starting them.
func checkCodex(t *testing.T, at clientHome, server string) string {
	codex := harness.RequireExtendedPackage(t, "clients", "@openai", "codex-linux-x64", "vendor", "*", "bin", "codex")
	if err := os.MkdirAll(filepath.Join(at.dir, ".codex"), 0o700); err != nil {
		t.Fatal(err)
	}
	at.run(t, codex, "mcp", "add", "x", "--", server)
	return codexStatus(t, at, codex)
}

// codexStatus returns what Codex says of its servers.
func codexStatus(t *testing.T, at clientHome, codex string) string {
	t.Helper()
	env := append([]string{"env", "-i"}, at.env...)
	c := harness.Start(t, harness.Config{Dir: at.dir, Command: append(env, codex, "app-server")})
	c.Request("initialize", map[string]any{"clientInfo": map[string]any{"name": "probe", "title": "probe", "version": "0"}}).Wait()
	c.Notify("initialized", nil)
	answer := c.Request("mcpServerStatus/list", map[string]any{}).Wait()
	c.CloseStdin()
	c.WaitExit()
	return string(answer.Raw)
}

func checkMcporter(t *testing.T, at clientHome, server string) string {
	at.configureMcporter(t, server, "")
	return at.run(t, mcporter(t, "list")...)
}

func mcporter(t *testing.T, args ...string) []string {
	t.Helper()
	cli := harness.RequireExtendedPackage(t, "clients", "mcporter", "dist", "cli.js")
	return append([]string{harness.RequireNode24(t), cli}, args...)
}

func (at clientHome) configureMcporter(t *testing.T, server, lifecycle string) {
	t.Helper()
	settings := map[string]string{"command": server}
	if lifecycle != "" {
		settings["lifecycle"] = lifecycle
	}
	b, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"x": settings}})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(at.dir, "config")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "mcporter.json"), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func inspector(t *testing.T, program ...string) []string {
	t.Helper()
	path := append([]string{"@modelcontextprotocol", "inspector", "clients"}, program...)
	return []string{harness.RequireNode(t), harness.RequireExtendedPackage(t, "clients", path...)}
}

func checkInspector(era string) func(*testing.T, clientHome, string) string {
	return func(t *testing.T, at clientHome, server string) string {
		cli := inspector(t, "launcher", "build", "index.js")
		return at.run(t, append(cli, "--cli", server, "--method", "tools/list", "--protocol-era", era)...)
	}
}

// clientHome is where one client runs: a home of its own, and nothing of the
// environment of the test.
type clientHome struct {
	dir string
	env []string
	// mark is on what the client starts, servers excepted, to end what it
	// leaves running.
	mark string
}

func newClientHome(t *testing.T) clientHome {
	t.Helper()
	at := clientHome{dir: t.TempDir(), mark: rand.Text()}
	at.env = []string{"HOME=" + at.dir, "PATH=/usr/bin:/bin", "TERM=dumb", harness.MarkVariable + "=" + at.mark}
	t.Cleanup(func() { endMarked(t, at.mark) })
	return at
}

// run returns what a program prints. How it exits does not matter: clients
// differ in what they call a failure.
func (at clientHome) run(t *testing.T, command ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env = at.dir, at.env
	cmd.WaitDelay = 2 * time.Second // for what holds the output after the client
	out, err := cmd.CombinedOutput()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatalf("%q: %v", command, err)
	}
	if ctx.Err() != nil {
		t.Fatalf("%q does not end:\n%s", command, out)
	}
	return string(out)
}

func endMarked(t *testing.T, mark string) {
	t.Helper()
	for _, p := range harness.Marked(t, mark) {
		p.Kill()
	}
}

// shimmed is a server behind the log shim, as a program without arguments.
type shimmed struct {
	path, log, mark string
}

// shim writes a script that starts the command behind the log shim. Whatever
// environment a client leaves it, its processes carry the mark.
func shim(t *testing.T, command []string) shimmed {
	t.Helper()
	dir := t.TempDir()
	s := shimmed{path: filepath.Join(dir, "server"), log: filepath.Join(dir, "log"), mark: rand.Text()}
	s.script(t, append([]string{harness.LogShim(t), s.log, "--"}, command...))
	return s
}

// unshimmed is shim without the log shim: the signals of the client reach the
// command itself.
func unshimmed(t *testing.T, command []string) shimmed {
	t.Helper()
	s := shimmed{path: filepath.Join(t.TempDir(), "server"), mark: rand.Text()}
	s.script(t, command)
	return s
}

func (s shimmed) script(t *testing.T, command []string) {
	t.Helper()
	var line strings.Builder
	for _, arg := range command {
		fmt.Fprintf(&line, " '%s'", strings.ReplaceAll(arg, "'", `'\''`))
	}
	env := append(harness.ColdCache(t), privateTemp(t), harness.MarkVariable+"="+s.mark)
	text := fmt.Sprintf("#!/bin/sh\nexport %s\nexec%s\n", strings.Join(env, " "), line.String())
	if err := os.WriteFile(s.path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endMarked(t, s.mark) })
}

// left returns the processes of the server that still live after a while.
func (s shimmed) left(t *testing.T) []harness.Proc {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		procs := harness.Marked(t, s.mark)
		if len(procs) == 0 || time.Now().After(deadline) {
			return procs
		}
		<-time.After(20 * time.Millisecond) // between two looks at the process table
	}
}

// traffic is what the log shim recorded.
type traffic struct {
	starts  int
	version string   // that the two agreed on last
	methods []string // of the client's messages, each once, sorted
	end     []string // how the client ended the server, in order
}

func (s shimmed) traffic(t *testing.T) traffic {
	t.Helper()
	b, err := os.ReadFile(s.log)
	if errors.Is(err, fs.ErrNotExist) {
		return traffic{}
	}
	if err != nil {
		t.Fatal(err)
	}
	var tr traffic
	for line := range bytes.Lines(b) {
		var entry struct{ What, Text string }
		if err := json.Unmarshal(line, &entry); err != nil {
			t.Fatalf("log shim: %v in %s", err, line)
		}
		switch entry.What {
		case "start":
			tr.starts++
		case "client":
			var m message
			if json.Unmarshal([]byte(entry.Text), &m) == nil && m.Method != "" {
				tr.methods = append(tr.methods, m.Method)
			}
		case "server":
			tr.version = agreed(entry.Text, tr.version)
		case "signal":
			tr.end = append(tr.end, entry.Text)
		case "eof":
			tr.end = append(tr.end, "EOF")
		}
	}
	slices.Sort(tr.methods)
	tr.methods = slices.Compact(tr.methods)
	return tr
}

// agreed returns the version in the answer to a handshake, otherwise in any
// other line.
func agreed(line, otherwise string) string {
	var answer struct {
		Result struct {
			ProtocolVersion   string   `json:"protocolVersion"`
			SupportedVersions []string `json:"supportedVersions"`
		} `json:"result"`
	}
	_ = json.Unmarshal([]byte(line), &answer) // what is no answer has no version
	switch r := answer.Result; {
	case r.ProtocolVersion != "":
		return r.ProtocolVersion
	case len(r.SupportedVersions) > 0:
		return r.SupportedVersions[0]
	}
	return otherwise
}

// TestRealClients: EDGE-13, SUP-12. The clients that people use find the same
// server healthy, and speak the same version with it, with and without
// holdfast. With holdfast they leave no process behind.
func TestRealClients(t *testing.T) {
	harness.RequireExtended(t)
	harness.RequireLinux(t)
	servers := map[string][]namedCommand{"go-sdk": everythingCommands(t)[:2], "npm": npmCommands(t)}
	table := []string{fmt.Sprintf("%-8s %-18s %-8s %-8s %-11s %6s %5s  %s", "server", "client", "way", "verdict", "version", "ms", "left", "ended by")}
	for server, ways := range servers {
		for _, client := range realClients {
			t.Run(server+"/"+client.name, func(t *testing.T) {
				var direct seen
				for i, way := range ways {
					s := client.look(t, way.argv)
					table = append(table, fmt.Sprintf("%-8s %-18s %-8s %s", server, client.name, way.name, s))
					if i == 0 {
						direct = s
						if server == "go-sdk" && (!s.healthy || s.version != client.version) {
							t.Fatalf("without holdfast: %s, want version %s; the client says:\n%s", s, client.version, s.says)
						}
						continue
					}
					if s.healthy != direct.healthy || s.version != direct.version {
						t.Errorf("%s: %s; without holdfast: %s; the client says:\n%s", way.name, s, direct, s.says)
					}
					if diff := cmp.Diff(direct.methods, s.methods); diff != "" {
						t.Errorf("what the client sends (-direct +%s):\n%s", way.name, diff)
					}
					if len(s.left) > 0 {
						t.Errorf("%s: left behind: %v", way.name, s.left)
					}
				}
			})
		}
	}
	t.Logf("left: processes of the server after the client\n%s", strings.Join(table, "\n"))
}

// seen is what one client made of one server.
type seen struct {
	traffic

	healthy bool
	says    string
	took    time.Duration
	left    []harness.Proc
}

func (s seen) String() string {
	verdict := "refused"
	if s.healthy {
		verdict = "healthy"
	}
	return fmt.Sprintf("%-8s %-11s %6d %5d  %s", verdict, s.version, s.took.Milliseconds(), len(s.left), strings.Join(s.end, ", "))
}

func (c realClient) look(t *testing.T, command []string) seen {
	t.Helper()
	at, server := newClientHome(t), shim(t, command)
	began := time.Now()
	s := seen{says: c.check(t, at, server.path)}
	s.took = time.Since(began)
	s.healthy = c.healthy.MatchString(s.says)
	s.left = server.left(t)
	s.traffic = server.traffic(t)
	return s
}

// TestC46RealClients: C46, SUP-12. Whatever real clients do to end holdfast,
// nothing is left of a server that ignores the end of its input and signals.
func TestC46RealClients(t *testing.T) {
	harness.RequireExtended(t)
	harness.RequireLinux(t)
	for _, client := range realClients {
		if strings.HasSuffix(client.name, "modern") {
			continue // the server speaks the legacy era only
		}
		t.Run(client.name, func(t *testing.T) {
			at, server := newClientHome(t), unshimmed(t, harness.Bridged(t, nil, badServer(t, "stubborn")...))
			began := time.Now()
			says := client.check(t, at, server.path)
			checked := time.Now()
			if !client.healthy.MatchString(says) {
				t.Errorf("the client says:\n%s", says)
			}
			if left := server.left(t); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			t.Logf("the client took %s ms; nothing was left %s ms later", ms(checked.Sub(began)), ms(time.Since(checked)))
		})
	}
}
