package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// observed is what a client of an SDK has seen, each thing counted.
type observed struct {
	mu     sync.Mutex
	counts map[string]int
}

func (o *observed) saw(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.counts == nil {
		o.counts = map[string]int{}
	}
	o.counts[what]++
}

func (o *observed) count(what string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.counts[what]
}

// subscriber is a client that watches a resource and the list of tools.
type subscriber struct {
	// count returns how often the client has seen something, as watchclient.mjs
	// calls it: "updated URI", "changed tools", "closed", "completed".
	count func(what string) int
	// listsOnly: the client cannot watch resources.
	listsOnly bool
	// call has the client call a tool, and returns what the answer says if that is
	// no success.
	call func(t *testing.T, tool string, args map[string]any) (failure string)
	// list asks for the tools. It is nil for clients that do so by themselves when
	// they are told of a change.
	list func(t *testing.T)
	// close ends the client.
	close func(t *testing.T)
}

// watchedByClient is the resource that subscribers watch.
const watchedByClient = "test://watched"

// subscriberKinds start a client for a server, a program without arguments.
var subscriberKinds = map[string]func(t *testing.T, server string) subscriber{
	"TypeScript v1":     typeScriptSubscriber("v1"),
	"TypeScript legacy": typeScriptSubscriber("legacy"),
	"TypeScript auto":   typeScriptSubscriber("auto"),
	"TypeScript pin":    typeScriptSubscriber("pin"),
	"Go modern":         goSubscriber(""),
	"Go legacy":         goSubscriber("2025-11-25"),
}

// typeScriptSubscriber runs testdata/watchclient.mjs.
func typeScriptSubscriber(mode string) func(*testing.T, string) subscriber {
	return func(t *testing.T, server string) subscriber {
		t.Helper()
		node, modules := harness.RequireNode(t), harness.RequireClients(t)
		cmd := exec.CommandContext(t.Context(), node, filepath.Join("testdata", "watchclient.mjs"), modules, mode, watchedByClient, server)
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var seen observed
		s := subscriber{count: seen.count}
		answers := make(chan string, 1)
		var reader sync.WaitGroup
		reader.Go(func() { // ends with the client
			defer close(answers)
			for lines := bufio.NewScanner(stdout); lines.Scan(); {
				switch what, _, _ := strings.Cut(lines.Text(), " "); what {
				case "called", "failed":
					answers <- lines.Text()
				default:
					seen.saw(lines.Text())
				}
			}
		})
		s.call = func(t *testing.T, tool string, args map[string]any) string {
			t.Helper()
			b, err := json.Marshal(harness.Call(tool, args))
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(stdin, "%s\n", b)
			select {
			case got := <-answers:
				failure, _ := strings.CutPrefix(got, "failed ")
				if failure == got {
					return ""
				}
				return failure
			case <-time.After(harness.Patience):
				t.Fatalf("%s is not answered", tool)
				return ""
			}
		}
		s.close = func(t *testing.T) {
			t.Helper()
			stdin.Close()
			reader.Wait()
			if err := cmd.Wait(); err != nil {
				t.Errorf("the client ends with %v", err)
			}
		}
		harness.Await(t, "the subscription", func() bool { return s.count("watching") > 0 })
		return s
	}
}

// goSubscriber runs a client of the Go SDK that asks for the protocol version,
// the newest if it is empty.
func goSubscriber(version string) func(*testing.T, string) subscriber {
	return func(t *testing.T, server string) subscriber {
		t.Helper()
		var seen observed
		s := subscriber{count: seen.count}
		client := mcp.NewClient(&mcp.Implementation{Name: "watchclient", Version: "1"}, &mcp.ClientOptions{
			ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { seen.saw("changed tools") },
			ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
				seen.saw("updated " + r.Params.URI)
			},
		})
		session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: exec.Command(server)}, &mcp.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		s.list = func(t *testing.T) {
			t.Helper()
			if _, err := session.ListTools(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		s.list(t)
		if err := session.Subscribe(t.Context(), &mcp.SubscribeParams{URI: watchedByClient}); err != nil {
			t.Fatal(err)
		}
		s.call = func(t *testing.T, tool string, args map[string]any) string {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
			defer cancel()
			if args == nil {
				args = map[string]any{}
			}
			r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
			switch {
			case err != nil:
				return err.Error()
			case r.IsError:
				return fmt.Sprint(r.Content)
			}
			return ""
		}
		s.close = func(t *testing.T) {
			t.Helper()
			if err := session.Close(); err != nil {
				t.Errorf("the client ends with %v", err)
			}
		}
		return s
	}
}

// leaseServer returns the leaseserver behind holdfast.
func leaseServer(t *testing.T, v variant) []string {
	t.Helper()
	return v.command(t, []string{"--crash-budget", "1000/30s", "--backoff", "50ms..50ms"}, harness.LeaseServer(t))
}

// replaced swaps and kills the worker of a server, a kill after each fourth swap
// or so, and calls check after each.
func (s shimmed) replaced(t *testing.T, swaps, kills int, check func(when string)) {
	t.Helper()
	path := harness.LeaseServer(t)
	isWorker := func(p harness.Proc) bool { return p.Args[0] == path }
	isSupervisor := func(p harness.Proc) bool { return len(p.Args) > 1 && p.Args[1] == "run" }
	supervisor := s.process(t, isSupervisor)
	check("at first")
	for i := range swaps {
		swapPID(t, supervisor.PID)
		check(fmt.Sprint("after swap ", i+1))
		if i*kills/swaps != (i+1)*kills/swaps {
			s.process(t, isWorker).Kill()
			check(fmt.Sprint("after a kill behind swap ", i+1))
		}
	}
	if now := s.process(t, isSupervisor); now.PID != supervisor.PID {
		t.Errorf("another supervisor runs: %v, then %v", supervisor, now)
	}
}

// keepsWatching fails the test unless a client hears of its resource and of the
// list of tools after each replacement of the worker.
func keepsWatching(t *testing.T, server shimmed, s subscriber, swaps, kills int) {
	t.Helper()
	server.replaced(t, swaps, kills, func(when string) {
		t.Helper()
		// What is under way when the worker is killed has no outcome.
		harness.Await(t, when+": an answer", func() bool { return s.call(t, "pid", nil) == "" })
		if s.list != nil {
			s.list(t)
		}
		updated, changed := s.count("updated "+watchedByClient), s.count("changed tools")
		for tool, args := range map[string]map[string]any{"touch": {"uri": watchedByClient}, "grow": {"name": "grown"}} {
			if failure := s.call(t, tool, args); failure != "" {
				t.Errorf("%s: %s says %s", when, tool, failure)
			}
		}
		if !s.listsOnly {
			harness.Await(t, when+": an update", func() bool { return s.count("updated "+watchedByClient) > updated })
		}
		harness.Await(t, when+": a changed list", func() bool { return s.count("changed tools") > changed })
	})
	for _, end := range []string{"closed", "completed"} {
		if s.count(end) > 0 {
			t.Errorf("for the client the connection or its listen has ended: %s", end)
		}
	}
	s.close(t)
	if left := server.left(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestLEASE7Clients: LEASE-7, C24, EDGE-13. The clients of the SDKs, in both
// eras, keep what they watch while its worker is swapped and killed.
func TestLEASE7Clients(t *testing.T) {
	harness.RequireLinux(t)
	swaps, kills := 3, 1
	if os.Getenv("HOLDFAST_EXTENDED") == "1" {
		swaps, kills = 20, 5
	}
	for name, start := range subscriberKinds {
		for _, v := range supervised() {
			t.Run(name+" "+v.name, func(t *testing.T) {
				t.Parallel()
				server := unshimmed(t, leaseServer(t, v))
				keepsWatching(t, server, start(t, server.path), swaps, kills)
			})
		}
	}
}
