package bridge

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/holdfast-mcp/holdfast/internal/envelope"
	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
)

const (
	methodCancelled = "notifications/cancelled"
	methodListen    = "subscriptions/listen"
)

// down takes one frame of the supervisor. It never waits for the child.
func (s *session) down(frame *workerv1.Frame) {
	switch frame.GetKind() {
	case workerv1.Frame_KIND_REQUEST:
		s.downRequest(frame.GetId(), frame.GetPayload())
	case workerv1.Frame_KIND_RESPONSE:
		s.downResponse(frame.GetId(), frame.GetPayload())
	case workerv1.Frame_KIND_NOTIFICATION:
		s.downNotification(frame.GetPayload())
	case workerv1.Frame_KIND_CANCEL:
		s.downCancel(frame.GetId(), frame.GetPayload())
	case workerv1.Frame_KIND_DRAIN:
		s.calls.drain()
		s.answerDrain()
	default: // of a later wire
	}
}

// downRequest passes a request on under the number n.
func (s *session) downRequest(n uint64, payload []byte) {
	env, err := envelope.Peek(payload)
	number := strconv.AppendUint(nil, n, 10)
	if err == nil && env.Kind != envelope.Request {
		err = fmt.Errorf("request %d is a %s", n, env.Kind)
	}
	if err != nil {
		s.bridge.report.problem("refused a request", err)
		s.answerError(n, number, rpcError(codeInvalidRequest, err.Error()))
		return
	}
	token := bytes.Clone(env.ID.Of(payload)) // not to keep the payload alive
	s.calls.begin(n, token, env.Method == methodListen)
	if err := s.queue.add(envelope.Splice(payload, env.ID, number), false); err != nil {
		s.finish(n, protocol.NewError(protocol.WorkerUnavailable, err.Error()+"; the request was not sent").RPC())
	}
}

// downNotification passes a notification on.
func (s *session) downNotification(payload []byte) {
	env, err := envelope.Peek(payload)
	if err == nil && env.Kind != envelope.Notification {
		err = fmt.Errorf("it is a %s", env.Kind)
	}
	if err != nil {
		s.bridge.report.problem("dropped a notification", err)
		return
	}
	s.enqueue(payload, false)
}

// downCancel passes a cancellation of the request n on.
func (s *session) downCancel(n uint64, payload []byte) {
	env, err := envelope.Peek(payload)
	if err == nil && env.Kind != envelope.Notification {
		err = fmt.Errorf("it is a %s", env.Kind)
	}
	if err != nil {
		s.bridge.report.problem("dropped a cancellation", err)
		return
	}
	s.calls.cancel(n)
	s.answerDrain()
	id, ok := envelope.Find(env.Params.Of(payload), "requestId")
	if !ok {
		s.bridge.report.problem("dropped a cancellation", fmt.Errorf("no requestId in %s", quote(payload)))
		return
	}
	span := envelope.Span{Start: env.Params.Start + id.Start, End: env.Params.Start + id.End}
	s.enqueue(envelope.Splice(payload, span, strconv.AppendUint(nil, n, 10)), true)
}

// downResponse passes the client's answer to the server's request n on, under
// the server's own id.
func (s *session) downResponse(n uint64, payload []byte) {
	token, ok := s.calls.take(n)
	if !ok {
		return // cancelled meanwhile
	}
	env, err := envelope.Peek(payload)
	if err != nil || !env.Kind.IsAnswer() {
		s.bridge.report.problem("replaced a bad answer of the client", fmt.Errorf("%w: %s", err, quote(payload)))
		s.enqueue(errorResponse(token, rpcError(codeInternal, "the client's answer is no JSON-RPC response")), true)
		return
	}
	s.enqueue(envelope.Splice(payload, env.ID, token), true)
}

func (s *session) enqueue(payload []byte, urgent bool) {
	if err := s.queue.add(payload, urgent); err != nil {
		s.bridge.report.problem("dropped a message of the client", err)
	}
}

// answerDrain answers a DRAIN if nothing is under way.
func (s *session) answerDrain() {
	if s.calls.drained() {
		s.send(&workerv1.Frame{Kind: workerv1.Frame_KIND_DRAINED})
	}
}
