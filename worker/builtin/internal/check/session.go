package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
)

// firstNumber is that of a session's first request. It is no number that the
// checks use as an id, so that the two cannot be mistaken for each other.
const firstNumber = 101

// Errors of a session.
var (
	// errNoAnswer: returned when the deadline of a check is over.
	errNoAnswer = errors.New("no answer in time")
	// errStreamEnded: returned when the worker ended the stream.
	errStreamEnded = errors.New("the worker ended the stream")
)

// session is the supervisor's side of one Session stream. Its methods are safe
// for concurrent use.
type session struct {
	stream grpc.BidiStreamingClient[workerv1.Frame, workerv1.Frame]
	cancel context.CancelFunc
	frames *ledger
	reader sync.WaitGroup

	send sync.Mutex // one Send at a time

	mu      sync.Mutex // guards what follows
	last    uint64
	open    map[uint64]struct{}
	answers map[uint64]message
	drained int
	exit    *workerv1.Exit
	ended   error         // why the stream is over, nil before
	news    chan struct{} // closed and replaced with each change
}

// message is an answer.
type message struct {
	// ID is the raw id token of the payload.
	ID     json.RawMessage `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int64  `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// String says what the answer is, in a few words.
func (m message) String() string {
	if m.Error != nil {
		return fmt.Sprintf("error %d %.80q", m.Error.Code, m.Error.Message)
	}
	return fmt.Sprintf("a result of %d bytes", len(m.Result))
}

func openSession(l *life, frames *ledger) (*session, error) {
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := l.worker.Session(ctx)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("open a session: %w", err)
	}
	s := &session{
		stream: stream, cancel: cancel, frames: frames, last: firstNumber - 1,
		open: make(map[uint64]struct{}), answers: make(map[uint64]message), news: make(chan struct{}),
	}
	s.reader.Go(s.read) // ends with the stream
	return s, nil
}

// close ends the stream, as a supervisor that is done with a session does.
func (s *session) close() {
	s.cancel()
	s.reader.Wait()
}

func (s *session) alive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended == nil
}

// read takes what the worker sends until the stream ends.
func (s *session) read() {
	for {
		frame, err := s.stream.Recv()
		if err != nil {
			s.update(func() { s.ended = endOf(err) })
			return
		}
		s.take(frame)
	}
}

// endOf says how a stream ended.
func endOf(err error) error {
	if errors.Is(err, io.EOF) {
		return errStreamEnded
	}
	return fmt.Errorf("%w: %s %s", errStreamEnded, status.Code(err), status.Convert(err).Message())
}

func (s *session) take(frame *workerv1.Frame) {
	s.frames.judge(frame)
	s.mu.Lock()
	exited := s.exit != nil
	s.mu.Unlock()
	if exited {
		s.frames.fault("%s after EXIT, which has to be the last frame", kindName(frame.GetKind()))
	}
	switch frame.GetKind() {
	case workerv1.Frame_KIND_REQUEST:
		// As a client without any capability would answer.
		go s.refuse(frame.GetId()) // ends with its Send, at the latest with the stream
	case workerv1.Frame_KIND_RESPONSE:
		s.answered(frame)
	case workerv1.Frame_KIND_DRAINED:
		s.update(func() { s.drained++ })
	case workerv1.Frame_KIND_EXIT:
		s.update(func() {
			if s.exit = frame.GetExit(); s.exit == nil {
				s.exit = &workerv1.Exit{}
			}
		})
	default: // nothing to do, or unknown
	}
}

func (s *session) answered(frame *workerv1.Frame) {
	var m message
	if err := json.Unmarshal(frame.GetPayload(), &m); err != nil {
		return // the ledger has it
	}
	n := frame.GetId()
	s.update(func() {
		if _, ok := s.open[n]; !ok {
			s.frames.fault("an answer under number %d, which is not open: %.80q", n, frame.GetPayload())
			return
		}
		delete(s.open, n)
		s.answers[n] = m
	})
}

func (s *session) refuse(number uint64) {
	payload := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-32601,"message":"not offered by this client"}}`, number)
	_ = s.frame(context.Background(), &workerv1.Frame{Kind: workerv1.Frame_KIND_RESPONSE, Id: number, Payload: []byte(payload)})
}

// update changes the state and wakes those that wait for it.
func (s *session) update(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.news)
	s.news = make(chan struct{})
}

// frame sends a frame. A worker that does not read blocks it until ctx ends,
// and with it the stream.
func (s *session) frame(ctx context.Context, frame *workerv1.Frame) error {
	defer context.AfterFunc(ctx, s.cancel)()
	s.send.Lock()
	defer s.send.Unlock()
	if err := s.stream.Send(frame); err != nil {
		s.reader.Wait() // it knows why
		if ctx.Err() != nil {
			return fmt.Errorf("the worker does not read: %w", errNoAnswer)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.ended
	}
	return nil
}

// request sends a request whose client id is token, and returns its number.
func (s *session) request(ctx context.Context, token, method string, params any) (uint64, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	s.last++
	n := s.last
	s.open[n] = struct{}{}
	s.mu.Unlock()
	name, _ := json.Marshal(method) // strings always marshal
	payload := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%s,"params":%s}`, token, name, raw)
	return n, s.frame(ctx, &workerv1.Frame{Kind: workerv1.Frame_KIND_REQUEST, Id: n, Payload: payload})
}

// wait returns the answer to the request of that number.
func (s *session) wait(ctx context.Context, n uint64) (message, error) {
	var m message
	err := s.until(ctx, func() (done bool) {
		m, done = s.answers[n]
		return done
	})
	return m, err
}

// until waits until the condition, which is called under the lock, holds.
func (s *session) until(ctx context.Context, condition func() bool) error {
	for {
		s.mu.Lock()
		done, ended, news := condition(), s.ended, s.news
		s.mu.Unlock()
		switch {
		case done:
			return nil
		case ended != nil:
			return ended
		}
		select {
		case <-news:
		case <-ctx.Done():
			return errNoAnswer
		}
	}
}

// call sends a request under an id of its own and waits for the answer.
func (s *session) call(ctx context.Context, method string, params any) (message, error) {
	n, err := s.request(ctx, strconv.Quote("check-"+method), method, params)
	if err != nil {
		return message{}, err
	}
	return s.wait(ctx, n)
}
