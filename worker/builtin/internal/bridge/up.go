package bridge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-mcp/holdfast/internal/envelope"
	"github.com/holdfast-mcp/holdfast/internal/line"
	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
)

// JSON-RPC error codes.
const (
	codeInvalidRequest = -32600
	codeInternal       = -32603
)

// up takes one line of the child. unfinished says that the output is over and
// was not ended by a line end.
func (s *session) up(msg []byte, unfinished bool) {
	env, err := envelope.Peek(msg)
	switch {
	case errors.Is(err, envelope.ErrBatch):
		// A server of the 2025-03-26 revision may put several messages into an
		// array; the supervisor takes them one by one.
		s.upBatch(msg)
	case err != nil:
		s.upBroken(msg, env, err, unfinished)
	case env.Kind.IsAnswer():
		s.upAnswer(msg, env)
	case env.Kind == envelope.Request:
		n := s.calls.number(bytes.Clone(env.ID.Of(msg)))
		s.send(&workerv1.Frame{Kind: workerv1.Frame_KIND_REQUEST, Id: n, Payload: msg})
	case env.Method == methodCancelled:
		s.upCancel(msg, env)
	default:
		s.send(&workerv1.Frame{Kind: workerv1.Frame_KIND_NOTIFICATION, Payload: msg})
	}
}

// upAnswer passes an answer on under the client's own id.
func (s *session) upAnswer(msg []byte, env envelope.Envelope) {
	n, ok := callNumber(env.ID.Of(msg))
	if !ok {
		s.bridge.report.junk(junkAnswer, msg)
		return
	}
	token, sent, ok := s.calls.answer(n)
	if !ok {
		s.bridge.report.junk(junkAnswer, msg)
		return
	}
	s.send(&workerv1.Frame{Kind: workerv1.Frame_KIND_RESPONSE, Id: n, Payload: envelope.Splice(msg, env.ID, token)})
	sent()
	s.answerDrain()
}

// upCancel passes the cancellation of a request of the server on.
func (s *session) upCancel(msg []byte, env envelope.Envelope) {
	params := env.Params.Of(msg)
	id, ok := envelope.Find(params, "requestId")
	if !ok {
		s.bridge.report.junk(junkObject, msg)
		return
	}
	n, ok := s.calls.numberOf(id.Of(params))
	if !ok {
		return // answered meanwhile
	}
	s.calls.take(n)
	s.send(&workerv1.Frame{Kind: workerv1.Frame_KIND_CANCEL, Id: n, Payload: msg})
}

func (s *session) upBatch(msg []byte) {
	spans, err := envelope.Split(msg)
	if err != nil || len(spans) == 0 {
		s.bridge.report.junk(junkScalar, msg)
		return
	}
	for _, span := range spans {
		element := bytes.Clone(span.Of(msg))
		if _, err := envelope.Peek(element); errors.Is(err, envelope.ErrBatch) {
			s.bridge.report.junk(junkScalar, element)
			continue
		}
		s.up(element, false)
	}
}

// upBroken keeps a line that is no message from the client. Where it can only
// be the answer to a known request, that request fails; one that was cut off
// by the end of the server does not, since the supervisor knows better what
// to say about it.
func (s *session) upBroken(msg []byte, env envelope.Envelope, err error, unfinished bool) {
	kind := junkKind(msg, env, err, unfinished)
	s.bridge.report.junk(kind, msg)
	if kind == junkPartial || !env.Kind.IsAnswer() {
		return // a log line in JSON may have an id as well
	}
	if n, ok := callNumber(env.ID.Of(msg)); ok {
		s.finish(n, rpcError(codeInternal, "the server's answer is no valid message: "+err.Error()))
	}
}

func junkKind(msg []byte, env envelope.Envelope, err error, unfinished bool) string {
	trimmed := bytes.TrimLeft(msg, " \t")
	switch {
	case unfinished && errors.Is(err, envelope.ErrParse) && bytes.HasPrefix(trimmed, []byte("{")):
		return junkPartial
	case errors.Is(err, envelope.ErrNotObject):
		return junkScalar
	case !errors.Is(err, envelope.ErrParse):
		return junkObject
	case !bytes.HasPrefix(trimmed, []byte("{")) && bytes.Contains(trimmed, []byte(`{"jsonrpc"`)):
		return junkGlued
	case !env.ID.IsZero() || env.Kind != envelope.Unknown:
		return junkEncoding
	}
	return junkText
}

// upTooLong deals with a message beyond the frame limit: whoever waits for it,
// the client or the server, is told.
func (s *session) upTooLong(e *line.TooLongError) {
	s.bridge.report.junk(junkTooLong, e.Head)
	tooLarge := protocol.NewError(protocol.FrameTooLarge,
		fmt.Sprintf("answer of %d bytes exceeds the limit of %d bytes", e.Size, e.Limit))
	env, _ := envelope.Peek(e.Head) // cut off: only kind and id are of use
	switch {
	case env.Kind == envelope.Notification:
	case env.Kind == envelope.Request && !env.ID.IsZero():
		tooLarge.Message = fmt.Sprintf("request of %d bytes exceeds the limit of %d bytes", e.Size, e.Limit)
		s.enqueue(errorResponse(env.ID.Of(e.Head), tooLarge.RPC()), true)
	case env.Kind == envelope.Request:
	default:
		token := env.ID.Of(e.Head)
		if env.ID.IsZero() {
			token = trailingID(e.Tail)
		}
		if n, ok := callNumber(token); ok {
			s.finish(n, tooLarge.RPC())
		}
	}
}

// trailingID returns the raw id of an object of which only the end is known
// and whose last members are simple ones, as the TypeScript SDK writes them:
//
//	..."jsonrpc":"2.0","id":7}
func trailingID(tail []byte) []byte {
	i := bytes.LastIndex(tail, []byte(`"id"`))
	if i < 0 {
		return nil
	}
	object := append([]byte{'{'}, tail[i:]...)
	env, err := envelope.Peek(object)
	if errors.Is(err, envelope.ErrParse) {
		return nil // the id of something inside
	}
	return env.ID.Of(object)
}

// finish answers the client's request n with an error of the bridge.
func (s *session) finish(n uint64, rpcError []byte) {
	token, sent, ok := s.calls.answer(n)
	if !ok {
		return
	}
	s.answerError(n, token, rpcError)
	sent()
	s.answerDrain()
}

func (s *session) answerError(n uint64, token, rpcError []byte) {
	s.send(&workerv1.Frame{Kind: workerv1.Frame_KIND_RESPONSE, Id: n, Payload: errorResponse(token, rpcError)})
}

// errorResponse composes a response from a raw id and a raw error value.
func errorResponse(token, rpcError []byte) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":%s}`, token, rpcError)
}

// rpcError returns the raw value of an error member.
func rpcError(code int, message string) []byte {
	b, err := json.Marshal(struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}{code, message})
	if err != nil { // a number and a string can always be marshalled
		panic(err)
	}
	return b
}

func asTooLong(err error) (*line.TooLongError, bool) { return errors.AsType[*line.TooLongError](err) }
