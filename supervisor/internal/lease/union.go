package lease

import "slices"

// union is the one listen that all listens of a client share at a worker with
// one session.
//
//	        a listen comes            accepted
//	[shut] ---------------> [asking] ----------> [open]
//	  ^                      ^   | refused        |  |
//	  |                      |   +--> again, with less of what was new
//	  |                      +--------------------+  | a new URI
//	  +----------------------------------------------+ the last listen is gone, Finished
type union struct {
	open     Ask // 0 if it is not
	stopping Ask
	asking   bool
	trying   group // what is new in what is asked for

	uris   []string // accepted
	groups []group  // to be tried, in order
	gap    bool     // it was open before: what happened since is unknown
	former []string // its URIs then
	dead   bool     // the worker wants none
}

// group is what is tried together: the URIs of a new listen, or some of those
// that are offered to a new worker.
type group struct {
	owner *holder // nil: they are held already
	uris  []string
}

func (g group) wanted() []string {
	if g.owner != nil {
		return g.owner.uris
	}
	return g.uris
}

// holds reports whether updates of a URI come by the union.
func (u *union) holds(uri string) bool { return u.open != 0 && slices.Contains(u.uris, uri) }

// claims reports whether they do, or may do so soon.
func (u *union) claims(uri string) bool {
	return u.holds(uri) || u.asking && (slices.Contains(u.uris, uri) || slices.Contains(u.trying.uris, uri))
}

// valid takes what is granted to a listen.
func (t *Table) valid(v *view, h *holder, g Grant) {
	if h.phase != asking {
		return
	}
	t.narrow(h, g)
	h.validated = true
	v.union.groups = append(v.union.groups, group{owner: h})
	if h.lists == 0 && len(h.leases) == 0 {
		t.welcome(h)
	}
}

// welcome acknowledges a listen that is part of the union. One to which nothing
// is granted is complete at once.
func (t *Table) welcome(h *holder) {
	if h.phase != asking {
		return
	}
	t.acknowledge(h)
	if h.lists == 0 && len(h.leases) == 0 {
		t.do(Complete{h.id})
		t.drop(h)
	}
}

// pumpUnion opens or stops the union, as the listens need it.
func (t *Table) pumpUnion(v *view) {
	if v == nil || v.multi {
		return
	}
	u := &v.union
	for !u.asking && u.stopping == 0 {
		switch {
		case t.blocked(v):
			return
		case !t.needed(v):
			if u.open != 0 {
				t.do(Stop{u.open})
				u.stopping, u.open = u.open, 0
			} else {
				t.mend(v) // a listen that was refused has replaced it
			}
			u.groups = nil
			return
		case len(u.groups) > 0:
			g := u.groups[0]
			u.groups = u.groups[1:]
			t.try(v, g)
		case u.open == 0 && !u.dead:
			t.askUnion(v, group{})
		default:
			return
		}
	}
}

// blocked reports whether the next group has to wait: an unsubscribe that is
// under way could come after the listen, and would silence it.
func (t *Table) blocked(v *view) bool {
	if len(v.union.groups) == 0 {
		return false
	}
	return slices.ContainsFunc(v.union.groups[0].wanted(), func(uri string) bool { return v.subs[uri] == unsubscribing })
}

// needed reports whether somebody listens, or is about to.
func (t *Table) needed(v *view) bool {
	for _, h := range t.listeners {
		if h.phase == open || v == t.serving && h.phase == asking && h.validated {
			return true
		}
	}
	return false
}

// try puts a group to the worker, if there is something new in it.
func (t *Table) try(v *view, g group) {
	fresh := slices.DeleteFunc(slices.Clone(g.wanted()), func(uri string) bool {
		return slices.Contains(v.union.uris, uri) || g.owner == nil && !t.listened(uri)
	})
	switch {
	case g.owner != nil && len(fresh) == 0 && v.union.open != 0:
		t.welcome(g.owner)
	case g.owner != nil || len(fresh) > 0:
		t.askUnion(v, group{g.owner, fresh})
	}
}

// listened reports whether an open listen has a lease of a URI.
func (t *Table) listened(uri string) bool {
	for _, h := range t.listeners {
		if l := h.leases[uri]; h.phase == open && l != nil && l.held {
			return true
		}
	}
	return false
}

func (t *Table) askUnion(v *view, g group) {
	u := &v.union
	replaces := u.open
	if replaces != 0 {
		u.gap, u.former = true, append(u.former, u.uris...)
	}
	u.open, u.asking, u.trying = 0, true, g
	u.uris = slices.DeleteFunc(u.uris, func(uri string) bool { return !t.listened(uri) })
	var ask Ask
	ask = t.ask(v,
		func(grant Grant) { t.unionOpened(v, ask, grant) },
		func(r Refusal) { t.unionRefused(v, r) })
	t.do(AskUnion{Ask: ask, Candidate: v == t.candidate, Replaces: replaces, URIs: slices.Concat(u.uris, g.uris)})
}

func (t *Table) unionOpened(v *view, ask Ask, grant Grant) {
	u := &v.union
	g := u.trying
	asked := slices.Concat(u.uris, g.uris)
	missed := u.gap || g.owner == nil
	u.open, u.asking, u.trying, u.gap, u.dead = ask, false, group{}, false, false
	u.uris = slices.DeleteFunc(slices.Clone(asked), func(uri string) bool { return !slices.Contains(grant.URIs, uri) })
	for _, uri := range asked {
		switch {
		case !slices.Contains(u.uris, uri):
			t.refusedByUnion(v, uri, Ending{})
		case v == t.serving && missed:
			t.touchListens(uri)
		}
	}
	t.mend(v)
	t.pumpThose(v, asked)
	if g.owner != nil && g.owner.phase == asking {
		t.narrow(g.owner, Grant{AllLists, u.uris})
		t.welcome(g.owner)
	}
}

// mend looks after the connection's own subscriptions to what was in a union
// that is over: the worker may have ended them with it (LEASE-1).
func (t *Table) mend(v *view) {
	former := v.union.former
	v.union.former = nil
	for _, uri := range former {
		l := t.connection.leases[uri]
		held := l != nil && l.held
		switch {
		case v.subs[uri] == renewing:
			v.set(uri, subscribing)
		case v.subs[uri].busy():
		case held && v == t.serving && v.union.holds(uri):
			t.touch(l)
		case held && v == t.serving:
			v.set(uri, off)
			t.pump(uri)
		case held && v.subs[uri] == on && !v.union.holds(uri):
			v.set(uri, off)
			t.offer(v, l)
		case v == t.serving:
			t.pump(uri)
		}
	}
}

// unionRefused finds out what it is that the worker does not want. It does not
// say which: then it is something that is new.
func (t *Table) unionRefused(v *view, r Refusal) {
	u := &v.union
	g := u.trying
	u.asking, u.trying = false, group{}
	t.pumpThose(v, slices.Concat(u.uris, g.uris))
	again := []group{g}
	switch {
	case slices.Contains(u.uris, r.URI):
		u.uris = slices.DeleteFunc(u.uris, func(uri string) bool { return uri == r.URI })
		t.refusedByUnion(v, r.URI, r.Ending)
	case g.owner != nil:
		t.reject(g.owner)
		return // what was in force before is opened again
	case len(g.uris) == 0:
		u.dead = len(u.uris) == 0
		again = halves(u.uris)
		u.uris = nil
	case len(g.uris) == 1 || slices.Contains(g.uris, r.URI):
		culprit := r.URI
		if len(g.uris) == 1 {
			culprit = g.uris[0]
		}
		again = []group{{uris: slices.DeleteFunc(g.uris, func(uri string) bool { return uri == culprit })}}
		t.refusedByUnion(v, culprit, r.Ending)
	default:
		again = halves(g.uris)
	}
	u.groups = append(again, u.groups...)
}

func halves(uris []string) []group {
	half := len(uris) / 2
	return []group{{uris: slices.Clone(uris[:half])}, {uris: slices.Clone(uris[half:])}}
}

// pumpThose goes on with what had to wait for the union.
func (t *Table) pumpThose(v *view, uris []string) {
	for _, uri := range uris {
		if v == t.serving {
			t.pump(uri)
		}
	}
}

// refusedByUnion ends a URI for all who listen for it.
func (t *Table) refusedByUnion(v *view, uri string, e Ending) {
	for _, h := range t.sorted() {
		if l := h.leases[uri]; h.phase == open && l != nil {
			t.refused(v, l, e)
		}
	}
}

func (t *Table) touchListens(uri string) {
	for _, h := range t.sorted() {
		if l := h.leases[uri]; h.phase == open && l != nil {
			t.touch(l)
		}
	}
}

// unionFinished takes the end of the union. A worker that ends it by itself has
// ended its URIs.
func (t *Table) unionFinished(ask Ask) {
	for _, v := range t.views() {
		u := &v.union
		if ask != u.open && ask != u.stopping {
			continue
		}
		stopped, uris := ask == u.stopping, u.uris
		u.open, u.stopping, u.uris, u.gap, u.dead = 0, 0, nil, false, !stopped
		u.former = append(u.former, uris...)
		t.mend(v)
		for _, uri := range uris {
			if !stopped {
				t.refusedByUnion(v, uri, Ending{})
			}
		}
	}
}
