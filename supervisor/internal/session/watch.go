package session

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-mcp/holdfast/internal/envelope"
	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/lease"
)

// What the client watches is a [lease.Table]. This file puts its questions to
// workers and its decisions to the client:
//
//	client's request -> table -> question -> frame -> worker
//	worker's answer  -> table -> answer, kept lease, ended lease -> client
//
// A question goes to the serving link or to the candidate, on the link itself
// or, for listens of a worker that takes many sessions, on a side link.

// question of the table to a worker.
type asking struct {
	link   Link   // that it was put on, a side link included
	number uint64 // of the request
	holder lease.Holder
	// validates: it is a server/discover, by which a listen is examined.
	validates bool
	// union: it is the union listen of a worker with one session, which may
	// have acknowledged it; again: there was one before.
	union        bool
	acknowledged bool
	again        bool
}

// watched is the state of what the client watches.
type watched struct {
	table *lease.Table
	asks  map[lease.Ask]asking
	// byNumber finds the question that a request of ours or the client's is.
	byNumber map[uint64]lease.Ask
	// offered is the candidate that the table knows, 0 if there is none.
	offered Link
	listens map[lease.Holder]*request // open ones of the client, and those it waits for
	pending map[uint64]*request       // those of the client that are not answered
	sides   map[Link]*side
	// lastUpdate has the worker's own notifications of changed resources, by
	// URI, for the connection of the initialize era.
	lastUpdate map[string][]byte
	waiting    []stopped
}

// stopped is a question to a worker that was cancelled: its answer is waited for
// until late, which is zero until a time is known.
type stopped struct {
	ask      lease.Ask
	patience time.Duration
	late     time.Time
	then     func(*Output) // what follows, nil if nothing does
}

// Some workers never complete a listen that was cancelled, and many do not
// answer any other request that was: these bound how long either is waited for.
const (
	stopPatience   = 100 * time.Millisecond
	cancelPatience = 2 * time.Second
)

func newWatched(leases int) watched {
	return watched{
		table:      lease.New(leases),
		asks:       make(map[lease.Ask]asking),
		byNumber:   make(map[uint64]lease.Ask),
		listens:    make(map[lease.Holder]*request),
		pending:    make(map[uint64]*request),
		sides:      make(map[Link]*side),
		lastUpdate: make(map[string][]byte),
	}
}

// watches reports whether a request is one that the table decides on.
func (s *Session) watches(r *request) bool {
	switch r.method {
	case methodSubscribe, methodUnsubscribe:
		return !r.modern && s.told.initialize != nil
	case methodListen:
		return r.modern
	}
	return false
}

// watch hands a request to the table. It is kept in s.sent without a link while
// no worker has it.
func (s *Session) watch(r *request, out *Output) {
	s.sent[r.number], s.watched.pending[r.number] = r, r
	r.link = 0
	if r.method == methodListen {
		s.listen(r, out)
		return
	}
	uri, ok := envelope.Find(r.params, "uri")
	if !ok {
		delete(s.watched.pending, r.number)
		s.put(r, s.serving, out) // the worker says what is wrong
		return
	}
	if r.method == methodSubscribe {
		s.act(s.watched.table.Subscribe(r.number, text(uri.Of(r.params))), out)
	} else {
		s.act(s.watched.table.Unsubscribe(r.number, text(uri.Of(r.params))), out)
	}
}

// act carries out what the table has decided.
func (s *Session) act(actions []lease.Action, out *Output) {
	for _, a := range actions {
		switch a := a.(type) {
		case lease.AskSubscribe:
			s.askAbout(a.Ask, a.Candidate, a.Request, methodSubscribe, a.URI, out)
		case lease.AskUnsubscribe:
			s.askAbout(a.Ask, false, a.Request, methodUnsubscribe, a.URI, out)
		case lease.AskListen:
			s.askListen(a, out)
		case lease.AskValidate:
			s.askValidate(a, out)
		case lease.AskUnion:
			s.askUnion(a, out)
		case lease.Stop:
			s.stopListen(a.Ask, nil, out)
		default:
			s.tell(a, out)
		}
	}
}

// target returns the link that a question goes to.
func (s *Session) target(candidate bool) Link {
	if candidate {
		return s.watched.offered
	}
	return s.serving
}

// noteAsk notes a question that was put on a link.
func (s *Session) noteAsk(ask lease.Ask, a asking) {
	s.watched.asks[ask] = a
	s.watched.byNumber[a.number] = ask
}

func (s *Session) forgetAsk(ask lease.Ask) {
	delete(s.watched.byNumber, s.watched.asks[ask].number)
	delete(s.watched.asks, ask)
}

// askAbout puts resources/subscribe or unsubscribe on a link: the client's own
// request, or one of ours.
func (s *Session) askAbout(ask lease.Ask, candidate bool, number uint64, method, uri string, out *Output) {
	to := s.target(candidate)
	if r := s.sent[number]; number != 0 && r != nil {
		s.noteAsk(ask, asking{link: to, number: number})
		s.put(r, to, out)
		return
	}
	n := s.number()
	s.noteAsk(ask, asking{link: to, number: n})
	s.own[n] = ownCall{link: to, method: method}
	out.frame(to, Request, n, requestLine(n, method, []byte(`{"uri":`+quote(uri)+`}`)))
}

// watchAnswered takes a worker's answer to a question about what is watched. It
// reports false if the answer is none.
func (s *Session) watchAnswered(from Link, number uint64, payload []byte, out *Output) bool {
	ask, ok := s.watched.byNumber[number]
	a := s.watched.asks[ask]
	if !ok || a.link != from {
		return false
	}
	env, err := envelope.Peek(payload)
	accepted := err == nil && env.Kind == envelope.Response
	delete(s.own, number)
	if r := s.sent[number]; r != nil && !a.validates {
		s.keepReply(r, payload, out)
	}
	switch {
	case a.validates:
		s.validated(ask, a, payload, env, accepted, out)
	case a.union:
		s.unionAnswered(ask, payload, env, out)
	case accepted:
		s.takeStopped(ask)
		s.forgetAsk(ask)
		s.act(s.watched.table.Accept(ask, lease.Grant{}), out)
	default:
		s.takeStopped(ask)
		s.forgetAsk(ask)
		s.act(s.watched.table.Refuse(ask, refusalOf(payload, env)), out)
	}
	s.goOn(out)
	return true
}

// keepReply keeps the worker's own answer for when the table says so.
func (s *Session) keepReply(r *request, payload []byte, out *Output) {
	line, _, _ := answerLine(r, payload, out)
	s.settle(r)
	r.reply, r.link = line, 0
	if r.gone {
		delete(s.sent, r.number)
	}
}

// refusalOf returns what an error says of a lease.
func refusalOf(payload []byte, env envelope.Envelope) lease.Refusal {
	var refusal lease.Refusal
	if env.Kind != envelope.ErrorResponse {
		return refusal
	}
	if data, ok := envelope.Find(env.Error.Of(payload), "data"); ok {
		raw := data.Of(env.Error.Of(payload))
		refusal.Ending = endingOf(raw)
		if uri, ok := envelope.Find(raw, "uri"); ok {
			refusal.URI = text(uri.Of(raw))
		}
	}
	return refusal
}

// terminals are the keys of terminal signals, the strongest first (LEASE-6).
var terminals = []struct {
	key    string
	reason lease.Reason
}{
	{protocol.MetaAttachmentExpired, lease.Expired},
	{protocol.MetaAttachmentUnavailable, lease.Unavailable},
}

// endingOf returns the terminal signal in an object, the zero Ending if there is
// none.
func endingOf(object []byte) lease.Ending {
	for _, t := range terminals {
		if span, ok := envelope.Find(object, t.key); ok {
			return lease.Ending{Reason: t.reason, Value: string(span.Of(object))}
		}
	}
	return lease.Ending{}
}

// text returns the string that is raw JSON, or the raw JSON of another value.
func text(raw []byte) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// offerLeases puts what the client watches to a candidate. The table knows one: a
// link that was offered it before, and does not serve, has to be again.
func (s *Session) offerLeases(to Link, l *link, out *Output) {
	if before := s.watched.offered; before != to {
		if before != 0 {
			s.leaveLink(before, out)
		}
		s.watched.offered = to
		s.act(s.watched.table.Offer(l.multi), out)
	}
}

// goOn lets a candidate serve that has answered all.
func (s *Session) goOn(out *Output) {
	n := s.watched.offered
	if l := s.links[n]; l != nil && l.phase == listingFirst && l.listing.asking == 0 && s.watched.table.Offered() {
		s.standby(n, l, out)
	}
}

// promoteLeases has the table follow a promotion.
func (s *Session) promoteLeases(to Link, l *link, out *Output) {
	s.offerLeases(to, l, out)
	s.watched.offered = 0
	s.act(s.watched.table.Promote(), out)
}

// loseLeases has the table follow the end of a link, or of its service.
func (s *Session) loseLeases(of Link, out *Output) {
	s.leaveLink(of, out)
	if of == s.watched.offered {
		s.watched.offered = 0
		s.act(s.watched.table.Abandon(), out)
	}
	if of == s.serving {
		s.act(s.watched.table.Lost(), out)
	}
}

// leaveLink forgets what a link was asked.
func (s *Session) leaveLink(of Link, out *Output) {
	s.watched.waiting = slices.DeleteFunc(s.watched.waiting, func(w stopped) bool { return s.watched.asks[w.ask].link == of })
	s.leaveListens(of, out)
	for ask, a := range s.watched.asks {
		if a.link == of {
			s.forgetAsk(ask)
		}
	}
}

// leaveListens ends the listens that a link's worker has, without a word to the
// client: they are for another worker now.
func (s *Session) leaveListens(of Link, out *Output) {
	for n, side := range s.watched.sides {
		if side.parent == of {
			s.closeSide(n, out)
		}
	}
	for ask, a := range s.watched.asks {
		if a.union && a.link == of {
			out.frame(of, Cancel, a.number, cancelLine(a.number))
			s.forgetAsk(ask)
		}
	}
}

func cancelLine(number uint64) []byte {
	return notificationLine(noteCancelled, []byte(`{"requestId":`+strconv.FormatUint(number, 10)+`}`))
}

// cancelWatch ends the wait for an answer, or an open listen.
func (s *Session) cancelWatch(r *request, line []byte, out *Output) {
	r.gone = true
	s.release(r)
	delete(s.watched.pending, r.number)
	switch {
	case r.method == methodListen:
	case r.link != 0:
		s.forlornly(r)
		out.frame(r.link, Cancel, r.number, line)
		s.awaitCancelled(r)
	default:
		delete(s.sent, r.number) // no worker has it
	}
	s.act(s.watched.table.Cancel(r.number), out)
	s.dropListen(r)
}

// awaitCancelled bounds the wait for the worker's answer to a cancelled request:
// what comes next about its resource has to wait for it. A worker that does not
// answer may have done what it was asked for.
func (s *Session) awaitCancelled(r *request) {
	ask, ok := s.watched.byNumber[r.number]
	if !ok {
		return
	}
	s.watched.waiting = append(s.watched.waiting, stopped{ask: ask, patience: cancelPatience, then: func(out *Output) {
		r.answered = true
		s.act(s.watched.table.Accept(ask, lease.Grant{}), out)
		s.goOn(out)
	}})
}

// refuseWatch refuses a request that waits in the table.
func (s *Session) refuseWatch(r *request, err *protocol.Error, out *Output) {
	s.endWatch(r)
	s.act(s.watched.table.Cancel(r.number), out)
	s.refuse(r, err, out)
}

// inTable reports whether a request is in the table because no worker serves, or
// none that would take it.
func (s *Session) inTable(r *request) bool {
	return (s.serving == 0 || r.stranded) && r.link == 0 && r.reply == nil
}

func (s *Session) watchDeadline(d *deadline) {
	for _, r := range s.watched.pending {
		if s.inTable(r) {
			d.add(r.since.Add(s.limits.HoldTimeout))
		}
	}
	for _, w := range s.watched.waiting {
		d.add(w.late)
	}
}

// expireWatched refuses requests that have waited in the table for too long.
func (s *Session) expireWatched(now time.Time, out *Output) {
	for _, r := range s.pendingWatched() {
		if s.inTable(r) && !now.Before(r.since.Add(s.limits.HoldTimeout)) {
			s.refuseWatch(r, s.heldTooLong(), out)
		}
	}
}

// pendingWatched returns the requests in the table in the order of their
// arrival.
func (s *Session) pendingWatched() []*request {
	return slices.SortedFunc(maps.Values(s.watched.pending), func(a, b *request) int { return cmp.Compare(a.number, b.number) })
}

// takeBackWatched takes back what a link has not answered when it ends to serve:
// an answer that comes all the same is not for the table.
func (s *Session) takeBackWatched(from Link) {
	for _, r := range s.watched.pending {
		if r.link == from {
			s.settle(r)
			r.link, r.reply = 0, nil
		}
	}
}

// loseWatched takes back a request from a link that is gone: the next worker is
// asked. It reports false if the request is none of these.
func (s *Session) loseWatched(r *request, now time.Time) bool {
	if s.watched.pending[r.number] != r {
		return false
	}
	s.settle(r)
	r.link, r.since, r.reply = 0, now, nil
	return true
}

// stopDue goes on where a worker does not complete what was cancelled.
func (s *Session) stopDue(now time.Time, out *Output) {
	var due []stopped
	rest := s.watched.waiting[:0]
	for _, w := range s.watched.waiting {
		if passed(&w.late, now, w.patience) {
			due = append(due, w)
		} else {
			rest = append(rest, w)
		}
	}
	s.watched.waiting = rest
	for _, w := range due {
		s.listenOver(w, out)
	}
}

// listenOver takes the end of a listen that was cancelled.
func (s *Session) listenOver(w stopped, out *Output) {
	a, ok := s.watched.asks[w.ask]
	s.forgetAsk(w.ask)
	if w.then != nil {
		w.then(out)
		return
	}
	if side := s.watched.sides[a.link]; ok && side != nil {
		s.closeSide(a.link, out)
	}
	s.act(s.watched.table.Finished(w.ask), out)
}

// takeStopped returns the wait for the end of a listen, if there is one.
func (s *Session) takeStopped(ask lease.Ask) (stopped, bool) {
	for i, w := range s.watched.waiting {
		if w.ask == ask {
			s.watched.waiting = append(s.watched.waiting[:i], s.watched.waiting[i+1:]...)
			return w, true
		}
	}
	return stopped{}, false
}

// stopListen cancels a listen at a worker.
func (s *Session) stopListen(ask lease.Ask, then func(*Output), out *Output) {
	a, ok := s.watched.asks[ask]
	switch {
	case !ok && then != nil:
		then(out)
		return
	case !ok: // its worker has closed that session, and has none of it
		s.act(s.watched.table.Finished(ask), out)
		return
	}
	s.watched.waiting = append(s.watched.waiting, stopped{ask: ask, patience: stopPatience, then: then})
	out.frame(a.link, Cancel, a.number, cancelLine(a.number))
}
