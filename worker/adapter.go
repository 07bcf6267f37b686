package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"

	"github.com/holdfast-mcp/holdfast/internal/gctune"
	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
)

// codeRejected is the code by which the SDK recognises a Write that failed for
// one message while the connection is fine. It does not export its error.
const codeRejected = -32005

// methodListen is a request that stays open until the client ends it. It is
// not under way in the sense of draining.
const methodListen = "subscriptions/listen"

// conn is one MCP connection over one Session stream. The SDK reads from one
// goroutine and writes from many; Close may come from any.
//
// The number of a request, given by the supervisor, takes the place of the
// client's id, and the client's own token, which may be anything, is put back
// into the answer.
type conn struct {
	stream   grpc.BidiStreamingServer[workerv1.Frame, workerv1.Frame]
	hint     *drainHint
	load     *load
	maxFrame func() int
	tuner    *gctune.Tuner
	log      *slog.Logger

	closeOnce sync.Once
	closed    chan struct{}

	mu      sync.Mutex     // guards the following; never held during Send
	calls   map[int64]call // nil once abandoned
	active  int            // calls whose answer is not sent yet, without listens
	drained bool           // DRAIN was received and is to be answered when active is 0

	// sendMu orders frames: a stream takes one Send at a time. It is taken
	// after mu is released.
	sendMu sync.Mutex
	ended  bool // guarded by sendMu: the stream must not be used any more
}

// call is a request of the client that was given to the SDK.
type call struct {
	token  []byte // the client's raw id
	size   int    // of the payload
	listen bool
}

var (
	_ mcp.Transport  = (*conn)(nil)
	_ mcp.Connection = (*conn)(nil)
)

// Connect returns c itself, which is a transport for one connection.
func (c *conn) Connect(context.Context) (mcp.Connection, error) { return c, nil }

// SessionID is empty, as on stdio.
func (c *conn) SessionID() string { return "" }

// Close ends the connection. The handler of the stream then returns, which
// unblocks Read: a stream that stayed open behind a closed connection would
// swallow every later call (SUP-21).
func (c *conn) Close() error {
	c.closeOnce.Do(func() { close(c.closed) })
	return nil
}

// Read returns the next message for the SDK. Whatever cannot be one is answered
// or dropped here, since the SDK ends a session over it.
func (c *conn) Read(context.Context) (jsonrpc.Message, error) {
	for {
		select {
		case <-c.closed:
			return nil, io.EOF
		default:
		}
		frame, err := c.stream.Recv()
		if err != nil {
			// The supervisor has closed the stream, or is gone; to the server
			// both are the end of its input.
			return nil, io.EOF
		}
		if msg := c.receive(frame); msg != nil {
			return msg, nil
		}
	}
}

func (c *conn) receive(frame *workerv1.Frame) jsonrpc.Message {
	switch frame.GetKind() {
	case workerv1.Frame_KIND_REQUEST:
		if req := c.receiveRequest(frame); req != nil {
			return req
		}
	case workerv1.Frame_KIND_RESPONSE:
		resp, err := decodeResponse(frame.GetId(), frame.GetPayload())
		if err == nil {
			return resp
		}
		c.dropped(frame, err)
	case workerv1.Frame_KIND_NOTIFICATION:
		req, err := decodeNotification(frame.GetPayload())
		if err == nil {
			return req
		}
		c.dropped(frame, err)
	case workerv1.Frame_KIND_CANCEL:
		req, err := decodeCancel(frame.GetId(), frame.GetPayload())
		if err == nil {
			return req
		}
		c.dropped(frame, err)
	case workerv1.Frame_KIND_DRAIN:
		c.hint.drain()
		c.mu.Lock()
		c.drained = true
		c.mu.Unlock()
		c.answerDrain()
	default:
		c.dropped(frame, nil)
	}
	return nil
}

func (c *conn) receiveRequest(frame *workerv1.Frame) *jsonrpc.Request {
	req, token, err := decodeRequest(frame.GetId(), frame.GetPayload())
	if len(token) == 0 {
		token = strconv.AppendUint(nil, frame.GetId(), 10)
	}
	if err != nil {
		refusal := &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()}
		c.refuse(frame.GetId(), token, encodeError(refusal))
		return nil
	}
	listen := req.Method == methodListen
	if !c.load.begin(!listen) {
		c.refuse(frame.GetId(), token, encodeError(errRefused()))
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil { // abandoned meanwhile
		c.load.end(!listen)
		return nil
	}
	c.calls[int64(frame.GetId())] = call{token: token, size: len(frame.GetPayload()), listen: listen}
	if !listen {
		c.active++
	}
	c.tuner.Hold(len(frame.GetPayload()))
	return req
}

// Write sends a message of the SDK.
func (c *conn) Write(ctx context.Context, msg jsonrpc.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	switch msg := msg.(type) {
	case *jsonrpc.Response:
		return c.writeResponse(msg)
	case *jsonrpc.Request:
		return c.writeCall(msg)
	}
	return fmt.Errorf("sending a message of unknown type %T", msg)
}

func (c *conn) writeResponse(resp *jsonrpc.Response) error {
	n, ok := resp.ID.Raw().(int64)
	c.mu.Lock()
	answered, known := c.calls[n]
	delete(c.calls, n)
	c.mu.Unlock()
	if !ok || !known {
		c.log.Warn("dropped an answer to no request", "id", resp.ID.Raw())
		return nil
	}
	defer c.answered(answered)

	payload, err := encodeResponse(answered.token, resp)
	if err != nil {
		return err
	}
	if limit := c.maxFrame(); len(payload) > limit {
		payload = errorResponse(answered.token, tooLarge("answer", len(payload), limit).RPC())
	}
	return c.send(&workerv1.Frame{Kind: workerv1.Frame_KIND_RESPONSE, Id: uint64(n), Payload: payload})
}

// answered notes that the answer to a call was sent, or cannot be. Only then
// may a drain end, so that DRAINED follows the last answer.
func (c *conn) answered(answered call) {
	c.tuner.Release(answered.size)
	c.load.end(!answered.listen)
	if answered.listen {
		return
	}
	c.mu.Lock()
	c.active--
	c.mu.Unlock()
	c.answerDrain()
}

// answerDrain sends DRAINED once a DRAIN is there and no call is under way.
func (c *conn) answerDrain() {
	c.mu.Lock()
	due := c.drained && c.active == 0
	if due {
		c.drained = false
	}
	c.mu.Unlock()
	if due {
		c.sendOrLog(&workerv1.Frame{Kind: workerv1.Frame_KIND_DRAINED})
	}
}

func (c *conn) writeCall(req *jsonrpc.Request) error {
	payload, err := encodeCall(req)
	if err != nil {
		return err
	}
	if limit := c.maxFrame(); len(payload) > limit {
		return &jsonrpc.Error{Code: codeRejected, Message: tooLarge("message", len(payload), limit).Message}
	}
	frame := &workerv1.Frame{Kind: workerv1.Frame_KIND_NOTIFICATION, Payload: payload}
	if n, ok := req.ID.Raw().(int64); ok {
		frame.Kind, frame.Id = workerv1.Frame_KIND_REQUEST, uint64(n)
	} else if n, ok := cancelledID(req); ok {
		frame.Kind, frame.Id = workerv1.Frame_KIND_CANCEL, n
	}
	return c.send(frame)
}

// refuse answers a request that the SDK does not get to see.
func (c *conn) refuse(n uint64, token, rpcError []byte) {
	c.sendOrLog(&workerv1.Frame{Kind: workerv1.Frame_KIND_RESPONSE, Id: n, Payload: errorResponse(token, rpcError)})
}

// send sends one frame. Its payload must not be touched afterwards.
func (c *conn) send(frame *workerv1.Frame) error {
	c.tuner.Hold(len(frame.GetPayload()))
	defer c.tuner.Release(len(frame.GetPayload()))
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	if c.ended {
		return io.ErrClosedPipe
	}
	return c.stream.Send(frame)
}

func (c *conn) sendOrLog(frame *workerv1.Frame) {
	if err := c.send(frame); err != nil {
		c.log.Debug("frame not sent", "kind", frame.GetKind().String(), "err", err)
	}
}

// end makes last, if not nil, the last frame of the stream; nothing is sent
// after it. A Send that is stuck, because the supervisor has stopped to read,
// is given up after patience; the end of the stream releases it.
func (c *conn) end(last *workerv1.Frame, patience time.Duration) {
	ended := make(chan struct{})
	go func() { // ends with the Send that holds the lock, at the latest with the stream
		defer close(ended)
		c.sendMu.Lock()
		defer c.sendMu.Unlock()
		if last != nil && !c.ended {
			_ = c.stream.Send(last) // a supervisor that is gone needs no last frame
		}
		c.ended = true
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
}

// abandon forgets the calls that can get no answer any more.
func (c *conn) abandon() {
	c.mu.Lock()
	calls := c.calls
	c.calls = nil
	c.mu.Unlock()
	for _, call := range calls {
		c.tuner.Release(call.size)
		c.load.end(!call.listen)
	}
}

func (c *conn) dropped(frame *workerv1.Frame, err error) {
	c.log.Warn("dropped a frame", "kind", frame.GetKind().String(), "id", frame.GetId(), "err", err)
}

// errRefused is the answer to a request that came after the last one.
func errRefused() *jsonrpc.Error {
	e := protocol.NewError(protocol.WorkerUnavailable, "the worker is about to be replaced; the request was not executed")
	data, err := json.Marshal(e)
	if err != nil { // strings, numbers and booleans can always be marshalled
		panic(err)
	}
	return &jsonrpc.Error{Code: int64(e.Kind.Code()), Message: e.Message, Data: data}
}

func tooLarge(what string, size, limit int) *protocol.Error {
	return protocol.NewError(protocol.FrameTooLarge,
		fmt.Sprintf("%s of %d bytes exceeds the limit of %d bytes", what, size, limit))
}

// errorResponse composes a response from a raw id and a raw error value.
func errorResponse(token, rpcError []byte) []byte {
	return fmt.Appendf(nil, `%s%s,"error":%s}`, idPrefix, token, rpcError)
}

// encodeError returns the raw value of an error member.
func encodeError(e *jsonrpc.Error) []byte {
	data, err := json.Marshal(e)
	if err != nil { // a number and a string can always be marshalled
		panic(err)
	}
	return data
}
