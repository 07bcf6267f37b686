// Package envelope looks at one JSON-RPC message without decoding it: what
// kind it is, its method, and where in the line its id, params, result and
// error stand. What is inside those values is passed on byte for byte.
//
//	env, err := envelope.Peek(line)
//	...
//	down := envelope.Splice(line, env.ID, []byte("17"))
//
// [Peek] is strict, since a line that two readers understand differently must
// not be forwarded (EDGE-3, SEC-6), and costs one pass without allocation.
// [Find] and [Members] go into a value, [Split] takes a batch apart.
//
// All functions are pure and safe for concurrent use. The package does not
// unmarshal, compose answers, or know what any method means.
package envelope

import "errors"

// MaxDepth is the deepest nesting of objects and arrays that [Peek] and
// [Split] accept, as in go-sdk. The message itself is the first level.
const MaxDepth = 1000

// MaxBatch is the largest number of messages that [Split] accepts, so that a
// batch of tiny elements does not cost many times its size in spans.
const MaxBatch = 4096

var (
	// ErrParse is returned when the bytes are no JSON text in UTF-8: broken,
	// truncated, empty, or followed by more (JSON-RPC -32700).
	ErrParse = errors.New("not a JSON text")
	// ErrNotObject is returned when the message is a JSON string, number,
	// boolean or null.
	ErrNotObject = errors.New("message is not an object")
	// ErrBatch is returned when the message is a well-formed array, which
	// [Split] takes apart.
	ErrBatch = errors.New("message is a batch")
	// ErrInvalid is returned when the object is no JSON-RPC 2.0 message, or
	// the array no acceptable batch (JSON-RPC -32600).
	ErrInvalid = errors.New("not a JSON-RPC 2.0 message")
	// ErrAmbiguous is returned when a member that decides about the message
	// occurs twice or in another spelling, as "ID" for "id" (SEC-6).
	ErrAmbiguous = errors.New("ambiguous member name")
	// ErrDepth is returned when nesting exceeds [MaxDepth].
	ErrDepth = errors.New("nested too deeply")
)

// Kind is what a message is.
type Kind uint8

// Kinds of messages. Unknown is for what [Peek] refuses and cannot tell.
const (
	Unknown Kind = iota
	Request
	Notification
	Response
	ErrorResponse
)

func (k Kind) String() string {
	switch k {
	case Request:
		return "request"
	case Notification:
		return "notification"
	case Response:
		return "response"
	case ErrorResponse:
		return "error response"
	default:
		return "unknown"
	}
}

// IsAnswer reports whether k answers a request. An answer is never answered,
// however malformed.
func (k Kind) IsAnswer() bool { return k == Response || k == ErrorResponse }

// Span is a half-open range of bytes. The zero Span means absent.
type Span struct{ Start, End int }

// Of returns the bytes of b in the span, without capacity beyond them.
func (s Span) Of(b []byte) []byte { return b[s.Start:s.End:s.End] }

// IsZero reports whether the span is absent.
func (s Span) IsZero() bool { return s == Span{} }

// Envelope says what a message is and where its parts stand in the line.
type Envelope struct {
	Kind Kind
	// Method is decoded; MethodSpan is its raw token with the quotes.
	Method string
	// ID is the raw token, a string or a number.
	ID, MethodSpan, Params, Result, Error Span
}

// Peek examines the one message in line. It returns no error if and only if
// line is JSON in valid UTF-8, nested at most [MaxDepth] deep, and its value
// an object with "jsonrpc": "2.0", each deciding member at most once, that is
// one of
//
//	request       id (string or number), method, params if present object or array
//	notification  the same without id
//	response      id, result
//	error         id, error (an object)
//
// Further members and any order are allowed. An error answer with a null or
// absent id belongs to no request and is ErrInvalid with its Kind.
//
// With an error the Envelope still has the Kind if it shows, and the ID if
// there is one legal id. Under [ErrParse] both come from before the fault, or,
// if only the encoding is bad, from the whole line. A message with a method
// and also a result or error has neither: whose id it would be is unknown.
func Peek(line []byte) (Envelope, error) {
	s := scanner{b: line}
	s.space()
	if s.peek() != '{' {
		return Envelope{}, s.noObject()
	}
	var m members
	ok := m.scan(&s) && s.end()
	env := m.envelope(line)
	switch {
	case s.deep:
		return env, ErrDepth
	case !ok || !s.validUTF8():
		return env, ErrParse
	case m.ambiguous != 0:
		return env, ErrAmbiguous
	case !m.legal(line, env.Kind):
		return env, ErrInvalid
	}
	env.Method = method(m.span[nameMethod].Of(line))
	return env, nil
}

// noObject tells apart what may stand in place of an object.
func (s *scanner) noObject() error {
	batch := s.peek() == '['
	ok := s.value(0) && s.end()
	switch {
	case s.deep:
		return ErrDepth
	case !ok || !s.validUTF8():
		return ErrParse
	case batch:
		return ErrBatch
	}
	return ErrNotObject
}

// Split returns the spans of the elements of batch, a JSON array of at most
// [MaxBatch] of anything. It returns ErrParse or ErrDepth as [Peek] does, and
// ErrInvalid if batch is another value or has too many elements.
func Split(batch []byte) ([]Span, error) {
	s := scanner{b: batch}
	s.space()
	if s.peek() != '[' {
		if ok := s.value(0) && s.end(); !ok || !s.validUTF8() {
			return nil, ErrParse
		}
		return nil, ErrInvalid
	}
	var spans []Span
	n := 0
	more, ok := s.enter(']'), true
	for more && ok {
		start := s.i
		if ok = s.value(1); ok {
			if n++; n <= MaxBatch {
				spans = append(spans, Span{start, s.i})
			}
			more, ok = s.more(']')
		}
	}
	ok = ok && s.end()
	switch {
	case s.deep:
		return nil, ErrDepth
	case !ok || !s.validUTF8():
		return nil, ErrParse
	case n > MaxBatch:
		return nil, ErrInvalid
	}
	return spans, nil
}
