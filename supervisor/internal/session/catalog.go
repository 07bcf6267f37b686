package session

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-mcp/holdfast/internal/envelope"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/catalog"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/lease"
)

// Quiet times between the listings that check what a worker says of its list.
// The first of them is made at once: a worker that is replaced may take back
// what it has said. A check without a difference doubles the next time: some
// servers say that a list has changed whenever it is listed (CAT-1).
const (
	minQuiet = 300 * time.Millisecond
	maxQuiet = 30 * time.Second
)

// listPatience bounds how long a worker may take to answer a list that we ask
// for: a candidate then serves without having been compared.
const (
	candidatePatience = 2 * time.Second
	checkPatience     = 30 * time.Second
)

// view is what the client knows of one kind of list.
//
//	worker ready -------------------------------+--> live listing, all pages
//	worker says list_changed -> dirty --quiet---+       | differs from seen
//	                                                    v
//	                                   once it serves: list_changed to the client
type view struct {
	// announced: the client was told that it would hear of changes.
	announced bool
	// seen is what the client got, nil if it never asked; cursor continues it.
	seen   *catalog.Listing
	cursor string
	// mixed: a page of it was not of the worker that served then.
	mixed bool
	// whole is the last list that the client got to its end, nil if that is seen:
	// it keeps that one when it gives up a later one in the middle.
	whole *catalog.Listing
	// told is the list that the client was last told to ask for, nil once it
	// has asked: it is not told twice.
	told *catalog.Listing
	// owed: the client has asked in vain, and asks again only when it is told
	// that the list has changed.
	owed bool

	dirty   bool // the list may have changed
	later   bool // that is not checked before quiet has passed
	quiet   time.Duration
	checked time.Time        // when the last such check began; the next is due when quiet has passed
	live    *catalog.Listing // the check under way, nil if there is none
	again   bool             // that check is due again if it fails
	late    time.Time        // when that check has failed; zero until a time is known
}

// listing is what a candidate has been asked to list before it serves.
type listing struct {
	lists   [catalog.Kinds]*catalog.Listing // nil where nothing was asked, or nothing came
	asking  int                             // lists that are not complete
	late    time.Time                       // when it is no longer waited for; zero until a time is known
	changed [catalog.Kinds]bool             // the worker said so since
}

// List is what the client has seen of one kind of list.
type List struct {
	Kind  catalog.Kind
	Items int
	// Digest stands for the items, see [catalog.Listing].
	Digest string
	// Complete: there is no page that the client has not seen.
	Complete bool
}

// Lists returns what the client has seen of each kind that it has asked for.
func (s *Session) Lists() []List {
	var lists []List
	for k, v := range s.views {
		if v.seen != nil {
			lists = append(lists, List{catalog.Kind(k), v.seen.Len(), v.seen.Digest(), v.seen.Complete})
		}
	}
	return lists
}

// learnOffers notes what an answer to initialize has told the client.
func (s *Session) learnOffers(result []byte) {
	s.told.ownTools = offersOf(result)&offersTools == 0
	result = s.offeringControls(result)
	s.told.offers = offersOf(result)
	s.told.logging = s.told.offers&offersLogging != 0
	for k := range s.views {
		span, ok := envelope.Find(result, "capabilities", catalog.Kind(k).Capability(), "listChanged")
		s.views[k].announced = ok && string(span.Of(result)) == "true"
	}
}

// learnList takes a page that the client gets (CAT-6: nothing is asked for it).
func (s *Session) learnList(kind catalog.Kind, r *request, result []byte, out *Output) {
	v := &s.views[kind]
	v.owed = false
	if r.link != s.serving && s.compares(v) {
		// An older worker answers: the serving one may have another list. The
		// client may ask for it by itself, if it was told before.
		v.dirty, v.later = true, true
	}
	cursor := string(catalog.Cursor(r.params, "cursor"))
	if kind == catalog.Tools {
		s.learnSchemas(r.link, cursor == "", result)
	}
	switch {
	case cursor == "":
		if v.seen != nil && v.seen.Complete {
			v.whole = v.seen
		}
		v.seen, v.told, v.mixed = new(catalog.Listing), nil, false
	case v.seen == nil || v.seen.Complete || cursor != v.cursor:
		return // a page out of order says nothing new
	}
	next, err := v.seen.Add(kind, result)
	if err != nil {
		v.seen, v.whole = v.whole, nil
		return
	}
	v.cursor = string(next)
	if v.seen.Complete {
		v.whole = nil
	}
	v.mixed = v.mixed || r.link == 0 || r.link != s.serving
	if v.seen.Complete && !v.mixed {
		s.rememberList(kind, v.seen, out)
	}
}

// learnSchemas notes the schemas that the client is shown, and that a link's
// tools have (CAT-4).
func (s *Session) learnSchemas(from Link, first bool, result []byte) {
	if s.limits.ForwardStale {
		return
	}
	if first || s.shown == nil {
		s.shown = make(map[string]arguments)
	}
	addSchemas(s.shown, result)
	if l := s.links[from]; l != nil {
		l.addSchemas(result)
	}
}

func (l *link) addSchemas(result []byte) {
	if l.schemas == nil {
		l.schemas = make(map[string]arguments)
	}
	addSchemas(l.schemas, result)
}

// maxCursors bounds how many cursors are remembered; a client that keeps more
// of them at a time has one forwarded that should be refused.
const maxCursors = 4096

// learnCursor notes which link gave a cursor (CAT-5).
func (s *Session) learnCursor(from Link, result []byte) {
	cursor := string(catalog.Cursor(result, "nextCursor"))
	if cursor == "" {
		return
	}
	if _, known := s.cursors[cursor]; known && from != s.serving {
		return // it may be of the serving one as well
	}
	if len(s.cursors) >= maxCursors {
		clear(s.cursors)
	}
	s.cursors[cursor] = from
}

// staleCursor reports whether r asks for a page that another link has promised.
func (s *Session) staleCursor(r *request) bool {
	if _, ok := catalog.OfMethod(r.method); !ok {
		return false
	}
	from, known := s.cursors[string(catalog.Cursor(r.params, "cursor"))]
	return known && from != s.serving
}

// listFirst asks a candidate for the lists that the client has seen, before it
// serves.
func (s *Session) listFirst(to Link, l *link, out *Output) {
	if s.told.initialize != nil && s.told.initialized == nil || s.told.initialize == nil && s.modern.version == "" {
		return
	}
	for k := range s.views {
		kind := catalog.Kind(k)
		switch {
		case s.views[k].seen == nil:
		case s.lost(l)&needs(kind.Method()) != 0:
			l.listing.lists[k] = &catalog.Listing{Complete: true}
		default:
			l.listing.lists[k] = new(catalog.Listing)
			l.listing.asking++
			s.askList(to, kind, l.listing.lists[k], nil, out)
		}
	}
}

// checkLists compares the lists of a worker that was promoted with what the
// client has seen of those before.
func (s *Session) checkLists(l *link, out *Output) {
	for k := range s.views {
		kind, v := catalog.Kind(k), &s.views[k]
		v.live, v.dirty, v.later, v.quiet = nil, false, false, minQuiet
		s.payOwed(kind, v, l, out)
		if v.seen == nil {
			continue
		}
		var list *catalog.Listing
		if l.listing != nil {
			v.dirty = l.listing.changed[k]
			list = l.listing.lists[k]
		}
		done := list != nil && list.Complete
		if done {
			s.rememberList(kind, list, out)
		}
		switch {
		case !s.compares(v):
			v.dirty = false
		case done:
			v.live, v.again = list, false
			s.compare(kind, v, out)
		default:
			v.dirty = true // a check that fails is tried again
			s.check(kind, out)
		}
	}
	l.listing = nil
}

// payOwed tells a client that has asked for a list in vain to ask again.
func (s *Session) payOwed(kind catalog.Kind, v *view, l *link, out *Output) {
	if !v.owed || !s.compares(v) || s.told.initialize != nil && s.told.initialized == nil {
		return
	}
	v.owed = false
	if s.lost(l)&needs(kind.Method()) == 0 && !s.queues(kind) {
		s.tellChanged(kind, out)
	}
}

// compares reports whether the client hears of changes of a list.
func (s *Session) compares(v *view) bool {
	if s.told.initialize == nil {
		return len(s.watched.listens) > 0
	}
	return v.announced
}

// queues reports whether the client already asks for a list.
func (s *Session) queues(kind catalog.Kind) bool {
	for _, it := range s.queue {
		if it.request != nil && it.request.method == kind.Method() {
			return true
		}
	}
	return false
}

// tellChanged has the client list again.
func (s *Session) tellChanged(kind catalog.Kind, out *Output) {
	if s.told.initialize == nil {
		s.watched.table.Changed(lease.Connection, listsOf(kind))
		return
	}
	line := notificationLine(kind.Changed(), nil)
	if n := len(out.Lines); n > 0 && bytes.Equal(out.Lines[n-1], line) {
		return // one stands for resources and their templates
	}
	out.line(line)
}

// check begins a listing of the serving worker.
func (s *Session) check(kind catalog.Kind, out *Output) {
	v := &s.views[kind]
	v.again = v.dirty
	v.dirty, v.later, v.late = false, false, time.Time{}
	v.live = new(catalog.Listing)
	if s.lost(s.links[s.serving])&needs(kind.Method()) != 0 {
		v.live.Complete = true
		s.compare(kind, v, out)
		return
	}
	s.askList(s.serving, kind, v.live, nil, out)
}

func (s *Session) askList(to Link, kind catalog.Kind, list *catalog.Listing, cursor []byte, out *Output) {
	var members [][]byte
	if s.told.initialize == nil && s.modern.meta != nil {
		members = append(members, append([]byte(`"_meta":`), s.modern.meta...))
	}
	if cursor != nil {
		members = append(members, append([]byte(`"cursor":`), cursor...))
	}
	var params []byte
	if len(members) > 0 {
		params = slices.Concat([]byte{'{'}, bytes.Join(members, []byte{','}), []byte{'}'})
	}
	n := s.number()
	s.own[n] = ownCall{to, kind.Method(), list}
	out.frame(to, Request, n, requestLine(n, kind.Method(), params))
}

// listed takes a page of our own. A listing that fails publishes nothing
// (CAT-6); one that a change has caused is tried again, since the change would
// be lost (CAT-1).
func (s *Session) listed(call ownCall, l *link, kind catalog.Kind, payload []byte, out *Output) {
	v, list := &s.views[kind], call.list
	first := l.phase == listingFirst && list == l.listing.lists[kind]
	if !first && (call.link != s.serving || list != v.live) {
		return // nobody waits for it any more
	}
	cursor, err := s.addPage(l, kind, list, payload)
	switch {
	case err == nil && cursor != nil:
		s.askList(call.link, kind, list, cursor, out)
	case first:
		if err != nil {
			l.listing.lists[kind] = nil
		}
		l.listing.asking--
		s.goOn(out)
	case err != nil:
		v.failed()
	default:
		s.rememberList(kind, list, out)
		s.compare(kind, v, out)
	}
}

func (s *Session) addPage(l *link, kind catalog.Kind, list *catalog.Listing, payload []byte) (cursor []byte, err error) {
	env, err := envelope.Peek(payload)
	if err != nil {
		return nil, err
	}
	if env.Kind != envelope.Response {
		return nil, catalog.ErrPage
	}
	result := env.Result.Of(payload)
	if kind == catalog.Tools && !s.limits.ForwardStale {
		l.addSchemas(result)
	}
	return list.Add(kind, result)
}

// due returns when a list that may have changed is checked, zero if the time of
// day has to be known for that.
func (v *view) due() time.Time {
	if v.later {
		return time.Time{}
	}
	return v.checked.Add(max(v.quiet, minQuiet))
}

// failed ends a check without a result.
func (v *view) failed() {
	v.live, v.dirty, v.later = nil, v.dirty || v.again, true
	v.quiet = min(2*v.quiet, maxQuiet)
}

// compare ends a check: the client hears of a list that it has not seen so.
func (s *Session) compare(kind catalog.Kind, v *view, out *Output) {
	live := v.live
	v.live = nil
	shows := v.seen == nil || live.Shows(v.seen) && (v.whole == nil || live.Shows(v.whole))
	if shows || v.told != nil && live.Shows(v.told) {
		v.quiet = min(2*v.quiet, maxQuiet)
		return
	}
	v.told, v.quiet = live, minQuiet
	s.tellChanged(kind, out)
}

// untold notes that somebody listens for lists who was not told before.
func (s *Session) untold(lists lease.Lists) {
	for k := range s.views {
		if listsOf(catalog.Kind(k))&lists != 0 {
			s.views[k].told, s.views[k].quiet = nil, minQuiet
		}
	}
}

// listChanged takes a list_changed of a worker. It passes if that serves and
// the client has no list that could be compared.
func (s *Session) listChanged(l *link, method string) (pass bool) {
	if s.told.initialize == nil && s.shape.Modern {
		return false // a client of that era hears of changes by a listen
	}
	pass = l.phase == serving
	for k := range s.views {
		v := &s.views[k]
		if catalog.Kind(k).Changed() != method {
			continue
		}
		if l.listing != nil {
			l.listing.changed[k] = true // a later look, once it serves
		}
		if l.phase != serving || v.seen == nil || s.told.initialize == nil {
			continue
		}
		pass = false
		v.dirty = true
	}
	return pass
}

// listDeadline returns when the next check is due, or has failed; false if none
// is.
func (s *Session) listDeadline() (time.Time, bool) {
	var d deadline
	for k := range s.views {
		v := &s.views[k]
		switch {
		case v.live != nil:
			d.add(v.late)
		case v.dirty && s.serving != 0:
			d.add(v.due())
		}
	}
	for _, l := range s.links {
		if l.phase == listingFirst {
			d.add(l.listing.late)
		}
	}
	return d.at, d.some
}

// checkDue begins the checks that are due, and sets a time for new ones.
func (s *Session) checkDue(now time.Time, out *Output) {
	for k := range s.views {
		v := &s.views[k]
		switch {
		case v.live != nil:
			if passed(&v.late, now, checkPatience) {
				maps.DeleteFunc(s.own, func(_ uint64, call ownCall) bool { return call.list == v.live })
				v.failed()
			}
		case v.dirty && s.serving != 0:
			if v.later {
				v.checked, v.later = now, false
			}
			if !now.Before(v.due()) {
				v.checked = now
				s.check(catalog.Kind(k), out)
			}
		}
	}
	for n, l := range s.links {
		if l.phase == listingFirst && passed(&l.listing.late, now, candidatePatience) {
			out.notice("a worker did not list within "+candidatePatience.String()+": it serves without that", "", nil)
			s.standby(n, l, out)
		}
	}
}

// passed reports whether a time has come. One that is not set yet is set to be
// d from now: events come without the time of day.
func passed(at *time.Time, now time.Time, d time.Duration) bool {
	if at.IsZero() {
		*at = now.Add(d)
	}
	return !now.Before(*at)
}

// deadline is the first of some times.
type deadline struct {
	at   time.Time
	some bool
}

func (d *deadline) add(at time.Time) {
	if !d.some || at.Before(d.at) {
		d.at, d.some = at, true
	}
}
