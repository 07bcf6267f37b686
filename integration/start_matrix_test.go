package integration

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// delayVariable tells the start server how long to wait. It is inherited and no
// secret, so that a slow start and a fast one are the same command to holdfast.
const delayVariable = "STARTSERVER_DELAY"

// startDelay is how long the server needs to start.
type startDelay struct {
	name   string // in the table
	value  string // for the server
	length time.Duration
}

const never = "never"

var startDelays = []startDelay{
	{"0 s", "", 0},
	{"1.5 s", "1.5s", 1500 * time.Millisecond},
	{"5 s", "5s", 5 * time.Second},
	{"20 s", "20s", 20 * time.Second},
	{never, never, 0},
}

// inCI are the starts that each change is tested with.
func (d startDelay) inCI() bool { return d.length < 20*time.Second && d.name != never }

var startEras = []string{"legacy", "dual", "modern"}

// How the document calls servers and starts.
var (
	startSections = map[string]string{"legacy": "A legacy server", "dual": "A dual server", "modern": "A modern-only server"}
	startColumns  = [2]string{"cold", "warm"}
)

// startPair is a client with a server.
type startPair struct {
	kind *clientKind
	era  string
}

func (p startPair) String() string { return startSections[p.era] + ", " + p.kind.name }

// startCell is a pair with a start of the server.
type startCell struct {
	startPair

	delay startDelay
	warm  bool
}

func (c startCell) String() string {
	column := startColumns[0]
	if c.warm {
		column = startColumns[1]
	}
	return fmt.Sprintf("%s, %s, %s", c.startPair, c.delay.name, column)
}

// warmth is what an earlier start of a pair has left.
type warmth struct {
	cache     string
	processes map[string]bool
}

// startMatrix is a run of the matrix.
type startMatrix struct {
	mu       sync.Mutex
	possible map[startPair]bool   // without holdfast, with a server that is up at once
	warmed   map[startPair]warmth // after a first start with holdfast
	cells    map[startCell]string // what the client saw
	wrong    map[startCell][]string
}

// Cells mostly sleep, but each begins and ends with some processes: atOnce
// bounds how many run at the same time, and pace is between the beginnings of
// two, so that the processes of one are up before those of the next.
const (
	atOnce = 40
	pace   = 80 * time.Millisecond
)

// TestStartMatrix: CAT-3, EDGE-7, C21. What clients see, and when, of servers
// that need their time to start, with and without a cache from an earlier start.
// No list is empty. With a cache, no client gives up and each gets its tools,
// unless the server never starts. docs/start-matrix.md has the whole table.
func TestStartMatrix(t *testing.T) {
	whole := extended() || *updateStartMatrix
	m := &startMatrix{possible: map[startPair]bool{}, warmed: map[startPair]warmth{}, cells: map[startCell]string{}, wrong: map[startCell][]string{}}
	var pairs []startPair
	var cells []startCell
	for _, era := range startEras {
		for _, kind := range startClients {
			pair := startPair{kind, era}
			pairs = append(pairs, pair)
			for _, delay := range startDelays {
				if whole || delay.inCI() {
					cells = append(cells, startCell{pair, delay, false}, startCell{pair, delay, true})
				}
			}
		}
	}
	began := time.Now()
	concurrently(t, pairs, m.prepare)
	if t.Failed() {
		return
	}
	// The longest first, so that none is alone at the end.
	slices.SortStableFunc(cells, func(a, b startCell) int { return int(b.delay.length - a.delay.length) })
	concurrently(t, cells, m.run)
	t.Logf("%d cells in %.0f s", len(cells), time.Since(began).Seconds())
	documented := m.documented(t)
	m.repeat(t, documented)
	if *updateStartMatrix {
		m.write(t)
		return
	}
	diff := cmp.Diff(documented, m.seen())
	for cell := range m.seen() {
		if _, ok := documented[cell]; !ok {
			t.Errorf("docs/start-matrix.md has no cell %q", cell)
		}
	}
	const drift = "docs/start-matrix.md and this run (-document +run); -update-start-matrix writes it:\n%s"
	switch {
	case diff == "":
	case extended():
		t.Errorf(drift, diff)
	default:
		t.Logf(drift, diff) // who was first by milliseconds is no finding of each change
	}
}

// concurrently runs f as a subtest for each case, many at the same time.
func concurrently[C fmt.Stringer](t *testing.T, cases []C, f func(*testing.T, C)) {
	t.Helper()
	var running sync.WaitGroup
	free := make(chan struct{}, atOnce)
	for _, c := range cases {
		free <- struct{}{}
		<-time.After(pace)
		running.Go(func() { // ends with the subtest
			defer func() { <-free }()
			t.Run(c.String(), func(t *testing.T) { f(t, c) })
		})
	}
	running.Wait()
}

// prepare plays a pair without holdfast, which says what is possible, and then
// with it, which leaves a cache.
func (m *startMatrix) prepare(t *testing.T, pair startPair) {
	server := []string{harness.StartServer(t), "-era", pair.era}
	direct := newPlayer(t, pair.kind, harness.Config{Command: harness.Direct(server...)})
	ending, steps := direct.play()
	possible := ending == withTools
	if !possible {
		t.Logf("not possible without holdfast: %s: %s", ending, steps)
	}
	// The cells of this pair outlive this subtest.
	cache, err := os.MkdirTemp(harness.RunDir(t), "cache-")
	if err != nil {
		t.Fatal(err)
	}
	first := newPlayer(t, pair.kind, harness.Config{Command: harness.Bridged(t, nil, server...), Cache: cache})
	if ending, steps := first.play(); possible && ending != withTools {
		t.Errorf("the first start: %s: %s", ending, steps)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.possible[pair] = possible
	m.warmed[pair] = warmth{cache, first.processes()}
}

func newPlayer(t *testing.T, kind *clientKind, config harness.Config) *player {
	t.Helper()
	return &player{Client: harness.Start(t, config), t: t, kind: kind, config: config}
}

func (m *startMatrix) run(t *testing.T, c startCell) {
	config := harness.Config{
		Command: harness.Bridged(t, nil, harness.StartServer(t), "-era", c.era),
		Env:     []string{delayVariable + "=" + c.delay.value},
		Cache:   t.TempDir(),
	}
	m.mu.Lock()
	possible, warmed := m.possible[c.startPair], m.warmed[c.startPair]
	m.mu.Unlock()
	if c.warm {
		copyTree(t, warmed.cache, config.Cache)
	}
	p := newPlayer(t, c.kind, config)
	p.earlier = warmed.processes
	p.quick = c.warm && c.delay.value == ""
	if possible && c.delay.name != never {
		// A server that refuses an initialize after a discover is started twice.
		p.relistBy = 2*c.delay.length + 8*time.Second
	}
	ending, steps := p.play()
	if ending != withTools {
		steps += " (" + ending + ")"
	}
	wrong := p.wrong
	switch {
	case !possible:
		wrong = nil // an empty list alone counts
	case !c.mayEnd(ending):
		wrong = append(wrong, "it must not end so: "+steps)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cells[c], m.wrong[c] = steps, wrong
}

// repeat runs the cells again that are wrong or not as documented, alone: that
// the machine was busy with something else is no finding.
func (m *startMatrix) repeat(t *testing.T, documented map[string]string) {
	t.Helper()
	for c, steps := range maps.Clone(m.cells) {
		text, known := documented[c.String()]
		if len(m.wrong[c]) == 0 && (!known || text == steps) {
			continue
		}
		t.Run(c.String()+", alone", func(t *testing.T) {
			t.Logf("it was %s %q", steps, m.wrong[c])
			m.run(t, c)
			for _, text := range m.wrong[c] {
				t.Error(text)
			}
		})
	}
}

// mayEnd reports whether a cell may end so, if the pair is possible at all.
func (c startCell) mayEnd(ending string) bool {
	switch {
	case ending == withTools, c.delay.name == never:
		return true
	case c.warm:
		return false
	case c.delay.length > 2*time.Second && (c.era == "modern" || c.kind.version == ""):
		// Nothing says in time that the server, or the client, has no initialize.
		return true
	}
	// It comes too late for the first list, and the client does not list again.
	return c.delay.length > 8*time.Second && !c.kind.relists && ending == withNothing
}

// copyTree copies a cache with its modes.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), b, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}
