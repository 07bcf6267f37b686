package session

import (
	"bytes"
	"errors"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/holdfast-mcp/holdfast/internal/envelope"
	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/catalog"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/lease"
)

// Receive takes one line of the client, without its terminator. The session
// owns the slice from here on.
func (s *Session) Receive(line []byte, now time.Time, out *Output) {
	env, err := envelope.Peek(line)
	switch {
	case errors.Is(err, envelope.ErrBatch) && s.told.version == "2025-03-26":
		s.receiveBatch(line, now, out)
	case err != nil:
		s.reject(line, env, err, out)
	default:
		s.receive(line, env, now, out)
	}
}

func (s *Session) receive(line []byte, env envelope.Envelope, now time.Time, out *Output) {
	switch env.Kind {
	case envelope.Request:
		s.receiveRequest(line, env, now, out)
	case envelope.Notification:
		s.receiveNotification(line, env, out)
	default:
		s.receiveAnswer(line, env, out)
	}
}

// receiveBatch takes the elements of a JSON-RPC batch one by one. Only the
// 2025-03-26 revision has batches; it forbids initialize in them (EDGE-3).
func (s *Session) receiveBatch(line []byte, now time.Time, out *Output) {
	spans, err := envelope.Split(line)
	if err != nil || len(spans) == 0 {
		out.line(invalidLine(nil, "a batch must be an array of at least one message"))
		return
	}
	for _, span := range spans {
		element := span.Of(line)
		env, err := envelope.Peek(element)
		switch {
		case err != nil:
			s.reject(element, env, err, out)
		case env.Method == methodInitialize:
			out.line(invalidLine(s.unused(env.ID.Of(element)), "initialize must not be part of a batch"))
		default:
			s.receive(append(make([]byte, 0, len(element)+1), element...), env, now, out)
		}
	}
}

// reject answers a line that is no legal message, or drops it where an answer
// would be taken for something else. Nothing of it reaches a worker (EDGE-3).
func (s *Session) reject(line []byte, env envelope.Envelope, err error, out *Output) {
	var id []byte
	if !env.ID.IsZero() {
		id = env.ID.Of(line)
	}
	out.notice("rejected a line of the client: "+err.Error(), env.Method, id)
	switch {
	case env.Kind.IsAnswer():
	case errors.Is(err, envelope.ErrParse):
		out.line(rpcErrorLine(nil, -32700, "Parse error: "+err.Error()))
	default:
		out.line(invalidLine(s.unused(id), err.Error()))
	}
}

// unused returns id, or nil if a request under way has it: that one gets an
// answer of its own (EDGE-1).
func (s *Session) unused(id []byte) []byte {
	if _, used := s.byID[envelope.IDKey(id)]; used {
		return nil
	}
	return id
}

func (s *Session) receiveRequest(line []byte, env envelope.Envelope, now time.Time, out *Output) {
	id, params := env.ID.Of(line), env.Params.Of(line)
	key := envelope.IDKey(id)
	if _, dup := s.byID[key]; dup {
		out.notice("dropped a request whose id is in use", env.Method, id)
		out.line(invalidLine(nil, "request id "+string(id)+" is already in use"))
		return
	}
	s.mute(key)
	modern := isModern(params)
	if env.Method == methodPing && !modern {
		out.line(resultLine(id, []byte("{}")))
		return
	}
	if s.refusesMeta(id, params, out) {
		return
	}
	r := &request{
		number: s.number(), id: id, key: key, method: env.Method, payload: line, params: params,
		token: progressToken(params), modern: modern, arrived: now, since: now,
	}
	if !s.recalls(r, out) {
		s.admit(r, now, out)
	}
}

// Recalled hands over what Output.Recall has asked for; the zero Memory if
// nothing is known.
func (s *Session) Recalled(m Memory, now time.Time, out *Output) {
	r := s.recalling
	s.recalling, s.memory = nil, m
	for _, l := range s.links {
		if !l.another {
			l.memory = m
		}
	}
	s.admit(r, now, out)
}

// admit decides what becomes of a request: it is answered, refused, sent or
// held.
func (s *Session) admit(r *request, now time.Time, out *Output) {
	if s.answeredHere(r, now, out) {
		return
	}
	out.Demand = out.Demand || s.limits.Lazy && s.serving == 0 && needsWorker(r.method)
	if on := s.nextOfChain(r); on != 0 {
		s.expect(r)
		s.put(r, on, out)
		return
	}
	fresh := r.method == methodInitialize && s.spoilt()
	waits := fresh || s.mustWait(r)
	if waits && (s.queued >= s.limits.HoldRequests || s.queueSize+len(r.payload) > s.limits.HoldBytes) {
		s.refuse(r, protocol.NewError(protocol.WorkerUnavailable,
			"too many requests wait for the server; this one was not executed"), out)
		return
	}
	s.expect(r)
	if !waits {
		s.send(r, out)
		return
	}
	if r.method == methodInitialize && s.told.pending == nil {
		s.told.pending = r
	}
	s.enqueue(r)
	if fresh {
		s.renew(s.serving, out)
	}
	s.flush(out)
}

// mustWait reports whether no worker can take a request now.
func (s *Session) mustWait(r *request) bool {
	return s.serving == 0 || s.told.pending != nil || s.unproven(r)
}

// answeredHere answers a request that is not for a worker, or not now.
func (s *Session) answeredHere(r *request, now time.Time, out *Output) bool {
	switch {
	case s.takesControl(r, out):
		return true
	case r.method == methodInitialize:
		s.settleProbes("the client went on with initialize", out)
	case isProbe(r) && s.knowsLegacy() && s.told.initialize == nil:
		s.refuseProbe(r, "the server speaks the protocol of initialize", out)
		return true
	}
	if s.down != nil && now.Before(s.demandAt) {
		s.answerDown(r, out)
		return true
	}
	if s.down != nil {
		s.down, out.Demand = nil, true
	}
	return s.answerList(r, out)
}

// isProbe reports whether a request asks for the modern era.
func isProbe(r *request) bool { return r.method == methodDiscover && r.modern }

// expect notes that the client waits for the answer to a request.
func (s *Session) expect(r *request) {
	s.byID[r.key] = r.number
	if r.token != "" {
		s.byToken[r.token] = r.number
	}
	if isProbe(r) && s.told.initialize == nil {
		s.probes = append(s.probes, r)
	}
}

// mute keeps the late answer to a cancelled request from a client that uses its
// id again: it would be taken for one to the new request.
func (s *Session) mute(key string) {
	for _, number := range s.forlorn {
		if r := s.sent[number]; r != nil && r.gone && r.key == key {
			r.answered = true
		}
	}
	for _, r := range s.watched.listens {
		r.answered = r.answered || r.gone && r.key == key
	}
}

// send puts a request on the serving link.
func (s *Session) send(r *request, out *Output) {
	if s.staleCursor(r) {
		s.forget(r)
		out.line(rpcErrorLine(r.id, -32602, "Invalid cursor: it is of an earlier run of the server; list again from the beginning"))
		return
	}
	if s.answerLost(r, out) || s.refusesStale(r, out) {
		return
	}
	switch {
	case r.method == methodListen && !r.modern:
		s.forget(r)
		out.line(rpcErrorLine(r.id, -32601, "Method not found: subscriptions/listen needs the _meta of its protocol version"))
		return
	case s.watches(r):
		s.watch(r, out)
		return
	}
	s.put(r, s.serving, out)
}

// put puts a request on a link.
func (s *Session) put(r *request, on Link, out *Output) {
	s.settle(r)
	r.link = on
	r.attempts++
	s.sent[r.number] = r
	if r.method != methodListen {
		r.active = true
		s.links[r.link].active++
	}
	switch r.method {
	case methodInitialize:
		s.told.pending = r
	case methodDiscover:
		if l := s.links[r.link]; isProbe(r) && l.probe == notProbed {
			l.probe = probeOpen
		}
	}
	out.frame(r.link, Request, r.number, r.payload)
}

// flush sends what waits, up to and including an initialize: what follows it
// has to wait for its answer.
func (s *Session) flush(out *Output) {
	for len(s.queue) > 0 && s.serving != 0 {
		if p := s.told.pending; p != nil && p.link != 0 {
			return
		}
		it := s.queue[0]
		if it.request != nil && s.unproven(it.request) {
			s.prove(out)
			return
		}
		s.queue[0] = item{}
		s.queue = s.queue[1:]
		if it.request == nil {
			s.queueSize -= len(it.note)
			s.forwardNotification(it.note, out)
			continue
		}
		s.unqueued(it.request)
		before := len(out.Frames)
		s.send(it.request, out)
		for i := range out.Frames[before:] {
			out.Frames[before+i].Held = true
		}
	}
}

func (s *Session) receiveNotification(line []byte, env envelope.Envelope, out *Output) {
	switch {
	case env.Method == noteCancelled:
		s.receiveCancel(line, env, out)
	case s.told.pending != nil:
		if len(s.queue) >= 2*s.limits.HoldRequests || s.queueSize+len(line) > s.limits.HoldBytes {
			out.notice("dropped a notification: too much waits for initialize", env.Method, nil)
			return
		}
		s.queue = append(s.queue, item{note: line})
		s.queueSize += len(line)
	case s.serving != 0:
		s.forwardNotification(line, out)
	case env.Method == noteInitialized:
		s.told.initialized = line
	case env.Method == noteRootsChanged:
		s.rootsChanged = true
	default:
		out.notice("dropped a notification: no worker serves", env.Method, nil)
	}
}

func (s *Session) forwardNotification(line []byte, out *Output) {
	out.frame(s.serving, Notification, 0, line)
	env, err := envelope.Peek(line)
	switch {
	case err != nil:
	case env.Method == noteRootsChanged:
		for n, l := range s.links {
			l.roots = l.roots || n != s.serving && l.phase < serving
		}
	case env.Method == noteInitialized && s.told.initialized == nil:
		s.told.initialized = line
		l := s.links[s.serving]
		l.ready = true
		s.releaseEarly(s.serving, out)
		for k := range s.views {
			s.payOwed(catalog.Kind(k), &s.views[k], l, out)
		}
	}
}

// receiveCancel ends the wait for an answer and nothing else (EDGE-14). It is
// never queued behind the request that it cancels (EDGE-5).
func (s *Session) receiveCancel(line []byte, env envelope.Envelope, out *Output) {
	params := env.Params.Of(line)
	span, ok := envelope.Find(params, "requestId")
	if !ok {
		out.notice("dropped a cancel without requestId", env.Method, nil)
		return
	}
	id := span.Of(params)
	number, ok := s.byID[envelope.IDKey(id)]
	if !ok {
		out.notice("ignored a cancel: no such request", env.Method, id)
		return
	}
	r, onLink := s.sent[number]
	if !onLink {
		s.dropQueued(func(q *request) bool { return q.number == number && q.method != methodInitialize })
		return
	}
	if r.method == methodInitialize {
		out.notice("ignored a cancel of initialize", env.Method, id)
		return
	}
	if s.watched.pending[number] == r || s.watched.listens[lease.Holder(number)] == r {
		s.cancelWatch(r, line, out)
		return
	}
	if r.link == 0 { // one of our own tools, which goes on
		s.forget(r)
		return
	}
	r.gone = true
	s.release(r)
	s.forlornly(r)
	out.frame(r.link, Cancel, number, line)
	if l := s.links[r.link]; isProbe(r) && l.probe == probeOpen {
		l.unheard = true
		s.flush(out)
	}
}

// receiveAnswer passes the client's answer to the worker that asked. Answers
// to questions of a link that is gone go nowhere (SUP-7).
func (s *Session) receiveAnswer(line []byte, env envelope.Envelope, out *Output) {
	id := env.ID.Of(line)
	q, ok := s.takeQuestion(id)
	if !ok {
		out.notice("dropped an answer: nobody asked", "", id)
		return
	}
	out.frame(q.link, Response, q.id, line)
}

// takeQuestion returns the request of a worker that the client knows by id, and
// forgets it: it has one answer.
func (s *Session) takeQuestion(id []byte) (question, bool) {
	n, err := strconv.ParseInt(string(id), 10, 32)
	q, ok := s.asked[int32(n)]
	if err != nil || !ok {
		return question{}, false
	}
	delete(s.asked, int32(n))
	return q, true
}

// ReceiveTooLong refuses a line that exceeds the frame limit, of which only
// the beginning and the end are known (EDGE-4).
func (s *Session) ReceiveTooLong(head, tail []byte, size int64, out *Output) {
	out.notice("refused a line of "+strconv.FormatInt(size, 10)+" bytes", "", nil)
	e := protocol.NewError(protocol.FrameTooLarge,
		"the message has "+strconv.FormatInt(size, 10)+" bytes, more than the frame limit allows; it was not sent")
	env, _ := envelope.Peek(head) // its error is that the line goes on
	if !env.Kind.IsAnswer() {
		out.line(errorLine(s.unused(idOfFragments(head, tail, env)), e.RPC()))
		return
	}
	if q, ok := s.takeQuestion(env.ID.Of(head)); ok {
		out.frame(q.link, Response, q.id, errorLine(env.ID.Of(head), e.RPC()))
	}
}

// idOfFragments finds the id of a request whose middle is missing: env has it
// if it stands before the gap; else it may be the last member. It is echoed,
// so it has to be text: of a line that goes on, Peek has not seen that.
func idOfFragments(head, tail []byte, env envelope.Envelope) []byte {
	if id := env.ID.Of(head); !env.ID.IsZero() && utf8.Valid(id) {
		return id
	}
	at := bytes.LastIndex(tail, []byte(`"id":`))
	if at < 0 {
		return nil
	}
	line := append([]byte(`{"jsonrpc":"2.0","method":"",`), tail[at:]...)
	if env, err := envelope.Peek(line); err == nil && env.Kind == envelope.Request {
		return env.ID.Of(line)
	}
	return nil
}
