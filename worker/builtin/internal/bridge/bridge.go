// Package bridge makes any MCP server on stdio, in any language, a worker: it
// runs the server as its child and moves messages between the supervisor's
// stream and the child's stdin and stdout.
//
//	supervisor --frames--> session.down --> queue --> writer --> child's stdin
//	supervisor <--frames-- session.up <---- line.Reader <------- child's stdout
//
// A Session stream is one life of the child: opening one starts it, closing it
// ends it, and there is one at a time. When the child ends by itself, what it
// wrote is sent, then EXIT as the last frame, and the bridge is done: its
// process ends with the child's exit code.
//
// The bytes of a message stay as they are, with two exceptions: the id of a
// request is replaced by the supervisor's number for it, and back in the
// answer, as is the requestId in a cancellation. What the child prints beside
// MCP messages is kept out and reported on stderr (EDGE-10).
//
// The bridge stays in one process group with the child. It neither restarts
// the child nor interprets what it says.
package bridge

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-mcp/holdfast/internal/gctune"
	"github.com/holdfast-mcp/holdfast/internal/proc"
	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
)

// Config says what to run.
type Config struct {
	// Command is the program, looked up in the PATH of Env unless it is a path,
	// and Args what follows it.
	Command string
	Args    []string
	// Dir is the working directory of the child, and what a relative Command
	// is relative to. Empty: that of this process.
	Dir string
	// Env is the whole environment of the child.
	Env []string
	// Stderr is inherited by the child and takes the bridge's own reports.
	Stderr *os.File
	// MaxFrame is the largest message in bytes that is taken from the child; 0:
	// the supervisor's limit, which holds in any case.
	MaxFrame int
	// Version of the bridge, for people.
	Version string
	// Tuner may be nil.
	Tuner *gctune.Tuner
}

// slotPatience is how long a new session waits for the end of the one before,
// whose child may need the whole stop ladder.
const slotPatience = 3 * time.Second

// Bridge is the worker service. It is used once.
type Bridge struct {
	workerv1.UnimplementedWorkerServiceServer

	config     Config
	queueLimit int
	report     *reporter
	started    time.Time
	// maxFrame is the limit of what is taken from the child.
	maxFrame atomic.Int64
	slot     chan struct{} // holds one token while a session lives

	stopping chan struct{} // closed when no child is wanted any more
	ended    chan struct{} // closed when the child has ended by itself

	mu   sync.Mutex
	stop bool      // stopping is closed
	exit proc.Exit // of the child, once ended is closed
	gone bool      // ended is closed
}

// New returns a Bridge.
func New(config Config) *Bridge {
	b := &Bridge{
		config:     config,
		queueLimit: queueLimit,
		report:     newReporter(config.Stderr),
		started:    time.Now(),
		slot:       make(chan struct{}, 1),
		stopping:   make(chan struct{}),
		ended:      make(chan struct{}),
	}
	b.maxFrame.Store(b.frameLimit(0))
	return b
}

// Ended is closed when the child has ended by itself and the supervisor has
// been told.
func (b *Bridge) Ended() <-chan struct{} { return b.ended }

// Exit tells how the child ended, once Ended is closed.
func (b *Bridge) Exit() proc.Exit {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.exit
}

// Close ends the child, if there is one, and returns when it is gone. No other
// is started.
func (b *Bridge) Close() {
	b.mu.Lock()
	if !b.stop {
		b.stop = true
		close(b.stopping)
	}
	b.mu.Unlock()
	b.slot <- struct{}{} // for good
}

// Describe answers who this worker is, and takes the supervisor's frame limit.
func (b *Bridge) Describe(_ context.Context, req *workerv1.DescribeRequest) (*workerv1.DescribeResponse, error) {
	b.maxFrame.Store(b.frameLimit(req.GetMaxFrame()))
	return &workerv1.DescribeResponse{
		Features:        []string{protocol.FeatureDrain, protocol.FeatureExit},
		Name:            "bridge " + filepath.Base(b.config.Command),
		Version:         b.config.Version,
		Pid:             int64(os.Getpid()),
		StartTimeUnixMs: b.started.UnixMilli(),
	}, nil
}

// frameLimit returns the limit, given that of the supervisor, 0 if it has none.
func (b *Bridge) frameLimit(supervisor uint64) int64 {
	limit := int64(protocol.DefaultMaxFrame)
	if supervisor > 0 {
		limit = int64(min(supervisor, math.MaxInt32))
	}
	if b.config.MaxFrame > 0 {
		limit = min(limit, int64(b.config.MaxFrame))
	}
	return limit
}

// Lifecycle has nothing to report: the child is in the bridge's own group.
func (b *Bridge) Lifecycle(_ *workerv1.LifecycleRequest, stream grpc.ServerStreamingServer[workerv1.LifecycleEvent]) error {
	select {
	case <-stream.Context().Done():
	case <-b.stopping:
	case <-b.ended:
	}
	return nil
}

// Session runs one life of the child. It fails with FailedPrecondition if
// another session lives, and with NotFound or PermissionDenied, and the cause
// in its message, if the command cannot be started.
func (b *Bridge) Session(stream grpc.BidiStreamingServer[workerv1.Frame, workerv1.Frame]) error {
	patience := time.NewTimer(slotPatience)
	defer patience.Stop()
	select {
	case b.slot <- struct{}{}:
		defer func() { <-b.slot }()
	case <-stream.Context().Done():
		return status.FromContextError(stream.Context().Err()).Err()
	case <-patience.C:
		return status.Error(codes.FailedPrecondition, "a bridged server has one session at a time")
	}
	select {
	case <-b.stopping:
		return status.Error(codes.Unavailable, "the bridge is stopping")
	case <-b.ended:
		return status.Error(codes.Unavailable, "the server has ended")
	default:
	}
	child, err := startChild(b.config)
	if err != nil {
		return status.Error(startCode(err), err.Error())
	}
	exit, own := newSession(b, stream, child).run()
	if own {
		b.childEnded(exit)
	}
	return nil
}

func (b *Bridge) childEnded(exit proc.Exit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.gone {
		b.gone = true
		b.exit = exit
		close(b.ended)
	}
}

// startCode maps the error of a start to a gRPC code.
func startCode(err error) codes.Code {
	switch {
	case errors.Is(err, proc.ErrNotFound):
		return codes.NotFound
	case errors.Is(err, proc.ErrNotExecutable), errors.Is(err, proc.ErrIsDirectory), errors.Is(err, os.ErrPermission):
		return codes.PermissionDenied
	}
	return codes.FailedPrecondition
}
