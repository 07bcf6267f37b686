package session

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/holdfast-mcp/holdfast/internal/envelope"
	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/lease"
)

// side is a link beside another one, to the same worker, for one listen. Only
// workers that take many sessions have any.
type side struct {
	parent Link
	ask    lease.Ask
	holder lease.Holder
	number uint64 // of the listen on it
	first  bool   // it is the client's own request
	open   bool   // acknowledged
}

// firstSide is above all numbers that the caller gives to links.
const firstSide Link = 1 << 32

// maxDropped bounds how often a listen is put to a worker again that closes its
// session by itself.
const maxDropped = 3

// filter is what a listen asks for, as it stands on the wire.
var filter = []struct {
	list lease.Lists
	key  string
}{
	{lease.Tools, "toolsListChanged"},
	{lease.Prompts, "promptsListChanged"},
	{lease.Resources, "resourcesListChanged"},
}

const uriFilter = "resourceSubscriptions"

// listen takes a subscriptions/listen of the client.
func (s *Session) listen(r *request, out *Output) {
	wanted, ok := envelope.Find(r.params, "notifications")
	if !ok {
		delete(s.watched.pending, r.number)
		s.put(r, s.serving, out) // the worker says what is wrong
		return
	}
	if metaFault(r.params) == nil {
		s.speaks(r)
	}
	s.watched.listens[lease.Holder(r.number)] = r
	lists, uris := filterOf(wanted.Of(r.params))
	s.act(s.watched.table.Listen(lease.Holder(r.number), lists, uris), out)
}

// filterOf returns what a filter of listens asks for, or grants.
func filterOf(raw []byte) (lists lease.Lists, uris []string) {
	for _, f := range filter {
		if span, ok := envelope.Find(raw, f.key); ok && string(span.Of(raw)) == "true" {
			lists |= f.list
		}
	}
	span, ok := envelope.Find(raw, uriFilter)
	if !ok {
		return lists, nil
	}
	array := span.Of(raw)
	items, err := envelope.Split(array)
	if err != nil {
		return lists, nil
	}
	for _, item := range items {
		uris = append(uris, text(item.Of(array)))
	}
	return lists, uris
}

// composeFilter writes down a filter.
func composeFilter(lists lease.Lists, uris []string) []byte {
	var members [][]byte
	for _, f := range filter {
		if lists&f.list != 0 {
			members = append(members, []byte(`"`+f.key+`":true`))
		}
	}
	if len(uris) > 0 {
		quoted := make([][]byte, 0, len(uris))
		for _, uri := range uris {
			quoted = append(quoted, []byte(quote(uri)))
		}
		members = append(members, slices.Concat([]byte(`"`+uriFilter+`":[`), bytes.Join(quoted, []byte{','}), []byte{']'}))
	}
	return slices.Concat([]byte{'{'}, bytes.Join(members, []byte{','}), []byte{'}'})
}

// askListen puts a listen on a side link of its own.
func (s *Session) askListen(a lease.AskListen, out *Output) {
	r := s.watched.listens[a.Holder]
	r.stranded = false
	s.lastSide++
	on := firstSide + s.lastSide
	sd := &side{parent: s.target(a.Candidate), ask: a.Ask, holder: a.Holder, number: r.number, first: a.First}
	payload := r.payload
	if !a.First {
		sd.number = s.number()
		payload = requestLine(sd.number, methodListen,
			slices.Concat([]byte(`{"_meta":`), plainMeta(r.params), []byte(`,"notifications":`), composeFilter(a.Lists, a.URIs), []byte{'}'}))
	}
	s.watched.sides[on] = sd
	s.noteAsk(a.Ask, asking{link: on, number: sd.number, holder: a.Holder})
	out.Open = append(out.Open, Side{on, sd.parent})
	out.frame(on, Request, sd.number, payload)
}

// sideFrame takes a frame of a side link.
func (s *Session) sideFrame(from Link, sd *side, f Frame, out *Output) {
	env, err := envelope.Peek(f.Payload)
	switch {
	case err != nil:
		out.notice("dropped an illegal message of the worker: "+err.Error(), env.Method, nil)
	case f.Kind == Response && f.ID == sd.number:
		s.sideAnswered(from, sd, f.Payload, env, out)
	case f.Kind == Request:
		out.frame(from, Response, f.ID, rpcErrorLine(env.ID.Of(f.Payload), -32601, "Method not found"))
	case f.Kind == Notification && env.Kind == envelope.Notification:
		s.sideNotification(sd, f.Payload, env, out)
	}
	s.goOn(out)
}

func (s *Session) sideNotification(sd *side, payload []byte, env envelope.Envelope, out *Output) {
	params := env.Params.Of(payload)
	r := s.watched.listens[sd.holder]
	if _, tagged := envelope.Find(params, "_meta", subscriptionKey); !tagged && isListChanged(env.Method) {
		return // meant for sessions of the initialize era
	}
	switch {
	case env.Method == noteAcknowledged && sd.open: // it was before
	case env.Method == noteAcknowledged:
		sd.open = true
		granted, _ := envelope.Find(params, "notifications")
		lists, uris := filterOf(granted.Of(params))
		if sd.first && r != nil {
			s.speaks(r)
			r.reply = payload
		}
		s.act(s.watched.table.Accept(sd.ask, lease.Grant{Lists: lists, URIs: uris}), out)
	case env.Method == noteUpdated:
		s.updated(sd.holder, params, nil, out)
	case isListChanged(env.Method):
		s.listenChanged(sd.parent, sd.holder, env.Method)
	case r != nil && !r.gone:
		if span, ok := envelope.Find(params, "_meta", subscriptionKey); ok {
			payload = envelope.Splice(payload, within(env.Params, span), r.id)
		}
		out.line(payload)
	}
}

// sideAnswered takes the answer to a listen: its refusal, or its end.
func (s *Session) sideAnswered(from Link, sd *side, payload []byte, env envelope.Envelope, out *Output) {
	ask := sd.ask
	stop, wasStopped := s.takeStopped(ask)
	r := s.watched.listens[sd.holder]
	if r != nil && (sd.first || wasStopped) {
		r.reply, _, _ = answerLine(r, payload, out)
	}
	cancelled := r != nil && r.gone
	s.closeSide(from, out)
	switch {
	case wasStopped:
		stop.ask = ask
		if cancelled && r.reply != nil && !r.answered {
			out.line(r.reply) // what a worker says to a cancel, as without us
			r.answered = true
		}
		s.act(s.watched.table.Finished(ask), out)
	case env.Kind == envelope.ErrorResponse && !sd.open:
		s.act(s.watched.table.Refuse(ask, refusalOf(payload, env)), out)
	default:
		s.act(s.watched.table.Finished(ask), out)
	}
}

// dropListen forgets a listen that was cancelled, once nothing of it is left.
func (s *Session) dropListen(r *request) {
	if r == nil || !r.gone {
		return
	}
	for _, sd := range s.watched.sides {
		if sd.holder == lease.Holder(r.number) {
			return
		}
	}
	delete(s.watched.listens, lease.Holder(r.number))
	delete(s.sent, r.number)
}

// closeSide has the caller close a side link.
func (s *Session) closeSide(n Link, out *Output) {
	sd := s.watched.sides[n]
	if sd == nil {
		return
	}
	delete(s.watched.sides, n)
	s.takeStopped(sd.ask)
	s.forgetAsk(sd.ask)
	s.dropListen(s.watched.listens[sd.holder])
	out.Closed = append(out.Closed, n)
}

// SideLost tells the session that a side link is gone although nobody closed it.
func (s *Session) SideLost(n Link, out *Output) {
	sd := s.watched.sides[n]
	if sd == nil {
		return
	}
	stop, wasStopped := s.takeStopped(sd.ask)
	s.closeSide(n, out)
	l := s.links[sd.parent]
	switch {
	case wasStopped && stop.then == nil:
		s.act(s.watched.table.Finished(sd.ask), out)
	case l == nil:
	case l.dropped >= maxDropped:
		if r := s.watched.pending[sd.number]; r != nil {
			r.stranded = true
		}
		out.warn("a worker closes the sessions of its listens: they wait for the next one", methodListen, nil)
	default:
		l.dropped++
		s.act(s.watched.table.Dropped(sd.ask), out)
	}
	s.goOn(out)
}

// ackLine acknowledges a listen: in the worker's own words if it was put to one
// as it came.
func (s *Session) ackLine(r *request, a lease.Ack) []byte {
	if reply := r.reply; reply != nil {
		r.reply = nil
		if env, err := envelope.Peek(reply); err == nil {
			if span, ok := envelope.Find(env.Params.Of(reply), "_meta", subscriptionKey); ok {
				return envelope.Splice(reply, within(env.Params, span), r.id)
			}
		}
	}
	return notificationLine(noteAcknowledged, slices.Concat(
		[]byte(`{"_meta":{"`+subscriptionKey+`":`), r.id, []byte(`},"notifications":`), composeFilter(a.Lists, a.URIs), []byte{'}'}))
}

// full refuses what there is no room for (LEASE-5).
func (s *Session) full(r *request, out *Output) {
	s.endWatch(r)
	out.line(rpcErrorLine(r.id, -32603, "too many resources are watched: "+strconv.Itoa(s.limits.Leases)+
		" at most on one connection (--max-leases)"))
}

var errNoListener = protocol.NewError(protocol.WorkerUnavailable, "the subscription has ended; listen again")
