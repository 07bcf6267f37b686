package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// TestSUP6OneFollowUp: SUP-6. While a candidate starts, any number of swaps
// have one follow-up together, and all are told the generation that they got.
func TestSUP6OneFollowUp(t *testing.T) {
	harness.RequireLinux(t)
	eachSupervised(t, func(t *testing.T, v variant) {
		g := newGate(t)
		h := startHeldServer(t, v, nil, "-gate", string(g))
		h.Initialize()
		h.pid()
		g.shut(t)
		var swaps sync.WaitGroup
		got := make(chan uint64, 4)
		swap := func() { // ends with its swap
			n, _ := h.swap()
			got <- n
		}
		swaps.Go(swap)
		h.awaitTwoServers() // so its executable is known
		for range 3 {
			swaps.Go(swap)
		}
		harness.Await(t, "the processes of all swaps", func() bool { return countCLI(t, h) == 4 })
		h.status() // takes as long as they do to connect
		g.open(t)
		swaps.Wait()
		close(got)
		count := map[uint64]int{}
		for n := range got {
			count[n]++
		}
		// One that was slow to connect all the same has found the follow-up under
		// way, and got one of its own.
		if count[2] != 1 || count[3] == 0 || count[3]+count[4] != 3 {
			t.Errorf("swaps by the generation that they got: %v", count)
		}
		h.pid()
		if s := h.status(); s.Worker.Crashes != 0 || s.Worker.Generation > 4 {
			t.Errorf("%+v", s.Worker)
		}
	})
}

// countCLI counts the processes of `holdfast swap` of this test.
func countCLI(t *testing.T, h held) int {
	t.Helper()
	n := 0
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	want := h.path + "\x00swap\x00" + strconv.Itoa(h.Process().Pid) + "\x00"
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && string(b) == want {
			n++
		}
	}
	return n
}

// TestSUP6CallerGivesUp: SUP-4, SUP-6. A caller that gives up cancels nothing.
func TestSUP6CallerGivesUp(t *testing.T) {
	harness.RequireLinux(t)
	eachSupervised(t, func(t *testing.T, v variant) {
		g := newGate(t)
		h := startHeldServer(t, v, nil, "-gate", string(g))
		h.Initialize()
		before := h.pid()
		g.shut(t)
		cmd := exec.Command(h.path, "swap", strconv.Itoa(h.Process().Pid))
		cmd.Env = append(os.Environ(), privateTemp(t))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		h.awaitTwoServers()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		g.open(t)
		h.awaitGeneration(2)
		if now := h.pid(); now == before {
			t.Error("the old process answers")
		}
	})
}

// TestSUP6CloseDuringSwap: SUP-6, SUP-12. However the session ends while a
// candidate starts, no process is left; whoever waits for the swap is told.
func TestSUP6CloseDuringSwap(t *testing.T) {
	harness.RequireLinux(t)
	ends := map[string]func(held){
		"EOF":  func(h held) { h.CloseStdin() },
		"TERM": func(h held) { h.Signal(h.t, "TERM") },
		"KILL": func(h held) { h.Signal(h.t, "KILL") },
	}
	for _, mode := range []string{"overlap", "sequential"} {
		for name, end := range ends {
			t.Run(mode+" "+name, func(t *testing.T) {
				eachSupervised(t, func(t *testing.T, v variant) {
					g := newGate(t)
					h := startHeldServer(t, v, []string{"--swap", mode}, "-gate", string(g))
					h.Initialize()
					h.pid()
					g.shut(t)
					told := make(chan string, 1)
					go func() { // ends with the supervisor
						_, reason := h.swap()
						told <- reason
					}()
					if mode == "overlap" {
						h.awaitTwoServers()
					} else {
						h.awaitState("starting")
					}
					end(h)
					h.WaitExit()
					if left := h.AwaitNoDescendants(5 * time.Second); len(left) > 0 {
						t.Errorf("left behind: %v", left)
					}
					if reason := <-told; reason == "" {
						t.Error("the swap was told nothing")
					}
				})
			})
		}
	}
}

// TestSUP6ServingDies: SUP-6, SUP-1. The serving worker dies while a candidate
// starts: the candidate is its replacement, the death is charged once, and what
// was asked meanwhile is served.
func TestSUP6ServingDies(t *testing.T) {
	harness.RequireLinux(t)
	eachSupervised(t, func(t *testing.T, v variant) {
		g := newGate(t)
		h := startHeldServer(t, v, nil, "-gate", string(g))
		h.Initialize()
		old := serverProc(t, h.Client, h.pid())
		g.shut(t)
		done := make(chan uint64, 1)
		go func() { // ends with the swap
			n, _ := h.swap()
			done <- n
		}()
		h.awaitTwoServers()
		old.Kill()
		h.awaitState("starting")
		call := h.Request("tools/call", harness.Call("pid", nil))
		g.open(t)
		call.Wait().Text(t)
		if n := <-done; n != 2 {
			t.Errorf("swap: generation %d", n)
		}
		if s := h.status(); s.Worker.Generation != 2 || s.Worker.Crashes != 1 {
			t.Errorf("%+v", s.Worker)
		}
	})
}

// TestSUP6CandidateHandsOff: SUP-6, SUP-3. A candidate that exits with 75 is
// followed by another one; the serving worker stays until that is ready, and
// the exit counts as a handoff alone.
func TestSUP6CandidateHandsOff(t *testing.T) {
	eachSupervised(t, func(t *testing.T, v variant) {
		starts := filepath.Join(t.TempDir(), "starts")
		h := startHeldServer(t, v, nil, "-starts", starts, "-ends", "-,75,-")
		h.Initialize()
		h.pid()
		h.swap()
		h.awaitGeneration(3)
		h.pid()
		if s := h.status(); s.Worker.Handoffs != 1 || s.Worker.Crashes != 0 || s.Worker.State != "serving" {
			t.Errorf("%+v", s.Worker)
		}
	})
}

// TestSUP6SequentialIsNeverTwo: SUP-6, SUP-9. In sequential mode the old worker
// has ended before the new one starts, however often a swap is asked for.
func TestSUP6SequentialIsNeverTwo(t *testing.T) {
	eachSupervised(t, func(t *testing.T, v variant) {
		journal := filepath.Join(t.TempDir(), "journal")
		h := startHeldServer(t, v, []string{"--swap", "sequential"}, "-journal", journal)
		h.Initialize()
		old := h.pid()
		long := h.Request("tools/call", harness.Call("append", map[string]any{"key": "long", "ms": 400}))
		h.pid()
		var swaps sync.WaitGroup
		for range 3 {
			swaps.Go(func() { h.swap() }) // ends with the swap
		}
		harness.Await(t, "the drain", func() bool { s := h.status(); return s.Worker.Generation != 1 })
		during := h.Request("tools/call", harness.Call("pid", nil))
		if now := during.Wait().Text(t); now == old || !long.Answered() {
			t.Errorf("process %s answers before the old one, %s, has ended", now, old)
		}
		swaps.Wait()
		long.Wait().Text(t)
		h.pid()
	})
}
