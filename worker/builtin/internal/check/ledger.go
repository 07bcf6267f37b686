package check

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/holdfast-mcp/holdfast/internal/envelope"
	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
)

// keptFaults is how many faults are kept to be shown.
const keptFaults = 3

// ledger judges the frames of all sessions. It is safe for concurrent use.
type ledger struct {
	mu     sync.Mutex
	frames int
	faults []string
	count  int // of all faults
}

func (l *ledger) fault(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count++; len(l.faults) < keptFaults {
		l.faults = append(l.faults, fmt.Sprintf(format, args...))
	}
}

// judge notes what is wrong with one frame of the worker by itself.
func (l *ledger) judge(frame *workerv1.Frame) {
	l.mu.Lock()
	l.frames++
	l.mu.Unlock()
	if fault := faultOf(frame); fault != "" {
		l.fault("%s: %s: %.80q", kindName(frame.GetKind()), fault, frame.GetPayload())
	}
}

// faultOf returns what is wrong with a frame from a worker, or nothing. Frames
// of unknown kinds, which a newer worker may send, are not looked into.
func faultOf(frame *workerv1.Frame) string {
	payload := frame.GetPayload()
	var want []envelope.Kind
	switch frame.GetKind() {
	case workerv1.Frame_KIND_REQUEST:
		want = []envelope.Kind{envelope.Request}
	case workerv1.Frame_KIND_RESPONSE:
		want = []envelope.Kind{envelope.Response, envelope.ErrorResponse}
	case workerv1.Frame_KIND_NOTIFICATION, workerv1.Frame_KIND_CANCEL:
		want = []envelope.Kind{envelope.Notification}
	case workerv1.Frame_KIND_DRAIN:
		return "only supervisors send it"
	case workerv1.Frame_KIND_DRAINED, workerv1.Frame_KIND_EXIT:
		if len(payload) > 0 {
			return "it has a payload"
		}
		return ""
	default:
		return ""
	}
	if bytes.IndexByte(payload, '\n') >= 0 {
		return "more than one line"
	}
	env, err := envelope.Peek(payload)
	if err != nil {
		return err.Error()
	}
	matches := false
	for _, kind := range want {
		matches = matches || env.Kind == kind
	}
	if !matches {
		return fmt.Sprintf("its payload is a %s", env.Kind)
	}
	return cancelFault(frame, env)
}

// cancelFault tells whether a cancellation travels as one.
func cancelFault(frame *workerv1.Frame, env envelope.Envelope) string {
	const method = "notifications/cancelled"
	if frame.GetKind() != workerv1.Frame_KIND_CANCEL {
		if env.Method == method {
			return "a cancellation has to be a CANCEL"
		}
		return ""
	}
	if env.Method != method {
		return "its payload is no " + method
	}
	if _, ok := envelope.Find(env.Params.Of(frame.GetPayload()), "requestId"); !ok {
		return "its params have no requestId"
	}
	return ""
}

// verdict is the finding over all frames.
func (l *ledger) verdict() finding {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.frames == 0:
		return skip("no frame came")
	case l.count > 0:
		return fail("%d of %d frames: %s", l.count, l.frames, joined(l.faults, l.count))
	}
	return ok("%d frames", l.frames)
}

// kindName is a frame's kind as the documentation has it.
func kindName(kind workerv1.Frame_Kind) string {
	return string(bytes.TrimPrefix([]byte(kind.String()), []byte("KIND_")))
}
