// Package host runs a worker service inside a process that a supervisor
// started: it speaks the go-plugin handshake, keeps the process's own output
// where the supervisor can see it, and ends the server without losing what was
// already sent.
//
//	New ---> Start ---> (handshake line on stdout) ---> first RPC ---> Stop
//	            |                                          |            |
//	     plugin.Serve in its                    std streams restored,  Done
//	     own goroutine                          environment stripped
//
// go-plugin assumes that it owns the process. What it does beyond serving, and
// what becomes of it here:
//
//   - It replaces os.Stdout and os.Stderr by pipes into a gRPC stream, where
//     text gets lost in a crash. The first RPC of any kind sets both to the real
//     stderr, before a handler can run.
//   - It reads PLUGIN_* and the cookie from the environment and leaves them
//     there. The same RPC removes them, so that no child inherits them (SUP-18).
//   - It eats SIGINT: a Ctrl-C in a terminal reaches the whole process group,
//     and only the supervisor is to act on it.
//   - Its helper streams stay open as long as the client lives, so that a
//     graceful stop would never end. Stop ends them.
//
// A Host is used once. Its methods are safe for concurrent use after Start. It
// does not watch stdin or signals; the caller decides when to stop.
package host

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
)

// ErrNotServed is returned when go-plugin could not start to serve, for
// instance because it could not create its socket. The cause is on stderr.
var ErrNotServed = errors.New("worker: could not serve the supervisor")

// Host is one worker service in one process.
type Host struct {
	service workerv1.WorkerServiceServer

	takeOver func() // once, by the first RPC
	stopping chan struct{}
	stopOnce sync.Once
	done     chan struct{}

	mu     sync.Mutex
	server *grpc.Server // nil until go-plugin asked for it
	err    error
}

// maxFrame is the largest frame that gRPC takes or sends. It is beyond any frame
// limit that a supervisor can have: the supervisor keeps its own limit, and
// tells the service, before a message too large for gRPC would end the stream.
const maxFrame = 1 << 30

// New returns a Host for service. The process's stderr at this moment is the
// one that counts.
func New(service workerv1.WorkerServiceServer) *Host {
	stderr := os.Stderr
	return &Host{
		service: service,
		takeOver: sync.OnceFunc(func() {
			os.Stdout, os.Stderr = stderr, stderr
			stripEnvironment()
		}),
		stopping: make(chan struct{}),
		done:     make(chan struct{}),
	}
}

// Start begins to serve. The environment must carry the handshake, else
// go-plugin ends the process.
func (h *Host) Start() {
	config := &plugin.ServeConfig{
		HandshakeConfig:  protocol.Handshake(),
		VersionedPlugins: protocol.Versions(h.service),
		GRPCServer:       h.newServer,
		// Only what keeps the worker from serving is worth a line; the
		// supervisor shows it with the failed start. That a stopped server
		// has been stopped is not.
		Logger: hclog.New(&hclog.LoggerOptions{
			Name: "holdfast", Level: hclog.Error, Output: os.Stderr,
			Exclude: func(hclog.Level, string, ...any) bool { return h.isStopping() },
		}),
	}
	go func() { // ends when the server is stopped, by Stop or by the supervisor
		defer close(h.done)
		plugin.Serve(config)
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.server == nil {
			h.err = ErrNotServed
		}
	}()
}

func (h *Host) isStopping() bool {
	select {
	case <-h.stopping:
		return true
	default:
		return false
	}
}

// Done is closed when the server has ended.
func (h *Host) Done() <-chan struct{} { return h.done }

// Err returns nil or ErrNotServed, once Done is closed.
func (h *Host) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// Stop ends the server: RPCs that the service has ended are flushed to the
// supervisor for at most flush, then everything is closed. The service must
// end its own streams; Stop waits for them no longer than that.
func (h *Host) Stop(flush time.Duration) {
	h.stopOnce.Do(func() { close(h.stopping) })
	h.mu.Lock()
	server := h.server
	h.mu.Unlock()
	if server == nil {
		return
	}
	flushed := make(chan struct{})
	go func() { // ends with the server, at the latest by server.Stop below
		defer close(flushed)
		server.GracefulStop()
	}()
	timer := time.NewTimer(flush)
	defer timer.Stop()
	select {
	case <-flushed:
	case <-timer.C:
		server.Stop()
	}
	<-h.done
}

func (h *Host) newServer(opts []grpc.ServerOption) *grpc.Server {
	opts = append(opts, protocol.ServerOptions(maxFrame)...)
	opts = append(opts, grpc.ChainUnaryInterceptor(h.unary), grpc.ChainStreamInterceptor(h.stream))
	server := grpc.NewServer(opts...)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.server = server
	return server
}

func (h *Host) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	h.takeOver()
	return next(ctx, req)
}

// stream ends the streams of go-plugin itself when the host stops; those of
// the worker service are ended by the service, after their last frame.
func (h *Host) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	h.takeOver()
	if strings.HasPrefix(info.FullMethod, "/"+workerv1.WorkerService_ServiceDesc.ServiceName+"/") {
		return next(srv, ss)
	}
	ctx, cancel := context.WithCancel(ss.Context())
	defer cancel()
	go func() { // ends with the stream or with the host
		select {
		case <-h.stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	// The broker blocks in Recv whatever the context says, so the stream is
	// left to it and ended by returning.
	ended := make(chan error, 1)
	go func() { ended <- next(srv, stoppable{ss, ctx}) }() // ends with the stream
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}

// stoppable is a stream with another context.
type stoppable struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // that is what a stream has
}

func (s stoppable) Context() context.Context { return s.ctx }

// stripEnvironment removes the handshake.
func stripEnvironment() {
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); protocol.IsHandshakeVariable(name) {
			os.Unsetenv(name)
		}
	}
}
