package session

import (
	"time"

	"github.com/holdfast-mcp/holdfast/internal/envelope"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/catalog"
)

// Quiet times between a worker's list_changed and the listing that checks it.
// A check without a difference doubles the next one: some servers say that a
// list has changed whenever it is listed (CAT-1).
const (
	minQuiet = 300 * time.Millisecond
	maxQuiet = 30 * time.Second
)

// view is what the client knows of one kind of list.
//
//	worker promoted ----------------------------+
//	worker says list_changed -> dirty --quiet---+--> live listing, all pages
//	                                                    | differs from seen
//	                                                    v
//	                                                 list_changed to the client
type view struct {
	// announced: the client was told that it would hear of changes.
	announced bool
	// seen is what the client got, nil if it never asked; cursor continues it.
	seen   *catalog.Listing
	cursor string
	// told is the list that the client was last told to ask for, nil once it
	// has asked: it is not told twice.
	told *catalog.Listing

	dirty bool      // the list may have changed
	due   time.Time // when that is checked; zero until a time is known
	quiet time.Duration
	live  *catalog.Listing // the check under way, nil if there is none
	again bool             // that check is due again if it fails
}

// learnOffers notes of which changes the result of initialize promises to tell.
func (s *Session) learnOffers(result []byte) {
	for k := range s.views {
		span, ok := envelope.Find(result, "capabilities", catalog.Kind(k).Capability(), "listChanged")
		s.views[k].announced = ok && string(span.Of(result)) == "true"
	}
}

// offerAll notes that our own answer has promised to tell of all changes.
func (s *Session) offerAll() {
	for k := range s.views {
		s.views[k].announced = true
	}
}

// learnList takes a page that the client gets (CAT-6: nothing is asked for it).
func (s *Session) learnList(kind catalog.Kind, r *request, result []byte) {
	v := &s.views[kind]
	if r.link != s.serving && v.announced && s.told.initialize != nil {
		v.dirty = true // an older worker answers: the serving one may have another list
	}
	cursor := ""
	if span, ok := envelope.Find(r.params, "cursor"); ok {
		cursor = string(span.Of(r.params))
	}
	switch {
	case cursor == "":
		v.seen, v.told = new(catalog.Listing), nil
	case v.seen == nil || v.seen.Complete || cursor != v.cursor:
		return // a page out of order says nothing new
	}
	next, err := v.seen.Add(kind, result)
	if err != nil {
		v.seen = nil
		return
	}
	v.cursor = string(next)
}

// maxCursors bounds how many cursors are remembered; a client that keeps more
// of them at a time has one forwarded that should be refused.
const maxCursors = 4096

// learnCursor notes which link gave a cursor (CAT-5).
func (s *Session) learnCursor(from Link, result []byte) {
	span, ok := envelope.Find(result, "nextCursor")
	if !ok {
		return
	}
	if len(s.cursors) >= maxCursors {
		clear(s.cursors)
	}
	s.cursors[string(span.Of(result))] = from
}

// staleCursor reports whether r asks for a page that another link has promised.
func (s *Session) staleCursor(r *request) bool {
	if _, ok := catalog.OfMethod(r.method); !ok {
		return false
	}
	span, ok := envelope.Find(r.params, "cursor")
	if !ok {
		return false
	}
	from, known := s.cursors[string(span.Of(r.params))]
	return known && from != s.serving
}

// checkLists compares the lists of a worker that was promoted with what the
// client has seen of those before.
func (s *Session) checkLists(out *Output) {
	for k := range s.views {
		v := &s.views[k]
		v.live, v.dirty, v.due, v.quiet = nil, false, time.Time{}, minQuiet
		if v.seen != nil && v.announced && s.told.initialize != nil {
			s.check(catalog.Kind(k), out)
		}
	}
}

// check begins a listing of the serving worker.
func (s *Session) check(kind catalog.Kind, out *Output) {
	v := &s.views[kind]
	v.live, v.again = new(catalog.Listing), v.dirty
	v.dirty, v.due = false, time.Time{}
	s.askList(kind, nil, out)
}

func (s *Session) askList(kind catalog.Kind, cursor []byte, out *Output) {
	var params []byte
	if cursor != nil {
		params = append(append([]byte(`{"cursor":`), cursor...), '}')
	}
	n := s.number()
	s.own[n] = ownCall{s.serving, kind.Method()}
	out.frame(s.serving, Request, n, requestLine(n, kind.Method(), params))
}

// listed takes a page of our own. A listing that fails publishes nothing
// (CAT-6); one that a change has caused is tried again, since the change would
// be lost (CAT-1).
func (s *Session) listed(from Link, kind catalog.Kind, payload []byte, out *Output) {
	v := &s.views[kind]
	if from != s.serving || v.live == nil {
		return
	}
	env, err := envelope.Peek(payload)
	if err != nil || env.Kind != envelope.Response {
		v.failed()
		return
	}
	cursor, err := v.live.Add(kind, env.Result.Of(payload))
	switch {
	case err != nil:
		v.failed()
	case cursor != nil:
		s.askList(kind, cursor, out)
	default:
		s.compare(kind, v, out)
	}
}

// failed ends a check without a result.
func (v *view) failed() {
	v.live, v.dirty = nil, v.dirty || v.again
	v.quiet = min(2*v.quiet, maxQuiet)
}

// compare ends a check: the client hears of a list that it has not seen so.
func (s *Session) compare(kind catalog.Kind, v *view, out *Output) {
	live := v.live
	v.live = nil
	if v.seen == nil || live.Shows(v.seen) || v.told != nil && live.Shows(v.told) {
		v.quiet = min(2*v.quiet, maxQuiet)
		return
	}
	v.told, v.quiet = live, minQuiet
	out.line(notificationLine(kind.Changed(), nil))
}

// listChanged takes a list_changed of the serving worker. It passes if the
// client has no list that could be compared.
func (s *Session) listChanged(method string) (pass bool) {
	pass = true
	for k := range s.views {
		v := &s.views[k]
		if catalog.Kind(k).Changed() != method || v.seen == nil || s.told.initialize == nil {
			continue
		}
		pass = false
		v.dirty = true
	}
	return pass
}

// listDeadline returns when the next check is due; false if none is.
func (s *Session) listDeadline() (time.Time, bool) {
	var first time.Time
	found := false
	for k := range s.views {
		v := &s.views[k]
		if v.dirty && v.live == nil && s.serving != 0 && (!found || v.due.Before(first)) {
			first, found = v.due, true
		}
	}
	return first, found
}

// checkDue begins the checks that are due, and sets a time for new ones.
func (s *Session) checkDue(now time.Time, out *Output) {
	for k := range s.views {
		v := &s.views[k]
		switch {
		case !v.dirty || v.live != nil || s.serving == 0:
		case v.due.IsZero():
			v.due = now.Add(max(v.quiet, minQuiet))
		case !now.Before(v.due):
			s.check(catalog.Kind(k), out)
		}
	}
}
