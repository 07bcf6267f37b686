package worker

import (
	"context"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-mcp/holdfast/internal/gctune"
	"github.com/holdfast-mcp/holdfast/internal/proc"
	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/worker/internal/host"
)

const (
	// handoffNotice is how long the supervisor has to stop sending requests
	// here after it was told of a handoff.
	handoffNotice = 250 * time.Millisecond
	// flushTime bounds how long the last frames may take to reach the
	// supervisor.
	flushTime = time.Second
	// killDelay is the time between SIGTERM and the end of a process that does
	// not end. The supervisor allows 250 ms.
	killDelay = 200 * time.Millisecond
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
	hint := newDrainHint()
	runCtx, cancel := context.WithCancel(hint.in(ctx))
	defer cancel()
	ended := make(chan error, 1)
	go func() { // ends with the input, or after cancel with the calls under way
		ended <- server.Run(runCtx, &mcp.StdioTransport{MaxLineLength: opts.MaxFrame})
	}()
	var result error
	select {
	case err := <-ended:
		return err
	case <-processHandoff.wanted:
		hint.drain()
		result = ErrHandoff
	case <-ctx.Done():
	}
	cancel()
	select {
	case <-ended: // with the error of cancel
	case <-time.After(opts.HandoffGrace):
	}
	return result
}

// serveWire serves sessions to the supervisor that started this process.
//
//	serving --- input ends, SIGTERM --------------------------> stop, nil
//	   |------- ctx ends ------> calls end, or the grace -----> stop, nil
//	   +------- handoff -> notice -> calls end, or the grace -> stop, ErrHandoff
func serveWire(ctx context.Context, newServer func() *mcp.Server, multiSession bool, opts Options) error {
	service := newService(ctx, newServer, multiSession, opts, processHandoff)
	if opts.TuneGC {
		service.tuner = gctune.Start()
	}
	h := host.New(service, opts.maxFrame())
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
		awaitCalls(service.load, handoffNotice, opts.HandoffGrace, gone, h.Done())
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
