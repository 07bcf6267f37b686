package session

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/lease"
)

// Lost tells the session that a link is gone. Each of its requests is answered
// or waits for the next link, as the table in docs/outcomes.md says; its time
// in the queue begins now.
func (s *Session) Lost(l Link, loss Loss, now time.Time, out *Output) {
	if s.links[l] == nil {
		return
	}
	diedOfProbe := loss.Exit != nil && s.DiedOfProbe(l)
	s.loseLeases(l, out)
	delete(s.links, l)
	if s.serving == l {
		s.serving = 0
	}
	for n, call := range s.own {
		if call.link == l {
			delete(s.own, n)
		}
	}
	s.withdrawQuestions(l, loss, out)
	s.loseChains(l)
	if diedOfProbe {
		s.deadly = true
		s.settleProbes("the server does not survive it", out)
	}

	var again []item
	for _, r := range s.lostRequests(l) {
		if s.loseRequest(r, loss, now, out) {
			again = append(again, item{request: r})
		}
	}
	s.queue = append(again, s.queue...)
	if s.down != nil {
		s.Down(s.down, s.demandAt, out) // an old worker was the last one
	}
	s.prepareWaiting(out)
	s.flush(out)
}

// loseRequest settles a request of a link that is gone. It reports whether the
// request waits for the next one.
func (s *Session) loseRequest(r *request, loss Loss, now time.Time, out *Output) (again bool) {
	neverSent := slices.Contains(loss.Unsent, r.number)
	outcome := s.outcomeOf(r)
	switch {
	case r.gone, r.answered:
		s.forget(r)
	case s.loseWatched(r, now):
	case neverSent || outcome == retried || outcome == read && r.attempts < 2:
		if neverSent {
			r.attempts--
		}
		delete(s.sent, r.number)
		r.link, r.active, r.since, r.overdue = 0, false, now, false
		s.queued++
		s.queueSize += len(r.payload)
		return true
	default:
		s.forget(r)
		out.line(lostLine(r, outcome, loss))
	}
	return false
}

func (s *Session) lostRequests(l Link) []*request {
	var lost []*request
	for _, r := range s.sent {
		if r.link == l {
			lost = append(lost, r)
		}
	}
	slices.SortFunc(lost, func(a, b *request) int { return cmp.Compare(a.number, b.number) })
	return lost
}

// withdrawQuestions tells the client that nobody waits for its answers to a
// lost worker any more.
func (s *Session) withdrawQuestions(l Link, loss Loss, out *Output) {
	var lost []int32
	for n, q := range s.asked {
		if q.link == l {
			lost = append(lost, n)
		}
	}
	slices.Sort(lost)
	for _, n := range lost {
		delete(s.asked, n)
		params := `{"requestId":` + strconv.Itoa(int(n)) + `,"reason":` + quote("the server "+loss.Cause) + `}`
		out.line(notificationLine(noteCancelled, []byte(params)))
	}
}

// Unsent answers a request that its link had no room for (SUP-20).
func (s *Session) Unsent(number uint64, out *Output) {
	full := protocol.NewError(protocol.WorkerUnavailable,
		"the server does not read its requests fast enough; this one was not sent, try again")
	r := s.sent[number]
	if ask, ok := s.watched.byNumber[number]; ok {
		if r != nil {
			s.settle(r)
			r.reply, r.link = errorLine(r.id, full.RPC()), 0
		}
		s.forgetAsk(ask)
		s.act(s.watched.table.Refuse(ask, lease.Refusal{}), out)
		return
	}
	if call, ok := s.own[number]; ok && s.links[call.link] != nil {
		delete(s.own, number)
		s.ownAnswer(call, s.links[call.link], errorLine(strconv.AppendUint(nil, number, 10), full.RPC()), out)
		return
	}
	if r == nil {
		return
	}
	if l := s.links[r.link]; l != nil && isProbe(r) && l.probe == probeOpen {
		l.probe = notProbed
	}
	s.forget(r)
	s.refuse(r, full, out)
	if r.method == methodInitialize {
		s.flush(out)
		s.prepareWaiting(out)
	}
}

// Close answers all that is still open, at the end of the client: listens are
// complete, nothing else can be answered any more (LEASE-7, SUP-16).
func (s *Session) Close(out *Output) {
	ended := protocol.NewError(protocol.WorkerUnavailable, "the session ended before the request was sent")
	s.dropQueued(func(r *request) bool {
		s.refuse(r, ended, out)
		return true
	})
	s.Down(ended, time.Unix(1<<40, 0), out) // nothing can demand a start any more
	s.act(s.watched.table.Close(), out)
	for _, r := range s.pendingWatched() {
		s.endWatch(r)
		s.refuse(r, ended, out)
	}
	for _, l := range append(slices.Sorted(maps.Keys(s.links)), 0) { // 0: calls of our own tools
		for _, r := range s.lostRequests(l) {
			s.forget(r)
			if !r.gone && !r.answered {
				out.line(lostLine(r, s.outcomeOf(r), Loss{Generation: s.generation(l), Cause: "was stopped at the end of the session"}))
			}
		}
	}
}
