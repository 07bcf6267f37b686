package supervise

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/restart"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/session"
)

// world is what a Supervisor sees: a client edge, and workers that do what the
// test says. Time is that of the bubble.
type world struct {
	t      *testing.T
	s      *Supervisor
	starts chan *starting
	cancel context.CancelFunc
	ran    chan error

	mu      sync.Mutex
	workers []*fakeWorker
	told    []string // what the edge was told, in order
	down    *protocol.Error

	announcements []string
}

// starting is a start that waits for its outcome.
type starting struct {
	number   uint64
	ctx      context.Context
	resolved func()
	outcome  chan<- started
}

type started struct {
	worker *fakeWorker
	err    error
}

type fakeWorker struct {
	world   *world
	number  uint64
	handoff chan struct{}
	done    chan struct{}
	exit    protocol.Exit
	once    sync.Once
	conns   chan *fakeConn // one for each Attach
	refuse  error          // of Attach
	silent  bool           // it says nothing on stderr
	// attaching, if set, is what Attach waits for.
	attaching chan struct{}

	mu   sync.Mutex
	open *fakeConn
}

type fakeConn struct {
	worker  *fakeWorker
	ready   chan struct{}
	drained chan struct{}
	ended   chan struct{}
	once    sync.Once
	losses  chan session.Loss

	mu       sync.Mutex
	state    ConnState
	promoted bool
	unready  bool // it cannot be promoted yet
	retired  bool
	chain    time.Time
	hung     bool
}

// failure is an error of a start that knows how the process ended.
type failure struct {
	exit protocol.Exit
	tail []string
}

func (failure) Error() string                        { return "no such luck" }
func (f failure) Exited() (*protocol.Exit, []string) { return &f.exit, f.tail }

var testPolicy = restart.Policy{
	Crash:    restart.Budget{Count: 5, Window: 30 * time.Second},
	Handoff:  restart.Budget{Count: 2, Window: 30 * time.Second},
	Backoff:  restart.Backoff{Min: 100 * time.Millisecond, Max: 10 * time.Second},
	Cooldown: time.Minute,
}

// inWorld runs f in a bubble. When it returns, everything has to end within the
// grace of a stop, and no worker is left.
func inWorld(t *testing.T, change func(*Config), f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, starts: make(chan *starting), ran: make(chan error, 1)}
		c := Config{
			Edge: w, Start: w.start, Policy: testPolicy, Jitter: func(d time.Duration) time.Duration { return d },
			StartTimeout: time.Minute, DrainTimeout: 10 * time.Second, Mode: Overlap, Log: zap.NewNop(),
		}
		if change != nil {
			change(&c)
		}
		w.s = New(c)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w.cancel = cancel
		go func() { w.ran <- w.s.Run(ctx) }() // ends by cancel
		f(t, w)
		cancel()
		began := time.Now()
		if err := <-w.ran; err != nil || time.Since(began) > time.Second {
			t.Errorf("Run() = %v, %v after the end of its context", err, time.Since(began))
		}
		for _, worker := range w.workers {
			if !worker.isGone() {
				t.Errorf("worker %d is left", worker.number)
			}
		}
	})
}

func (w *world) start(ctx context.Context, n uint64, resolved func()) (Worker, error) {
	outcome := make(chan started, 1)
	select {
	case w.starts <- &starting{n, ctx, resolved, outcome}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case o := <-outcome:
		if o.err != nil {
			return nil, o.err
		}
		return o.worker, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (w *world) tell(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, fmt.Sprintf(format, args...))
}

func (w *world) Starting() { w.tell("starting") }

func (w *world) Announce(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.announcements = append(w.announcements, text)
}

func (w *world) announced() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.announcements)
}

func (w *world) Down(cause *protocol.Error, _ time.Time) {
	w.mu.Lock()
	w.down = cause
	w.mu.Unlock()
	w.tell("down: %s", cause.Message)
}

func (w *world) lastDown() *protocol.Error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.down
}

// downs returns how often the client was told that nothing serves.
func (w *world) downs() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(w.told), func(s string) bool { return !strings.HasPrefix(s, "down") }))
}

func (w *world) Attach(worker Worker) (Conn, error) {
	f := worker.(*fakeWorker)
	if f.attaching != nil {
		<-f.attaching
	}
	if f.refuse != nil {
		return nil, f.refuse
	}
	c := &fakeConn{
		worker: f, ready: make(chan struct{}, 1), drained: make(chan struct{}), ended: make(chan struct{}),
		losses: make(chan session.Loss, 1),
	}
	f.mu.Lock()
	f.open = c
	f.mu.Unlock()
	if f.isGone() {
		c.end()
	}
	f.conns <- c
	return c, nil
}

// awaitStart waits for the next start, which must come after exactly d.
func (w *world) awaitStart(n uint64, d time.Duration) *starting {
	w.t.Helper()
	began := time.Now()
	s := <-w.starts
	if s.number != n || time.Since(began) != d {
		w.t.Fatalf("start of %d after %v, want %d after %v", s.number, time.Since(began), n, d)
	}
	return s
}

// run lets a start succeed.
func (w *world) run(s *starting) *fakeWorker {
	f := &fakeWorker{
		world: w, number: s.number, handoff: make(chan struct{}), done: make(chan struct{}), conns: make(chan *fakeConn, 100),
	}
	w.mu.Lock()
	w.workers = append(w.workers, f)
	w.mu.Unlock()
	s.resolved()
	s.outcome <- started{worker: f}
	synctest.Wait() // it has been taken
	return f
}

// serve lets a start succeed, and the worker serve.
func (w *world) serve(s *starting) (*fakeWorker, *fakeConn) {
	f := w.run(s)
	c := <-f.conns
	c.serve()
	return f, c
}

func (s *starting) fail(err error) {
	s.resolved()
	s.outcome <- started{err: err}
}

func (w *world) swap() <-chan Outcome {
	out := make(chan Outcome, 1)
	go func() { // ends with the swap, or with the supervisor
		if o, err := w.s.Swap(w.t.Context()); err == nil {
			out <- o
		}
		close(out)
	}()
	synctest.Wait()
	return out
}

func (f *fakeWorker) Number() uint64        { return f.number }
func (f *fakeWorker) Pid() int              { return 1000 + int(f.number) }
func (f *fakeWorker) Done() <-chan struct{} { return f.done }
func (f *fakeWorker) Exit() protocol.Exit   { return f.exit }

func (f *fakeWorker) Tail() []string {
	if f.silent {
		return nil
	}
	return []string{"last words"}
}

func (f *fakeWorker) HandoffWanted() <-chan struct{} { return f.handoff }
func (f *fakeWorker) Outdated() bool                 { return false }
func (f *fakeWorker) Stop()                          { f.die(protocol.Exit{Code: -1, Signal: "SIGTERM"}) }

func (f *fakeWorker) Finish() { f.die(protocol.Exit{Code: -1, Signal: "SIGKILL"}) }

// die ends the process, and with it its session.
func (f *fakeWorker) die(exit protocol.Exit) {
	f.once.Do(func() {
		f.exit = exit
		close(f.done)
	})
	f.mu.Lock()
	c := f.open
	f.mu.Unlock()
	if c != nil {
		c.end()
	}
}

func (f *fakeWorker) isGone() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

func (c *fakeConn) end() { c.once.Do(func() { close(c.ended) }) }

// serve answers something and could serve.
func (c *fakeConn) serve() {
	c.mu.Lock()
	c.state.Proven = true
	c.mu.Unlock()
	c.ready <- struct{}{}
	synctest.Wait()
}

func (c *fakeConn) Ready() <-chan struct{}   { return c.ready }
func (c *fakeConn) Drained() <-chan struct{} { return c.drained }
func (c *fakeConn) Ended() <-chan struct{}   { return c.ended }
func (c *fakeConn) Detach(l session.Loss)    { c.end(); c.losses <- l }

func (c *fakeConn) Promote() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.promoted = !c.unready
	return c.promoted
}

func (c *fakeConn) Retire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retired = true
}

func (c *fakeConn) State() ConnState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

func (c *fakeConn) Hung(time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hung
}

func (c *fakeConn) ChainUntil() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.chain
}

func (c *fakeConn) set(f func(*fakeConn)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c)
}
