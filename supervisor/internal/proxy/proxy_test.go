package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/session"
)

// stream is a worker's end of a Stream.
type stream struct {
	up     chan *workerv1.Frame // what the worker says
	closed chan struct{}
	once   sync.Once

	mu     sync.Mutex
	down   []*workerv1.Frame
	full   bool
	unsent []uint64
}

func newStream() *stream {
	return &stream{up: make(chan *workerv1.Frame), closed: make(chan struct{})}
}

func (s *stream) Send(f *workerv1.Frame, _ bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full && f.Kind == workerv1.Frame_KIND_REQUEST {
		return false
	}
	s.down = append(s.down, f)
	return true
}

func (s *stream) Recv() (*workerv1.Frame, error) {
	select {
	case f := <-s.up:
		return f, nil
	case <-s.closed:
		return nil, io.EOF
	}
}

func (s *stream) Close() []uint64 {
	s.once.Do(func() { close(s.closed) })
	return s.unsent
}

// got returns what the worker has got, as "kind id method".
func (s *stream) got() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, f := range s.down {
		all = append(all, fmt.Sprint(strings.TrimPrefix(f.Kind.String(), "KIND_"), " ", f.Id))
	}
	return strings.Join(all, ", ")
}

func (s *stream) say(kind workerv1.Frame_Kind, id uint64, payload string) {
	s.up <- &workerv1.Frame{Kind: kind, Id: id, Payload: []byte(payload)}
}

func (s *stream) answer(id uint64, result string) {
	s.say(workerv1.Frame_KIND_RESPONSE, id, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, id, result))
}

// edge is a Proxy between a client and the test.
type edge struct {
	*Proxy
	t      *testing.T
	toUs   *io.PipeWriter
	fromUs *io.PipeReader
	lines  *bufio.Reader
	ran    chan error
	cancel context.CancelFunc
	sides  chan *stream // that were opened beside the first
}

func newEdge(t *testing.T) *edge {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	p := New(Config{
		In: inR, Out: outW, MaxFrame: 1 << 20, EOFGrace: 2 * time.Second, Version: "v0", Demand: func() {}, Log: zap.NewNop(),
		Limits: session.Limits{HoldTimeout: 8 * time.Second, HoldRequests: 1000, HoldBytes: 1 << 30, Leases: 128},
	})
	ctx, cancel := context.WithCancel(t.Context())
	e := &edge{Proxy: p, t: t, toUs: inW, fromUs: outR, lines: bufio.NewReader(outR), ran: make(chan error, 1), cancel: cancel, sides: make(chan *stream, 8)}
	go func() { e.ran <- p.Run(ctx) }() // ends with the client, or by cancel
	return e
}

// end lets go of all that may still wait for the client.
func (e *edge) end() {
	e.cancel()
	e.toUs.Close()
	e.fromUs.Close()
	synctest.Wait()
}

func (e *edge) write(line string) {
	e.t.Helper()
	if _, err := io.WriteString(e.toUs, line+"\n"); err != nil {
		e.t.Fatal(err)
	}
	synctest.Wait()
}

func (e *edge) call(id int) {
	e.t.Helper()
	e.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"x"}}`, id))
}

func (e *edge) expect(parts ...string) {
	e.t.Helper()
	line, err := e.lines.ReadString('\n')
	if err != nil {
		e.t.Fatalf("read %.300q, %v; want %q", line, err, parts)
	}
	for _, p := range parts {
		if !strings.Contains(line, p) {
			e.t.Errorf("read %.300q, want %q", line, p)
		}
	}
}

func (e *edge) attach() (*stream, *Conn) {
	s := newStream()
	return s, e.Attach(s, Worker{Generation: 1, Multi: true, Open: func() (Stream, error) {
		side := newStream()
		e.sides <- side
		return side, nil
	}})
}

func inBubble(t *testing.T, f func(t *testing.T, e *edge)) {
	synctest.Test(t, func(t *testing.T) {
		e := newEdge(t)
		defer e.end()
		f(t, e)
	})
}

func loss(cause string) session.Loss { return session.Loss{Generation: 1, Cause: cause} }

// EDGE-8, C33: EOF ends requests, not answers. Run returns once the last one
// is written, and does not wait for more.
func TestEOFDrains(t *testing.T) {
	inBubble(t, func(t *testing.T, e *edge) {
		s, conn := e.attach()
		e.call(1)
		e.call(2)
		e.toUs.Close()
		time.Sleep(300 * time.Millisecond)
		s.answer(1, `{"n":1}`)
		e.expect(`"id":1`, `{"n":1}`)
		synctest.Wait()
		select {
		case err := <-e.ran:
			t.Fatalf("ended before the last answer: %v", err)
		default:
		}
		began := time.Now()
		s.answer(2, `{"n":2}`)
		e.expect(`"id":2`, `{"n":2}`)
		if err := <-e.ran; err != nil || time.Since(began) > 0 {
			t.Errorf("Run() = %v after %v", err, time.Since(began))
		}
		conn.Detach(loss("was stopped"))
	})
}

// What is not answered within the grace is answered by us, listens as complete.
func TestEOFGrace(t *testing.T) {
	inBubble(t, func(t *testing.T, e *edge) {
		_, conn := e.attach()
		e.listen(`"toolsListChanged":true`)
		e.call(1)
		e.toUs.Close()
		began := time.Now()
		e.expect(`"id":"s"`, `"complete"`)
		e.expect(`"id":1`, string(protocol.OutcomeUnknown))
		if d := time.Since(began); d != 2*time.Second {
			t.Errorf("answered after %v", d)
		}
		if err := <-e.ran; err != nil {
			t.Errorf("Run() = %v", err)
		}
		conn.Detach(loss("was stopped"))
	})
}

// EDGE-8: a client that reads slowly gets all answers after its EOF, as long as
// it reads at all.
func TestEOFSlowReader(t *testing.T) {
	inBubble(t, func(t *testing.T, e *edge) {
		s, conn := e.attach()
		for id := range uint64(5) {
			e.call(int(id + 1))
			s.answer(id+1, `{}`)
		}
		e.toUs.Close()
		for id := range 4 {
			time.Sleep(1500 * time.Millisecond)
			e.expect(fmt.Sprintf(`"id":%d`, id+1))
		}
		s.say(workerv1.Frame_KIND_NOTIFICATION, 0, `{"jsonrpc":"2.0","method":"too late"}`)
		began := time.Now()
		if err := <-e.ran; err != nil || time.Since(began) > 4*time.Second {
			t.Errorf("Run() = %v after %v without a reader", err, time.Since(began))
		}
		conn.Detach(loss("was stopped"))
	})
}

// EDGE-8, SUP-16: answers that wait for the client to read are not late.
func TestEOFSlowReaderHoldsAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T, e *edge) {
		const calls = 6
		s, conn := e.attach()
		for id := range calls {
			e.call(id + 1)
		}
		go func() { // ends when all are taken
			for id := range uint64(calls) {
				s.answer(id+1, `"`+strings.Repeat("x", outboxRoom*2/3)+`"`)
			}
		}()
		e.toUs.Close()
		for id := range calls {
			time.Sleep(1500 * time.Millisecond)
			e.expect(fmt.Sprintf(`"id":%d,"result":"x`, id+1))
		}
		if err := <-e.ran; err != nil {
			t.Errorf("Run() = %v", err)
		}
		conn.Detach(loss("was stopped"))
	})
}

// SUP-4: a worker gets ready and replaces another although the client does not
// read.
func TestReadyBesideSlowClient(t *testing.T) {
	inBubble(t, func(t *testing.T, e *edge) {
		first, conn := e.attach()
		<-conn.Ready()
		e.write(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
		first.answer(1, `{"protocolVersion":"2025-11-25","capabilities":{}}`)
		e.expect(`"id":1`)
		for id := 2; id < 4; id++ {
			e.call(id)
			first.answer(uint64(id), `"`+strings.Repeat("x", outboxRoom)+`"`)
		}
		synctest.Wait()
		second, next := e.attach()
		synctest.Wait()
		second.answer(4, `{"protocolVersion":"2025-11-25","capabilities":{}}`)
		synctest.Wait()
		select {
		case <-next.Ready():
		default:
			t.Fatal("a worker that has shaken hands is not ready")
		}
		if !next.Promote() {
			t.Error("it cannot serve")
		}
		e.expect(`"id":2`)
		e.expect(`"id":3`)
		conn.Detach(loss("was replaced"))
		next.Detach(loss("was stopped"))
	})
}

// EOF with nothing but a listen open is an end at once.
func TestEOFIdle(t *testing.T) {
	inBubble(t, func(t *testing.T, e *edge) {
		_, conn := e.attach()
		e.listen(`"toolsListChanged":true`)
		began := time.Now()
		e.toUs.Close()
		e.expect(`"id":"s"`, `"complete"`)
		if err := <-e.ran; err != nil || time.Since(began) > 0 {
			t.Errorf("Run() = %v after %v", err, time.Since(began))
		}
		conn.Detach(loss("was stopped"))
	})
}

// A client that neither reads nor ends does not hold up the end.
func TestEndWithoutReader(t *testing.T) {
	inBubble(t, func(t *testing.T, e *edge) {
		_, conn := e.attach()
		e.call(1)
		began := time.Now()
		e.cancel()
		if err := <-e.ran; err != nil || time.Since(began) > flushGrace {
			t.Errorf("Run() = %v after %v", err, time.Since(began))
		}
		conn.Detach(loss("was stopped"))
	})
}

// EDGE-9: a broken stdout ends the session, whether requests come or not.
func TestBrokenStdout(t *testing.T) {
	for _, atEOF := range []bool{false, true} {
		t.Run(fmt.Sprint("EOF ", atEOF), func(t *testing.T) {
			inBubble(t, func(t *testing.T, e *edge) {
				s, conn := e.attach()
				e.call(1)
				if atEOF {
					e.toUs.Close()
					synctest.Wait()
				}
				e.fromUs.CloseWithError(io.ErrClosedPipe)
				s.answer(1, `{}`)
				if err := <-e.ran; !errors.Is(err, ErrClientGone) {
					t.Errorf("Run() = %v, want ErrClientGone", err)
				}
				conn.Detach(loss("was stopped"))
			})
		})
	}
}

// EDGE-4: a line beyond the limit is answered, and the next one is read.
func TestTooLong(t *testing.T) {
	inBubble(t, func(t *testing.T, e *edge) {
		s, conn := e.attach()
		e.write(`{"jsonrpc":"2.0","id":"big","method":"tools/call","params":{"x":"` + strings.Repeat("x", 2<<20) + `"}}`)
		e.expect(`"id":"big"`, string(protocol.FrameTooLarge), "2097")
		e.call(2)
		if got, want := s.got(), "REQUEST 1"; got != want {
			t.Errorf("the worker got %s, want %s", got, want)
		}
		conn.Detach(loss("was stopped"))
		e.expect(`"id":2`)
	})
}

// EDGE-15: what a worker says leaves in its order, and a request and its cancel
// reach it in the client's.
func TestOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, e *edge) {
		s, conn := e.attach()
		e.write(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":1}}}`)
		e.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		e.write(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"_meta":{"progressToken":2}}}`)
		if got, want := s.got(), "REQUEST 1, CANCEL 1, REQUEST 2"; got != want {
			t.Errorf("the worker got %s, want %s", got, want)
		}
		for i := range 100 {
			s.say(workerv1.Frame_KIND_NOTIFICATION, 0,
				fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":%d}}`, i))
		}
		s.answer(2, `{}`)
		for i := range 100 {
			e.expect(fmt.Sprintf(`"progress":%d}`, i))
		}
		e.expect(`"id":2`)
		conn.Detach(loss("was stopped"))
	})
}

// SUP-20, EDGE-15: a client that does not read slows its worker down, and what
// it says itself still gets through.
func TestSlowClient(t *testing.T) {
	inBubble(t, func(t *testing.T, e *edge) {
		s, conn := e.attach()
		e.call(1)
		const size = 1 << 20
		note := `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"` + strings.Repeat("x", size) + `"}}`
		said := 0
		stop := make(chan struct{})
		flood := make(chan struct{})
		go func() { // ends by stop
			defer close(flood)
			for {
				select {
				case s.up <- &workerv1.Frame{Kind: workerv1.Frame_KIND_NOTIFICATION, Payload: []byte(note)}:
					said++
				case <-stop:
					return
				}
			}
		}()
		synctest.Wait()
		if limit := outboxRoom/size + 3; said > limit {
			t.Fatalf("%d MiB were taken from the worker, want at most %d", said, limit)
		}
		e.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		e.write(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
		if got, want := s.got(), "REQUEST 1, CANCEL 1"; got != want {
			t.Errorf("the worker got %s, want %s", got, want)
		}
		close(stop)
		<-flood
		go conn.Detach(loss("was stopped")) // its reader waits for the client
		// The last one was taken from the worker, but stood back for room.
		for range said - 1 {
			e.expect("notifications/message")
		}
		e.expect(`"id":2`, `"result":{}`)
		e.expect("notifications/message")
	})
}

// A client that does not read is no reason to take its worker for hung.
func TestSlowClientIsNoHang(t *testing.T) {
	inBubble(t, func(t *testing.T, e *edge) {
		s, conn := e.attach()
		e.call(1)
		note := `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"` + strings.Repeat("x", outboxRoom) + `"}}`
		for range 2 { // the second one stands back for room
			s.say(workerv1.Frame_KIND_NOTIFICATION, 0, note)
			synctest.Wait()
		}
		for range 20 {
			time.Sleep(time.Second)
			if conn.Hung(10 * time.Second) {
				t.Fatal("hung")
			}
		}
		go conn.Detach(loss("was stopped")) // its reader waits for the client
		for range 2 {
			e.expect("notifications/message")
		}
		e.expect(`"id":1`)
	})
}

// SUP-11: a worker that owes an answer and says nothing, not even to a ping.
func TestHung(t *testing.T) {
	inBubble(t, func(t *testing.T, e *edge) {
		s, conn := e.attach()
		hungAfter := func(limit time.Duration) time.Duration {
			for began := time.Now(); time.Since(began) < limit; time.Sleep(time.Second) {
				if conn.Hung(10 * time.Second) {
					return time.Since(began)
				}
			}
			return 0
		}
		if d := hungAfter(time.Minute); d != 0 {
			t.Errorf("hung after %v with nothing to do", d)
		}
		e.write(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`)
		s.answer(1, `{"protocolVersion":"2025-06-18","capabilities":{}}`)
		e.expect(`"id":1`)
		e.call(2)
		if d := hungAfter(time.Minute); d < 10*time.Second || d > 20*time.Second {
			t.Errorf("hung after %v", d)
		}
		conn.Detach(loss("hung"))
		e.expect(`"id":2`, string(protocol.OutcomeUnknown))
	})
}

// SUP-11: time in which we did not run ourselves does not count.
func TestHungAfterSuspension(t *testing.T) {
	inBubble(t, func(t *testing.T, e *edge) {
		_, conn := e.attach()
		e.call(1)
		for range 8 { // it has been asked for a sign of life
			conn.Hung(10 * time.Second)
			time.Sleep(time.Second)
		}
		time.Sleep(time.Hour)
		began := time.Now()
		for !conn.Hung(10 * time.Second) {
			time.Sleep(time.Second)
		}
		if d := time.Since(began); d < 10*time.Second || d > 20*time.Second {
			t.Errorf("hung %v after the suspension", d)
		}
		conn.Detach(loss("hung"))
		e.expect(`"id":1`)
	})
}

// A request that its link has no room for is answered at once (SUP-20).
func TestNoRoom(t *testing.T) {
	inBubble(t, func(t *testing.T, e *edge) {
		s, conn := e.attach()
		s.full = true
		e.call(1)
		e.expect(`"id":1`, string(protocol.WorkerUnavailable), `"retryable":true`)
		e.write(`{"jsonrpc":"2.0","method":"notifications/x"}`)
		if got, want := s.got(), "NOTIFICATION 0"; got != want {
			t.Errorf("the worker got %s, want %s", got, want)
		}
		conn.Detach(loss("was stopped"))
	})
}

// SUP-23: a held request is refused when its time is over, by itself.
func TestHoldTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, e *edge) {
		began := time.Now()
		e.call(1)
		e.expect(`"id":1`, string(protocol.WorkerStarting))
		if d := time.Since(began); d != 8*time.Second {
			t.Errorf("answered after %v", d)
		}
		s, conn := e.attach()
		synctest.Wait()
		if got := s.got(); got != "" {
			t.Errorf("the worker got %s", got)
		}
		conn.Detach(loss("was stopped"))
	})
}

// SUP-1, SUP-16: the client does not notice a new worker but by its answers.
func TestReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, e *edge) {
		first, conn := e.attach()
		<-conn.Ready()
		e.call(1)
		e.write(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
		e.call(3)
		first.unsent = []uint64{3}
		first.say(workerv1.Frame_KIND_EXIT, 0, "")
		conn.Detach(session.Loss{Generation: 1, Cause: "exited with code 3", Exit: &protocol.Exit{Code: 3}})
		e.expect(`"id":1`, string(protocol.OutcomeUnknown), "exited with code 3")
		second, conn := e.attach()
		<-conn.Ready()
		if got, want := second.got(), "REQUEST 2, REQUEST 3"; got != want {
			t.Errorf("the worker got %s, want %s", got, want)
		}
		second.answer(3, `{}`)
		e.expect(`"id":3`)
		second.answer(2, `{}`)
		e.expect(`"id":2`)
		if state := conn.State(); !state.Proven || state.Refused != "" || state.Exit != nil {
			t.Errorf("State() = %+v", state)
		}
		conn.Detach(loss("was stopped"))
	})
}

// What a bridge says of its server's end is known afterwards.
func TestExitFrame(t *testing.T) {
	inBubble(t, func(t *testing.T, e *edge) {
		s, conn := e.attach()
		s.up <- &workerv1.Frame{Kind: workerv1.Frame_KIND_EXIT, Exit: &workerv1.Exit{Code: -1, Signal: "SIGKILL", StderrTail: "a\nb\n"}}
		s.Close()
		<-conn.Ended()
		state := conn.State()
		if state.Exit == nil || *state.Exit != (protocol.Exit{Code: -1, Signal: "SIGKILL"}) || strings.Join(state.Tail, ",") != "a,b" || state.Proven {
			t.Errorf("State() = %+v", state)
		}
		conn.Detach(loss("was killed by SIGKILL"))
	})
}

// A worker that the client's session cannot use is let go.
func TestRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, e *edge) {
		s, conn := e.attach()
		e.write(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`)
		s.answer(1, `{"protocolVersion":"2025-06-18","capabilities":{}}`)
		e.expect(`"id":1`)
		conn.Detach(loss("exited with code 1"))
		s, conn = e.attach()
		s.answer(2, `{"protocolVersion":"2024-11-05","capabilities":{}}`)
		<-conn.Ended()
		if got := conn.State().Refused; !strings.Contains(got, "version_changed") {
			t.Errorf("Refused = %q", got)
		}
		conn.Detach(loss("was stopped"))
	})
}
