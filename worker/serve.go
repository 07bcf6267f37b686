package worker

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-mcp/holdfast/internal/gctune"
	"github.com/holdfast-mcp/holdfast/internal/proc"
	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/worker/internal/host"
)

const (
	// flushTime bounds how long the last frames may take to reach the
	// supervisor.
	flushTime = time.Second
	// killDelay is the time between SIGTERM and the end of a process that does
	// not end. The supervisor allows 250 ms.
	killDelay = 200 * time.Millisecond
	// answerTime is what the SDK gets on stdio, after the last handler has
	// returned, to write the answer: a session that is closed before drops it.
	answerTime = 50 * time.Millisecond
	// closeTime bounds the end of a session on stdio, which waits for calls.
	closeTime = 100 * time.Millisecond
)

// Serve serves server until the client or the supervisor is done with it, ctx
// ends or [Handoff] is called. It returns nil at the end of the input, at the
// end of ctx and on SIGTERM, [ErrHandoff] after a handoff, and another error if
// it could not serve; [ExitCode] turns that into an exit code. opts may be nil.
//
// Under a supervisor all sessions share the server; without one, the session
// is that on stdin and stdout. Handlers see the values of ctx.
//
// When ctx ends or a handoff is wanted, calls under way are waited for, up to
// Options.HandoffGrace; at the end of the input they are cancelled.
func Serve(ctx context.Context, server *mcp.Server, opts *Options) error {
	return serve(ctx, func() *mcp.Server { return server }, true, opts)
}

// ServeFunc is like [Serve], but every session gets a server of its own from
// newServer. It is for servers that keep the state of one client. newServer is
// called from several goroutines.
func ServeFunc(ctx context.Context, newServer func() *mcp.Server, opts *Options) error {
	return serve(ctx, newServer, false, opts)
}

func serve(ctx context.Context, newServer func() *mcp.Server, multiSession bool, opts *Options) error {
	if protocol.StartedBySupervisor(os.Environ()) {
		return serveWire(ctx, newServer, multiSession, opts.withDefaults())
	}
	return serveStdio(ctx, newServer(), opts.withDefaults())
}

// serveStdio serves one session on stdin and stdout.
func serveStdio(ctx context.Context, server *mcp.Server, opts Options) error {
	calls, hint := newLoad(), newDrainHint()
	server.AddReceivingMiddleware(counting(calls))
	runCtx, cancel := context.WithCancel(hint.in(context.WithoutCancel(ctx)))
	defer cancel()
	ended := make(chan struct{})
	var runErr error
	go func() { // ends with the input, or soon after cancel
		defer close(ended)
		runErr = server.Run(runCtx, &mcp.StdioTransport{MaxLineLength: opts.MaxFrame})
	}()
	var result error
	select {
	case <-ended:
		return runErr
	case <-ctx.Done():
	case <-processHandoff.wanted:
		result = ErrHandoff
	}
	hint.drain()
	awaitCalls(calls, 0, opts.HandoffGrace, nil, ended)
	within(answerTime, ended)
	cancel()
	within(closeTime, ended)
	return result
}

// counting counts the calls that are being handled.
func counting(calls *load) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			counted := method != methodListen && !strings.HasPrefix(method, "notifications/")
			if !calls.begin(counted) {
				return nil, errRefused()
			}
			defer calls.end(counted)
			return next(ctx, method, req)
		}
	}
}

// within waits for done, but no longer than d.
func within(d time.Duration, done <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// serveWire serves sessions to the supervisor that started this process.
//
//	serving --- input ends, SIGTERM --------------------------> stop, nil
//	   |------- ctx ends ------> calls end, or the grace -----> stop, nil
//	   +------- handoff -> half of the grace, as before
//	               -> calls end, or the rest of the grace -----> stop, ErrHandoff
func serveWire(ctx context.Context, newServer func() *mcp.Server, multiSession bool, opts Options) error {
	service := newService(ctx, newServer, multiSession, opts, processHandoff)
	if opts.TuneGC {
		service.tuner = gctune.Start()
	}
	h := host.New(service)
	gone, release := host.Watch(func() { proc.KillOwnGroupAfter(killDelay) })
	defer release()
	h.Start()

	var result error
	select {
	case <-h.Done():
		return h.Err()
	case <-gone:
	case <-ctx.Done():
		service.drainAll()
		awaitCalls(service.load, 0, opts.HandoffGrace, gone, h.Done())
	case <-processHandoff.wanted:
		result = ErrHandoff
		service.drainAll()
		// The supervisor starts the newer build first and then ends this one,
		// so it is served on for the first half.
		awaitCalls(service.load, opts.HandoffGrace/2, opts.HandoffGrace, gone, h.Done())
	}
	service.stop(ExitCode(result))
	h.Stop(flushTime)
	return result
}

// awaitCalls returns at the first moment, after notice, when no call is under
// way, or after grace, or when one of the channels is closed.
func awaitCalls(l *load, notice, grace time.Duration, gone, done <-chan struct{}) {
	over := time.NewTimer(grace)
	defer over.Stop()
	noticed := time.NewTimer(notice)
	defer noticed.Stop()
	var idle <-chan struct{}
	for {
		select {
		case <-noticed.C:
			idle = l.close()
		case <-idle:
			return
		case <-over.C:
			return
		case <-gone:
			return
		case <-done:
			return
		}
	}
}
