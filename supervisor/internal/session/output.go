package session

import "github.com/holdfast-mcp/holdfast/protocol"

// Link names one Session stream to one worker generation.
type Link uint64

// Kind is the kind of a Frame; the values are those of workerv1.Frame_Kind.
type Kind uint8

// Kinds of frames that a session sends or understands.
const (
	Request      Kind = 1
	Response     Kind = 2
	Notification Kind = 3
	Cancel       Kind = 4
	Drain        Kind = 5
)

// Frame is one frame of the worker wire.
type Frame struct {
	Kind Kind
	// ID is the number of the request that the frame is or refers to.
	ID uint64
	// Payload is one JSON-RPC message; it is not changed by the session once
	// it stands in an Output.
	Payload []byte
}

// Outgoing is a frame for a link.
type Outgoing struct {
	Link  Link
	Frame Frame
	// Held: the request has waited, within the bounds of what may wait, and is
	// to be taken although much is sent at once.
	Held bool
}

// Side is a link to open beside another one, to the same worker.
type Side struct{ Link, Beside Link }

// Output is what the caller has to do after an event, in this order. Calls
// append to it, so one Output can be used again after Reset.
type Output struct {
	// Lines for the client, without line feed. The caller owns them.
	Lines [][]byte
	// Frames for links.
	Frames []Outgoing
	// Open lists side links to open, before Frames; SideLost tells of one that
	// cannot be, or ends by itself. Closed lists side links to close.
	Open   []Side
	Closed []Link
	// Controls lists calls of our own tools, to be answered by Controlled.
	Controls []ControlCall
	// Ready is the link that could begin to serve, or did; 0 if none could.
	Ready Link
	// Renew is the link to replace by a fresh one to the same worker, 0 if there
	// is none (EDGE-7).
	Renew Link
	// Recall: the caller looks up the Memory of Session.Shape and hands it to
	// Recalled before anything else happens.
	Recall bool
	// Remember is the link whose command the caller should remember Traits and,
	// for Shape, Memory of; 0 if nothing has changed.
	Remember Link
	// Demand: a request waits that wants a worker to be started.
	Demand bool
	// Refused is the link whose worker cannot serve this client, with the
	// reason.
	Refused       Link
	RefusedReason string
	// Notices are for the log.
	Notices []Notice
}

// Notice is something that the session did with a message other than passing
// it on, for the log.
type Notice struct {
	What   string
	Method string
	// ID is the client's raw id token, if there is one.
	ID string
	// Warn: people should see it without asking for details.
	Warn bool
}

// Reset empties o and keeps its memory.
func (o *Output) Reset() {
	clear(o.Lines)
	clear(o.Frames)
	*o = Output{Lines: o.Lines[:0], Frames: o.Frames[:0], Notices: o.Notices[:0]}
}

func (o *Output) line(b []byte) { o.Lines = append(o.Lines, b) }

func (o *Output) frame(l Link, k Kind, id uint64, payload []byte) {
	o.Frames = append(o.Frames, Outgoing{Link: l, Frame: Frame{k, id, payload}})
}

func (o *Output) notice(what, method string, id []byte) {
	o.Notices = append(o.Notices, Notice{What: what, Method: method, ID: string(id)})
}

func (o *Output) warn(what, method string, id []byte) {
	o.Notices = append(o.Notices, Notice{What: what, Method: method, ID: string(id), Warn: true})
}

// Loss says why a link is gone and what of it never reached the worker.
type Loss struct {
	// Generation, Exit and StderrTail are passed on to the client.
	Generation uint64
	Exit       *protocol.Exit
	StderrTail []string
	// Cause completes the sentence "the server ...", such as "exited with
	// code 3".
	Cause string
	// Unsent lists the requests that were never put on the stream.
	Unsent []uint64
}
