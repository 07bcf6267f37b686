package bridge

import (
	"bytes"
	"context"
	"io"
	"testing"

	"google.golang.org/grpc"

	"github.com/holdfast-mcp/holdfast/internal/envelope"
	"github.com/holdfast-mcp/holdfast/internal/line"
	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
)

// frames is a stream that keeps what is sent on it.
type frames struct {
	grpc.BidiStreamingServer[workerv1.Frame, workerv1.Frame]

	sent []*workerv1.Frame
}

func (f *frames) Context() context.Context { return context.Background() }

func (f *frames) Send(frame *workerv1.Frame) error {
	f.sent = append(f.sent, frame)
	return nil
}

// fuzzed is a session without a child.
func fuzzed() (*session, *frames) {
	out := &frames{}
	b := New(Config{})
	b.report = newReporter(io.Discard)
	return newSession(b, out, nil), out
}

// legal reports what is wrong with a frame for the supervisor: its message has
// to be of the frame's kind.
func legal(f *workerv1.Frame) bool {
	env, err := envelope.Peek(f.GetPayload())
	if err != nil {
		return false
	}
	switch f.GetKind() {
	case workerv1.Frame_KIND_REQUEST:
		return env.Kind == envelope.Request
	case workerv1.Frame_KIND_RESPONSE:
		return env.Kind.IsAnswer()
	case workerv1.Frame_KIND_NOTIFICATION, workerv1.Frame_KIND_CANCEL:
		return env.Kind == envelope.Notification
	default:
		return false
	}
}

// FuzzUp: whatever a server prints, the supervisor gets legal messages alone,
// and at most one answer for each request (EDGE-10, C27).
func FuzzUp(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{}}` + "\n" + `{"jsonrpc":"2.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":"2","error":{"code":1,"message":"x"}}` + "\n" + `{"jsonrpc":"2.0","id":3.0,"result":` + "\"\xff\"}",
		`{"jsonrpc":"2.0","id":0,"method":"roots/list"}` + "\n" + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}`,
		`[{"jsonrpc":"2.0","id":1,"result":{}},[],1]` + "\nLoading..." + `{"jsonrpc":"2.0","method":"x"}`,
		`{"jsonrpc":"2.0","result":"` + string(bytes.Repeat([]byte("x"), 200<<10)) + `","id":2}` + "\n{\"a\":",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, printed []byte) {
		s, out := fuzzed()
		tokens := map[uint64]string{1: `"one"`, 2: `2.50`, 3: `""`}
		for n, token := range tokens {
			s.calls.begin(n, []byte(token), false)
		}
		stdout := &tailReader{r: bytes.NewReader(printed)}
		lines := line.NewReader(stdout, 128<<10)
		for {
			b, err := lines.Next()
			if tooLong, ok := asTooLong(err); ok {
				s.upTooLong(tooLong)
				continue
			}
			if err != nil {
				break
			}
			s.up(b, stdout.unfinished())
		}
		answered := map[uint64]bool{}
		for _, frame := range out.sent {
			if !legal(frame) {
				t.Errorf("the supervisor got %.300q", frame)
			}
			if frame.GetKind() != workerv1.Frame_KIND_RESPONSE {
				continue
			}
			n := frame.GetId()
			env, _ := envelope.Peek(frame.GetPayload()) // legal above
			if answered[n] || string(env.ID.Of(frame.GetPayload())) != tokens[n] {
				t.Errorf("request %d is answered again, or with the id of another: %.300q", n, frame)
			}
			answered[n] = true
		}
	})
}

// FuzzDown: whatever a supervisor sends, the server reads legal messages alone,
// each on a line, and what cannot be passed on is answered.
func FuzzDown(f *testing.F) {
	f.Add(int32(workerv1.Frame_KIND_REQUEST), uint64(7), []byte(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{}}`))
	f.Add(int32(workerv1.Frame_KIND_REQUEST), uint64(7), []byte(`{"jsonrpc":"2.0","method":"x"}`))
	f.Add(int32(workerv1.Frame_KIND_RESPONSE), uint64(1), []byte(`{"jsonrpc":"2.0","id":5,"result":{}}`))
	f.Add(int32(workerv1.Frame_KIND_RESPONSE), uint64(1), []byte(`{}`))
	f.Add(int32(workerv1.Frame_KIND_CANCEL), uint64(7), []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}`))
	f.Add(int32(workerv1.Frame_KIND_NOTIFICATION), uint64(0), []byte("{\"jsonrpc\":\"2.0\",\n\"method\":\"x\"}"))
	f.Add(int32(workerv1.Frame_KIND_NOTIFICATION), uint64(0), []byte("0"))
	f.Add(int32(workerv1.Frame_KIND_DRAIN), uint64(0), []byte(nil))
	f.Fuzz(func(t *testing.T, kind int32, id uint64, payload []byte) {
		s, out := fuzzed()
		s.calls.number([]byte(`"server's"`))
		s.down(&workerv1.Frame{Kind: workerv1.Frame_Kind(kind), Id: id, Payload: bytes.Clone(payload)})
		for _, l := range s.queue.lines {
			if _, err := envelope.Peek(l); err != nil {
				t.Errorf("the server gets %.300q: %v", l, err)
			}
		}
		for _, frame := range out.sent {
			if frame.GetKind() != workerv1.Frame_KIND_DRAINED && !legal(frame) {
				t.Errorf("the supervisor gets %.300q", frame)
			}
		}
		if kind == int32(workerv1.Frame_KIND_REQUEST) && len(s.queue.lines)+len(out.sent) != 1 {
			t.Errorf("a request became %d lines and %d answers", len(s.queue.lines), len(out.sent))
		}
	})
}
