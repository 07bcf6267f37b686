//go:build unix

package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mcp/holdfast/integration/harness"
	"github.com/holdfast-mcp/holdfast/integration/httpbridge"
)

// forgetful undoes what a line says of a tool that a scenario adds at run time:
// a new process of that server has not got it, so the list may shrink while a
// suite compares two of its copies.
func forgetful(line string) string {
	check, reason, found := strings.Cut(line, " WARNING"+untestable)
	if found && strings.Contains(reason, "(added: none; removed: __transient_tool_for_list_changed)") {
		return check + " SUCCESS"
	}
	return line
}

// TestConformanceWhileSwapping: SUP-4, SUP-9, LEASE-7. The official conformance suites
// see no swap: while each running holdfast replaces its worker all the time,
// they find what they find without holdfast.
func TestConformanceWhileSwapping(t *testing.T) {
	harness.RequireExtended(t)
	harness.RequireLinux(t)
	server := harness.Everything(t)
	direct := conformance(t, harness.Direct(server))
	if len(direct) <= checksFloor {
		t.Fatalf("%d checks without holdfast, want more than %d", len(direct), checksFloor)
	}
	servers := map[string]string{bridged.name: server, native.name: harness.EverythingWorker(t)}
	for _, v := range supervised() {
		for _, period := range []time.Duration{time.Second, 250 * time.Millisecond} {
			t.Run(v.name+" each "+period.String(), func(t *testing.T) {
				// The script stands for each start of a worker.
				starts := filepath.Join(t.TempDir(), "starts")
				script := []string{harness.RequireProgram(t, "sh"), "-c", `echo start >>"$0"; exec "$@"`, starts, servers[v.name]}
				began := time.Now()
				got, sessions, signals := conformanceSwapped(t, v.command(t, nil, script...), period)
				b, err := os.ReadFile(starts)
				if err != nil {
					t.Fatal(err)
				}
				swaps := strings.Count(string(b), "\n") - sessions
				t.Logf("%d checks, %d sessions, %d swaps of %d asked for, in %v", len(got), sessions, swaps, signals, time.Since(began).Round(time.Second))
				if swaps < sessions/2 {
					t.Errorf("too few swaps to prove anything: %d in %d sessions", swaps, sessions)
				}
				for i, line := range got {
					if got[i] = forgetful(line); got[i] != line {
						t.Log("as the server forgets a tool: ", line)
					}
				}
				slices.Sort(got) // a line was undone
				if diff := cmp.Diff(direct, got); diff != "" {
					t.Errorf("checks without and with swaps (-direct +swapped):\n%s", diff)
				}
			})
		}
	}
}

// conformanceSwapped runs the suites while all workers are replaced again and
// again. Sessions that a suite has forgotten end early, since each of them
// would swap on.
func conformanceSwapped(t *testing.T, command []string, period time.Duration) (lines []string, sessions, signals int) {
	t.Helper()
	bridge, err := httpbridge.Listen(command, harness.ColdCache(t), 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() { // ends with stop
		ticks := time.NewTicker(period)
		defer ticks.Stop()
		for {
			select {
			case <-ticks.C:
				signals += bridge.Signal(syscall.SIGUSR2)
			case <-stop:
				return
			}
		}
	})
	lines = runSuites(t, bridge)
	close(stop)
	swapper.Wait()
	if err := bridge.Close(); err != nil {
		t.Error(err)
	}
	return lines, bridge.Started(), signals
}
