package session

import (
	"bytes"
	"math"
	"strconv"
	"time"

	"github.com/holdfast-mcp/holdfast/internal/envelope"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/catalog"
)

// largeResult is how many bytes the stdio transport of the TypeScript SDK takes,
// about, before it gives up (EDGE-4).
const largeResult = 10_000_000

const subscriptionKey = "io.modelcontextprotocol/subscriptionId"

// Frame takes one frame of a link. Frames of a link that is gone are dropped.
func (s *Session) Frame(from Link, f Frame, out *Output) {
	if sd := s.watched.sides[from]; sd != nil {
		s.sideFrame(from, sd, f, out)
		return
	}
	l := s.links[from]
	if l == nil {
		out.notice("dropped a frame of an older worker", "", nil)
		return
	}
	if f.Kind == Response {
		s.frameAnswer(from, l, f, out)
		return
	}
	if s.tooEarly(l) {
		if len(l.early) < maxEarly && l.earlySize+len(f.Payload) <= maxEarlyBytes {
			l.early = append(l.early, f)
			l.earlySize += len(f.Payload)
		} else {
			out.notice("dropped a message: too many before the initialize answer", "", nil)
		}
		return
	}
	s.frameUp(from, l, f, out)
}

// tooEarly reports whether the client may not hear from the worker yet: its
// first initialize is not answered, or it was answered and what came before
// the answer still waits for the client's initialized (C28).
func (s *Session) tooEarly(l *link) bool {
	switch {
	case s.told.initialized != nil:
		return false
	case l.phase < serving:
		return s.told.early != EarlyNot
	}
	return s.told.pending != nil || len(l.early) > 0
}

// releaseEarly passes on what a worker said before the client was ready.
func (s *Session) releaseEarly(from Link, out *Output) {
	l := s.links[from]
	if l == nil {
		return
	}
	early := l.early
	l.early = nil
	for _, f := range early {
		s.frameUp(from, l, f, out)
	}
}

// frameUp passes a request, notification or cancel of a worker to the client.
func (s *Session) frameUp(from Link, l *link, f Frame, out *Output) {
	env, err := envelope.Peek(f.Payload)
	if err != nil {
		out.notice("dropped an illegal message of the worker: "+err.Error(), env.Method, nil)
		return
	}
	switch {
	case f.Kind == Request && env.Kind == envelope.Request:
		s.frameQuestion(from, f, env, out)
	case f.Kind == Cancel && env.Kind == envelope.Notification:
		s.frameCancel(from, f, env, out)
	case f.Kind == Notification && env.Kind == envelope.Notification:
		s.frameNotification(from, l, f, env, out)
	default:
		out.notice("dropped a frame whose kind is not that of its message", env.Method, nil)
	}
}

// frameQuestion gives a request of a worker a number that no other request to
// this client ever has: workers of all generations count from the start.
func (s *Session) frameQuestion(from Link, f Frame, env envelope.Envelope, out *Output) {
	if s.lastAsked == math.MaxInt32 || len(s.asked) >= maxAsked {
		out.notice("refused a request of the worker: the client leaves too many unanswered", env.Method, nil)
		out.frame(from, Response, f.ID, rpcErrorLine(env.ID.Of(f.Payload), -32603, "the client leaves too many requests unanswered"))
		return
	}
	s.lastAsked++
	s.asked[s.lastAsked] = question{from, f.ID}
	out.line(envelope.Splice(f.Payload, env.ID, strconv.AppendInt(nil, int64(s.lastAsked), 10)))
}

// frameCancel passes on that a worker no longer waits for the client's answer.
func (s *Session) frameCancel(from Link, f Frame, env envelope.Envelope, out *Output) {
	asked, ok := s.askedBy(from, f.ID)
	params := env.Params.Of(f.Payload)
	span, found := envelope.Find(params, "requestId")
	if !ok || !found {
		out.notice("ignored a cancel of the worker: no such request", env.Method, nil)
		return
	}
	delete(s.asked, asked)
	out.line(envelope.Splice(f.Payload, within(env.Params, span), strconv.AppendInt(nil, int64(asked), 10)))
}

func (s *Session) askedBy(from Link, id uint64) (int32, bool) {
	for n, q := range s.asked {
		if q == (question{from, id}) {
			return n, true
		}
	}
	return 0, false
}

func (s *Session) frameNotification(from Link, l *link, f Frame, env envelope.Envelope, out *Output) {
	params := env.Params.Of(f.Payload)
	switch {
	case env.Method == noteProgress:
		// Progress of a finished request makes clients close the transport.
		span, ok := envelope.Find(params, "progressToken")
		if !ok || !s.waitsFor(from, envelope.IDKey(span.Of(params))) {
			out.notice("swallowed progress: nobody waits for it", env.Method, nil)
			return
		}
	case s.unionNotification(from, f.Payload, env, out):
		return
	case env.Method == noteUpdated && s.told.initialize != nil:
		if l.phase == serving { // that of another worker is not the client's (SUP-7)
			s.connectionUpdated(params, f.Payload, out)
		}
		return
	case isListChanged(env.Method) && !s.listChanged(l, env.Method):
		return // that of another worker is not the client's (SUP-7)
	case env.Method == noteCancelled:
		out.notice("dropped a cancel outside a CANCEL frame", env.Method, nil)
		return
	}
	payload, ok := s.translateSubscription(from, f.Payload, env.Params)
	if !ok {
		out.notice("dropped a notification of a subscription that is gone", env.Method, nil)
		return
	}
	out.line(payload)
}

// waitsFor reports whether a progress token belongs to a request that this
// link has and has not answered.
func (s *Session) waitsFor(from Link, token string) bool {
	r := s.sent[s.byToken[token]]
	return r != nil && r.link == from
}

// translateSubscription puts the client's id of a listen in place of the
// number by which the worker knows it, in the _meta of value. It reports false
// if the number names no listen of this link.
func (s *Session) translateSubscription(from Link, payload []byte, value envelope.Span) ([]byte, bool) {
	raw := value.Of(payload)
	if !bytes.Contains(raw, []byte(subscriptionKey)) {
		return payload, true
	}
	span, ok := envelope.Find(raw, "_meta", subscriptionKey)
	if !ok {
		return payload, true
	}
	n, err := strconv.ParseUint(string(span.Of(raw)), 10, 64)
	r := s.sent[n]
	if err != nil || r == nil || r.link != from || r.gone {
		return nil, false
	}
	return envelope.Splice(payload, within(value, span), r.id), true
}

// within returns the span, in the payload, of what stands at span in a value.
func within(value, span envelope.Span) envelope.Span {
	return envelope.Span{Start: value.Start + span.Start, End: value.Start + span.End}
}

// frameAnswer takes the answer to a request of the client, or of our own.
func (s *Session) frameAnswer(from Link, l *link, f Frame, out *Output) {
	if s.watchAnswered(from, f.ID, f.Payload, out) {
		l.spoke = true
		return
	}
	if call, ok := s.own[f.ID]; ok && call.link == from {
		delete(s.own, f.ID)
		s.ownAnswer(call, l, f.Payload, out)
		return
	}
	r := s.sent[f.ID]
	if r == nil || r.link != from {
		out.notice("dropped a late answer", "", nil)
		return
	}
	l.spoke = l.spoke || r.method != methodDiscover
	line, env, ok := answerLine(r, f.Payload, out)
	if ok && r.method == methodInitialize && !s.initializeAnswered(from, l, r, env, out) {
		return
	}
	s.forget(r)
	if ok && isProbe(r) {
		s.probeAnswered(from, l, r, f.Payload, env, out)
	}
	switch {
	case !r.answered:
		s.answer(r, line, f.Payload, env, ok && env.Kind == envelope.Response, out)
	case r.gone:
		out.notice("dropped a late answer", "", nil)
	}
	if r.method == methodInitialize {
		s.flush(out)
		s.prepareWaiting(out)
	}
}

// answer gives the client a worker's answer, and learns from its result.
func (s *Session) answer(r *request, line, payload []byte, env envelope.Envelope, success bool, out *Output) {
	if success && s.limits.Controls {
		line = s.oursInLine(r, line, payload, env)
	}
	if len(line) > largeResult {
		out.warn("large result, "+strconv.Itoa(len(line))+" bytes: common clients end the connection at 10 MB", r.method, r.id)
	}
	out.line(line)
	if success {
		s.learn(r, env.Result.Of(payload), out)
	}
}

// oursInLine returns the line that answers r, with our tools where they belong.
func (s *Session) oursInLine(r *request, line, payload []byte, env envelope.Envelope) []byte {
	result := env.Result.Of(payload)
	if r.method == methodToolsList {
		s.learnNames(catalog.Cursor(r.params, "cursor") == nil, result)
	}
	if ours := s.withOurs(r.method, result); len(ours) != len(result) {
		return resultLine(r.id, ours)
	}
	return line
}

// ownAnswer takes the answer to a request of our own.
func (s *Session) ownAnswer(call ownCall, l *link, payload []byte, out *Output) {
	l.spoke = l.spoke || call.method != methodDiscover
	kind, isList := catalog.OfMethod(call.method)
	switch {
	case call.method == methodInitialize:
		s.replayed(call.link, l, payload, out)
	case call.method == methodDiscover:
		s.rediscovered(call.link, l, payload, out)
	case isList:
		s.listed(call, l, kind, payload, out)
	}
}

// answerLine returns the line that answers r with a worker's payload: the
// payload itself with the client's own id, which stands in the result of a
// listen too, and the envelope of the payload. An answer that is no legal message
// becomes an internal error for that id.
func answerLine(r *request, payload []byte, out *Output) ([]byte, envelope.Envelope, bool) {
	env, err := envelope.Peek(payload)
	if err == nil && !env.Kind.IsAnswer() {
		err = envelope.ErrInvalid
	}
	if err != nil {
		out.notice("the worker's answer is no legal message: "+err.Error(), r.method, r.id)
		return rpcErrorLine(r.id, -32603, "the server's answer is no legal JSON-RPC response: "+err.Error()), env, false
	}
	line, id := payload, env.ID
	if r.method == methodListen && env.Kind == envelope.Response {
		if span, ok := envelope.Find(env.Result.Of(payload), "_meta", subscriptionKey); ok {
			line = envelope.Splice(line, within(env.Result, span), r.id)
			if id.Start > env.Result.Start {
				id = within(envelope.Span{Start: len(line) - len(payload)}, id)
			}
		}
	}
	if !bytes.Equal(id.Of(line), r.id) {
		line = envelope.Splice(line, id, r.id)
	}
	return line, env, true
}

// learn remembers what later workers have to be told, and what the client has
// seen.
func (s *Session) learn(r *request, result []byte, out *Output) {
	if kind, ok := catalog.OfMethod(r.method); ok {
		s.learnCursor(r.link, result)
		s.learnList(kind, r, result, out)
	}
	if r.modern {
		s.openChain(r.link, result)
		s.learnEra(r)
	}
	switch r.method {
	case methodInitialize:
		s.told.initialize = r.payload
		s.told.version = protocolVersion(result)
		s.told.early = EarlyNot
		s.learnOffers(result)
		s.links[r.link].memory.Initialize = result
		s.shaken(r.link, s.links[r.link], result, out)
	case methodToolsList:
		s.learnTools(result)
	case methodSetLevel:
		s.told.setLevel = r.params
		s.links[r.link].level = r.params
	}
}

// shaken notes what a worker has answered to initialize.
func (s *Session) shaken(of Link, l *link, result []byte, out *Output) {
	l.shaken, l.greeted = true, time.Time{}
	l.offers = offersOf(result)
	s.traits.Legacy = Yes
	if s.deadly {
		s.traits.DiesOfProbe = true
	}
	s.remember(of, out)
}

func protocolVersion(result []byte) string {
	span, ok := envelope.Find(result, "protocolVersion")
	if !ok || span.End-span.Start < 2 {
		return ""
	}
	return string(result[span.Start+1 : span.End-1])
}
