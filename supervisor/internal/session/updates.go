package session

import (
	"strings"

	"github.com/holdfast-mcp/holdfast/internal/envelope"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/catalog"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/lease"
)

// updated takes a resources/updated of the serving worker, for a listen or the
// connection. line is the worker's notification, for clients of the initialize
// era.
func (s *Session) updated(from lease.Holder, params, line []byte, out *Output) {
	span, ok := envelope.Find(params, "uri")
	if !ok {
		return
	}
	uri := text(span.Of(params))
	if meta, ok := envelope.Find(params, "_meta"); ok {
		if ending := endingOf(meta.Of(params)); ending != (lease.Ending{}) {
			s.act(s.watched.table.Ended(from, uri, ending), out)
			return
		}
	}
	if line != nil {
		s.watched.lastUpdate[uri] = line
	}
	s.watched.table.Updated(from, uri)
}

// connectionUpdated takes a resources/updated on the client's own connection, in
// the initialize era. What nobody has subscribed to is dropped, but for what is
// part of what somebody has.
func (s *Session) connectionUpdated(params, line []byte, out *Output) {
	span, ok := envelope.Find(params, "uri")
	if !ok {
		out.line(line)
		return
	}
	uri := text(span.Of(params))
	switch {
	case s.watched.table.Watches(uri):
		if _, tagged := envelope.Find(params, "_meta", subscriptionKey); tagged {
			line = nil // the worker's id of the subscription is not the client's (LEASE-4)
		}
		s.updated(lease.Connection, params, line, out)
	case s.watchesAround(uri):
		out.line(line)
	default:
		out.notice("dropped an update: nobody has subscribed to "+uri, noteUpdated, nil)
	}
}

// watchesAround reports whether a URI is part of one that is subscribed to.
func (s *Session) watchesAround(uri string) bool {
	for i := len(uri) - 1; i > 0; i-- {
		if strings.IndexByte("/?#", uri[i]) >= 0 && (s.watched.table.Watches(uri[:i]) || s.watched.table.Watches(uri[:i+1])) {
			return true
		}
	}
	return false
}

// listenChanged takes a list_changed for a listen, or for all of a union.
func (s *Session) listenChanged(of Link, holder lease.Holder, method string) {
	l := s.links[of]
	if l == nil {
		return
	}
	var lists lease.Lists
	compared := false
	for k := range s.views {
		kind := catalog.Kind(k)
		if kind.Changed() != method {
			continue
		}
		if l.listing != nil {
			l.listing.changed[k] = true
		}
		lists |= listsOf(kind)
		if l.phase == serving && s.views[k].seen != nil {
			s.views[k].dirty, compared = true, true
		}
	}
	if l.phase == serving && !compared { // the client has none that could be the same
		s.watched.table.Changed(holder, lists)
	}
}

// doubtLists has the lists that the client has seen compared.
func (s *Session) doubtLists() {
	for k := range s.views {
		s.views[k].dirty = s.views[k].dirty || s.views[k].seen != nil
	}
}

func listsOf(kind catalog.Kind) lease.Lists {
	switch kind {
	case catalog.Tools:
		return lease.Tools
	case catalog.Prompts:
		return lease.Prompts
	default:
		return lease.Resources
	}
}

// HasUpdates reports whether the client can be told of something that may wait:
// a changed resource or list.
func (s *Session) HasUpdates() bool { return s.watched.table.Waiting() }

// Update tells the client the next of these. Each resource and list has its
// turn, and those that change again while they wait are told once (LEASE-8).
func (s *Session) Update(out *Output) {
	if a := s.watched.table.Next(); a != nil {
		s.tell(a, out)
	}
}

// tell tells the client what the table has decided.
func (s *Session) tell(action lease.Action, out *Output) {
	switch a := action.(type) {
	case lease.Ack:
		s.tellAck(a, out)
	case lease.Refused:
		if r := s.sent[a.Request]; r != nil {
			s.endWatch(r)
			if !r.gone && r.reply != nil {
				out.line(r.reply)
			} else if !r.gone {
				s.refuse(r, errNoListener, out)
			}
		}
	case lease.Full:
		if r := s.sent[a.Request]; r != nil {
			s.full(r, out)
		}
	case lease.Updated:
		s.tellUpdated(a, out)
	case lease.Changed:
		s.tellListen(a, out)
	case lease.Complete:
		if r := s.watched.listens[a.Holder]; r != nil {
			s.endWatch(r)
			if r.reply == nil {
				r.reply = resultLine(r.id, s.listenComplete(r.id))
			}
			out.line(r.reply)
		}
	}
}

// endWatch forgets a request that has its answer.
func (s *Session) endWatch(r *request) {
	s.forget(r)
	delete(s.watched.pending, r.number)
	delete(s.watched.listens, lease.Holder(r.number))
}

func (s *Session) tellAck(a lease.Ack, out *Output) {
	r := s.sent[a.Request]
	switch {
	case r == nil:
	case r.method == methodListen:
		r.acknowledged = true
		s.untold(a.Lists)
		delete(s.watched.pending, r.number)
		if !r.gone {
			out.line(s.ackLine(r, a))
		}
	default:
		s.endWatch(r)
		if span, ok := envelope.Find(r.params, "uri"); ok && !s.watched.table.Watches(text(span.Of(r.params))) {
			delete(s.watched.lastUpdate, text(span.Of(r.params)))
		}
		if r.reply == nil {
			r.reply = resultLine(r.id, []byte("{}"))
		}
		if !r.gone {
			out.line(r.reply)
		}
	}
}

// tellUpdated tells a holder that a resource has changed, in the worker's own
// words where those were for this client.
func (s *Session) tellUpdated(u lease.Updated, out *Output) {
	meta := ""
	if r := s.watched.listens[u.Holder]; r != nil {
		meta = `"` + subscriptionKey + `":` + string(r.id)
	} else if u.Holder != lease.Connection {
		return
	}
	for _, t := range terminals {
		if u.Over && u.Ending.Reason == t.reason {
			if meta != "" {
				meta += ","
			}
			meta += `"` + t.key + `":` + u.Ending.Value
		}
	}
	line := s.watched.lastUpdate[u.URI]
	delete(s.watched.lastUpdate, u.URI)
	if line == nil || u.Holder != lease.Connection || u.Over {
		params := `{"uri":` + quote(u.URI) + `}`
		if meta != "" {
			params = `{"_meta":{` + meta + `},"uri":` + quote(u.URI) + `}`
		}
		line = notificationLine(noteUpdated, []byte(params))
	}
	out.line(line)
	if u.Over && u.Holder == lease.Connection {
		s.Announce("The subscription to "+u.URI+" has ended.", out)
	}
}

// tellListen tells a listen that a list has changed.
func (s *Session) tellListen(c lease.Changed, out *Output) {
	r := s.watched.listens[c.Holder]
	if r == nil {
		return
	}
	for _, kind := range []catalog.Kind{catalog.Tools, catalog.Prompts, catalog.Resources} {
		if listsOf(kind) == c.List {
			out.line(notificationLine(kind.Changed(), []byte(`{"_meta":{"`+subscriptionKey+`":`+string(r.id)+`}}`)))
		}
	}
}

// listenComplete returns the result that ends a listen.
func (s *Session) listenComplete(id []byte) []byte {
	info := ""
	if l := s.links[s.serving]; l != nil && l.serverInfo != nil {
		info = `,"` + metaServerInfo + `":` + string(l.serverInfo)
	}
	return []byte(`{"resultType":"complete","_meta":{"` + subscriptionKey + `":` + string(id) + info + `}}`)
}
