// Package supervise decides which worker serves the client. One goroutine, Run,
// owns that decision:
//
//	         start                 client's handshake told again
//	(none) --------> starting ----------------------------------> serving
//	   ^                | failed start                               |
//	   |                v                                            | lost
//	   +--- backoff <---+--------------------------------------------+
//
// A worker that is lost is replaced after a short pause. One that cannot be
// started is tried again after a longer one; meanwhile the client is told why.
//
// The package starts no process and sees no message: workers and the client
// edge are interfaces.
package supervise

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/session"
)

// Pauses before the next start.
const (
	lostBackoff  = 100 * time.Millisecond
	startBackoff = time.Second
)

// exitGrace is how long the exit of a worker is waited for whose session has
// ended: usually that is why it has.
const exitGrace = 100 * time.Millisecond

// A worker that closes more than sessionBudget sessions within sessionWindow
// by itself is replaced as crashed (SUP-21).
const (
	sessionBudget = 5
	sessionWindow = 30 * time.Second
)

// Worker is one started generation.
type Worker interface {
	Number() uint64
	Pid() int
	// Done is closed when its process has ended; Exit is valid then.
	Done() <-chan struct{}
	Exit() protocol.Exit
	// Tail returns the last lines of its stderr.
	Tail() []string
	// Stop ends it and all below it; it returns when they are reaped.
	Stop()
}

// Conn is an MCP connection between the client and a worker.
type Conn interface {
	// Ready is closed when it serves the client, Ended when it is over.
	Ready() <-chan struct{}
	Ended() <-chan struct{}
	// State is valid at any time, its End after Ended.
	State() ConnState
	// Detach closes it and settles what was under way.
	Detach(session.Loss)
}

// ConnState is what is known of a Conn.
type ConnState struct {
	// Proven: the worker has answered something.
	Proven bool
	// Refused: why the client's session cannot use the worker, or "".
	Refused string
	// Exit of the server behind the worker, if it said so, with its stderr.
	Exit *protocol.Exit
	Tail []string
	// Reason is what ended the connection, for people.
	Reason string
}

// Edge is the client's side.
type Edge interface {
	// Starting: a worker is about to start, requests may wait for it.
	Starting()
	// Down: none can serve for now, and why.
	Down(cause *protocol.Error)
	// Attach opens an MCP connection to the worker.
	Attach(Worker) (Conn, error)
}

// StartFailure is an error of a start that knows more.
type StartFailure interface {
	error
	// Exited returns how the process ended and its stderr, nil if it did not.
	Exited() (*protocol.Exit, []string)
}

// Config has what a Supervisor needs.
type Config struct {
	Edge Edge
	// Start starts generation n. When ctx ends it returns soon, with nothing
	// left behind.
	Start func(ctx context.Context, n uint64) (Worker, error)
	// StartTimeout bounds the time until a started worker is ready (SUP-8).
	StartTimeout time.Duration
	Log          *zap.Logger
}

// Supervisor keeps a worker in service.
type Supervisor struct {
	Config

	proven    bool // some worker has answered something
	failures  int  // failed starts in a row
	lastCause string
}

// New returns a Supervisor.
func New(config Config) *Supervisor { return &Supervisor{Config: config} }

// Run keeps a worker in service until ctx ends, and leaves no process behind.
func (s *Supervisor) Run(ctx context.Context) error {
	for n := uint64(1); ; n++ {
		s.Edge.Starting()
		pause := lostBackoff
		if failure := s.life(ctx, n); failure != nil && ctx.Err() == nil {
			pause = s.failed(failure)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// life is the life of generation n. It returns the reason if that never served
// the client.
func (s *Supervisor) life(ctx context.Context, n uint64) *protocol.Error {
	began := time.Now()
	w, err := s.Start(ctx, n)
	if err != nil {
		return startError(n, err)
	}
	defer w.Stop()
	s.Log.Info("worker started", zap.Uint64("generation", n), zap.Int("pid", w.Pid()), zap.Duration("after", time.Since(began)))
	var closed []time.Time
	for {
		conn, err := s.Edge.Attach(w)
		if err != nil {
			return s.neverServed(w, err.Error())
		}
		failure, alive := s.serve(ctx, w, conn)
		if failure != nil || !alive {
			return failure
		}
		closed = recent(append(closed, time.Now()))
		if len(closed) > sessionBudget {
			s.Log.Warn("worker closes its sessions again and again: it is replaced", zap.Uint64("generation", n))
			return nil
		}
	}
}

// recent returns the times that lie within the session window.
func recent(times []time.Time) []time.Time {
	for len(times) > 0 && time.Since(times[0]) > sessionWindow {
		times = times[1:]
	}
	return times
}

// serve serves one session of the worker. It returns the reason if the session
// never served the client, else whether the worker has outlived it.
func (s *Supervisor) serve(ctx context.Context, w Worker, conn Conn) (failure *protocol.Error, alive bool) {
	ready, late := s.awaitReady(ctx, conn)
	if ready {
		select {
		case <-conn.Ended():
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		w.Stop()
		conn.Detach(session.Loss{Generation: w.Number(), Cause: "was stopped at the end of the session"})
		return nil, false
	}
	if late {
		w.Stop()
	}
	loss, alive := s.lossOf(w, conn)
	conn.Detach(loss)
	state := conn.State()
	s.proven = s.proven || state.Proven
	switch {
	case late:
		return s.neverServed(w, "it did not answer the handshake within "+s.StartTimeout.String()+
			": it is alive but silent; is its stdout buffered?"), false
	case state.Refused != "":
		return s.neverServed(w, state.Refused), false
	case !ready || !s.proven:
		return s.lostEarly(loss, alive, state), false
	}
	s.failures = 0
	s.Log.Warn("worker lost", zap.Uint64("generation", w.Number()), zap.String("cause", loss.Cause),
		zap.Bool("alive", alive), zap.Strings("stderr", loss.StderrTail))
	return nil, alive
}

// awaitReady waits until the session serves the client.
func (s *Supervisor) awaitReady(ctx context.Context, conn Conn) (ready, late bool) {
	timeout := time.NewTimer(s.StartTimeout)
	defer timeout.Stop()
	select {
	case <-conn.Ready():
		return true, false
	case <-conn.Ended():
	case <-ctx.Done():
	case <-timeout.C:
		return false, true
	}
	return false, false
}

// lossOf says why a session has ended, and whether its worker still lives.
func (s *Supervisor) lossOf(w Worker, conn Conn) (loss session.Loss, alive bool) {
	state := conn.State()
	loss.Generation = w.Number()
	exit := state.Exit
	select {
	case <-w.Done():
	case <-time.After(exitGrace):
		alive = exit == nil
	}
	if alive {
		loss.Cause = "closed its session"
		loss.StderrTail = w.Tail()
		return loss, true
	}
	if exit == nil {
		e := w.Exit()
		exit = &e
	}
	loss.Exit, loss.Cause = exit, exit.String()
	if loss.StderrTail = state.Tail; len(loss.StderrTail) == 0 {
		loss.StderrTail = w.Tail()
	}
	return loss, false
}

// failed notes a start that failed and returns the pause before the next one.
// The client is told at once, unless there was a worker before: then one more
// start is worth waiting for.
func (s *Supervisor) failed(failure *protocol.Error) time.Duration {
	s.failures++
	if failure.Message != s.lastCause {
		s.lastCause = failure.Message
		s.Log.Error(failure.Message, zap.Strings("stderr", failure.StderrTail))
	}
	if s.proven && s.failures == 1 {
		return lostBackoff
	}
	s.Edge.Down(failure)
	return startBackoff
}

func startError(n uint64, err error) *protocol.Error {
	e := protocol.NewError(protocol.WorkerUnavailable, "the server cannot be started: "+err.Error())
	e.Generation = n
	if f, ok := errors.AsType[StartFailure](err); ok {
		e.Exit, e.StderrTail = f.Exited()
	}
	return e
}

func (s *Supervisor) neverServed(w Worker, reason string) *protocol.Error {
	e := protocol.NewError(protocol.WorkerUnavailable, "the server cannot be started: "+reason)
	e.Generation, e.StderrTail = w.Number(), w.Tail()
	return e
}

func (s *Supervisor) lostEarly(loss session.Loss, alive bool, state ConnState) *protocol.Error {
	text := "the server " + loss.Cause + " before it answered anything"
	if alive && state.Reason != "" {
		text = "the server cannot be started: " + state.Reason
	}
	e := protocol.NewError(protocol.WorkerUnavailable, text)
	e.Generation, e.Exit, e.StderrTail = loss.Generation, loss.Exit, loss.StderrTail
	return e
}
