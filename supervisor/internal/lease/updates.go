package lease

import "slices"

// entry is something to tell the client: a lease, a list of a listen, or its
// completion. Each has at most one in the queue.
type entry struct {
	lease *lease
	of    *holder
	list  Lists
}

func (e entry) holder() *holder {
	if e.lease != nil {
		return e.lease.of
	}
	return e.of
}

// Updated takes a resources/updated of the worker that serves: on the session of
// a listen, or on the client's own connection, where it is for all who are
// served by that.
func (t *Table) Updated(from Holder, uri string) {
	for _, l := range t.watching(from, uri) {
		t.touch(l)
	}
}

// Ended takes a terminal signal in the same way.
func (t *Table) Ended(from Holder, uri string, e Ending) []Action {
	for _, l := range t.watching(from, uri) {
		if !l.held && !l.over && e.Reason > l.ending.Reason {
			l.ending = e // the worker has not answered yet
		}
		t.end(l, e)
	}
	return t.take()
}

// watching returns the leases that hear of a URI.
func (t *Table) watching(from Holder, uri string) []*lease {
	var all []*lease
	add := func(h *holder) {
		if l := h.leases[uri]; l != nil && (h.phase == open || h.phase == finished) {
			all = append(all, l)
		}
	}
	switch h := t.listeners[from]; {
	case h != nil:
		add(h)
	case from == Connection:
		add(t.connection)
		if t.serving != nil && !t.serving.multi {
			for _, h := range t.sorted() {
				add(h)
			}
		}
	}
	return all
}

// Changed says that lists have changed: for one listen, or for all from
// Connection. It ends no lease (CAT-7).
func (t *Table) Changed(from Holder, lists Lists) {
	for _, h := range t.sorted() {
		if h.phase != open || from != Connection && from != h.id {
			continue
		}
		fresh := lists & h.lists &^ h.changed
		h.changed |= fresh
		for _, list := range []Lists{Tools, Prompts, Resources} {
			if fresh&list != 0 {
				t.queue = append(t.queue, entry{of: h, list: list})
			}
		}
	}
}

// Next returns what the client is to be told next, nil if there is nothing:
// Updated, Changed or Complete. Each lease and list has its turn.
func (t *Table) Next() Action {
	if len(t.queue) == 0 {
		return nil
	}
	e := t.queue[0]
	t.queue = slices.Delete(t.queue, 0, 1)
	switch {
	case e.lease != nil:
		return t.tell(e.lease)
	case e.list != 0:
		e.of.changed &^= e.list
		return Changed{e.of.id, e.list}
	}
	t.drop(e.of)
	return Complete{e.of.id}
}

func (t *Table) tell(l *lease) Action {
	l.queued = false
	if !l.over {
		return Updated{Holder: l.of.id, URI: l.uri}
	}
	last := Updated{l.of.id, l.uri, true, l.ending}
	l.over, l.ending = false, Ending{}
	if l.of == t.connection {
		t.settle(l.uri)
	} else {
		t.free(l)
	}
	return last
}

// touch notes that a lease has something to tell.
func (t *Table) touch(l *lease) {
	switch {
	case l.over:
	case l.held:
		t.enqueue(l)
	default:
		l.early = true
	}
}

func (t *Table) enqueue(l *lease) {
	if !l.queued {
		l.queued = true
		t.queue = append(t.queue, entry{lease: l})
	}
}

// unqueue takes back what the client need not be told any more.
func (t *Table) unqueue(f func(entry) bool) {
	t.queue = slices.DeleteFunc(t.queue, func(e entry) bool {
		if !f(e) {
			return false
		}
		if e.lease != nil {
			e.lease.queued = false
		}
		return true
	})
}
