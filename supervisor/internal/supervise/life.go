package supervise

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/restart"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/session"
)

// exitGrace is how long the exit of a worker is waited for whose session has
// ended: usually that is why it has.
const exitGrace = 100 * time.Millisecond

// A worker that is killed within execGrace of its exec and has said nothing was
// most likely killed by the system, which did not like the file.
const execGrace = 50 * time.Millisecond

const killedAtExec = "; killed at exec, probably code signature: replace by rename"

// A worker that closes more than sessionBudget sessions within sessionWindow
// by itself is replaced as crashed (SUP-21).
const (
	sessionBudget = 5
	sessionWindow = 30 * time.Second
)

// life is one generation. Its goroutine, run, does what takes time and reports
// to the owner; worker is written before lifeReady is reported and read by the
// owner only afterwards.
type life struct {
	s      *Supervisor
	number uint64
	began  time.Time

	resolved  chan struct{}
	execed    time.Time // when resolved was closed, which is just before the exec
	resolve   sync.Once
	drainAsk  chan struct{} // closed by drain
	drainOnce sync.Once
	promoted  chan struct{} // closed by the owner when the life serves

	worker Worker
	// handoff is the owner's: what the policy said when the worker asked for
	// its upgrade; nil if it has not. Its exit with code 75 counts no more.
	handoff *restart.Decision

	mu   sync.Mutex
	conn Conn // of the present session
}

// end is how a life ended.
type end struct {
	// cause is what the client is told; its message is a whole sentence.
	cause *protocol.Error
	// proven: the worker had answered something that the client could use.
	proven bool
	// probed: it died of a server/discover, which is charged to nothing (EDGE-7).
	probed bool
	// unbuilt: there was nothing to start.
	unbuilt bool
}

func newLife(s *Supervisor, n uint64) *life {
	return &life{
		s: s, number: n, began: time.Now(),
		resolved: make(chan struct{}), drainAsk: make(chan struct{}), promoted: make(chan struct{}),
	}
}

func (l *life) connection() Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn
}

func (l *life) setConnection(c Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = c
}

// isKnown notes that the executable is known, or that it never will be.
func (l *life) isKnown() {
	l.resolve.Do(func() {
		l.execed = time.Now()
		close(l.resolved)
	})
}

func (l *life) isResolved() bool {
	select {
	case <-l.resolved:
		return true
	default:
		return false
	}
}

func (l *life) isPromoted() bool {
	select {
	case <-l.promoted:
		return true
	default:
		return false
	}
}

// drain asks the life to end once it has answered what it has.
func (l *life) drain() { l.drainOnce.Do(func() { close(l.drainAsk) }) }

func (l *life) isDraining() bool {
	select {
	case <-l.drainAsk:
		return true
	default:
		return false
	}
}

// kind classifies the end for the policy.
func (e end) kind() restart.End {
	if e.exitCode() == protocol.ExitHandoff {
		return restart.Handoff
	}
	return restart.Crash
}

func (e end) exitCode() int {
	if e.cause.Exit == nil || e.cause.Exit.Signal != "" {
		return 0
	}
	return e.cause.Exit.Code
}

// run is the life from start to end.
func (l *life) run(ctx context.Context) {
	e := l.live(ctx)
	l.report(event{life: l, kind: lifeOver, end: e})
}

// report hands an event to the owner, which takes events until all lives are
// over.
func (l *life) report(e event) { l.s.events <- e }

func (l *life) live(ctx context.Context) end {
	w, err := l.s.config.Start(ctx, l.number, l.isKnown)
	l.isKnown()
	if err != nil {
		return l.notStarted(err)
	}
	l.worker = w
	defer w.Stop()
	var closed []time.Time
	var e end
	for {
		conn, err := l.s.config.Edge.Attach(w)
		if err != nil {
			return l.unusable(err.Error(), e.proven)
		}
		l.setConnection(conn)
		again, next := l.serve(ctx, conn)
		next.proven = next.proven || e.proven
		e = next
		if !again {
			return e
		}
		if conn.State().Renewed {
			continue
		}
		if closed = recent(append(closed, time.Now())); len(closed) > sessionBudget {
			e.cause.Message = "the server closed its session again and again"
			return e
		}
		l.s.config.Log.Warn("worker closed its session: opening another", zap.Uint64("generation", l.number))
	}
}

// recent returns the times that lie within the session window.
func recent(times []time.Time) []time.Time {
	for len(times) > 0 && time.Since(times[0]) > sessionWindow {
		times = times[1:]
	}
	return times
}

// serve lives through one session. It reports whether the worker has outlived
// it and another should be opened.
func (l *life) serve(ctx context.Context, conn Conn) (again bool, e end) {
	attached := time.Now()
	stop, planned := l.await(ctx, conn)
	lived := time.Since(attached)
	if stop != "" {
		// The session is lost by our own decision; frames that the worker has
		// sent already still count.
		if !planned {
			// A server that flushes its output at its end would seem to be
			// ready just now.
			conn.Retire()
			l.worker.Stop()
			<-conn.Ended()
		}
	}
	if stop == "" && conn.State().Renewed {
		conn.Detach(session.Loss{Generation: l.number, Cause: "got a fresh session"})
		return true, end{}
	}
	loss, alive := l.loss(conn, stop)
	shown := loss
	if l.s.config.HideStderr {
		shown.StderrTail = nil
	}
	conn.Detach(shown)
	if loss.Exit != nil {
		// The server has ended. What is left of its worker would only delay
		// the next one.
		l.worker.Finish()
	}
	state := conn.State()
	e = l.endOf(state, loss, alive, planned, lived)
	e.probed = stop == "" && state.DiedOfProbe
	return alive && state.Proven && stop == "" && state.Refused == "" && !l.isDraining(), e
}

// endOf says how a session has ended.
func (l *life) endOf(state ConnState, loss session.Loss, alive, planned bool, lived time.Duration) end {
	e := end{proven: state.Proven && state.Refused == "", cause: protocol.NewError(protocol.WorkerUnavailable, "the server "+loss.Cause)}
	e.cause.Generation, e.cause.Exit, e.cause.StderrTail = l.number, loss.Exit, loss.StderrTail
	switch {
	case state.Refused != "":
		e.cause.Message = "the server cannot be started: " + state.Refused
	case !state.Proven && alive && state.Reason != "":
		e.cause.Message = "the server cannot be started: " + state.Reason
	case !state.Proven && !planned:
		e.cause.Message += " before it answered anything" + l.command() + execHint(loss.Exit, loss.StderrTail, lived)
	}
	return e
}

// command is what was run, for a message.
func (l *life) command() string {
	if c := l.s.config.Command; c != "" {
		return " (" + c + ")"
	}
	return ""
}

// await waits for the end of a session. It returns the reason if that is our
// own decision, and whether the session was at rest then.
func (l *life) await(ctx context.Context, conn Conn) (stop string, planned bool) {
	late := time.NewTimer(l.s.config.StartTimeout)
	defer late.Stop()
	hang, stopHang := l.hangTicker()
	defer stopHang()
	handoff := l.worker.HandoffWanted()
	drain := l.drainAsk
	ready := false
	var drained <-chan struct{}
	overdue := time.NewTimer(math.MaxInt64)
	defer overdue.Stop()
	for {
		select {
		case <-conn.Ended():
			return "", false
		case <-ctx.Done():
			return "was stopped at the end of the session", false
		case <-conn.Ready():
			ready = true
			l.report(event{life: l, kind: lifeReady})
		case <-late.C:
			if ready && l.isPromoted() {
				continue
			}
			return "did not answer the handshake within " + l.s.config.StartTimeout.String() +
				": it is alive but silent; is its stdout buffered?", false
		case <-handoff:
			handoff = nil
			l.report(event{life: l, kind: lifeHandoff})
		case <-hang:
			if conn.Hung(l.s.config.HangTimeout) {
				return "hung: it sent nothing for " + l.s.config.HangTimeout.String(), false
			}
		case <-drain:
			drain = nil
			// The session may have been opened when the owner had retired the
			// one before.
			conn.Retire()
			drained = conn.Drained()
			overdue.Reset(l.s.config.DrainTimeout)
		case <-drained:
			return "was replaced", true
		case <-overdue.C:
			// In sequential mode nothing serves meanwhile: no chain is worth that.
			if more := time.Until(conn.ChainUntil()); more > 0 && l.s.config.Mode != Sequential {
				overdue.Reset(more)
				continue
			}
			return "was replaced, and had not answered within the drain timeout of " + l.s.config.DrainTimeout.String(), false
		}
	}
}

// hangTicker ticks often enough to see a hang soon after it is one. While the
// machine is suspended nothing is counted: on Linux the monotonic clock, which
// time.Since reads, stops. Where it does not, and where our processes alone
// were stopped, Conn.Hung sees that it was not called.
func (l *life) hangTicker() (<-chan time.Time, func()) {
	if l.s.config.HangTimeout <= 0 {
		return nil, func() {}
	}
	t := time.NewTicker(max(l.s.config.HangTimeout/8, time.Millisecond))
	return t.C, t.Stop
}

// loss says why a session has ended, and whether its worker still lives.
func (l *life) loss(conn Conn, stop string) (loss session.Loss, alive bool) {
	loss.Generation = l.number
	state := conn.State()
	if loss.StderrTail = state.Tail; len(loss.StderrTail) == 0 {
		loss.StderrTail = l.worker.Tail()
	}
	if stop != "" {
		loss.Cause = stop
		return loss, false
	}
	exit := state.Exit
	if exit == nil {
		select {
		case <-l.worker.Done():
			e := l.worker.Exit()
			exit = &e
		case <-time.After(exitGrace):
			loss.Cause = "closed its session"
			return loss, true
		}
	}
	if len(state.Tail) == 0 {
		loss.StderrTail = l.worker.Tail()
	}
	loss.Exit, loss.Cause = exit, exit.String()
	return loss, false
}

func (l *life) notStarted(err error) end {
	e := protocol.NewError(protocol.WorkerUnavailable, "the server cannot be started: "+err.Error())
	e.Generation = l.number
	if f, ok := errors.AsType[StartFailure](err); ok {
		e.Exit, e.StderrTail = f.Exited()
	}
	e.Message += execHint(e.Exit, e.StderrTail, time.Since(l.execed))
	return end{cause: e, unbuilt: errors.Is(err, ErrNotBuilt)}
}

// execHint names the usual cause of a silent kill right after exec, "" if the
// end was another one: on macOS, a file that was written over in place no
// longer fits its signature.
func execHint(exit *protocol.Exit, tail []string, lived time.Duration) string {
	if exit == nil || exit.Signal != "SIGKILL" || len(tail) > 0 || lived >= execGrace {
		return ""
	}
	return killedAtExec
}

// unusable is the end of a worker that takes no session: usually because it is
// about to exit, which says more.
func (l *life) unusable(reason string, proven bool) end {
	e := protocol.NewError(protocol.WorkerUnavailable, "the server cannot be started: "+reason)
	select {
	case <-l.worker.Done():
		exit := l.worker.Exit()
		e.Exit, e.Message = &exit, "the server "+exit.String()
	case <-time.After(exitGrace):
	}
	e.Generation, e.StderrTail = l.number, l.worker.Tail()
	return end{cause: e, proven: proven}
}
