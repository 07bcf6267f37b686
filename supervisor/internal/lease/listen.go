package lease

import "slices"

// piece is one listen at a worker, on a session of its own. A client's listen
// is one piece, unless a worker has refused to take it as a whole.
type piece struct {
	ask   Ask
	of    *holder
	lists Lists
	uris  []string
	// first: it is the client's request, whose acknowledgement it waits for.
	first    bool
	open     bool
	stopping bool
}

// Listen takes a subscriptions/listen of the client, by the number of its
// request, with what it asks for.
func (t *Table) Listen(id Holder, lists Lists, uris []string) []Action {
	h := &holder{id: id, lists: lists & AllLists, leases: make(map[string]*lease)}
	wanted := distinct(uris)
	if t.used+len(wanted) > t.capacity || len(t.listeners) >= maxListeners {
		return []Action{Full{uint64(id)}}
	}
	t.listeners[id] = h
	for _, uri := range wanted {
		t.reserve(h, uri)
	}
	t.place(h)
	return t.take()
}

// distinct returns s without repetitions.
func distinct(s []string) []string {
	var once []string
	seen := make(map[string]bool, len(s))
	for _, x := range s {
		if !seen[x] {
			once = append(once, x)
		}
		seen[x] = true
	}
	return once
}

// Finished says that a listen at a worker, or the union, is over: it was
// stopped, or the worker has completed it or answered it with an error. What a
// worker ends by itself is over for the client if it was the client's own
// request, else for the URIs in it.
func (t *Table) Finished(ask Ask) []Action {
	if v, p := t.pieceOf(ask); p != nil {
		delete(t.asks, ask)
		v.remove(p)
		t.pieceFinished(v, p)
	} else {
		t.unionFinished(ask)
	}
	return t.take()
}

func (t *Table) pieceFinished(v *view, p *piece) {
	h := p.of
	switch {
	case p.stopping:
	case p.first:
		t.finish(h)
	default:
		if p.lists != 0 {
			v.deaf[h.id] = true
		}
		for _, uri := range p.uris {
			if l := h.leases[uri]; l != nil {
				t.refused(v, l, Ending{})
			}
		}
	}
}

// Dropped says that the session of a listen has ended while its worker lives.
// The listen is put to the worker again, if the client still has it.
func (t *Table) Dropped(ask Ask) []Action {
	if v, p := t.pieceOf(ask); p != nil {
		delete(t.asks, ask)
		v.remove(p)
		if p.of.phase == asking {
			t.place(p.of)
		}
		t.offerListens(v, p.of)
	}
	return t.take()
}

// place puts a listen that is not acknowledged to the serving worker.
func (t *Table) place(h *holder) {
	v := t.serving
	switch {
	case v == nil:
	case v.multi:
		t.askListen(v, &piece{of: h, lists: h.lists, uris: slices.Clone(h.uris), first: true})
	default:
		ask := t.ask(v,
			func(g Grant) { t.valid(v, h, g) },
			func(Refusal) { t.reject(h) })
		t.do(AskValidate{ask, h.id})
	}
}

// reject answers a listen with the worker's error and keeps nothing of it
// (LEASE-3).
func (t *Table) reject(h *holder) {
	if h.phase == asking {
		t.do(Refused{uint64(h.id)})
		t.drop(h)
	}
}

// narrow leaves of a listen what is granted.
func (t *Table) narrow(h *holder, g Grant) {
	h.lists &= g.Lists
	for _, uri := range slices.Clone(h.uris) {
		if !slices.Contains(g.URIs, uri) {
			t.free(h.leases[uri])
		}
	}
}

// acknowledge opens a listen.
func (t *Table) acknowledge(h *holder) {
	h.phase = open
	for _, l := range h.leases {
		l.held = true
	}
	t.do(Ack{uint64(h.id), h.lists, slices.Clone(h.uris)})
	if t.candidate != nil {
		t.offerListens(t.candidate, h)
	}
}

func (t *Table) askListen(v *view, p *piece) {
	p.ask = t.ask(v,
		func(g Grant) { t.listens(v, p, g) },
		func(r Refusal) { t.notListens(v, p, r) })
	v.pieces = append(v.pieces, p)
	t.do(AskListen{
		Ask: p.ask, Candidate: v == t.candidate, Holder: p.of.id,
		Lists: p.lists, URIs: slices.Clone(p.uris), First: p.first,
	})
}

func (t *Table) listens(v *view, p *piece, g Grant) {
	if p.stopping {
		return // Finished is still to come
	}
	p.open = true
	if p.first {
		t.narrow(p.of, g)
		p.uris = slices.Clone(p.of.uris)
		t.acknowledge(p.of)
		return
	}
	for _, uri := range p.uris {
		l := p.of.leases[uri]
		switch {
		case l == nil:
		case !slices.Contains(g.URIs, uri):
			t.refused(v, l, Ending{})
		case v == t.serving:
			t.touch(l)
		}
	}
}

// notListens takes the refusal of a listen.
func (t *Table) notListens(v *view, p *piece, r Refusal) {
	v.remove(p)
	switch {
	case p.stopping:
	case p.first:
		t.reject(p.of)
	default:
		t.split(v, p, r)
	}
}

// split finds out what it is in a listen that the worker does not want.
func (t *Table) split(v *view, p *piece, r Refusal) {
	h := p.of
	uris := slices.DeleteFunc(slices.Clone(p.uris), func(uri string) bool { return h.leases[uri] == nil || !h.leases[uri].held })
	var second []string
	switch {
	case len(uris) < len(p.uris): // it may be for what is over meanwhile
	case len(uris) == 0:
		v.deaf[h.id] = true
		return
	case len(uris) == 1 && p.lists == 0 || slices.Contains(uris, r.URI):
		culprit := r.URI
		if len(uris) == 1 {
			culprit = uris[0]
		}
		uris = slices.DeleteFunc(uris, func(uri string) bool { return uri == culprit })
		t.refused(v, h.leases[culprit], r.Ending)
	default:
		half := len(uris) / 2
		uris, second = uris[:half], uris[half:]
	}
	if len(uris) > 0 || p.lists != 0 {
		t.askListen(v, &piece{of: h, lists: p.lists, uris: uris})
	}
	if len(second) > 0 {
		t.askListen(v, &piece{of: h, uris: second})
	}
}

// cancelListen ends a listen by the wish of the client. Its room is free when
// the worker has cleaned up.
func (t *Table) cancelListen(h *holder) {
	if h.phase == leaving {
		return
	}
	relayed := t.serving != nil && slices.ContainsFunc(t.serving.pieces, func(p *piece) bool { return p.of == h && !p.stopping })
	if h.phase == open && !relayed {
		t.do(Complete{h.id}) // no worker is there to answer
	}
	if h.phase == finished {
		t.drop(h)
		return
	}
	h.phase = leaving
	t.unqueue(func(e entry) bool { return e.holder() == h })
	t.stopPieces(h)
}

func (t *Table) stopPieces(h *holder) {
	for _, v := range t.views() {
		for _, p := range v.pieces {
			if p.of == h && !p.stopping {
				p.stopping = true
				t.do(Stop{p.ask})
			}
		}
	}
}

// finishEmpty completes a listen of URIs only after its last one (LEASE-6).
func (t *Table) finishEmpty(h *holder) {
	for _, l := range h.leases {
		if l.held {
			return
		}
	}
	if h.lists == 0 && h.phase == open {
		t.finish(h)
	}
}

// finish completes a listen after what it has to be told.
func (t *Table) finish(h *holder) {
	h.phase = finished
	t.queue = append(t.queue, entry{of: h})
	t.stopPieces(h)
}

// reap drops cancelled listens of which no worker has a trace any more.
func (t *Table) reap() {
	for _, h := range t.sorted() {
		if h.phase == leaving && !t.traced(h) {
			t.drop(h)
		}
	}
}

func (t *Table) traced(h *holder) bool {
	return slices.ContainsFunc(t.views(), func(v *view) bool {
		return v.union.asking && v.union.trying.owner == h ||
			slices.ContainsFunc(v.pieces, func(p *piece) bool { return p.of == h })
	})
}

// drop forgets a listen.
func (t *Table) drop(h *holder) {
	delete(t.listeners, h.id)
	for _, uri := range slices.Clone(h.uris) {
		t.free(h.leases[uri])
	}
	t.unqueue(func(e entry) bool { return e.holder() == h })
	for _, v := range t.views() {
		delete(v.deaf, h.id)
		v.union.groups = slices.DeleteFunc(v.union.groups, func(g group) bool { return g.owner == h })
	}
}
