package session

import (
	"bytes"
	"strconv"

	"github.com/holdfast-mcp/holdfast/internal/envelope"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/catalog"
)

// Shape is what a client says of itself and its answers may depend on (SEC-2).
type Shape struct {
	// Modern: it speaks with per-request _meta, not after initialize.
	Modern bool
	// Version that it asks for.
	Version string
	// Capabilities is the raw JSON object, "" if there is none.
	Capabilities string
	// Name of the client.
	Name string
}

// Memory has what a client of one shape was answered in an earlier run of the
// command. It serves the start alone and proves nothing (CAT-6).
type Memory struct {
	// Initialize and Discover are raw results, nil if none is known.
	Initialize []byte
	Discover   []byte
	// Lists has raw results with all items of a list, nil where none is known.
	Lists [catalog.Kinds][]byte
}

// Known is what is known of a server.
type Known uint8

// What can be known.
const (
	Unknown Known = iota
	Yes
	No
)

// Traits are what kind of server a command turned out to be.
type Traits struct {
	// Legacy: it answers initialize. Modern: it answers server/discover.
	Legacy Known
	Modern Known
	// DiesOfProbe: it ends when it is asked anything before initialize.
	DiesOfProbe bool
}

// probed says what became of the server/discover that a link was given.
type probed uint8

const (
	notProbed probed = iota
	// probeOpen: it is not answered.
	probeOpen
	// probeRefused: it was answered with an error.
	probeRefused
	// probeAccepted: it was answered with success.
	probeAccepted
)

// shapeOf returns the shape of the client that sent a request, false if the
// request does not tell.
func shapeOf(r *request) (Shape, bool) {
	text := func(path ...string) string {
		span, ok := envelope.Find(r.params, path...)
		if !ok {
			return ""
		}
		raw := span.Of(r.params)
		if s, err := strconv.Unquote(string(raw)); err == nil {
			return s
		}
		return string(raw)
	}
	switch {
	case r.modern:
		return Shape{
			Modern: true, Version: text("_meta", metaVersion),
			Capabilities: text("_meta", metaCapabilities), Name: text("_meta", metaClientInfo, "name"),
		}, true
	case r.method == methodInitialize:
		return Shape{Version: text("protocolVersion"), Capabilities: text("capabilities"), Name: text("clientInfo", "name")}, true
	}
	return Shape{}, false
}

// recalls reports whether the caller has to look up what a client of this kind
// was answered before, and notes that it does. Clients do not change, but one
// may fall back from server/discover to initialize.
func (s *Session) recalls(r *request, out *Output) bool {
	greets := r.method == methodInitialize || r.method == methodDiscover
	if s.told.initialize != nil || s.shaped && !greets || metaFault(r.params) != nil {
		return false
	}
	shape, ok := shapeOf(r)
	if !ok || s.shaped && shape == s.shape {
		return false
	}
	s.shape, s.shaped, s.memory = shape, true, Memory{}
	s.recalling = r
	out.Recall = true
	return true
}

// Shape returns the shape of the client, as far as it is known.
func (s *Session) Shape() Shape { return s.shape }

// Memory returns what is known of a link's worker, for this client. The caller
// must not change the values.
func (s *Session) Memory(of Link) Memory {
	if l := s.links[of]; l != nil {
		return l.memory
	}
	return Memory{}
}

// Traits returns what kind of server the command turned out to be.
func (s *Session) Traits() Traits { return s.traits }

// remember has the caller write down what a link's worker has answered.
func (s *Session) remember(of Link, out *Output) {
	if of == s.serving {
		s.memory = s.links[of].memory
	}
	if s.shaped {
		out.Remember = of
	}
}

// rememberList keeps a whole list of the serving worker, or none in place of what
// it was before if it is too large.
func (s *Session) rememberList(kind catalog.Kind, list *catalog.Listing, out *Output) {
	l := s.links[s.serving]
	result, _ := list.Result(kind)
	if bytes.Equal(result, l.memory.Lists[kind]) {
		return
	}
	l.memory.Lists[kind] = result
	s.remember(s.serving, out)
}

// answerList answers a request for a list from memory while no worker serves.
// It reports false if it cannot; the list is never empty by haste (CAT-3).
func (s *Session) answerList(r *request, out *Output) bool {
	kind, ok := catalog.OfMethod(r.method)
	if !ok || s.serving != 0 && !s.unproven(r) || r.gone || r.modern != s.shape.Modern || s.memory.Lists[kind] == nil {
		return false
	}
	if !r.modern && (s.told.initialize == nil || s.told.pending != nil) {
		return false // the answer to initialize comes first
	}
	if catalog.Cursor(r.params, "cursor") != nil {
		return false
	}
	s.forget(r)
	if kind == catalog.Tools {
		s.learnNames(true, s.memory.Lists[kind])
	}
	out.line(resultLine(r.id, s.withOurs(r.method, s.memory.Lists[kind])))
	s.learnList(kind, r, s.memory.Lists[kind], out)
	return true
}

// answerHeldLists answers the requests for lists that wait.
func (s *Session) answerHeldLists(out *Output) {
	s.dropQueued(func(r *request) bool { return s.answerList(r, out) })
}
