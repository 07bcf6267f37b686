package generation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/go-plugin"

	"github.com/holdfast-mcp/holdfast/internal/logging"
	"github.com/holdfast-mcp/holdfast/internal/ring"
	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
)

// StopGrace is how long a worker has between TERM and KILL. Clients kill hard
// about 400 ms after they have asked for the end.
const StopGrace = 250 * time.Millisecond

// streamGrace is how long the streams of a worker may outlive its process
// (docs/protocol.md).
const streamGrace = 250 * time.Millisecond

// Config is what all generations of one supervisor have in common.
type Config struct {
	Command Command
	// StartTimeout bounds the time from the start to the worker's answer to
	// Describe (SUP-8).
	StartTimeout time.Duration
	// MaxFrame is the limit of one message in bytes.
	MaxFrame int
	// SocketDir is a private directory for the workers' sockets.
	SocketDir string
	// Stderr has the options of the ring that keeps a worker's stderr.
	Stderr ring.Options
	// Version of holdfast.
	Version string
	// Resolved, if set, is called when the executable is known.
	Resolved func()
}

// Generation is a worker that did its handshake.
type Generation struct {
	number  uint64
	started time.Time
	config  Config
	process *process
	tail    *ring.Ring
	client  *plugin.Client
	worker  workerv1.WorkerServiceClient
	info    *workerv1.DescribeResponse

	// ctx is that of all streams; it ends streamGrace after the process.
	ctx     context.Context //nolint:containedctx // the life of a process is the life of its streams
	cancel  context.CancelFunc
	handoff chan struct{} // closed when the worker asks for its upgrade
}

// Start starts generation number n and returns it when its worker has done the
// handshake. If ctx ends first, or the start fails, nothing of it is left. The
// error is then a *StartError.
func Start(ctx context.Context, n uint64, config Config) (*Generation, error) {
	g := &Generation{number: n, started: time.Now(), config: config, tail: ring.New(config.Stderr), handoff: make(chan struct{})}
	g.process = newProcess(config.Command, g.tail, config.Resolved)
	g.ctx, g.cancel = context.WithCancel(context.WithoutCancel(ctx))
	g.client = plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  protocol.Handshake(),
		VersionedPlugins: protocol.Versions(nil),
		RunnerFunc:       g.process.runnerFunc,
		SkipHostEnv:      true,
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		// On a unix socket in a private directory mTLS would only cost time.
		AutoMTLS:         runtime.GOOS == "windows",
		Logger:           logging.HclogOff(),
		StartTimeout:     config.StartTimeout,
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: g.socketDir()},
		GRPCDialOptions:  protocol.DialOptions(config.MaxFrame),
	})
	err := g.makeSocketDir()
	if err == nil {
		err = g.connect(ctx)
	}
	if err != nil {
		startErr := g.startError(err)
		g.Stop()
		return nil, startErr
	}
	go g.endStreams() // ends with the process
	go g.lifecycle()  // ends with the stream, which ends with ctx
	return g, nil
}

// socketDir is where go-plugin puts the sockets of this worker.
func (g *Generation) socketDir() string {
	return filepath.Join(g.config.SocketDir, strconv.FormatUint(g.number, 10))
}

// makeSocketDir makes the directory, and the one above it where something has
// cleaned up the temporary files. Neither may exist already: it could be that
// of somebody else.
func (g *Generation) makeSocketDir() error {
	err := os.Mkdir(g.socketDir(), 0o700)
	if errors.Is(err, fs.ErrNotExist) && os.Mkdir(g.config.SocketDir, 0o700) == nil {
		err = os.Mkdir(g.socketDir(), 0o700)
	}
	return err
}

// connect runs go-plugin's part of the start, which knows no context: when ctx
// ends the process is killed, and that ends the start.
func (g *Generation) connect(ctx context.Context) error {
	// Not a deadline: the worker would be told of it, and might be the first to
	// say that it is over.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timeout := time.AfterFunc(g.config.StartTimeout, func() { cancel(ErrSilent) })
	defer timeout.Stop()
	result := make(chan error, 1)
	go func() { result <- g.dial(ctx) }() // ends with the process at the latest
	select {
	case err := <-result:
		if err != nil && ctx.Err() != nil { // then it is but what ended it
			return context.Cause(ctx)
		}
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g *Generation) dial(ctx context.Context) error {
	rpc, err := g.client.Client()
	if err != nil {
		return err
	}
	service, err := rpc.Dispense(protocol.PluginName)
	if err != nil {
		return err
	}
	g.worker = service.(workerv1.WorkerServiceClient)
	g.info, err = g.worker.Describe(ctx, &workerv1.DescribeRequest{
		Version: g.config.Version, MaxFrame: uint64(g.config.MaxFrame),
	})
	return words{g.config.Stderr}.cleanError(err)
}

// endStreams ends what is left of the worker's streams some time after its
// process: until then, frames that it has written count.
func (g *Generation) endStreams() {
	<-g.process.started().Done()
	time.AfterFunc(streamGrace, g.cancel)
}

// lifecycle reads what the worker reports of its process.
func (g *Generation) lifecycle() {
	events, err := g.worker.Lifecycle(g.ctx, &workerv1.LifecycleRequest{})
	for err == nil {
		var event *workerv1.LifecycleEvent
		event, err = events.Recv()
		if event.GetHandoffWanted() != nil {
			close(g.handoff)
			return
		}
	}
}

// HandoffWanted is closed when the worker asks for its upgrade.
func (g *Generation) HandoffWanted() <-chan struct{} { return g.handoff }

// Number returns the number of the generation.
func (g *Generation) Number() uint64 { return g.number }

// Server returns the file of the server, as it was when it was started.
func (g *Generation) Server() File { return g.process.file }

// Pid returns the process id of the worker.
func (g *Generation) Pid() int { return g.process.started().Pid() }

// Info returns what the worker said of itself.
func (g *Generation) Info() *workerv1.DescribeResponse { return g.info }

// Takes reports whether the worker has declared a feature.
func (g *Generation) Takes(feature string) bool {
	return slices.Contains(g.info.GetFeatures(), feature)
}

// Uptime returns the time since the start.
func (g *Generation) Uptime() time.Duration { return time.Since(g.started) }

// Outdated reports whether the executable has been replaced since the start
// (SUP-19): for a bridged server its own, where that is a file and not a
// script's interpreter, or the bridge.
func (g *Generation) Outdated() bool { return g.process.file.Replaced() || g.process.own.Replaced() }

// Done is closed when the process has ended and its stderr is read.
func (g *Generation) Done() <-chan struct{} { return g.process.drained }

// Exit returns how the process ended; it is valid after Done.
func (g *Generation) Exit() protocol.Exit { return protocol.Exit(g.process.started().Exit()) }

// Tail returns the last lines of the worker's stderr.
func (g *Generation) Tail() []string { return g.tail.Tail() }

// Stop ends the worker and everything below it: its stdin is closed and its
// group gets TERM, then KILL after StopGrace. It returns when all of it is
// reaped, and may be called at any time and more than once.
func (g *Generation) Stop() { g.stop(StopGrace) }

// Finish is Stop for a worker whose server has ended. A bridge has nothing left
// to do; a native worker may be cleaning up, and is let for StopGrace.
func (g *Generation) Finish() {
	if g.config.Command.Worker == "" {
		g.stop(0)
		return
	}
	select {
	case <-g.Done():
	case <-time.After(StopGrace):
	}
	g.stop(StopGrace)
}

func (g *Generation) stop(grace time.Duration) {
	g.process.stop(grace)
	g.cancel()
	g.client.Kill()
	os.RemoveAll(g.socketDir())
}

// StartError tells why a worker did not become ready.
type StartError struct {
	// Command is what was started, without its arguments.
	Command string
	// Exit of the process, nil if it was never started or had to be ended.
	Exit *protocol.Exit
	Tail []string
	Err  error
}

func (e *StartError) Error() string {
	return fmt.Sprintf("start %s: %v", e.Command, e.Err)
}

// Exited returns how the process ended, nil if it did not, and its stderr.
func (e *StartError) Exited() (*protocol.Exit, []string) { return e.Exit, e.Tail }

func (e *StartError) Unwrap() error { return e.Err }

// startError says what was seen of a start that failed (SUP-8).
func (g *Generation) startError(err error) *StartError {
	e := &StartError{Command: g.config.Command.Program(), Err: err}
	p := g.process.started()
	if p == nil {
		return e
	}
	// The process may be about to end: its exit tells more than the error.
	exited := false
	select {
	case <-g.process.drained:
		exited = true
	case <-time.After(exitGrace(err)):
	}
	wire, printed := g.process.announced()
	switch {
	case wire != 0 && (wire < protocol.WireVersionMin || wire > protocol.WireVersion):
		e.Err = fmt.Errorf("%w: the worker speaks %d, this holdfast %d to %d",
			ErrWireVersion, wire, protocol.WireVersionMin, protocol.WireVersion)
	case exited:
		exit := protocol.Exit(p.Exit())
		e.Exit, e.Err = &exit, fmt.Errorf("it %v before its handshake", exit)
	case errors.Is(err, ErrSilent) && printed:
		e.Err = fmt.Errorf("%w within %v: it is alive and prints other things; an ordinary MCP server is started with "+
			"`holdfast run -- COMMAND`, without --worker", ErrSilent, g.config.StartTimeout)
	case errors.Is(err, ErrSilent):
		e.Err = fmt.Errorf("%w within %v: it is alive but silent; is its stdout buffered, "+
			"or is it no holdfast worker?", ErrSilent, g.config.StartTimeout)
	}
	e.Tail = g.tail.Tail()
	return e
}

func exitGrace(err error) time.Duration {
	if errors.Is(err, ErrSilent) || errors.Is(err, context.Canceled) {
		return 0
	}
	return stderrGrace * 2
}
