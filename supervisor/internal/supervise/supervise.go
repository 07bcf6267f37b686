package supervise

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/restart"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/session"
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
	// HandoffWanted is closed when the worker asks for its upgrade.
	HandoffWanted() <-chan struct{}
	// Outdated reports whether its executable has been replaced since.
	Outdated() bool
	// Stop ends it and all below it; it returns when they are reaped.
	Stop()
	// Finish is Stop for a worker whose server has ended: what is left of it
	// gets no more time than it can use.
	Finish()
}

// Conn is an MCP connection between the client and a worker.
type Conn interface {
	// Ready has a token whenever the connection could begin to serve.
	Ready() <-chan struct{}
	// Promote lets it serve in place of the one that does. It reports false
	// if it cannot yet; Ready then has another token later.
	Promote() bool
	// Retire ends the service of a connection that serves, with nothing in
	// its place: requests wait.
	Retire()
	// Drained is closed when a connection that served before has answered
	// what it had, some time after the last answer.
	Drained() <-chan struct{}
	// ChainUntil returns until when a drain may wait for a request that belongs
	// to what the worker has begun, the zero Time if it need not.
	ChainUntil() time.Time
	// Ended is closed when it is over.
	Ended() <-chan struct{}
	// State is valid at any time, its End after Ended.
	State() ConnState
	// Hung reports that requests wait, and that nothing came for d although
	// the worker was asked for a sign of life.
	Hung(d time.Duration) bool
	// Detach closes it and settles what was under way.
	Detach(session.Loss)
}

// ConnState is what is known of a Conn.
type ConnState struct {
	// Proven: the worker has answered something.
	Proven bool
	// Renewed: the session asked for another connection to the worker.
	Renewed bool
	// DiedOfProbe: the worker has ended, was given a server/discover, and had
	// answered nothing. Valid after Detach.
	DiedOfProbe bool
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
	// Down: none can serve for now, and why. A request that comes at demandAt
	// or later waits for the outcome of a start that it demands.
	Down(cause *protocol.Error, demandAt time.Time)
	// Announce tells the client something that concerns nothing it has asked.
	Announce(text string)
	// Attach opens an MCP connection to the worker.
	Attach(Worker) (Conn, error)
}

// StartFailure is an error of a start that knows more.
type StartFailure interface {
	error
	// Exited returns how the process ended and its stderr, nil if it did not.
	Exited() (*protocol.Exit, []string)
}

// Mode is how a replacement is done.
type Mode string

// Modes of a replacement.
const (
	// Overlap starts the new worker beside the old one.
	Overlap Mode = "overlap"
	// Sequential ends the old worker first, for servers that hold something
	// that only one process can hold.
	Sequential Mode = "sequential"
)

// Config has what a Supervisor needs.
type Config struct {
	// Command is what is run, without arguments, for what the client is told.
	Command string
	Edge    Edge
	// Start starts generation n. When ctx ends it returns soon, with nothing
	// left behind. It calls resolved once the executable is known.
	Start func(ctx context.Context, n uint64, resolved func()) (Worker, error)
	// Policy says when a worker that ended is started again.
	Policy restart.Policy
	// Jitter varies the policy's pauses; nil for the default.
	Jitter func(time.Duration) time.Duration
	// StartTimeout bounds the time until a started worker is ready (SUP-8).
	StartTimeout time.Duration
	// DrainTimeout bounds how long a replaced worker may take to answer what
	// it has (SUP-9).
	DrainTimeout time.Duration
	// HangTimeout is how long a worker may be silent while requests wait; 0
	// turns hang detection off (SUP-11).
	HangTimeout time.Duration
	Mode        Mode
	// Lazy: nothing is started before a request demands it, or a swap (SEC-7).
	Lazy bool
	// HideStderr keeps the worker's stderr out of what the client is told.
	HideStderr bool
	Log        *zap.Logger
}

// Errors of starts and replacements.
var (
	// ErrEnded is returned by Swap when the supervisor ends first.
	ErrEnded = errors.New("the supervisor is ending")
	// ErrNotBuilt is wrapped by errors of Config.Start when what is to be
	// started could not be made. Trying again would end the same way: the next
	// start is that of a swap, or of a request some time later.
	ErrNotBuilt = errors.New("not built")
)

// Supervisor keeps a worker in service.
type Supervisor struct {
	config Config
	policy *restart.State

	events  chan event
	demands chan struct{} // has a token when a request wants a start
	ended   chan struct{} // closed when Run returns

	// The following belong to Run.
	numbers   uint64
	serving   *life
	candidate *life // starting or ready
	draining  map[*life]struct{}
	waiters   []chan<- Outcome // of the candidate
	followUp  []chan<- Outcome // of the one after it; nil if none is asked for
	retry     *time.Timer
	circuit   restart.Decision // last of the policy, while nothing serves
	resting   bool             // nothing is started until somebody asks
	proven    bool             // some worker has answered something
	failures  int              // failed starts in a row
	lives     sync.WaitGroup

	status statusBoard
}

// Outcome is the answer to a trigger.
type Outcome struct {
	// Generation that serves now, 0 if none does.
	Generation uint64
	// Err is why the replacement failed, nil if it did not.
	Err error
}

// event is a change that a life reports, or a request to the owner.
type event struct {
	life  *life
	kind  eventKind
	end   end             // with lifeOver
	cause *protocol.Error // with notBuilt
	reply chan<- Outcome  // with swapAsked and notBuilt
}

type eventKind uint8

const (
	lifeReady eventKind = iota
	lifeOver
	lifeHandoff
	swapAsked
	notBuilt
)

// New returns a Supervisor.
func New(config Config) *Supervisor {
	s := &Supervisor{
		config:   config,
		policy:   restart.New(config.Policy, config.Jitter),
		events:   make(chan event),
		demands:  make(chan struct{}, 1),
		ended:    make(chan struct{}),
		draining: make(map[*life]struct{}),
	}
	return s
}

// Swap asks for a replacement of the worker and waits for its outcome. A
// caller that gives up cancels nothing (SUP-4, SUP-6).
func (s *Supervisor) Swap(ctx context.Context) (Outcome, error) {
	return s.ask(ctx, event{kind: swapAsked})
}

// NotBuilt tells that the worker cannot be replaced, since what would be started
// could not be made, and why. What serves goes on; if nothing does, the client
// is told the cause. The outcome has it as its error (SUP-10).
func (s *Supervisor) NotBuilt(ctx context.Context, cause *protocol.Error) (Outcome, error) {
	return s.ask(ctx, event{kind: notBuilt, cause: cause})
}

func (s *Supervisor) ask(ctx context.Context, e event) (Outcome, error) {
	reply := make(chan Outcome, 1)
	e.reply = reply
	select {
	case s.events <- e:
	case <-s.ended:
		return Outcome{}, ErrEnded
	case <-ctx.Done():
		return Outcome{}, ctx.Err()
	}
	select {
	case outcome := <-reply:
		return outcome, nil
	case <-s.ended:
		return Outcome{}, ErrEnded
	case <-ctx.Done():
		return Outcome{}, ctx.Err()
	}
}

// Demand tells the owner that a request waits for a start. It does not wait.
func (s *Supervisor) Demand() {
	select {
	case s.demands <- struct{}{}:
	default:
	}
}

// Run keeps a worker in service until ctx ends, and leaves no process behind.
func (s *Supervisor) Run(ctx context.Context) error {
	defer close(s.ended)
	defer s.lives.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.retry = time.NewTimer(0) // the first start
	defer s.retry.Stop()
	if s.config.Lazy {
		s.retry.Stop()
		s.resting = true
		s.publish()
	}
	for {
		select {
		case <-ctx.Done():
			s.drainEvents()
			return nil
		case <-s.retry.C:
			s.start(ctx)
		case <-s.demands:
			if s.serving == nil && s.candidate == nil && (s.resting || s.circuit.Open && s.policy.Demand(time.Now())) {
				s.start(ctx)
			}
		case e := <-s.events:
			s.handle(ctx, e)
		}
		s.publish()
	}
}

// drainEvents lets lives report that nobody acts on any more.
func (s *Supervisor) drainEvents() {
	over := make(chan struct{})
	go func() { // ends with the lives, which end with ctx
		s.lives.Wait()
		close(over)
	}()
	for {
		select {
		case <-s.events:
		case <-over:
			return
		}
	}
}

func (s *Supervisor) handle(ctx context.Context, e event) {
	switch e.kind {
	case lifeReady:
		s.ready(ctx, e.life)
	case lifeOver:
		s.over(ctx, e.life, e.end)
	case lifeHandoff:
		if e.life == s.serving {
			s.config.Log.Info("worker asks for its upgrade", zap.Uint64("generation", e.life.number))
			d := s.policy.Ended(restart.Handoff, e.life.began, time.Now())
			if e.life.handoff = &d; !d.Open {
				s.replace(ctx, nil)
			}
		}
	case swapAsked:
		s.policy.Rearm()
		s.replace(ctx, e.reply)
	case notBuilt:
		s.notBuilt(e.cause, e.reply)
	}
}

// notBuilt tells those concerned that there is nothing to replace the worker
// by.
func (s *Supervisor) notBuilt(cause *protocol.Error, reply chan<- Outcome) {
	outcome := Outcome{Err: cause}
	switch {
	case s.serving != nil:
		outcome.Generation = s.serving.number
		s.announce(cause)
	case s.resting:
		s.rest(cause)
	}
	reply <- outcome // has room for it
}

// rest starts nothing until somebody asks: a swap, or a request once the
// client may try again.
func (s *Supervisor) rest(cause *protocol.Error) {
	s.resting, s.circuit = true, restart.Decision{}
	s.tell(cause, time.Now().Add(s.config.Policy.Backoff.Max))
}

// announce tells the client that what serves was not replaced, and why.
func (s *Supervisor) announce(cause *protocol.Error) {
	text := "A new version of this server could not be started; the old one still serves. " + cause.Message
	s.config.Edge.Announce(text)
}

// start begins the life of a candidate.
func (s *Supervisor) start(ctx context.Context) {
	s.retry.Stop()
	s.resting = false
	s.numbers++
	l := newLife(s, s.numbers)
	s.candidate = l
	s.policy.Started(time.Now())
	if s.serving == nil {
		s.config.Edge.Starting()
	}
	s.lives.Go(func() { l.run(ctx) }) // ends with the worker, at the latest with ctx
}

// replace starts a replacement, or remembers that one is wanted.
func (s *Supervisor) replace(ctx context.Context, reply chan<- Outcome) {
	var replies []chan<- Outcome
	if reply != nil {
		replies = append(replies, reply)
	}
	switch {
	case s.candidate != nil && !s.candidate.isResolved():
		s.waiters = append(s.waiters, replies...)
	case s.candidate != nil:
		s.followUp = append(append(make([]chan<- Outcome, 0, 1), s.followUp...), replies...)
	case s.makesRoom():
		s.followUp = append(s.followUp, replies...)
	case s.config.Mode == Sequential && s.serving != nil:
		s.followUp = append(make([]chan<- Outcome, 0, 1), replies...)
		s.retire(s.serving)
	default:
		s.waiters = replies
		s.start(ctx)
	}
}

// makesRoom reports whether, in sequential mode, the old worker is about to end
// for the sake of a new one.
func (s *Supervisor) makesRoom() bool {
	return s.config.Mode == Sequential && s.serving == nil && len(s.draining) > 0
}

// retire ends the service of a life; the next one starts when it is over.
func (s *Supervisor) retire(l *life) {
	l.connection().Retire()
	s.serving = nil
	s.draining[l] = struct{}{}
	l.drain()
}

// ready promotes a candidate.
func (s *Supervisor) ready(ctx context.Context, l *life) {
	if l != s.candidate || !l.connection().Promote() {
		return
	}
	s.candidate = nil
	close(l.promoted)
	if old := s.serving; old != nil {
		s.draining[old] = struct{}{}
		old.drain()
	}
	s.serving = l
	s.circuit = restart.Decision{}
	s.config.Log.Info("worker serves", zap.Uint64("generation", l.number), zap.Int("pid", l.worker.Pid()),
		zap.Duration("after", time.Since(l.began)))
	s.settle(Outcome{Generation: l.number})
	s.follow(ctx)
}

// settle answers those who wait for the candidate.
func (s *Supervisor) settle(o Outcome) {
	for _, w := range s.waiters {
		w <- o // has room for one
	}
	s.waiters = nil
}

// follow starts the replacement that was asked for while another was under
// way.
func (s *Supervisor) follow(ctx context.Context) bool {
	if s.followUp == nil || s.makesRoom() {
		return false
	}
	waiters := s.followUp
	s.followUp = nil
	if s.config.Mode == Sequential && s.serving != nil {
		s.followUp = waiters
		s.retire(s.serving)
		return true
	}
	s.waiters = waiters
	s.start(ctx)
	return true
}

// over takes the end of a life.
func (s *Supervisor) over(ctx context.Context, l *life, e end) {
	s.status.record(l, e)
	s.proven = s.proven || e.proven
	_, drained := s.draining[l]
	delete(s.draining, l)
	wasServing := l == s.serving
	if wasServing {
		s.serving = nil
	}
	wasCandidate := l == s.candidate
	if wasCandidate {
		s.candidate = nil
	}
	switch {
	case drained:
		// Its exit is charged to nothing. In sequential mode it is the signal
		// for its successor.
		if s.serving == nil && s.candidate == nil {
			s.follow(ctx)
		}
	case e.probed && (wasServing || wasCandidate):
		s.config.Log.Info("the server does not survive a server/discover: starting it again without", zap.Uint64("generation", l.number))
		if s.candidate == nil {
			s.start(ctx)
		}
	case wasServing:
		s.lost(ctx, l, e)
	case wasCandidate:
		s.failed(ctx, l, e)
	}
}

// lost decides what follows the loss of the serving life.
func (s *Supervisor) lost(ctx context.Context, l *life, e end) {
	s.failures = 0
	if !e.proven && !s.proven && s.candidate == nil {
		s.failed(ctx, l, e)
		return
	}
	s.config.Log.Warn("worker lost", zap.Uint64("generation", l.number), zap.String("cause", e.cause.Message),
		zap.Strings("stderr", e.cause.StderrTail))
	if e.kind() == restart.Handoff && l.handoff != nil {
		s.schedule(*l.handoff, e.cause) // it was charged when the worker asked
		return
	}
	s.schedule(s.policy.Ended(e.kind(), l.began, time.Now()), e.cause)
}

// failed decides what follows a start that failed. Beside a serving life
// nothing does. The client is told at once, unless a worker served before: then
// one more start is worth waiting for.
func (s *Supervisor) failed(ctx context.Context, l *life, e end) {
	s.config.Log.Error(e.cause.Message, zap.Strings("stderr", e.cause.StderrTail))
	outcome := Outcome{Err: e.cause}
	if s.serving != nil {
		outcome.Generation = s.serving.number
		s.announce(e.cause)
		if e.exitCode() == protocol.ExitHandoff {
			if d := s.policy.Ended(restart.Handoff, l.began, time.Now()); !d.Open && s.followUp == nil {
				s.followUp = make([]chan<- Outcome, 0)
			}
		}
		s.settle(outcome)
		s.follow(ctx)
		return
	}
	s.settle(outcome)
	s.failures++
	if s.follow(ctx) {
		return
	}
	if e.unbuilt {
		s.rest(e.cause)
		return
	}
	decision := s.policy.Ended(e.kind(), l.began, time.Now())
	if !decision.Open && (!s.proven || s.failures > 1) {
		s.tell(e.cause, decision.At.Add(time.Hour))
	}
	s.schedule(decision, e.cause)
}

// schedule carries out a decision of the policy while nothing serves.
func (s *Supervisor) schedule(d restart.Decision, cause *protocol.Error) {
	s.circuit = d
	if s.candidate != nil {
		return // it is the replacement
	}
	now := time.Now()
	if d.Open {
		e := *cause
		e.Message = cause.Message + ". It is not started again for now: " + d.Reason +
			". The next try is with a request in " + round(s.config.Policy.Backoff.Max) +
			" or by itself in " + round(max(0, d.At.Sub(now))) + "; a swap starts it at once."
		e.Kind, e.Retryable = protocol.WorkerUnavailable, true
		s.config.Log.Error(e.Message)
		s.tell(&e, now.Add(s.config.Policy.Backoff.Max))
	}
	s.retry.Reset(d.At.Sub(now))
}

// tell tells the client why nothing serves.
func (s *Supervisor) tell(cause *protocol.Error, demandAt time.Time) {
	shown := *cause
	if s.config.HideStderr {
		shown.StderrTail = nil
	}
	s.config.Edge.Down(&shown, demandAt)
}

func round(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }
