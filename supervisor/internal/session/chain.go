package session

import (
	"crypto/sha256"
	"time"

	"github.com/holdfast-mcp/holdfast/internal/envelope"
)

// A worker may answer with what it wants to know first (input_required) and a
// requestState that only it can read. The client's next request carries that
// state, and goes to the worker that issued it for as long as it lives:
//
//	request -> result input_required, state S1 -> request with S1 -> ... -> result
//	          \___________ one chain, one worker _________________/
//
// An open chain extends the drain of its worker, up to Limits.ChainTimeout.

// state is the digest of a requestState.
type state [sha256.Size]byte

type chain struct {
	link Link
	ends time.Time // zero until a time is known
	used bool      // the next request has come
}

// maxChains bounds how many open chains are remembered; the retry of one beyond
// goes to the worker that serves.
const maxChains = 1024

// stateOf returns the digest of the requestState in the params of a request or
// in a result, false if there is none.
func stateOf(value []byte) (state, bool) {
	span, ok := envelope.Find(value, "requestState")
	if !ok {
		return state{}, false
	}
	return sha256.Sum256(span.Of(value)), true
}

// openChain notes that a worker waits for the next request of a chain.
func (s *Session) openChain(from Link, result []byte) {
	kind, ok := envelope.Find(result, "resultType")
	if !ok || string(kind.Of(result)) != `"input_required"` || s.limits.ChainTimeout == 0 {
		return
	}
	st, ok := stateOf(result)
	if !ok || len(s.chains) >= maxChains {
		return
	}
	s.chains[st] = &chain{link: from}
}

// nextOfChain returns the link that the next request of a chain goes to, 0 for
// any other request.
func (s *Session) nextOfChain(r *request) Link {
	if len(s.chains) == 0 || !r.modern {
		return 0
	}
	st, ok := stateOf(r.params)
	c := s.chains[st]
	if !ok || c == nil {
		return 0
	}
	c.used = true
	if l := s.links[c.link]; l.phase != serving && l.phase != draining {
		return 0
	}
	return c.link
}

// ChainUntil returns until when a chain may wait for its next request to this
// link, the zero Time if none does.
func (s *Session) ChainUntil(of Link) time.Time {
	var until time.Time
	for _, c := range s.chains {
		if c.link == of && !c.used && c.ends.After(until) {
			until = c.ends
		}
	}
	return until
}

// hasChain reports whether a chain waits for its next request to a link.
func (s *Session) hasChain(link Link) bool {
	for _, c := range s.chains {
		if c.link == link && !c.used {
			return true
		}
	}
	return false
}

// loseChains forgets the chains of a link that is gone: their next requests go
// to the worker that serves, and its answer passes.
func (s *Session) loseChains(of Link) {
	for st, c := range s.chains {
		if c.link == of {
			delete(s.chains, st)
		}
	}
}

func (s *Session) chainDeadline(d *deadline) {
	for _, c := range s.chains {
		d.add(c.ends)
	}
}

func (s *Session) endChains(now time.Time) {
	for st, c := range s.chains {
		if passed(&c.ends, now, s.limits.ChainTimeout) {
			delete(s.chains, st)
		}
	}
}
