package integration

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// daemonClient keeps a connection open between its commands.
type daemonClient struct {
	name              string
	open, call, close func(t *testing.T, at clientHome, server string) string
}

var daemonClients = []daemonClient{
	{
		name: "mcpdo",
		open: func(t *testing.T, at clientHome, server string) string {
			return at.run(t, append(mcpdo(t), "connect", "@c", "--", server)...)
		},
		call: func(t *testing.T, at clientHome, _ string) string {
			return at.run(t, append(mcpdo(t), "@c", "tools/call", "test_simple_text")...)
		},
		close: func(t *testing.T, at clientHome, _ string) string {
			return at.run(t, append(mcpdo(t), "disconnect", "@c")...) + at.run(t, append(mcpdo(t), "daemon", "stop")...)
		},
	},
	{
		name: "mcporter",
		open: func(t *testing.T, at clientHome, server string) string {
			at.configureMcporter(t, server, "keep-alive")
			return at.run(t, mcporter(t, "daemon", "start")...)
		},
		call: func(t *testing.T, at clientHome, _ string) string {
			return at.run(t, mcporter(t, "call", "x.test_simple_text")...)
		},
		close: func(t *testing.T, at clientHome, _ string) string {
			return at.run(t, mcporter(t, "daemon", "stop")...)
		},
	},
}

func mcpdo(t *testing.T) []string {
	t.Helper()
	return inspector(t, "mcpdo", "build", "mcp-bin.js")
}

// TestC02RealDaemons: C02, SUP-1, SUP-4. The connection that the daemons of
// real clients hold survives the death of the server and five swaps; the
// clients, which would reconnect without a word, start nothing anew.
func TestC02RealDaemons(t *testing.T) {
	harness.RequireExtended(t)
	harness.RequireLinux(t)
	everything := harness.Everything(t)
	for _, client := range daemonClients {
		t.Run(client.name, func(t *testing.T) {
			at, server := newClientHome(t), shim(t, harness.Bridged(t, nil, everything))
			opened := client.open(t, at, server.path)
			call := func(when string) {
				t.Helper()
				if said := client.call(t, at, server.path); !strings.Contains(said, "This is a simple text response") {
					t.Errorf("%s: the client says:\n%s\nwhen it connected:\n%s", when, said, opened)
				}
			}
			call("at first")
			server.process(t, func(p harness.Proc) bool { return slices.Equal(p.Args, []string{everything}) }).Kill()
			call("after a kill")
			supervisor := server.process(t, func(p harness.Proc) bool { return len(p.Args) > 1 && p.Args[1] == "run" })
			for range 5 {
				swapPID(t, supervisor.PID)
				call("after a swap")
			}
			if s := server.process(t, func(p harness.Proc) bool { return slices.Equal(p.Args, supervisor.Args) }); s.PID != supervisor.PID {
				t.Errorf("another supervisor runs: %v, then %v", supervisor, s)
			}
			said := client.close(t, at, server.path)
			if left := server.left(t); len(left) > 0 {
				t.Errorf("left behind: %v; the client says:\n%s", left, said)
			}
			if tr := server.traffic(t); tr.starts != 1 {
				t.Errorf("the client started the server %d times", tr.starts)
			}
		})
	}
}

// process waits for the one process of the server for which is holds.
func (s shimmed) process(t *testing.T, is func(harness.Proc) bool) harness.Proc {
	t.Helper()
	var found []harness.Proc
	harness.Await(t, "a process of the server", func() bool {
		found = slices.DeleteFunc(harness.Marked(t, s.mark), func(p harness.Proc) bool { return !is(p) })
		return len(found) == 1
	})
	return found[0]
}

// swapPID asks the supervisor of that id for a swap, and waits for it.
func swapPID(t *testing.T, pid int) {
	t.Helper()
	cmd := exec.Command(harness.Holdfast(t), "swap", strconv.Itoa(pid))
	cmd.Env = append(os.Environ(), privateTemp(t))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("swap: %v\n%s", err, out)
	}
}
