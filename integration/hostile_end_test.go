//go:build unix

package integration

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

func init() { badServers["host"] = (*rawServer).host }

// host is an editor: it starts the command in its arguments, shakes hands with
// it, says so, and lives until it is killed (C46).
func (s *rawServer) host() int {
	cmd := exec.Command(s.args[0], s.args[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return 1
	}
	out, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		return 1
	}
	fmt.Fprintln(in, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	answer := make([]byte, 1)
	if _, err := out.Read(answer); err != nil {
		return 1
	}
	s.write(`{"jsonrpc":"2.0","method":"up"}` + "\n")
	select {}
}

// step is something that a client does to end a server, some time after the
// step before.
type step struct {
	after time.Duration
	do    func(c *harness.Client)
}

func eof(c *harness.Client) { c.CloseStdin() }

func sendSignal(s syscall.Signal) func(*harness.Client) {
	return func(c *harness.Client) { _ = c.Process().Signal(s) } // it may have ended
}

func signalGroup(s syscall.Signal) func(*harness.Client) {
	return func(c *harness.Client) { _ = syscall.Kill(-c.Process().Pid, s) } // it may have ended
}

// sequence is how a client ends its servers.
type sequence struct {
	name    string
	group   bool // the client starts the server in a group of its own
	patient bool // the client leaves the server seconds to end by itself
	steps   []step
}

// killSequences are how real clients do it, as measured.
var killSequences = []sequence{
	{"Claude Code", false, false, []step{
		{0, sendSignal(syscall.SIGINT)}, {100 * time.Millisecond, sendSignal(syscall.SIGTERM)}, {400 * time.Millisecond, sendSignal(syscall.SIGKILL)},
	}},
	{"Codex", true, false, []step{
		{0, signalGroup(syscall.SIGTERM)}, {0, eof}, {360 * time.Millisecond, signalGroup(syscall.SIGKILL)},
	}},
	{"Gemini CLI", false, true, []step{{0, sendSignal(syscall.SIGTERM)}, {20 * time.Millisecond, eof}}},
	{"SDKs and Inspector", false, true, []step{
		{0, eof}, {2 * time.Second, sendSignal(syscall.SIGTERM)}, {2 * time.Second, sendSignal(syscall.SIGKILL)},
	}},
	{"mcporter", false, false, []step{
		{0, eof}, {730 * time.Millisecond, sendSignal(syscall.SIGTERM)}, {700 * time.Millisecond, sendSignal(syscall.SIGKILL)},
	}},
	{"probe of the TypeScript SDK", false, false, []step{{0, eof}, {0, sendSignal(syscall.SIGTERM)}, {time.Second, sendSignal(syscall.SIGKILL)}}},
	{"Zed", false, false, []step{{0, sendSignal(syscall.SIGKILL)}}},
}

// stubbornServers are servers that do not end by themselves.
func stubbornServers(t *testing.T) map[string][]string {
	sh := harness.RequireProgram(t, "sh")
	wrapped := func(command []string) []string {
		return []string{sh, "-c", fmt.Sprintf("%s -c '%s; true'; true", sh, strings.Join(command, " "))}
	}
	server, worker := badServer(t, "stubborn"), badServer(t, "stubborn-worker")
	return map[string][]string{
		"bridged":         harness.Bridged(t, nil, server...),
		"bridged wrapped": harness.Bridged(t, nil, wrapped(server)...),
		"native":          harness.Native(t, nil, worker...),
		"native wrapped":  harness.Native(t, nil, wrapped(worker)...),
	}
}

// TestC46KillSequences: C46, SUP-12, EDGE-8. However a client ends holdfast,
// no process of the tree is left, though the server ignores the end of its
// input and all signals, behind two shells too. With a client that leaves
// holdfast the time, holdfast ends before it is killed.
func TestC46KillSequences(t *testing.T) {
	harness.RequireLinux(t)
	setsid := harness.RequireProgram(t, "setsid")
	servers := stubbornServers(t)
	pairs := len(servers) * len(killSequences)
	rounds := (envInt(t, "HOLDFAST_RUNS", pairs) + pairs - 1) / pairs
	for name, command := range servers {
		for _, how := range killSequences {
			t.Run(name+"/"+how.name, func(t *testing.T) {
				t.Parallel()
				command := command
				if how.group {
					command = append([]string{setsid}, command...)
				}
				for range rounds {
					runSequence(t, command, how)
				}
			})
		}
	}
}

func runSequence(t *testing.T, command []string, how sequence) {
	t.Helper()
	c := harness.Start(t, harness.Config{Command: command})
	c.Initialize()
	c.CallTool("pid", nil)
	if n := len(c.Descendants()); n == 0 {
		t.Fatal("there is no server")
	}
	for _, s := range how.steps {
		select {
		case <-time.After(s.after): // as the client does it
			s.do(c)
		case <-c.Exited():
		}
	}
	state := c.WaitExit()
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() && how.patient {
		t.Errorf("holdfast had to be killed: %v", state)
	}
	if left := c.AwaitNoDescendants(5 * time.Second); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestC46HostIsKilled: C46, SUP-12. An editor that is killed leaves nothing
// behind: holdfast sees the end of its input.
func TestC46HostIsKilled(t *testing.T) {
	harness.RequireLinux(t)
	for name, command := range stubbornServers(t) {
		t.Run(name, func(t *testing.T) {
			c := harness.Start(t, harness.Config{Command: badServer(t, "host", command...)})
			c.WaitFor("the handshake", func(f harness.Frame) bool { return f.Method == "up" })
			c.Signal(t, "KILL")
			c.WaitExit()
			if left := c.AwaitNoDescendants(10 * time.Second); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestC48BrokenPipes: C48, EDGE-9. A client that no longer reads stdout and
// stderr, but keeps stdin open, has ended the session: holdfast stops the
// workers and ends with an error, without spinning.
func TestC48BrokenPipes(t *testing.T) {
	harness.RequireLinux(t)
	for name, command := range map[string][]string{
		"bridged": harness.Bridged(t, nil, badServer(t, "hostile")...),
		"native":  harness.Native(t, nil, harness.TestServer(t)),
	} {
		t.Run(name, func(t *testing.T) {
			c := startRaw(t, command)
			c.initialize()
			c.out.Close()
			c.err.Close()
			c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pid","arguments":{}}}`, harness.Patience)
			state := c.wait() // stdin is still open
			if state.ExitCode() <= 0 {
				t.Errorf("holdfast ended with %v, want an exit code that says so", state)
			}
			if cpu := state.UserTime() + state.SystemTime(); cpu > 2*time.Second {
				t.Errorf("holdfast used %v of the processor", cpu)
			}
			c.expectNothingLeft()
		})
	}
}

// TestC48BrokenStderr: C48, C45, EDGE-9, SUP-13. A stderr that nobody reads,
// open or closed, harms no call.
func TestC48BrokenStderr(t *testing.T) {
	harness.RequireLinux(t)
	flood := `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"do","arguments":{"stderr":"%s","times":%d}}}`
	for name, closed := range map[string]bool{"open": false, "closed": true} {
		t.Run(name, func(t *testing.T) {
			c := startRaw(t, harness.Bridged(t, []string{"--log-level", "debug"}, badServer(t, "hostile")...))
			c.initialize()
			if closed {
				c.err.Close()
			}
			line := "bGluZSAxMjM0NTY3ODkwCg==" // base64 of a line
			for i, times := range []int{1, 20_000, 1} {
				c.must(fmt.Sprintf(flood, i+1, line, times))
				c.until(fmt.Sprintf(`"id":%d`, i+1))
			}
			was := cpuTicks(t, c.cmd.Process.Pid)
			steady(t, c.cmd.Process.Pid)
			if d := cpuTicks(t, c.cmd.Process.Pid) - was; d > 200 {
				t.Errorf("holdfast used %d hundredths of a second after the flood", d)
			}
			c.in.Close()
			if state := c.wait(); state.ExitCode() != 0 {
				t.Errorf("holdfast ended with %v", state)
			}
		})
	}
}

// TestC45Floods: C45, SUP-13. 256 KB and 10 MB without line end on stderr
// block no call, and the last words are kept.
func TestC45Floods(t *testing.T) {
	c := startHostile(t, nil)
	c.Initialize()
	send(c, order{Stderr: []byte(strings.Repeat("line of stderr\n", 256<<10/15))}).Wait().Text(t)
	send(c, order{Stderr: []byte(strings.Repeat("e", 1<<20)), Times: 10}).Wait().Text(t)
	e := send(c, order{Stderr: []byte("\nlast words\n"), Instead: "die"}).Wait().Typed()
	if e == nil || len(e.StderrTail) == 0 || e.StderrTail[len(e.StderrTail)-1] != "last words" {
		t.Errorf("the call was answered with %+v", e)
	}
}

// TestC44ProbeAndTerm: C44, SUP-12. A client that asks once and ends holdfast
// at once leaves nothing; so does one that sends half a message and ends.
func TestC44ProbeAndTerm(t *testing.T) {
	harness.RequireLinux(t)
	discover := `{"jsonrpc":"2.0","id":"server-discover-probe-1","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	eachSupervised(t, func(t *testing.T, v variant) {
		t.Run("c", func(t *testing.T) {
			c := startTestServer(t, v, "-start-delay", "50ms")
			c.Send(discover)
			<-time.After(100 * time.Millisecond) // as the client does it
			began := time.Now()
			c.Signal(t, "TERM")
			state := c.WaitExit()
			if d := time.Since(began); d > 10*time.Second {
				t.Errorf("holdfast ended after %v", d)
			}
			if state.ExitCode() != 0 {
				t.Errorf("holdfast ended with %v", state)
			}
			if left := c.AwaitNoDescendants(5 * time.Second); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
		t.Run("d", func(t *testing.T) {
			c := startTestServer(t, v)
			c.Initialize()
			last := c.Request("tools/call", harness.Call("pid", nil))
			c.Write([]byte(`{"jsonrpc":"2.0","id":"half","method":"tools/ca`))
			c.CloseStdin()
			last.Wait().Text(t)
			if state := c.WaitExit(); state.ExitCode() != 0 {
				t.Errorf("holdfast ended with %v", state)
			}
		})
	})
}

// TestC44BeforeInitialized: C44, EDGE-12. Requests between initialize and
// initialized are answered.
func TestC44BeforeInitialized(t *testing.T) {
	for name, command := range map[string][]string{
		"everything":      harness.Bridged(t, nil, harness.Everything(t)),
		"hostile bridged": harness.Bridged(t, nil, badServer(t, "hostile")...),
	} {
		t.Run(name, func(t *testing.T) {
			c := harness.Start(t, harness.Config{Command: command})
			initialize := c.Request("initialize", map[string]any{
				"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "x", "version": "1"},
			})
			level := c.Request("logging/setLevel", map[string]any{"level": "debug"})
			ping := c.Request("ping", nil)
			list := c.Request("tools/list", nil)
			c.Notify("notifications/initialized", nil)
			for what, p := range map[string]*harness.Pending{"initialize": initialize, "setLevel": level, "ping": ping, "list": list} {
				if f := p.Wait(); f.Error != nil {
					t.Errorf("%s: %.300s", what, f.Raw)
				}
			}
		})
	}
}
