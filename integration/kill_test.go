package integration

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/integration/harness"
	"github.com/holdfast-mcp/holdfast/protocol"
)

const callers = 16

// TestKillUnderLoad: SUP-1, SUP-16, SUP-12, C03, C05. The worker is killed at
// random moments while 16 callers write and read. Each request gets exactly
// one answer, the journal agrees with what the answers claim, and nothing is
// left of the dead.
func TestKillUnderLoad(t *testing.T) {
	harness.RequireLinux(t)
	kills := envInt(t, "HOLDFAST_KILLS", 100)
	seed := seedOf(t)
	eachSupervised(t, func(t *testing.T, v variant) {
		journal := filepath.Join(t.TempDir(), "journal")
		c := startToBeKilled(t, v, "-journal", journal)
		c.Initialize()
		l := &load{c: c, journal: journal}
		l.start(seed)
		k := &killer{load: l, rand: rand.New(rand.NewPCG(seed, 1))}
		warm := k.run(t, min(kills, 20))
		end := k.run(t, kills-min(kills, 20))
		if end.RSSKB == 0 {
			end = warm
		}
		l.stop(t)
		sum := l.verify(t, k.times)
		t.Logf("seed %d, %d kills, %v; supervisor %+v after 20 kills, %+v at the end", seed, len(k.times), sum, warm, end)
		if end.FDs > warm.FDs+16 || end.RSSKB > 2*warm.RSSKB+16<<10 {
			t.Errorf("the supervisor grew: %+v to %+v", warm, end)
		}
		if left := c.Descendants(); len(left) > 2 {
			t.Errorf("more than one generation lives: %v", left)
		}
	})
}

// load is the work of the callers.
type load struct {
	c       *harness.Client
	journal string
	halt    atomic.Bool
	done    sync.WaitGroup
	served  atomic.Int64 // calls with a real answer

	mu    sync.Mutex // guards what follows
	calls []*call
}

// call is one request and what became of it.
type call struct {
	caller         int
	key            string // of a mutation, else empty
	read           bool   // a read by definition of MCP
	pending        *harness.Pending
	sent, answered time.Time
	outcome        outcome
	frame          harness.Frame
}

type outcome string

const (
	served    outcome = "served"
	unknown   outcome = "unknown"
	notSent   outcome = "not sent"
	surprised outcome = "surprise" // anything that no promise allows
)

func outcomeOf(f harness.Frame) outcome {
	e := f.Typed()
	switch {
	case e == nil && f.Error == nil:
		return served
	case e == nil:
		return surprised
	case e.Kind == protocol.OutcomeUnknown && !e.Retryable:
		return unknown
	case e.Kind.Retryable() && e.Retryable:
		return notSent
	}
	return surprised
}

func (l *load) start(seed uint64) {
	for caller := range callers {
		l.done.Go(func() { // ends with stop
			random := rand.New(rand.NewPCG(seed, uint64(caller)+100))
			for n := 0; !l.halt.Load(); n++ {
				l.one(random, caller, n)
			}
		})
	}
}

// one sends a request and waits for its answer.
func (l *load) one(random *rand.Rand, caller, n int) {
	c := &call{caller: caller, sent: time.Now()}
	method, params := "tools/call", any(nil)
	switch random.IntN(8) {
	case 0:
		c.read, method, params = true, "resources/read", map[string]any{"uri": "test://counter"}
	case 1:
		c.read, method = true, "tools/list"
	case 2:
		c.read, method, params = true, "prompts/get", map[string]any{"name": "greeting"}
	case 3:
		params = harness.Call("echo", map[string]any{"text": strings.Repeat("e", random.IntN(9000))})
	default:
		c.key = fmt.Sprintf("k-%d-%d", caller, n)
		params = harness.Call("append", map[string]any{"key": c.key, "ms": random.IntN(6)})
	}
	c.pending = l.c.Request(method, params)
	l.mu.Lock()
	l.calls = append(l.calls, c)
	l.mu.Unlock()
	f, err := c.pending.Answer()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		c.outcome = surprised
		l.halt.Store(true) // the rest would wait as long
		return
	}
	c.answered, c.frame, c.outcome = time.Now(), f, outcomeOf(f)
	if c.outcome == served {
		l.served.Add(1)
	}
}

// open returns the requests that wait for an answer.
func (l *load) open() []*harness.Pending {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*harness.Pending
	for _, c := range l.calls[max(0, len(l.calls)-10*callers):] {
		if c.answered.IsZero() {
			out = append(out, c.pending)
		}
	}
	return out
}

func (l *load) stop(t *testing.T) {
	t.Helper()
	l.halt.Store(true)
	l.done.Wait()
	// Whatever might still be answered twice comes before this answer.
	l.c.CallTool("pid", nil)
}

// killer ends workers.
type killer struct {
	load  *load
	rand  *rand.Rand
	times []time.Time
}

// run kills n times, each time after the calls of the last kill have got
// their answers, so that a read is lost at most once, and returns what the
// supervisor holds then.
func (k *killer) run(t *testing.T, n int) harness.Usage {
	t.Helper()
	var usage harness.Usage
	for range n {
		before := k.load.served.Load()
		harness.Await(t, "a serving worker", func() bool {
			return k.load.served.Load() >= before+callers/2 || k.load.halt.Load()
		})
		// Those sent to the dead before it was noticed are asked once more, too.
		k.await(t, k.load.open())
		<-time.After(time.Duration(k.rand.IntN(30_000)) * time.Microsecond) // the random moment
		victim := k.victim(t)
		k.load.mu.Lock()
		k.times = append(k.times, time.Now())
		k.load.mu.Unlock()
		victim.Kill()
		k.await(t, k.load.open())
	}
	if n > 0 {
		usage = harness.UsageOf(t, k.load.c.Process().Pid)
	}
	return usage
}

func (k *killer) await(t *testing.T, calls []*harness.Pending) {
	t.Helper()
	for _, p := range calls {
		if _, err := p.Answer(); err != nil {
			t.Fatal(err)
		}
	}
}

// victim picks the server, or the bridge above it.
func (k *killer) victim(t *testing.T) harness.Proc {
	t.Helper()
	var procs []harness.Proc
	harness.Await(t, "a worker to kill", func() bool {
		procs = k.load.c.Descendants()
		return len(procs) > 0
	})
	return procs[k.rand.IntN(len(procs))]
}

// summary counts the outcomes.
type summary struct {
	calls, effects int
	of             map[outcome]int
}

func (s summary) String() string {
	return fmt.Sprintf("%d calls: %d served, %d unknown, %d not sent; %d effects in the journal",
		s.calls, s.of[served], s.of[unknown], s.of[notSent], s.effects)
}

// verify compares the answers with the journal.
func (l *load) verify(t *testing.T, kills []time.Time) summary {
	t.Helper()
	effects := readJournal(t, l.journal)
	sum := summary{calls: len(l.calls), effects: len(effects), of: map[outcome]int{}}
	answers := l.c.Answers()
	unknowns := map[[2]int]int{} // by caller and kill
	for _, c := range l.calls {
		sum.of[c.outcome]++
		if n := answers[c.pending.Token]; n != 1 {
			t.Errorf("request %s got %d answers", c.pending.Token, n)
		}
		switch ran := effects[c.key]; {
		case c.outcome == surprised:
			t.Errorf("answered as nothing allows: %.500s", c.frame.Raw)
		case c.read && c.outcome != served:
			t.Errorf("a read has no real answer: %.500s", c.frame.Raw)
		case c.key == "":
		case ran > 1:
			t.Errorf("%s ran %d times", c.key, ran)
		case c.outcome == served && ran != 1:
			t.Errorf("%s was answered and ran %d times", c.key, ran)
		case c.outcome == notSent && ran != 0:
			t.Errorf("%s ran and was reported as not sent: %.500s", c.key, c.frame.Raw)
		}
		if c.outcome == unknown {
			unknowns[[2]int{c.caller, killDuring(c, kills)}]++
		}
	}
	// A caller has one call in flight: a kill loses at most that one.
	for at, n := range unknowns {
		if at[1] < 0 || n > 1 {
			t.Errorf("caller %d got %d unknown answers by kill %d", at[0], n, at[1])
		}
	}
	if sum.of[served] < 20*len(kills)/10 || sum.of[unknown] == 0 {
		t.Errorf("too little happened to prove anything: %v", sum)
	}
	return sum
}

// killDuring returns the last kill before the call's answer that the call can
// have met, or -1.
func killDuring(c *call, kills []time.Time) int {
	for i, kill := range slices.Backward(kills) {
		if kill.Before(c.answered) && kill.After(c.sent.Add(-time.Second)) {
			return i
		}
	}
	return -1
}

// readJournal returns how often each line stands in the journal.
func readJournal(t *testing.T, path string) map[string]int {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	out := map[string]int{}
	for line := range strings.Lines(string(b)) {
		out[strings.TrimSuffix(line, "\n")]++
	}
	return out
}

// seedOf returns the seed of this run: HOLDFAST_SEED, or a new one.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(envInt(t, "HOLDFAST_SEED", int(rand.Uint32())))
	t.Logf("HOLDFAST_SEED=%d repeats the choices of this run", seed)
	return seed
}

func envInt(t *testing.T, name string, otherwise int) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv(name), strconv.Itoa(otherwise)))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
