package lease

import (
	"maps"
	"slices"
)

// view is what a connection to a worker knows of the leases.
type view struct {
	multi   bool
	subs    map[string]subscription // of the client's own connection
	pieces  []*piece                // with many sessions
	union   union                   // without
	deaf    map[Holder]bool         // listens whose lists the worker does not want
	refused map[key]Ending          // by a candidate
}

// key names a lease.
type key struct {
	holder Holder
	uri    string
}

func (v *view) set(uri string, s subscription) {
	if s == off {
		delete(v.subs, uri)
		return
	}
	v.subs[uri] = s
}

func (v *view) remove(p *piece) {
	v.pieces = slices.DeleteFunc(v.pieces, func(q *piece) bool { return p == q })
}

// has reports whether updates of a URI reach a listen, and whether that is or
// will be decided by the worker.
func (v *view) has(h *holder, uri string) (subscribed, settled bool) {
	if _, refused := v.refused[key{h.id, uri}]; refused {
		return false, true
	}
	if !v.multi {
		return v.union.holds(uri), slices.Contains(v.union.uris, uri)
	}
	for _, p := range v.pieces {
		if p.of == h && slices.Contains(p.uris, uri) {
			return p.open, true
		}
	}
	return false, false
}

func (t *Table) views() []*view {
	return slices.DeleteFunc([]*view{t.serving, t.candidate}, func(v *view) bool { return v == nil })
}

func (t *Table) pieceOf(ask Ask) (*view, *piece) {
	for _, v := range t.views() {
		for _, p := range v.pieces {
			if p.ask == ask {
				return v, p
			}
		}
	}
	return nil, nil
}

// Offer puts all leases to a candidate, a new connection to a worker. multi: it
// takes a session for each listen.
func (t *Table) Offer(multi bool) []Action {
	t.forget(t.candidate)
	t.candidate = &view{
		multi: multi,
		subs:  make(map[string]subscription),
		deaf:  make(map[Holder]bool), refused: make(map[key]Ending),
	}
	for _, uri := range slices.Clone(t.connection.uris) {
		t.offer(t.candidate, t.connection.leases[uri])
	}
	t.offerListens(t.candidate, t.sorted()...)
	return t.take()
}

// Offered reports whether the candidate has answered all that was put to it.
func (t *Table) Offered() bool {
	for _, p := range t.asks {
		if p.view == t.candidate {
			return false
		}
	}
	return t.candidate != nil
}

// offerListens puts what a connection does not know of open listens to it.
func (t *Table) offerListens(v *view, hs ...*holder) {
	var uris []string
	for _, h := range hs {
		if h.phase != open {
			continue
		}
		missing := slices.DeleteFunc(slices.Clone(h.uris), func(uri string) bool {
			_, settled := v.has(h, uri)
			return settled || !h.leases[uri].held
		})
		if !v.multi {
			uris = append(uris, missing...)
			continue
		}
		lists := h.lists
		if v.deaf[h.id] || slices.ContainsFunc(v.pieces, func(p *piece) bool { return p.of == h && p.lists != 0 }) {
			lists = 0
		}
		if lists != 0 || len(missing) > 0 {
			t.askListen(v, &piece{of: h, lists: lists, uris: missing})
		}
	}
	if len(uris) > 0 {
		v.union.groups = append(v.union.groups, group{uris: distinct(uris)})
	}
}

// Promote makes the candidate the connection that serves. It reports nothing
// without a candidate.
func (t *Table) Promote() []Action {
	if t.candidate == nil {
		return nil
	}
	t.forget(t.serving)
	v := t.candidate
	t.serving, t.candidate = v, nil
	for _, uri := range slices.Clone(t.connection.uris) {
		l := t.connection.leases[uri]
		t.resolve(v, l, v.subs[uri] == on)
	}
	for _, h := range t.sorted() {
		if h.phase == asking {
			t.place(h)
		}
		if h.phase != open {
			continue
		}
		for _, uri := range slices.Clone(h.uris) {
			subscribed, _ := v.has(h, uri)
			t.resolve(v, h.leases[uri], subscribed)
		}
	}
	t.pumpAll()
	return t.take()
}

// resolve ends or keeps a lease, as the candidate has said. Its holder has to
// look again in either case, since nobody watched in between.
func (t *Table) resolve(v *view, l *lease, subscribed bool) {
	switch e, refused := v.refused[key{l.of.id, l.uri}]; {
	case !l.held:
	case refused:
		t.end(l, e)
	case subscribed:
		t.touch(l)
	}
}

// Abandon says that the candidate has failed. Nothing else changes.
func (t *Table) Abandon() []Action {
	t.forget(t.candidate)
	t.candidate = nil
	return t.take()
}

// Lost says that the connection that serves is gone. Leases and requests wait
// for the next one.
func (t *Table) Lost() []Action {
	t.forget(t.serving)
	t.serving = nil
	t.pumpAll()
	return t.take()
}

// forget drops the asks of a connection. What it had of the client's requests
// is to be asked again.
func (t *Table) forget(v *view) {
	if v == nil {
		return
	}
	maps.DeleteFunc(t.asks, func(_ Ask, p pending) bool { return p.view == v })
	if v != t.serving {
		return
	}
	for _, h := range t.listeners {
		h.validated = false
	}
	for _, ln := range t.lanes {
		ln.operations = slices.DeleteFunc(ln.operations, func(o operation) bool { return o.cancelled })
		if len(ln.operations) > 0 {
			ln.operations[0].asked = false
		}
	}
}

// pumpAll makes all URIs of the connection what the serving worker should know.
func (t *Table) pumpAll() {
	uris := make(map[string]bool)
	for uri := range t.lanes {
		uris[uri] = true
	}
	for uri := range t.connection.leases {
		uris[uri] = true
	}
	if t.serving != nil {
		for uri := range t.serving.subs {
			uris[uri] = true
		}
	}
	for _, uri := range slices.Sorted(maps.Keys(uris)) {
		t.pump(uri)
	}
}
