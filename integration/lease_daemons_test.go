package integration

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// TestLEASE7RealDaemons: LEASE-7, C02, C24. The connection that Inspector's
// mcpdo holds keeps its subscription, in both eras, and that of mcporter, which
// takes none, its list of tools, over 20 swaps and 5 kills. The clients start
// nothing anew.
func TestLEASE7RealDaemons(t *testing.T) {
	harness.RequireExtended(t)
	harness.RequireLinux(t)
	for name, start := range map[string]func(*testing.T, clientHome, shimmed) subscriber{
		"mcpdo legacy": mcpdoSubscriber("legacy"),
		"mcpdo modern": mcpdoSubscriber("modern"),
		"mcporter":     mcporterSubscriber,
	} {
		t.Run(name, func(t *testing.T) {
			at, server := newClientHome(t), shim(t, leaseServer(t, bridged))
			keepsWatching(t, server, start(t, at, server), 20, 5)
			tr := server.traffic(t)
			if tr.starts != 1 {
				t.Errorf("the client started the server %d times", tr.starts)
			}
			t.Logf("version %s; the client sent %v", tr.version, tr.methods)
		})
	}
}

// succeeds is what the tools of the leaseserver say, on a line of its own.
var succeeds = map[string]*regexp.Regexp{
	"pid": regexp.MustCompile(`(?m)^\d+$`), "touch": regexp.MustCompile(`(?m)^touched$`), "grow": regexp.MustCompile(`(?m)^grown$`),
}

// calling runs a command of a client that calls a tool.
func calling(at clientHome, command func(t *testing.T, tool string, args map[string]any) []string) func(*testing.T, string, map[string]any) string {
	return func(t *testing.T, tool string, args map[string]any) string {
		t.Helper()
		said := at.run(t, command(t, tool, args)...)
		if succeeds[tool].MatchString(said) {
			return ""
		}
		return said
	}
}

// mcpdoSubscriber has mcpdo watch the resource by a command that runs on, over
// the connection that its daemon holds.
func mcpdoSubscriber(era string) func(*testing.T, clientHome, shimmed) subscriber {
	return func(t *testing.T, at clientHome, server shimmed) subscriber {
		t.Helper()
		do := func(args ...string) []string { return slices.Concat(mcpdo(t), []string{"@c"}, args) }
		opened := at.run(t, append(mcpdo(t), "connect", "--era", era, "@c", "--", server.path)...)
		subscribe := do("resources/subscribe", watchedByClient)
		cmd := exec.CommandContext(t.Context(), subscribe[0], subscribe[1:]...)
		cmd.Dir, cmd.Env = at.dir, at.env
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var seen observed
		var reader sync.WaitGroup
		reader.Go(func() { readUpdates(stdout, &seen) }) // ends with the command
		s := subscriber{
			count: func(what string) int {
				if what == "changed tools" {
					return server.sent(t, "notifications/tools/list_changed")
				}
				return seen.count(what)
			},
			call: calling(at, func(t *testing.T, tool string, args map[string]any) []string {
				t.Helper()
				b, err := json.Marshal(args)
				if err != nil {
					t.Fatal(err)
				}
				return do("tools/call", tool, strings.Replace(string(b), "null", "{}", 1))
			}),
			list: func(t *testing.T) { t.Helper(); at.run(t, do("tools/list")...) },
			close: func(t *testing.T) {
				t.Helper()
				at.run(t, append(mcpdo(t), "disconnect", "@c")...)
				at.run(t, append(mcpdo(t), "daemon", "stop")...)
				_ = cmd.Process.Kill() // where it runs on without its connection
				reader.Wait()
				_ = cmd.Wait() // it was killed
			},
		}
		harness.Await(t, "the subscription; connect says "+opened, func() bool { return s.count("watching") > 0 })
		return s
	}
}

// readUpdates reads what mcpdo prints of a subscription.
func readUpdates(r io.Reader, seen *observed) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "Subscribed: "):
			seen.saw("watching")
		case strings.HasPrefix(line, "Resource updated: "):
			seen.saw("updated " + strings.TrimPrefix(line, "Resource updated: "))
		}
	}
}

// mcporterSubscriber uses the daemon of mcporter, which hears of lists alone.
func mcporterSubscriber(t *testing.T, at clientHome, server shimmed) subscriber {
	t.Helper()
	at.configureMcporter(t, server.path, "keep-alive")
	at.run(t, mcporter(t, "daemon", "start")...)
	s := subscriber{
		listsOnly: true,
		count: func(what string) int {
			if what == "changed tools" {
				return server.sent(t, "notifications/tools/list_changed")
			}
			return 0
		},
		call: calling(at, func(t *testing.T, tool string, args map[string]any) []string {
			t.Helper()
			command := mcporter(t, "call", "x."+tool)
			for name, value := range args {
				command = append(command, name+"="+value.(string))
			}
			return command
		}),
		close: func(t *testing.T) { t.Helper(); at.run(t, mcporter(t, "daemon", "stop")...) },
	}
	if failure := s.call(t, "pid", nil); failure != "" { // which starts the server
		t.Fatal(failure)
	}
	return s
}

// sent counts the lines of the server in which a text stands.
func (s shimmed) sent(t *testing.T, text string) int {
	t.Helper()
	b, err := os.ReadFile(s.log)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range bytes.Lines(b) {
		var entry struct{ What, Text string }
		if json.Unmarshal(line, &entry) == nil && entry.What == "server" && strings.Contains(entry.Text, text) {
			n++
		}
	}
	return n
}
