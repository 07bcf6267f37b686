package generation

import (
	"context"
	"math"
	"strings"
	"sync"

	"google.golang.org/grpc"

	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
)

// maxQueued is how many bytes may wait for a worker that does not read
// (SUP-20).
const maxQueued = 16 << 20

// Stream is one MCP connection to a worker. Send never waits: a goroutine puts
// the frames on the stream in their order.
type Stream struct {
	stream grpc.BidiStreamingClient[workerv1.Frame, workerv1.Frame]
	cancel context.CancelFunc
	sender sync.WaitGroup
	words  words

	mu     sync.Mutex
	wake   chan struct{} // has a token when there may be something to send
	queue  []*workerv1.Frame
	size   int
	closed bool
}

// Open opens a session.
func (g *Generation) Open() (*Stream, error) {
	ctx, cancel := context.WithCancel(g.ctx)
	stream, err := g.worker.Session(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	s := &Stream{stream: stream, cancel: cancel, words: words{g.config.Stderr}, wake: make(chan struct{}, 1)}
	s.sender.Go(s.sendAll) // ends with the stream, or by Close
	return s, nil
}

// Send queues a frame. It reports false, and drops the frame, if the frame is
// a request or a notification that was not held and the queue is full: cancels
// and answers always go, and what is held has a bound of its own.
func (s *Stream) Send(f *workerv1.Frame, held bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !held && s.size > 0 && s.size+len(f.Payload) > room(f.Kind) {
		return false
	}
	s.queue = append(s.queue, f)
	s.size += len(f.Payload)
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return true
}

// room is how many bytes may wait, a frame of the kind included.
func room(k workerv1.Frame_Kind) int {
	switch k {
	case workerv1.Frame_KIND_REQUEST:
		return maxQueued
	case workerv1.Frame_KIND_NOTIFICATION:
		return 2 * maxQueued
	default:
		return math.MaxInt
	}
}

func (s *Stream) sendAll() {
	for {
		select {
		case <-s.wake:
		case <-s.stream.Context().Done():
			return
		}
		for f := s.next(); f != nil; f = s.next() {
			if err := s.stream.Send(f); err != nil {
				return
			}
			s.sent()
		}
	}
}

// next returns the frame to send; it stays in the queue until it is sent.
func (s *Stream) next() *workerv1.Frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 || s.closed {
		return nil
	}
	return s.queue[0]
}

func (s *Stream) sent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size -= len(s.queue[0].Payload)
	s.queue[0] = nil
	s.queue = s.queue[1:]
}

// Recv returns the next frame of the worker. Its error is final. What the
// worker says in words for people, in either, may be shown to anyone (SEC-3).
func (s *Stream) Recv() (*workerv1.Frame, error) {
	f, err := s.stream.Recv()
	if exit := f.GetExit(); exit.GetStderrTail() != "" {
		exit.StderrTail = strings.Join(s.words.clean(exit.StderrTail), "\n")
	}
	return f, s.words.cleanError(err)
}

// Close ends the session and returns the numbers of the requests that were
// never put on the stream: the worker cannot have seen them.
func (s *Stream) Close() []uint64 {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.sender.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	var unsent []uint64
	for _, f := range s.queue {
		if f.Kind == workerv1.Frame_KIND_REQUEST {
			unsent = append(unsent, f.Id)
		}
	}
	return unsent
}
