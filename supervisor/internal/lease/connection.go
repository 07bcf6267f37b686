package lease

import "slices"

// lane holds the requests of the connection about one URI, in their order. The
// first may have been put to the worker.
type lane struct{ operations []operation }

type operation struct {
	request   uint64
	release   bool
	asked     bool
	cancelled bool // its answer goes nowhere
}

// subscription is the state of a URI on a connection to a worker.
type subscription uint8

const (
	off subscription = iota
	subscribing
	on
	renewing // subscribing to what is on
	unsubscribing
)

func (s subscription) busy() bool { return s == subscribing || s == renewing || s == unsubscribing }

// Subscribe takes a resources/subscribe of the client. The worker is asked in
// any case (LEASE-3).
func (t *Table) Subscribe(request uint64, uri string) []Action {
	if t.connection.leases[uri] == nil {
		if t.used >= t.capacity {
			return []Action{Full{request}}
		}
		t.reserve(t.connection, uri)
	}
	t.queueOperation(uri, operation{request: request})
	return t.take()
}

// Unsubscribe takes a resources/unsubscribe of the client. One of what is not
// held is for the worker to answer, and changes nothing here.
func (t *Table) Unsubscribe(request uint64, uri string) []Action {
	t.queueOperation(uri, operation{request: request, release: true})
	return t.take()
}

func (t *Table) queueOperation(uri string, o operation) {
	if t.lanes[uri] == nil {
		t.lanes[uri] = &lane{}
	}
	t.lanes[uri].operations = append(t.lanes[uri].operations, o)
	t.pump(uri)
}

// cancelOperation forgets a request that no worker has; that of another is
// brought to its end and, if it has acquired a lease, undone (LEASE-2).
func (t *Table) cancelOperation(request uint64) {
	for uri, ln := range t.lanes {
		i := slices.IndexFunc(ln.operations, func(o operation) bool { return o.request == request })
		switch {
		case i < 0:
			continue
		case ln.operations[i].asked:
			ln.operations[i].cancelled = true
		default:
			ln.operations = slices.Delete(ln.operations, i, i+1)
		}
		t.pump(uri)
		return
	}
}

// pump puts the next request about a URI to the worker, once the last is
// answered. Without one, it makes the worker's state that of the table.
func (t *Table) pump(uri string) {
	v := t.serving
	for v != nil && !v.subs[uri].busy() {
		ln := t.lanes[uri]
		if ln == nil || len(ln.operations) == 0 {
			t.restore(v, uri)
			break
		}
		o := &ln.operations[0]
		switch {
		case o.release && v.union.claims(uri):
			// An unsubscribe would silence the listens as well (LEASE-1).
			t.leave(uri)
			t.do(Ack{Request: t.pop(uri).request})
		case o.release:
			o.asked = true
			t.askUnsubscribe(v, uri, o.request)
		default:
			o.asked = true
			t.askSubscribe(v, uri, o.request)
		}
	}
	t.settle(uri)
}

func (t *Table) pop(uri string) operation {
	ln := t.lanes[uri]
	o := ln.operations[0]
	ln.operations = ln.operations[1:]
	return o
}

// restore subscribes to what is held, and unsubscribes from what is not.
func (t *Table) restore(v *view, uri string) {
	l := t.connection.leases[uri]
	held := l != nil && l.held
	switch {
	case v.union.claims(uri): // it has to wait for the end of that
	case held && v.subs[uri] == off:
		t.askSubscribe(v, uri, 0)
	case !held && v.subs[uri] == on:
		t.askUnsubscribe(v, uri, 0)
	}
}

// offer puts a lease of the connection to a candidate.
func (t *Table) offer(v *view, l *lease) {
	if v == nil || !l.held || v.subs[l.uri] != off {
		return
	}
	if _, refused := v.refused[key{Connection, l.uri}]; !refused {
		t.askSubscribe(v, l.uri, 0)
	}
}

func (t *Table) askSubscribe(v *view, uri string, request uint64) {
	if l := t.connection.leases[uri]; l != nil && !l.held && !l.over && v == t.serving {
		l.early, l.ending = false, Ending{} // what was said before is not about this
	}
	state := subscribing
	if v.subs[uri] == on {
		state = renewing
	}
	v.set(uri, state)
	ask := t.ask(v,
		func(Grant) { t.subscribed(v, uri, request) },
		func(r Refusal) { t.notSubscribed(v, uri, request, r) })
	t.do(AskSubscribe{Ask: ask, Candidate: v == t.candidate, Request: request, URI: uri})
}

func (t *Table) askUnsubscribe(v *view, uri string, request uint64) {
	v.set(uri, unsubscribing)
	ask := t.ask(v,
		func(Grant) { t.unsubscribed(v, uri, request, Ack{Request: request}) },
		func(Refusal) { t.unsubscribed(v, uri, request, Refused{request}) })
	t.do(AskUnsubscribe{Ask: ask, Request: request, URI: uri})
}

func (t *Table) subscribed(v *view, uri string, request uint64) {
	fresh := v.subs[uri] == subscribing
	v.set(uri, on)
	if v != t.serving {
		return
	}
	l := t.connection.leases[uri]
	if fresh && l != nil && l.held {
		t.touch(l) // nobody has watched until now
	}
	if request != 0 {
		if o := t.pop(uri); !o.cancelled {
			t.admit(l)
			t.do(Ack{Request: request})
		}
	}
	t.pump(uri)
}

// admit makes a lease held. The last update of an earlier one comes first.
func (t *Table) admit(l *lease) {
	if l.held {
		return
	}
	if l.over {
		t.unqueue(func(e entry) bool { return e.lease == l })
		t.do(Updated{Connection, l.uri, true, l.ending})
		l.over, l.ending, l.early = false, Ending{}, true
	}
	l.held = true
	switch {
	case l.ending != Ending{}:
		t.end(l, l.ending)
	case l.early:
		t.touch(l)
	}
	l.early = false
	t.offer(t.candidate, l)
}

// notSubscribed takes a refusal. A lease that is held already stays so, unless
// the worker says that it is over (LEASE-6).
func (t *Table) notSubscribed(v *view, uri string, request uint64, r Refusal) {
	l := t.connection.leases[uri]
	held := l != nil && l.held
	if v.subs[uri] == renewing && r.Reason == Plain {
		v.set(uri, on)
	} else {
		v.set(uri, off)
	}
	if v == t.serving && request != 0 && !t.pop(uri).cancelled {
		t.do(Refused{request})
	}
	if held && request == 0 || l != nil && r.Reason != Plain {
		t.refused(v, l, r.Ending)
	}
	if v == t.serving {
		t.pump(uri)
	}
}

// unsubscribed takes either answer: who wants no updates gets none, also if the
// worker does not know of a subscription.
func (t *Table) unsubscribed(v *view, uri string, request uint64, answer Action) {
	v.set(uri, off)
	if request != 0 {
		t.leave(uri)
		if !t.pop(uri).cancelled {
			t.do(answer)
		}
	}
	t.pump(uri)
}

// leave ends the connection's lease without a word.
func (t *Table) leave(uri string) {
	if l := t.connection.leases[uri]; l != nil {
		t.unqueue(func(e entry) bool { return e.lease == l })
		l.held, l.over, l.ending, l.early = false, false, Ending{}, false
	}
}

// ended notes that the worker has ended a subscription of the connection.
func (t *Table) ended(uri string) {
	if t.serving != nil && t.serving.subs[uri] == on {
		t.serving.set(uri, off)
	}
}

// settle frees a lease that nobody has, asks for or has to be told of, once
// the worker has no trace of it (LEASE-2).
func (t *Table) settle(uri string) {
	ln := t.lanes[uri]
	if ln != nil && len(ln.operations) == 0 {
		delete(t.lanes, uri)
	}
	l, v := t.connection.leases[uri], t.serving
	if l == nil || l.held || l.over || v != nil && v.subs[uri] != off && !v.union.claims(uri) {
		return
	}
	wanted := func(o operation) bool { return !o.release && !o.cancelled }
	if ln == nil || !slices.ContainsFunc(ln.operations, wanted) {
		t.free(l)
	}
}
