package worker

import (
	"context"
	"errors"
	"sync"
)

// ErrHandoff is returned by [Serve] after [Handoff]: the process should exit
// with code 75, which [ExitCode] gives.
var ErrHandoff = errors.New("worker: handoff to a newer build")

// ExitHandoff is the exit code that asks the supervisor for an upgrade: it
// looks the executable up again, starts it at once and charges no crash.
const ExitHandoff = 75

// Handoff asks to be replaced by a newer build of this program, for instance
// because the program noticed that its executable changed. reason is for
// people. It returns at once; what follows is:
//
//  1. the supervisor is told, and [Draining] is closed for all calls. It
//     usually starts the newer build beside this process, gives it what comes,
//     and ends this one when its calls have ended;
//  2. if this process is still there after half of Options.HandoffGrace, it
//     ends by itself at the first moment when no call is under way, at the
//     latest after the whole of it. A request that comes later is refused as
//     one that was not executed;
//  3. in both cases [Serve] returns [ErrHandoff], and the program should exit
//     with [ExitHandoff].
//
// On plain stdio there is nobody who starts the newer build: Serve ends the
// session once no call is under way and returns ErrHandoff. Calls of Handoff
// after the first have no effect. One before Serve is remembered.
func Handoff(reason string) { processHandoff.request(reason) }

// ExitCode returns the exit code for what [Serve] returned: 0 for nil,
// [ExitHandoff] for [ErrHandoff] and 1 for any other error.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrHandoff):
		return ExitHandoff
	}
	return 1
}

// Draining returns a channel that is closed once the session of a call will
// get no further requests here, because this process is about to be replaced.
// A handler that waits for long should then end with an outcome of its own,
// such as "nothing yet, ask again", rather than be cut off.
//
// ctx is the context of a handler. For any other context, the channel is nil.
// On plain stdio it is closed by [Handoff] only.
func Draining(ctx context.Context) <-chan struct{} {
	if hint, ok := ctx.Value(drainKey{}).(*drainHint); ok {
		return hint.draining
	}
	return nil
}

type drainKey struct{}

// drainHint tells the handlers of one session that it drains.
type drainHint struct {
	once     sync.Once
	draining chan struct{}
}

func newDrainHint() *drainHint { return &drainHint{draining: make(chan struct{})} }

func (d *drainHint) drain() { d.once.Do(func() { close(d.draining) }) }

// in returns a context whose handlers see d.
func (d *drainHint) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, drainKey{}, d)
}

// processHandoff belongs to the process: a handoff replaces all of it.
var processHandoff = newHandoff()

type handoff struct {
	once   sync.Once
	reason string        // set before wanted is closed
	wanted chan struct{} // closed by the request
}

func newHandoff() *handoff { return &handoff{wanted: make(chan struct{})} }

func (h *handoff) request(reason string) {
	h.once.Do(func() {
		h.reason = reason
		close(h.wanted)
	})
}
