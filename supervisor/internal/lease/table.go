package lease

import (
	"maps"
	"slices"
)

// maxListeners bounds the listens of one client; those for lists alone hold no
// lease.
const maxListeners = 1024

// Table is what one client watches.
type Table struct {
	capacity int
	used     int // leases, of all holders

	connection *holder
	listeners  map[Holder]*holder
	lanes      map[string]*lane // requests of the connection, by URI

	serving, candidate *view

	asks    map[Ask]pending
	lastAsk Ask

	queue   []entry // what Next tells, in order
	actions []Action
}

// holder is who has leases.
type holder struct {
	id     Holder
	phase  phase
	lists  Lists
	uris   []string // of leases, in the order of the request
	leases map[string]*lease

	validated bool  // lists and uris are what the serving worker grants
	changed   Lists // have an entry in the queue
}

// phase is the state of a listen. The connection is always open.
type phase uint8

const (
	// asking: not acknowledged.
	asking phase = iota
	// open: acknowledged.
	open
	// leaving: cancelled; the worker has not cleaned up.
	leaving
	// finished: what is left to tell is in the queue, with the completion at
	// its end.
	finished
)

// lease is the right of one holder to updates of one URI. It is reserved until
// it is held or over.
type lease struct {
	of  *holder
	uri string

	held   bool
	early  bool // changed before it was held
	over   bool
	ending Ending
	queued bool
}

// pending is a question to a worker. The functions take its answer.
type pending struct {
	view   *view
	accept func(Grant)
	refuse func(Refusal)
}

// New returns the table of a client that watches nothing. It takes as many
// leases as capacity says.
func New(capacity int) *Table {
	return &Table{
		capacity:   capacity,
		connection: &holder{id: Connection, phase: open, leases: make(map[string]*lease)},
		listeners:  make(map[Holder]*holder),
		lanes:      make(map[string]*lane),
		asks:       make(map[Ask]pending),
	}
}

// Accept takes the consent of a worker. For a listen, the union, and the
// validation of a listen, grant is what it grants.
func (t *Table) Accept(ask Ask, grant Grant) []Action {
	if p, ok := t.answer(ask); ok {
		p.accept(grant)
	}
	return t.take()
}

// Refuse takes the refusal of a worker.
func (t *Table) Refuse(ask Ask, refusal Refusal) []Action {
	if p, ok := t.answer(ask); ok {
		p.refuse(refusal)
	}
	return t.take()
}

// Cancel ends a request of the client that is not answered, or an open listen,
// and takes back what it has acquired.
func (t *Table) Cancel(request uint64) []Action {
	if h := t.listeners[Holder(request)]; h != nil {
		t.cancelListen(h)
	} else {
		t.cancelOperation(request)
	}
	return t.take()
}

// Close ends everything at the end of the client, and completes its listens.
func (t *Table) Close() []Action {
	var done []Action
	for _, h := range t.sorted() {
		if h.phase == open || h.phase == finished {
			done = append(done, Complete{h.id})
		}
	}
	*t = *New(t.capacity)
	return done
}

func (t *Table) answer(ask Ask) (pending, bool) {
	p, ok := t.asks[ask]
	delete(t.asks, ask)
	return p, ok
}

func (t *Table) ask(v *view, accept func(Grant), refuse func(Refusal)) Ask {
	t.lastAsk++
	t.asks[t.lastAsk] = pending{v, accept, refuse}
	return t.lastAsk
}

func (t *Table) do(a Action) { t.actions = append(t.actions, a) }

// take brings what follows from a step to its end, and returns what is to be
// done.
func (t *Table) take() []Action {
	t.reap()
	t.pumpUnion(t.serving)
	t.pumpUnion(t.candidate)
	done := t.actions
	t.actions = nil
	return done
}

// sorted returns the listens, the oldest first.
func (t *Table) sorted() []*holder {
	hs := make([]*holder, 0, len(t.listeners))
	for _, id := range slices.Sorted(maps.Keys(t.listeners)) {
		hs = append(hs, t.listeners[id])
	}
	return hs
}

func (t *Table) reserve(h *holder, uri string) {
	h.leases[uri] = &lease{of: h, uri: uri}
	h.uris = append(h.uris, uri)
	t.used++
}

// free gives the room of a lease back.
func (t *Table) free(l *lease) {
	t.unqueue(func(e entry) bool { return e.lease == l })
	delete(l.of.leases, l.uri)
	l.of.uris = slices.DeleteFunc(l.of.uris, func(uri string) bool { return uri == l.uri })
	t.used--
}

// end makes a lease over: its holder gets one last update.
func (t *Table) end(l *lease, e Ending) {
	switch {
	case l.over && e.Reason > l.ending.Reason:
		l.ending = e
	case l.held:
		l.held, l.over, l.ending = false, true, e
		t.enqueue(l)
		if l.of == t.connection {
			t.ended(l.uri)
		} else {
			t.finishEmpty(l.of)
		}
	}
}

// refused notes that a connection does not want a lease: the end of it, once
// that connection serves.
func (t *Table) refused(v *view, l *lease, e Ending) {
	if v == t.serving {
		t.end(l, e)
		return
	}
	v.refused[key{l.of.id, l.uri}] = e
}
