package lease

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestModel plays random holders, acquisitions, releases, cancels, terminal
// signals, floods, replacements and candidates that fail against a simple
// model: what a client has been told, and what each worker has been asked, has
// answered and would send. It checks LEASE-1, LEASE-2, LEASE-3, LEASE-5,
// LEASE-6, LEASE-7 and LEASE-8 as rules of the two, and that nothing is owed or
// remembered once all is answered.
func TestModel(t *testing.T) {
	steps := flag.Lookup("rapid.steps")
	if steps.Value.String() == steps.DefValue {
		n := "100" // times 100 checks
		if os.Getenv("HOLDFAST_EXTENDED") != "" {
			n = "1000"
		}
		if err := steps.Value.Set(n); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = steps.Value.Set(steps.DefValue) })
	}
	rapid.Check(t, func(t *rapid.T) {
		c := newClient(t)
		if rapid.Bool().Draw(t, "served") {
			c.offer(t)
			c.promote(t)
		}
		actions := map[string]func(*rapid.T){"": c.check}
		for name, a := range map[string]struct {
			weight int
			do     func(*rapid.T)
		}{
			"subscribe": {3, c.subscribe}, "unsubscribe": {2, c.unsubscribe}, "listen": {4, c.listen}, "cancel": {1, c.cancel},
			"answer": {16, c.answer}, "finish": {4, c.finish}, "drop": {1, c.drop}, "complete": {1, c.complete},
			"update": {2, c.update}, "flood": {1, c.flood}, "terminal": {2, c.terminal}, "change lists": {1, c.changeLists},
			"change mind": {1, c.changeMind}, "offer": {2, c.offer}, "promote": {3, c.promote}, "abandon": {1, c.abandon},
			"lose": {1, c.lose}, "next": {6, c.next},
		} {
			for i := range a.weight {
				actions[fmt.Sprint(name, " ", i)] = a.do
			}
		}
		t.Repeat(actions)
		c.settle(t)
	})
}

const modelCapacity = 8

var modelURIs = []string{"a", "b", "c", "d", "e"}

// request is what the client has asked for, until it is answered.
type request struct {
	number    uint64
	uri       string // of the connection
	release   bool
	listen    *watcher
	cancelled bool
	// admitted and refused are by the worker that serves.
	admitted, refused bool
}

// watcher is a listen of the client.
type watcher struct {
	id        Holder
	lists     Lists
	wanted    []string
	open      bool
	cancelled bool
	finished  bool // its worker has completed it
}

// worker is a connection with a worker at its end.
type worker struct {
	multi    bool
	pending  map[Ask]Action
	subs     map[string]bool     // resources/subscribe
	listens  map[Ask]AskListen   // accepted
	union    Ask                 // accepted
	ended    map[Ask]bool        // subscriptions that were over before they were answered
	unionOf  []string            // its URIs
	stops    map[Ask]bool        // asked to stop
	dislikes map[string]Ending   // what it refuses
	refusals map[string][]Ending // what it has refused
	deaf     bool                // refuses lists
}

type client struct {
	t       *rapid.T
	table   *Table
	numbers uint64

	open     map[uint64]*request
	watchers map[Holder]*watcher
	held     map[key]bool
	signals  map[key]Ending // terminal signals that the holder must hear of
	owed     map[key]int    // turns that an update has waited for
	owedList map[Holder]Lists

	serving, candidate *worker
	served             []*worker // ever
	listeners          int       // most that there were
}

func newClient(t *rapid.T) *client {
	return &client{
		t: t, table: New(modelCapacity), open: make(map[uint64]*request), watchers: make(map[Holder]*watcher),
		held: make(map[key]bool), signals: make(map[key]Ending), owed: make(map[key]int), owedList: make(map[Holder]Lists),
	}
}

func draw[K comparable, V any](t *rapid.T, m map[K]V, less func(a, b K) int, label string) K {
	if len(m) == 0 {
		t.Skip("none")
	}
	return rapid.SampledFrom(slices.SortedFunc(maps.Keys(m), less)).Draw(t, label)
}

func byNumber[K ~uint64](a, b K) int { return int(a) - int(b) }

func (c *client) newRequest(r request) *request {
	c.numbers++
	r.number = c.numbers
	c.open[r.number] = &r
	return &r
}

func (c *client) subscribe(t *rapid.T) {
	r := c.newRequest(request{uri: rapid.SampledFrom(modelURIs).Draw(t, "uri")})
	c.perform(t, c.table.Subscribe(r.number, r.uri))
}

func (c *client) unsubscribe(t *rapid.T) {
	r := c.newRequest(request{uri: rapid.SampledFrom(modelURIs).Draw(t, "uri"), release: true})
	c.perform(t, c.table.Unsubscribe(r.number, r.uri))
}

func (c *client) listen(t *rapid.T) {
	w := &watcher{
		lists:  rapid.SampledFrom([]Lists{0, 0, Tools, AllLists}).Draw(t, "lists"),
		wanted: rapid.SliceOfN(rapid.SampledFrom(modelURIs), 0, 4).Draw(t, "uris"),
	}
	r := c.newRequest(request{listen: w})
	w.id = Holder(r.number)
	c.watchers[w.id] = w
	c.perform(t, c.table.Listen(w.id, w.lists, w.wanted))
}

// cancel ends a request that is open, or a listen.
func (c *client) cancel(t *rapid.T) {
	all := make(map[uint64]bool)
	for n, r := range c.open {
		if !r.cancelled {
			all[n] = true
		}
	}
	for id, w := range c.watchers {
		if !w.cancelled {
			all[uint64(id)] = true
		}
	}
	n := draw(t, all, byNumber, "request")
	if r := c.open[n]; r != nil {
		r.cancelled = true
	}
	if w := c.watchers[Holder(n)]; w != nil {
		w.cancelled = true
	}
	c.perform(t, c.table.Cancel(n))
	if w := c.watchers[Holder(n)]; w != nil {
		c.gone(w)
	}
	delete(c.open, n)
}

// gone forgets a listen of which the client will hear no more.
func (c *client) gone(w *watcher) {
	delete(c.watchers, w.id)
	delete(c.owedList, w.id)
	for _, m := range []map[key]int{c.owed} {
		maps.DeleteFunc(m, func(k key, _ int) bool { return k.holder == w.id })
	}
	maps.DeleteFunc(c.held, func(k key, _ bool) bool { return k.holder == w.id })
	maps.DeleteFunc(c.signals, func(k key, _ Ending) bool { return k.holder == w.id })
}

// perform does what the table says, and checks that it may say so.
func (c *client) perform(t *rapid.T, actions []Action) {
	t.Helper()
	for _, a := range actions {
		t.Logf("  -> %T%+v", a, a)
		switch a := a.(type) {
		case AskSubscribe:
			c.mayAsk(t, c.of(a.Candidate), a.URI, a.Request)
			c.of(a.Candidate).pending[a.Ask] = a
		case AskUnsubscribe:
			c.mayAsk(t, c.serving, a.URI, a.Request)
			if c.serving.union != 0 && !c.serving.stops[c.serving.union] && slices.Contains(c.serving.unionOf, a.URI) {
				t.Fatalf("LEASE-1: unsubscribes from %s, which listens have", a.URI)
			}
			if l := c.table.connection.leases[a.URI]; a.Request == 0 && l != nil && l.held {
				t.Fatalf("LEASE-1: unsubscribes from %s, which is held", a.URI)
			}
			c.serving.pending[a.Ask] = a
		case AskValidate:
			c.serving.pending[a.Ask] = a
		case AskListen:
			w := c.of(a.Candidate)
			if !w.multi {
				t.Fatal("a listen of its own on a connection with one session")
			}
			if r := c.open[uint64(a.Holder)]; a.First && (r == nil || r.listen == nil) {
				t.Fatal("the first listen is not the client's request")
			}
			w.pending[a.Ask] = a
		case AskUnion:
			c.mayOpen(t, c.of(a.Candidate), a)
		case Stop:
			c.mayStop(t, a.Ask)
		case Full:
			if c.table.used == 0 {
				t.Fatal("LEASE-5: full and empty")
			}
			c.answered(t, a.Request)
			delete(c.watchers, Holder(a.Request))
		default:
			c.told(t, a)
		}
	}
}

func (c *client) of(candidate bool) *worker {
	if candidate {
		return c.candidate
	}
	return c.serving
}

// mayAsk checks the order of what a connection is asked about one URI.
func (c *client) mayAsk(t *rapid.T, w *worker, uri string, request uint64) {
	t.Helper()
	for _, a := range w.pending {
		if s, ok := a.(AskSubscribe); ok && s.URI == uri {
			t.Fatalf("LEASE-1: %s is being subscribed to", uri)
		}
		if s, ok := a.(AskUnsubscribe); ok && s.URI == uri {
			t.Fatalf("LEASE-1: %s is being unsubscribed from", uri)
		}
	}
	for n, r := range c.open {
		if request != 0 && n < request && r.listen == nil && r.uri == uri && !r.cancelled {
			t.Fatalf("%d overtakes %d", request, n)
		}
	}
}

func (c *client) mayOpen(t *rapid.T, w *worker, a AskUnion) {
	t.Helper()
	for ask, p := range w.pending {
		if _, ok := p.(AskUnion); ok {
			t.Fatalf("two unions: %d and %d", ask, a.Ask)
		}
	}
	if a.Replaces != w.union || len(w.stops) > 0 || w.multi {
		t.Fatalf("union %d is open, %d is replaced, %v are stopping", w.union, a.Replaces, w.stops)
	}
	if len(a.URIs) != len(distinct(a.URIs)) || len(a.URIs) > modelCapacity {
		t.Fatalf("union of %q", a.URIs)
	}
	w.closeUnion()
	w.pending[a.Ask] = a
}

// closeUnion ends the union, and with it, as in the Go SDK, all subscriptions of
// the session to its URIs.
func (w *worker) closeUnion() {
	for _, uri := range w.unionOf {
		delete(w.subs, uri)
	}
	w.union, w.unionOf = 0, nil
}

func (c *client) mayStop(t *rapid.T, ask Ask) {
	t.Helper()
	for _, w := range c.workers() {
		_, isPending := w.pending[ask]
		_, isOpen := w.listens[ask]
		if isPending || isOpen || w.union == ask {
			w.stops[ask] = true
			return
		}
	}
	t.Fatalf("stops %d, which is not open", ask)
}

func (c *client) workers() []*worker {
	return slices.DeleteFunc([]*worker{c.serving, c.candidate}, func(w *worker) bool { return w == nil })
}

// answered ends a request of the client: it gets one answer, and none after it
// was cancelled.
func (c *client) answered(t *rapid.T, n uint64) *request {
	t.Helper()
	r := c.open[n]
	if r == nil || r.cancelled {
		t.Fatalf("LEASE-2: an answer to %d, which waits for none", n)
	}
	delete(c.open, n)
	return r
}

// told takes what the client gets.
func (c *client) told(t *rapid.T, a Action) {
	t.Helper()
	switch a := a.(type) {
	case Ack:
		r := c.answered(t, a.Request)
		if r.listen != nil {
			c.acknowledged(t, r, a)
			return
		}
		k := key{Connection, r.uri}
		switch {
		case r.release:
			c.release(r.uri)
		case !r.admitted:
			t.Fatalf("LEASE-3: %d is acknowledged and not admitted", r.number)
		default:
			c.held[k] = true
		}
	case Refused:
		r := c.answered(t, a.Request)
		if !r.refused {
			t.Fatalf("%d is refused by nobody", r.number)
		}
		if r.release {
			c.release(r.uri)
		}
		delete(c.watchers, Holder(a.Request))
	case Updated:
		c.updated(t, a)
	case Changed:
		if w := c.watchers[a.Holder]; w == nil || !w.open || w.lists&a.List == 0 {
			t.Fatalf("%+v for nobody", a)
		}
		c.owedList[a.Holder] &^= a.List
	case Complete:
		c.completed(t, a)
	default:
		t.Fatalf("unknown action %T", a)
	}
}

func (c *client) release(uri string) {
	k := key{Connection, uri}
	delete(c.held, k)
	delete(c.owed, k)
	delete(c.signals, k)
}

func (c *client) acknowledged(t *rapid.T, r *request, a Ack) {
	t.Helper()
	w := r.listen
	switch {
	case c.serving == nil:
		t.Fatal("LEASE-3: no worker has admitted a listen")
	case c.serving.multi && !r.admitted:
		t.Fatalf("LEASE-3: listen %d is acknowledged and not admitted", r.number)
	case !c.serving.multi:
		for _, uri := range a.URIs {
			if c.serving.union == 0 || !slices.Contains(c.serving.unionOf, uri) {
				t.Fatalf("LEASE-3: %s is not in the union", uri)
			}
		}
	}
	w.open, w.lists = true, a.Lists
	for _, uri := range a.URIs {
		c.held[key{w.id, uri}] = true
	}
}

func (c *client) updated(t *rapid.T, a Updated) {
	t.Helper()
	k := key{a.Holder, a.URI}
	if !c.held[k] {
		t.Fatalf("LEASE-6: %+v for a lease that is not held", a)
	}
	bound := modelCapacity + 4*c.listeners
	if c.owed[k] > bound {
		t.Fatalf("LEASE-8: %+v after %d turns", a, c.owed[k])
	}
	delete(c.owed, k)
	if !a.Over {
		return
	}
	signal, signalled := c.signals[k]
	switch {
	case signalled && a.Ending.Reason < signal.Reason:
		t.Fatalf("LEASE-6: over as %+v, not %+v", a.Ending, signal)
	case signalled && a.Ending == signal:
	case !slices.ContainsFunc(c.served, func(w *worker) bool { return slices.Contains(w.refusals[a.URI], a.Ending) }):
		t.Fatalf("over as %+v, and no worker has said so", a)
	}
	delete(c.held, k)
	delete(c.signals, k)
}

func (c *client) completed(t *rapid.T, a Complete) {
	t.Helper()
	w := c.watchers[a.Holder]
	if w == nil {
		t.Fatalf("%d is complete twice", a.Holder)
	}
	holds := slices.ContainsFunc(w.wanted, func(uri string) bool { return c.held[key{w.id, uri}] })
	if !w.cancelled && !w.finished && (holds || w.lists != 0) {
		t.Fatalf("LEASE-6: %d is complete and holds something", a.Holder)
	}
	delete(c.open, uint64(a.Holder))
	c.gone(w)
}

// answer answers a question.
func (c *client) answer(t *rapid.T) {
	var w *worker
	all := make(map[Ask]bool)
	for _, w := range c.workers() {
		for ask := range w.pending {
			all[ask] = true
		}
	}
	ask := draw(t, all, byNumber, "ask")
	for _, v := range c.workers() {
		if v.pending[ask] != nil {
			w = v
		}
	}
	a := w.pending[ask]
	delete(w.pending, ask)
	c.perform(t, c.reply(t, w, ask, a))
}

func (c *client) reply(t *rapid.T, w *worker, ask Ask, a Action) []Action {
	switch a := a.(type) {
	case AskSubscribe:
		if e, no := w.dislikes[a.URI]; no {
			if e.Reason != Plain {
				delete(w.subs, a.URI)
			}
			return c.refuse(t, w, ask, a.Request, []string{a.URI}, a.URI, e)
		}
		w.subs[a.URI] = !w.ended[ask]
		if r := c.open[a.Request]; r != nil {
			r.admitted = true
		}
	case AskUnsubscribe:
		delete(w.subs, a.URI)
		if a.Request != 0 && c.open[a.Request] == nil {
			c.release(a.URI) // cancelled, and done nevertheless
		}
		if r := c.open[a.Request]; r != nil {
			r.refused = rapid.Bool().Draw(t, "refused")
			if r.refused {
				return c.table.Refuse(ask, Refusal{})
			}
		}
	case AskValidate:
		if w.deaf {
			return c.refuse(t, w, ask, uint64(a.Holder), nil, "", Ending{})
		}
		return c.table.Accept(ask, Grant{AllLists &^ Prompts, modelURIs})
	case AskListen:
		return c.replyListen(t, w, ask, a)
	case AskUnion:
		return c.replyUnion(t, w, ask, a)
	}
	return c.table.Accept(ask, Grant{})
}

// refuse refuses all of several URIs, for the dislike of one. Whether it names
// that one is random.
func (c *client) refuse(t *rapid.T, w *worker, ask Ask, request uint64, uris []string, culprit string, e Ending) []Action {
	if r := c.open[request]; r != nil {
		r.refused = true
	}
	if culprit != "" {
		w.refusals[culprit] = append(w.refusals[culprit], e)
	}
	if r := c.open[request]; r != nil && r.listen == nil && e.Reason != Plain && c.held[key{Connection, culprit}] && w == c.serving {
		c.signal(key{Connection, culprit}, e)
	}
	if len(uris) > 1 && rapid.Bool().Draw(t, "unnamed") {
		culprit = ""
	}
	return c.table.Refuse(ask, Refusal{e, culprit})
}

func (w *worker) disliked(uris []string) (string, bool) {
	for _, uri := range uris {
		if _, no := w.dislikes[uri]; no {
			return uri, true
		}
	}
	return "", false
}

func (c *client) replyListen(t *rapid.T, w *worker, ask Ask, a AskListen) []Action {
	request := uint64(0)
	if a.First {
		request = uint64(a.Holder)
	}
	if uri, no := w.disliked(a.URIs); no {
		delete(w.stops, ask)
		return c.refuse(t, w, ask, request, a.URIs, uri, w.dislikes[uri])
	}
	if w.deaf && a.Lists != 0 {
		delete(w.stops, ask)
		return c.refuse(t, w, ask, request, nil, "", Ending{})
	}
	if r := c.open[request]; r != nil {
		r.admitted = true
	}
	w.listens[ask] = a
	return c.table.Accept(ask, Grant{a.Lists, a.URIs})
}

func (c *client) replyUnion(t *rapid.T, w *worker, ask Ask, a AskUnion) []Action {
	refused := func(culprit string, e Ending) []Action {
		for _, r := range c.open {
			r.refused = r.refused || r.listen != nil // who it is for is for the table to know
		}
		for _, uri := range a.URIs {
			w.refusals[uri] = append(w.refusals[uri], e) // any of them, if none is named
		}
		return c.refuse(t, w, ask, 0, a.URIs, culprit, e)
	}
	if uri, no := w.disliked(a.URIs); no && rapid.Bool().Draw(t, "refuses") {
		return refused(uri, w.dislikes[uri])
	}
	if w.deaf && len(a.URIs) == 0 {
		return refused("", Ending{})
	}
	w.union = ask
	for _, uri := range a.URIs {
		if _, no := w.dislikes[uri]; no { // granted without
			w.refusals[uri] = append(w.refusals[uri], Ending{})
		} else {
			w.unionOf = append(w.unionOf, uri)
		}
	}
	return c.table.Accept(ask, Grant{AllLists, slices.Clone(w.unionOf)})
}

// finish ends what was to be stopped.
func (c *client) finish(t *rapid.T) {
	all := make(map[Ask]bool)
	for _, w := range c.workers() {
		for ask := range w.stops {
			if w.pending[ask] == nil {
				all[ask] = true
			}
		}
	}
	c.perform(t, c.end(draw(t, all, byNumber, "stop")))
}

func (c *client) end(ask Ask) []Action {
	for _, w := range c.workers() {
		delete(w.stops, ask)
		delete(w.listens, ask)
		if w.union == ask {
			w.closeUnion()
		}
	}
	return c.table.Finished(ask)
}

func (c *client) openListens() map[Ask]bool {
	all := make(map[Ask]bool)
	for _, w := range c.workers() {
		for ask := range w.listens {
			if !w.stops[ask] {
				all[ask] = true
			}
		}
	}
	return all
}

// drop loses the session of a listen.
func (c *client) drop(t *rapid.T) {
	ask := draw(t, c.openListens(), byNumber, "listen")
	for _, w := range c.workers() {
		delete(w.listens, ask)
	}
	c.perform(t, c.table.Dropped(ask))
}

// complete lets a worker end a listen or the union by itself.
func (c *client) complete(t *rapid.T) {
	all := c.openListens()
	for _, w := range c.workers() {
		if w.union != 0 {
			all[w.union] = true
		}
	}
	ask := draw(t, all, byNumber, "listen")
	for _, w := range c.workers() {
		uris := w.unionOf
		if a, ok := w.listens[ask]; ok {
			uris = a.URIs
			if a.First && w == c.serving {
				c.watchers[a.Holder].finished = true
				for _, uri := range uris {
					delete(c.signals, key{a.Holder, uri})
				}
			}
		} else if w.union != ask {
			continue
		}
		for _, uri := range uris {
			w.refusals[uri] = append(w.refusals[uri], Ending{})
		}
	}
	c.perform(t, c.end(ask))
}

// sends returns by which sessions the serving worker would say something of a
// URI, and whom that has to reach.
func (c *client) sends(uri string) (from []Holder, to []key) {
	w := c.serving
	if w == nil {
		return nil, nil
	}
	unionHas := w.union != 0 && !w.stops[w.union] && slices.Contains(w.unionOf, uri)
	if w.subs[uri] || unionHas {
		from = append(from, Connection)
		to = append(to, key{Connection, uri})
		for _, id := range slices.Sorted(maps.Keys(c.watchers)) {
			if !w.multi {
				to = append(to, key{id, uri})
			}
		}
	}
	for _, ask := range slices.Sorted(maps.Keys(w.listens)) {
		a := w.listens[ask]
		if slices.Contains(a.URIs, uri) && !w.stops[ask] && !slices.Contains(from, a.Holder) {
			from = append(from, a.Holder)
			to = append(to, key{a.Holder, uri})
		}
	}
	return from, slices.DeleteFunc(to, func(k key) bool {
		watcher := c.watchers[k.holder]
		return !c.held[k] || watcher != nil && (watcher.finished || watcher.cancelled)
	})
}

func (c *client) update(t *rapid.T) {
	uri := rapid.SampledFrom(modelURIs).Draw(t, "uri")
	c.send(uri)
}

func (c *client) send(uri string) {
	from, to := c.sends(uri)
	for _, h := range from {
		c.table.Updated(h, uri)
	}
	for _, k := range to {
		c.owe(k)
	}
}

func (c *client) owe(k key) {
	if _, waits := c.owed[k]; !waits {
		c.owed[k] = 0
	}
}

// flood sends many updates of one URI, while the client reads little.
func (c *client) flood(t *rapid.T) {
	uri := rapid.SampledFrom(modelURIs).Draw(t, "uri")
	for i := range 50 {
		c.send(uri)
		if i%10 == 0 {
			c.next(t)
		}
	}
}

func (c *client) drawEnding(t *rapid.T) Ending {
	return rapid.SampledFrom([]Ending{{}, {Unavailable, "{}"}, {Expired, "{1}"}}).Draw(t, "ending")
}

// terminal lets the serving worker end a URI, and refuse it from then on.
func (c *client) terminal(t *rapid.T) {
	uri, e := rapid.SampledFrom(modelURIs).Draw(t, "uri"), c.drawEnding(t)
	if e.Reason == Plain {
		t.Skip("no signal")
	}
	from, to := c.sends(uri)
	early := false // what the worker subscribes to is over before it says so
	for _, k := range to {
		c.signal(k, e)
	}
	if c.serving != nil {
		c.serving.dislikes[uri] = e
		delete(c.serving.subs, uri)
		for ask, a := range c.serving.pending {
			if s, ok := a.(AskSubscribe); ok && s.URI == uri && !c.held[key{Connection, uri}] {
				c.serving.ended[ask] = true
				early = true
			}
		}
		c.serving.refusals[uri] = append(c.serving.refusals[uri], e)
	}
	if early && !slices.Contains(from, Connection) {
		from = append(from, Connection)
	}
	for _, h := range from {
		c.perform(t, c.table.Ended(h, uri, e))
	}
}

func (c *client) signal(k key, e Ending) {
	if old, ok := c.signals[k]; !ok || e.Reason > old.Reason {
		c.signals[k] = e
	}
}

func (c *client) changeLists(t *rapid.T) {
	lists := rapid.SampledFrom([]Lists{Tools, Resources, AllLists}).Draw(t, "lists")
	held := maps.Clone(c.held)
	c.table.Changed(Connection, lists)
	if !maps.Equal(held, c.held) {
		t.Fatal("CAT-7: a changed list ends a lease")
	}
	for id, w := range c.watchers {
		if w.open && !w.finished && !w.cancelled {
			c.owedList[id] |= lists & w.lists
		}
	}
}

// changeMind lets a worker like what it did not, or the other way round.
func (c *client) changeMind(t *rapid.T) {
	if len(c.workers()) == 0 {
		t.Skip("none")
	}
	w := rapid.SampledFrom(c.workers()).Draw(t, "worker")
	uri := rapid.SampledFrom(modelURIs).Draw(t, "uri")
	if _, no := w.dislikes[uri]; no {
		delete(w.dislikes, uri)
		return
	}
	w.dislikes[uri] = c.drawEnding(t)
}

func (c *client) offer(t *rapid.T) {
	if c.candidate != nil && rapid.IntRange(0, 3).Draw(t, "again") > 0 {
		t.Skip("there is one")
	}
	c.candidate = &worker{
		multi: rapid.Bool().Draw(t, "multi"), deaf: rapid.IntRange(0, 9).Draw(t, "deaf") == 0,
		pending: make(map[Ask]Action), subs: make(map[string]bool), listens: make(map[Ask]AskListen), stops: make(map[Ask]bool), ended: make(map[Ask]bool),
		dislikes: make(map[string]Ending), refusals: make(map[string][]Ending),
	}
	for _, uri := range modelURIs {
		if rapid.IntRange(0, 5).Draw(t, "dislikes") == 0 {
			c.candidate.dislikes[uri] = c.drawEnding(t)
		}
	}
	c.perform(t, c.table.Offer(c.candidate.multi))
}

func (c *client) promote(t *rapid.T) {
	if c.candidate == nil {
		t.Skip("none")
	}
	early := !c.table.Offered() && rapid.Bool().Draw(t, "early")
	if !c.table.Offered() && !early {
		t.Skip("not ready")
	}
	c.serving, c.candidate = c.candidate, nil
	c.served = append(c.served, c.serving)
	for _, r := range c.open {
		r.admitted, r.refused = false, false
	}
	for k := range c.held {
		if w := c.watchers[k.holder]; w == nil || !w.finished {
			c.owe(k) // kept or ended, it is told
		}
	}
	c.perform(t, c.table.Promote())
}

func (c *client) abandon(t *rapid.T) {
	if c.candidate == nil {
		t.Skip("none")
	}
	c.candidate = nil
	if actions := c.table.Abandon(); len(actions) > 0 {
		t.Fatalf("a candidate that fails changes something: %v", actions)
	}
}

func (c *client) lose(t *rapid.T) {
	if c.serving == nil {
		t.Skip("none")
	}
	c.serving = nil
	c.perform(t, c.table.Lost())
}

func (c *client) next(t *rapid.T) {
	a := c.table.Next()
	if a == nil {
		return
	}
	t.Logf("  next %T%+v", a, a)
	for k := range c.owed {
		if c.table.lease(k).queued { // else its worker has not admitted it yet
			c.owed[k]++
		}
	}
	c.told(t, a)
}

// lease returns the lease of a holder, an empty one if there is none.
func (t *Table) lease(k key) *lease {
	h := t.listeners[k.holder]
	if k.holder == Connection {
		h = t.connection
	}
	if h == nil || h.leases[k.uri] == nil {
		return &lease{}
	}
	return h.leases[k.uri]
}

// check is true after each step.
func (c *client) check(t *rapid.T) {
	leases, listeners := len(c.table.connection.leases), 0
	for _, h := range c.table.listeners {
		leases += len(h.leases)
		listeners++
	}
	c.listeners = max(c.listeners, listeners)
	if leases != c.table.used || leases > modelCapacity {
		t.Fatalf("LEASE-5: %d leases, %d counted", leases, c.table.used)
	}
	if len(c.table.queue) > leases+4*listeners {
		t.Fatalf("LEASE-8: %d updates wait", len(c.table.queue))
	}
}

// settle lets everything be answered and told, and checks that client, table and
// worker agree in the end.
func (c *client) settle(t *rapid.T) {
	if c.serving == nil {
		if c.candidate == nil {
			c.offer(t)
		}
		for !c.table.Offered() {
			c.answer(t)
		}
		c.promote(t)
	}
	for range 10_000 {
		switch {
		case c.pendingAsks() > 0:
			c.answer(t)
		case c.pendingStops() > 0:
			c.finish(t)
		case len(c.table.queue) > 0:
			c.next(t)
		default:
			c.agree(t)
			return
		}
	}
	t.Fatal("it goes on for ever")
}

func (c *client) pendingAsks() (n int) {
	for _, w := range c.workers() {
		n += len(w.pending)
	}
	return n
}

func (c *client) pendingStops() (n int) {
	for _, w := range c.workers() {
		n += len(w.stops)
	}
	return n
}

func (c *client) agree(t *rapid.T) {
	c.check(t)
	for n, r := range c.open {
		t.Errorf("request %d has no answer: %+v", n, r)
	}
	for k := range c.owed {
		t.Errorf("LEASE-8: %+v waits for its update", k)
	}
	for id, lists := range c.owedList {
		if lists != 0 {
			t.Errorf("LEASE-8: %d waits for its lists %b", id, lists)
		}
	}
	for k, e := range c.signals {
		t.Errorf("LEASE-6: %+v is over as %+v, and not told", k, e)
	}
	if len(c.held) != c.table.used {
		t.Errorf("LEASE-2: %d leases are held, %d counted", len(c.held), c.table.used)
	}
	if len(c.table.lanes) > 0 || len(c.table.asks) > 0 {
		t.Errorf("remembered: %d lanes, %d asks", len(c.table.lanes), len(c.table.asks))
	}
	c.agreeWithWorker(t)
	var complete []Action
	for _, id := range slices.Sorted(maps.Keys(c.watchers)) {
		complete = append(complete, Complete{id})
	}
	if got := c.table.Close(); fmt.Sprint(got) != fmt.Sprint(complete) {
		t.Errorf("LEASE-7: at the end %v, want %v", got, complete)
	}
}

// agreeWithWorker checks that the serving worker watches what is held and, on
// the client's own connection, nothing else.
func (c *client) agreeWithWorker(t *rapid.T) {
	w := c.serving
	for k := range c.held {
		watched := w.subs[k.uri] || slices.Contains(w.unionOf, k.uri)
		if k.holder != Connection {
			watched = !w.multi && slices.Contains(w.unionOf, k.uri)
			for _, a := range w.listens {
				watched = watched || a.Holder == k.holder && slices.Contains(a.URIs, k.uri)
			}
		}
		if !watched {
			t.Errorf("LEASE-1: %+v is held and not watched", k)
		}
	}
	for uri, on := range w.subs {
		if _, no := w.dislikes[uri]; on && !no && !c.held[key{Connection, uri}] && !slices.Contains(w.unionOf, uri) {
			t.Errorf("LEASE-1: %s is watched and not held", uri)
		}
	}
	for ask, a := range w.listens {
		if c.watchers[a.Holder] == nil {
			t.Errorf("LEASE-1: listen %d is for nobody", ask)
		}
	}
	if len(c.watchers) == 0 && w.union != 0 {
		t.Error("LEASE-1: the union is for nobody")
	}
}
