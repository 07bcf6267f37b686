package worker

import (
	"context"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-mcp/holdfast/internal/gctune"
	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
)

// lastFramePatience bounds the wait for a Send that is stuck when a session
// ends.
const lastFramePatience = time.Second

// service is the worker side of the wire for an mcp.Server.
type service struct {
	workerv1.UnimplementedWorkerServiceServer

	// ctx is that of Serve: handlers see its values, as with Server.Run.
	ctx       context.Context //nolint:containedctx // sessions come by RPC and derive theirs from it
	newServer func() *mcp.Server
	features  []string
	opts      Options
	handoff   *handoff
	load      *load
	tuner     *gctune.Tuner
	started   time.Time

	// maxFrame is the limit of what is sent.
	maxFrame atomic.Int64

	// stopping is closed when the sessions are to end. exit is what the last
	// frame then says; it is set before.
	stopping chan struct{}
	exit     *workerv1.Exit
	sessions sync.WaitGroup // handlers of Session and Lifecycle

	mu    sync.Mutex
	hints map[*drainHint]struct{} // nil once a handoff is wanted
	ended bool                    // no further stream is taken
}

func newService(ctx context.Context, newServer func() *mcp.Server, multiSession bool, opts Options, h *handoff) *service {
	s := &service{
		ctx:       ctx,
		newServer: newServer,
		features:  []string{protocol.FeatureDrain, protocol.FeatureExit},
		opts:      opts,
		handoff:   h,
		load:      newLoad(),
		started:   time.Now(),
		stopping:  make(chan struct{}),
		hints:     make(map[*drainHint]struct{}),
	}
	if multiSession {
		s.features = append(s.features, protocol.FeatureMultiSession)
	}
	s.maxFrame.Store(opts.frameLimit(0))
	return s
}

// Describe answers who this worker is, and takes the supervisor's frame limit.
func (s *service) Describe(_ context.Context, req *workerv1.DescribeRequest) (*workerv1.DescribeResponse, error) {
	s.maxFrame.Store(s.opts.frameLimit(req.GetMaxFrame()))
	return &workerv1.DescribeResponse{
		Features:        s.features,
		Name:            s.opts.Name,
		Version:         s.opts.Version,
		Build:           buildStamp(),
		Pid:             int64(os.Getpid()),
		StartTimeUnixMs: s.started.UnixMilli(),
	}, nil
}

// Lifecycle reports a wanted handoff.
func (s *service) Lifecycle(_ *workerv1.LifecycleRequest, stream grpc.ServerStreamingServer[workerv1.LifecycleEvent]) error {
	if !s.enter() {
		return errStopping
	}
	defer s.sessions.Done()
	select {
	case <-s.handoff.wanted:
		event := &workerv1.LifecycleEvent{Event: &workerv1.LifecycleEvent_HandoffWanted{
			HandoffWanted: &workerv1.HandoffWanted{Reason: s.handoff.reason},
		}}
		if err := stream.Send(event); err != nil {
			return err
		}
	case <-s.stopping:
		return nil
	case <-stream.Context().Done():
		return nil
	}
	select {
	case <-s.stopping:
	case <-stream.Context().Done():
	}
	return nil
}

// Session serves one MCP connection. It returns when either side has closed
// it, or when the process stops to serve; only then the last frame is EXIT.
//
//	stream opened -> Server.Connect -> closed by the SDK -----> stream ends
//	                       |        -> ended by supervisor ---> stream ends
//	                       +--------- stopping: EXIT ---------> stream ends
func (s *service) Session(stream grpc.BidiStreamingServer[workerv1.Frame, workerv1.Frame]) error {
	if !s.enter() {
		return errStopping
	}
	defer s.sessions.Done()
	hint := newDrainHint()
	s.addHint(hint)
	defer s.removeHint(hint)

	c := &conn{
		stream:   stream,
		hint:     hint,
		load:     s.load,
		maxFrame: func() int { return int(s.maxFrame.Load()) },
		tuner:    s.tuner,
		log:      s.opts.Logger,
		closed:   make(chan struct{}),
		calls:    make(map[int64]call),
	}
	session, err := s.newServer().Connect(hint.in(s.ctx), c, nil)
	if err != nil {
		return status.Errorf(codes.Internal, "opening the MCP session: %v", err)
	}
	// Without it the SDK would go on to ping a session with KeepAlive. It waits
	// for calls, which end once Read has failed, because the stream is over.
	// Nothing that it still says may reach the stream: the supervisor keeps the
	// client's listens open beyond this process, and the SDK would end them.
	defer func() { go session.Close() }()
	var last *workerv1.Frame
	select {
	case <-c.closed:
	case <-stream.Context().Done():
	case <-s.stopping:
		last = &workerv1.Frame{Kind: workerv1.Frame_KIND_EXIT, Exit: s.exit}
	}
	c.end(last, lastFramePatience)
	_ = c.Close()
	c.abandon()
	return nil
}

var errStopping = status.Error(codes.Unavailable, "the worker is stopping")

// stop ends all sessions with the exit given and waits for them. Calls still
// under way are given up.
func (s *service) stop(exitCode int) {
	s.load.refuse()
	s.mu.Lock()
	s.ended = true
	s.exit = &workerv1.Exit{Code: int32(exitCode)}
	s.mu.Unlock()
	close(s.stopping)
	s.sessions.Wait()
}

func (s *service) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.sessions.Add(1)
	}
	return !s.ended
}

func (s *service) addHint(hint *drainHint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hints == nil {
		hint.drain()
		return
	}
	s.hints[hint] = struct{}{}
}

func (s *service) removeHint(hint *drainHint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.hints, hint)
}

// drainAll tells the handlers of all sessions, and of those to come, that this
// process is about to be replaced.
func (s *service) drainAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for hint := range s.hints {
		hint.drain()
	}
	s.hints = nil
}

// buildStamp is the VCS revision that this program was built from, with "+"
// if the tree was modified, or empty.
func buildStamp() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var revision, modified string
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			revision = setting.Value
		case setting.Key == "vcs.modified" && setting.Value == "true":
			modified = "+"
		}
	}
	return revision + modified
}
