package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/integration/harness"
	"github.com/holdfast-mcp/holdfast/protocol"
)

// TestSUP5ResolvedAnew: SUP-5. The executable is looked up for each
// generation: a replaced file is picked up, a missing one is an error with its
// path, and the session outlives both.
func TestSUP5ResolvedAnew(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "server"+exe())
	point := func(to string) {
		t.Helper()
		if err := os.Symlink(to, link+".new"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link+".new", link); err != nil {
			t.Fatal(err)
		}
	}
	one, two := harness.TestServerVersion(t, "one"), harness.TestServerVersion(t, "two")
	point(one)
	c := harness.Start(t, harness.Config{Command: harness.Native(t, nil, link)})
	c.Initialize()
	if got := c.CallTool("version", nil).Text(t); got != "one" {
		t.Errorf("version %q", got)
	}
	point(two)
	c.CallTool("exit", map[string]any{"code": 1})
	if got := c.CallTool("version", nil).Text(t); got != "two" {
		t.Errorf("version %q after the file was replaced", got)
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	c.CallTool("exit", map[string]any{"code": 1})
	got := c.CallTool("version", nil)
	if e := got.Typed(); e == nil || e.Kind != protocol.WorkerUnavailable || !strings.Contains(e.Message, link) {
		t.Errorf("a missing file is answered with %.500s", got.Raw)
	}
	point(one)
	harness.Await(t, "the file that came back", func() bool {
		f := c.CallTool("version", nil)
		return outcomeOf(f) == served && f.Text(t) == "one"
	})
}

// TestSUP8DiesBeforeItsAnswer: SUP-8, C50. A server that ends before it
// answers initialize is told about with its exit code and its last words.
func TestSUP8DiesBeforeItsAnswer(t *testing.T) {
	c := startBad(t, "early-exit")
	c.Request("initialize", map[string]any{
		"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "x", "version": "1"},
	})
	got := c.CallTool("x", nil)
	e := got.Typed()
	if e == nil || e.Kind != protocol.WorkerUnavailable || e.Exit == nil || e.Exit.Code != 1 {
		t.Fatalf("the call was answered with %.500s", got.Raw)
	}
	if !strings.Contains(strings.Join(e.StderrTail, "\n"), "missing API_KEY") {
		t.Errorf("the stderr tail is %q", e.StderrTail)
	}
}

// TestSUP18EnvironmentIsClean: SUP-18, EDGE-11. The server sees what the user
// configured and nothing of the handshake, also behind the bridge and behind
// a second holdfast.
func TestSUP18EnvironmentIsClean(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	flags := []string{"--cwd", dir, "--env", "FROM_FLAG=1"}
	server := harness.TestServer(t)
	for name, command := range map[string][]string{
		"native":  harness.Native(t, flags, server),
		"bridged": harness.Bridged(t, flags, server),
		"nested":  harness.Bridged(t, flags, harness.Native(t, nil, server)...),
	} {
		t.Run(name, func(t *testing.T) {
			c := harness.Start(t, harness.Config{Command: command, Env: []string{"HOLDFAST_LOG_LEVEL=debug", "INHERITED=1"}})
			c.Initialize()
			env := strings.Split(c.CallTool("env", nil).Text(t), "\n")
			have := map[string]bool{}
			for _, kv := range env {
				have[kv] = true
				if name, _, _ := strings.Cut(kv, "="); protocol.IsHandshakeVariable(name) {
					t.Errorf("the server sees %s", kv)
				}
			}
			if !have["FROM_FLAG=1"] || !have["INHERITED=1"] {
				t.Error("the server lacks a variable that was given to it")
			}
			if got := c.CallTool("cwd", nil).Text(t); got != dir {
				t.Errorf("the server runs in %s, want %s", got, dir)
			}
		})
	}
}

// TestSUP21SessionEndsServerLives: SUP-21. A server that closes its session by
// itself is reached again: in a new session of the same process where that
// lives on, in a new process where the server's end goes with it.
func TestSUP21SessionEndsServerLives(t *testing.T) {
	eachSupervised(t, func(t *testing.T, v variant) {
		journal := filepath.Join(t.TempDir(), "journal")
		server := []string{harness.TestServer(t), "-journal", journal, "-keepalive", "300ms"}
		c := harness.Start(t, harness.Config{
			Command:  v.command(t, nil, server...),
			Handlers: map[string]harness.Handler{"ping": nil}, // silent, so that keep-alive gives up
		})
		c.Initialize()
		pid := c.CallTool("pid", nil).Text(t)
		harness.Await(t, "two more sessions", func() bool {
			sessions := 0
			for line, n := range readJournal(t, journal) {
				if strings.HasPrefix(line, "initialized ") {
					sessions += n
				}
			}
			return sessions >= 3
		})
		// A call may meet the end of one more session.
		harness.Await(t, "an answer", func() bool {
			got := outcomeOf(c.CallTool("echo", map[string]any{"text": "x"}))
			if got != served && got != unknown {
				t.Errorf("a call beside the session's end is %s", got)
			}
			return got == served
		})
		if v.native {
			if n := readJournal(t, journal)["initialized "+pid]; n < 3 {
				t.Errorf("process %s saw %d sessions, so it was replaced and had not ended", pid, n)
			}
		}
	})
}

// TestNativeBanner: a native worker that prints before its handshake works.
func TestNativeBanner(t *testing.T) {
	c := startTestServer(t, native, "-banner", "Welcome! Listening on stdio...")
	c.Initialize()
	c.CallTool("pid", nil).Text(t)
}

// TestEDGE2Framing: EDGE-2, EDGE-3. CRLF, blank lines, a BOM and junk do not
// break the stream, and never reach the server.
func TestEDGE2Framing(t *testing.T) {
	eachSupervised(t, func(t *testing.T, v variant) {
		c := startTestServer(t, v)
		c.Write([]byte("\xef\xbb\xbf\r\n\n"))
		c.Initialize()
		pid := c.CallTool("pid", nil).Text(t)
		c.Send(`{"jsonrpc":"2.0","id":900,"method":"ping"}` + "\r")
		c.Send("not json")
		c.Send("[]")
		c.Send(`{"jsonrpc":"2.0","id":null,"method":"ping"}`)
		c.Send("\xff\xfe")
		c.WaitFor("the answer to the ping with CRLF", func(f harness.Frame) bool { return string(f.ID) == "900" })
		if got := c.CallTool("pid", nil).Text(t); got != pid {
			t.Errorf("junk of the client ended the server")
		}
	})
}

// TestBadInput: bad command lines end with one clear line and the documented
// exit code; a server that cannot be started is told about in the answers.
func TestBadInput(t *testing.T) {
	holdfast := harness.Holdfast(t)
	missing := filepath.Join(t.TempDir(), "missing")
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"unknown flag":        {[]string{"run", "--no-such-flag", "--", "true"}, 2, "no-such-flag"},
		"no command":          {[]string{"run"}, 2, ""},
		"unreadable env file": {[]string{"run", "--env-file", missing, "--", "true"}, 1, missing},
		"bad duration":        {[]string{"run", "--eof-grace", "soon", "--", "true"}, 2, "eof-grace"},
	} {
		t.Run(name, func(t *testing.T) {
			p := harness.Start(t, harness.Config{Command: append([]string{holdfast}, c.args...)})
			if got := p.WaitExit().ExitCode(); got != c.code {
				t.Errorf("exit code %d, want %d", got, c.code)
			}
			stderr := strings.TrimSpace(p.Stderr())
			if strings.Contains(stderr, "\n") || stderr == "" || !strings.Contains(stderr, c.says) {
				t.Errorf("stderr is not one clear line: %q", stderr)
			}
			if frames := p.Frames(); len(frames) > 0 {
				t.Errorf("stdout carries %q", frames[0].Raw)
			}
		})
	}
	for name, command := range map[string][]string{
		"no such command": harness.Bridged(t, nil, missing),
		"no such worker":  harness.Native(t, nil, missing),
	} {
		t.Run(name, func(t *testing.T) {
			p := harness.Start(t, harness.Config{Command: command})
			got := p.CallTool("x", nil)
			if e := got.Typed(); e == nil || e.Kind != protocol.WorkerUnavailable || !strings.Contains(e.Message, missing) {
				t.Errorf("the call was answered with %.500s", got.Raw)
			}
		})
	}
	t.Run("no worker", func(t *testing.T) {
		p := harness.Start(t, harness.Config{Command: harness.Native(t, nil, badServer(t, "early-exit")...)})
		if e := p.CallTool("x", nil).Typed(); e == nil || e.Kind != protocol.WorkerUnavailable {
			t.Errorf("a program that is no worker is reported as %+v", e)
		}
	})
}

// TestSUP12NothingIsLeft: SUP-12, C46. No descendant outlives holdfast,
// however it ends, though the server ignores TERM and EOF and hides behind
// two shells.
func TestSUP12NothingIsLeft(t *testing.T) {
	harness.RequireLinux(t)
	shell := harness.RequireProgram(t, "sh")
	ends := map[string]func(*harness.Client){
		"EOF":  func(c *harness.Client) { c.CloseStdin() },
		"TERM": func(c *harness.Client) { c.Signal(t, "TERM") },
		"INT":  func(c *harness.Client) { c.Signal(t, "INT") },
		"HUP":  func(c *harness.Client) { c.Signal(t, "HUP") },
		"KILL": func(c *harness.Client) { c.Signal(t, "KILL") },
	}
	stubborn := strings.Join(badServer(t, "stubborn"), " ")
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			c := harness.Start(t, harness.Config{
				Command: harness.Bridged(t, nil, shell, "-c", fmt.Sprintf("%s -c '%s; true'; true", shell, stubborn)),
			})
			c.Initialize()
			c.CallTool("x", nil)
			if n := len(c.Descendants()); n < 4 {
				t.Errorf("%d descendants before the end, want the bridge, two shells and the server", n)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			end(c)
			select {
			case <-c.Exited():
			case <-ctx.Done():
				t.Error("holdfast does not end")
			}
			if left := c.AwaitNoDescendants(5 * time.Second); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}
