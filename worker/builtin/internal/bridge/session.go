package bridge

import (
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-mcp/holdfast/internal/line"
	"github.com/holdfast-mcp/holdfast/internal/proc"
	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
)

// lastFramePatience bounds the wait for a Send that is stuck when a session
// ends, since the supervisor does not read.
const lastFramePatience = time.Second

// closedStdoutGrace is how long a server may live after it has closed its
// stdout. Nothing can come from it any more.
const closedStdoutGrace = time.Second

// session is one life of the child and of the stream that belongs to it.
type session struct {
	bridge *Bridge
	stream grpc.BidiStreamingServer[workerv1.Frame, workerv1.Frame]
	child  *child
	calls  *calls
	queue  *queue

	sendMu sync.Mutex
	ended  bool // guarded by sendMu: the stream must not be used any more
}

func newSession(b *Bridge, stream grpc.BidiStreamingServer[workerv1.Frame, workerv1.Frame], c *child) *session {
	return &session{bridge: b, stream: stream, child: c, calls: newCalls(), queue: newQueue(b.queueLimit)}
}

// run moves messages until the child has ended. own reports that it did so by
// itself; the supervisor has then got EXIT as the last frame.
//
//	child exits ------> read stdout to its end or 200 ms -> EXIT
//	stdout closed ----> a second to exit, then the ladder -> EXIT
//	stream closed ----> the ladder; what still comes is sent
//	bridge stopping --> the short ladder
func (s *session) run() (exit proc.Exit, own bool) {
	input, written, output := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() { // ends with the stream, at the latest after run
		defer close(input)
		s.readFrames()
	}()
	go func() { // ends when the queue is closed and stdin takes its rest or is closed
		defer close(written)
		s.queue.run(line.NewWriter(s.child.stdin).WriteLine)
	}()
	go func() { // ends with the end of stdout, or when it is closed
		defer close(output)
		s.readLines()
	}()

	select {
	case <-s.child.Done():
		own = true
	case <-output:
		own = true
		s.endSilent()
	case <-input:
		s.endInput(written)
	case <-s.bridge.stopping:
		s.child.endNow()
	}
	exit = s.child.Exit()
	within(holdTime, output)
	_ = s.child.closeStdout()
	within(lastFramePatience, output)
	s.queue.close()
	_ = s.child.closeStdin()
	within(lastFramePatience, written)

	var last *workerv1.Frame
	if own {
		last = &workerv1.Frame{
			Kind: workerv1.Frame_KIND_EXIT,
			Exit: &workerv1.Exit{Code: int32(exit.Code), Signal: exit.Signal},
		}
	}
	s.end(last)
	if own {
		s.child.Stop(0) // what it left behind
	}
	return exit, own
}

// endSilent ends a child that has closed its stdout.
func (s *session) endSilent() {
	timer := time.NewTimer(closedStdoutGrace)
	defer timer.Stop()
	select {
	case <-s.child.Done():
	case <-timer.C:
		s.child.endSoftly()
	case <-s.bridge.stopping:
		s.child.endNow()
	}
}

// endInput ends the child because the supervisor has closed the stream. What
// was sent before is written first, as far as the child takes it in time.
func (s *session) endInput(written <-chan struct{}) {
	s.queue.close()
	within(eofGrace, written)
	select {
	case <-s.bridge.stopping:
		s.child.endNow()
	default:
		s.child.endSoftly()
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

// readFrames takes the supervisor's frames until the stream ends.
func (s *session) readFrames() {
	for {
		frame, err := s.stream.Recv()
		if err != nil {
			return
		}
		s.bridge.config.Tuner.Hold(len(frame.GetPayload()))
		s.down(frame)
		s.bridge.config.Tuner.Release(len(frame.GetPayload()))
	}
}

// readLines takes the child's messages until its stdout ends.
func (s *session) readLines() {
	stdout := &tailReader{r: s.child.stdout}
	lines := line.NewReader(stdout, int(s.bridge.maxFrame.Load()))
	for {
		b, err := lines.Next()
		if err == nil {
			s.bridge.config.Tuner.Hold(len(b))
			s.up(b, stdout.unfinished())
			s.bridge.config.Tuner.Release(len(b))
			continue
		}
		tooLong, ok := asTooLong(err)
		if !ok {
			return
		}
		s.upTooLong(tooLong)
	}
}

// tailReader remembers whether what it read ended in the middle of a line.
type tailReader struct {
	r    io.Reader
	last byte
	over bool
}

func (t *tailReader) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	if n > 0 {
		t.last = p[n-1]
	}
	if err != nil {
		t.over = true
	}
	return n, err
}

// unfinished reports that the stream is over and has no line end at its end,
// so that a broken line may be one that was cut off.
func (t *tailReader) unfinished() bool { return t.over && t.last != '\n' }

// send sends one frame. Its payload must not be touched afterwards. An error
// means that the stream is over, which readFrames sees as well.
func (s *session) send(frame *workerv1.Frame) {
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	if !s.ended {
		_ = s.stream.Send(frame)
	}
}

// end makes last, if not nil, the last frame of the stream.
func (s *session) end(last *workerv1.Frame) {
	ended := make(chan struct{})
	go func() { // ends with the Send that holds the lock, at the latest with the stream
		defer close(ended)
		s.sendMu.Lock()
		defer s.sendMu.Unlock()
		if last != nil && !s.ended {
			_ = s.stream.Send(last)
		}
		s.ended = true
	}()
	within(lastFramePatience, ended)
}
