package integration

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// moment is what happens at a random moment of a swap.
type moment struct {
	name string
	do   func(h held, random *rand.Rand)
	// ends: the session is over.
	ends bool
	// loses: a worker is lost, so that outcomes may be unknown.
	loses bool
}

var moments = []moment{
	{"swap", func(h held, _ *rand.Rand) { h.Signal(h.t, "USR2") }, false, false},
	{"two swaps", func(h held, random *rand.Rand) {
		h.Signal(h.t, "USR2")
		pause(random, 30)
		h.Signal(h.t, "USR2")
	}, false, false},
	{"EOF", func(h held, _ *rand.Rand) { h.CloseStdin() }, true, false},
	{"TERM", func(h held, _ *rand.Rand) { h.Signal(h.t, "TERM") }, true, true},
	{"KILL", func(h held, _ *rand.Rand) { h.Signal(h.t, "KILL") }, true, true},
	{"lost worker", func(h held, random *rand.Rand) {
		if procs := h.Descendants(); len(procs) > 0 {
			procs[random.IntN(len(procs))].Kill()
		}
	}, false, true},
}

// pause lets a random time of up to so many milliseconds pass.
func pause(random *rand.Rand, millis int) {
	<-time.After(time.Duration(random.IntN(millis*1000)) * time.Microsecond)
}

// TestSUP6AnyMoment: SUP-6, SUP-12, SUP-16, SUP-9. Whatever happens at a random
// moment of a swap, to which the session may be closed or killed, a worker lost
// or another swap asked for: no process is left, each answer is what the journal
// says, and where no worker was lost each call is served. HOLDFAST_RUNS says how
// often.
func TestSUP6AnyMoment(t *testing.T) {
	harness.RequireLinux(t)
	seed := seedOf(t)
	for i := range envInt(t, "HOLDFAST_RUNS", 30) {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		m := moments[i%len(moments)]
		v := supervised()[i/len(moments)%2]
		mode := []string{"overlap", "overlap", "sequential"}[random.IntN(3)]
		t.Run(fmt.Sprintf("%d %s %s %s", i, m.name, v.name, mode), func(t *testing.T) {
			journal := filepath.Join(t.TempDir(), "journal")
			delay := time.Duration(random.IntN(20)) * time.Millisecond
			h := startHeldServer(t, v, []string{"--swap", mode}, "-journal", journal, "-start-delay", delay.String())
			h.Initialize()
			w := &writers{h: h}
			w.start(random.Uint64())
			harness.Await(t, "served calls", func() bool { return w.served.Load() > 10 })
			h.Signal(t, "USR2")
			pause(random, 90)
			m.do(h, random)
			if !m.ends {
				before := w.served.Load()
				harness.Await(t, "served calls after it", func() bool { return w.served.Load() > before+20 })
				w.halt.Store(true)
				w.done.Wait()
				h.CloseStdin()
			}
			state := h.WaitExit()
			w.done.Wait()
			if m.name != "KILL" && state.ExitCode() != 0 {
				t.Errorf("holdfast ended with %v", state)
			}
			w.verify(t, m, readJournal(t, journal))
		})
	}
}

// writers append to the journal until they are told to stop or nobody answers.
type writers struct {
	h      held
	halt   atomic.Bool
	done   sync.WaitGroup
	served atomic.Int64

	mu    sync.Mutex // guards what follows
	calls []call
}

func (w *writers) start(seed uint64) {
	for caller := range 4 {
		w.done.Go(func() { // ends with halt, or with the answers
			random := rand.New(rand.NewPCG(seed, uint64(caller)))
			for n := 0; !w.halt.Load(); n++ {
				c := call{key: fmt.Sprintf("k-%d-%d", caller, n)}
				p := w.h.Request("tools/call", harness.Call("append", map[string]any{"key": c.key, "ms": random.IntN(4)}))
				f, err := p.Answer()
				if err == nil {
					c.frame, c.outcome = f, outcomeOf(f)
				}
				w.mu.Lock()
				w.calls = append(w.calls, c)
				w.mu.Unlock()
				if err != nil {
					return
				}
				if c.outcome == served {
					w.served.Add(1)
				}
			}
		})
	}
}

// verify compares the answers with the journal.
func (w *writers) verify(t *testing.T, m moment, effects map[string]int) {
	t.Helper()
	for _, c := range w.calls {
		ran := effects[c.key]
		switch {
		case ran > 1:
			t.Errorf("%s ran %d times", c.key, ran)
		case c.outcome == "" && !m.ends:
			t.Errorf("%s has no answer", c.key)
		case c.outcome == surprised:
			t.Errorf("answered as nothing allows: %.500s", c.frame.Raw)
		case c.outcome == served && ran != 1:
			t.Errorf("%s was answered and ran %d times", c.key, ran)
		case c.outcome == notSent && ran != 0:
			t.Errorf("%s ran and was reported as not sent: %.500s", c.key, c.frame.Raw)
		case c.outcome == unknown && !m.loses, c.outcome == notSent && !m.loses && !m.ends:
			t.Errorf("no worker was lost, and %s is %s: %.900s", c.key, c.outcome, c.frame.Raw)
		}
	}
}
