package session

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-mcp/holdfast/internal/envelope"
)

// earlyAfter is how long a worker alone may answer initialize and
// server/discover; from then on memory does.
const earlyAfter = time.Second

// The first messages of a client are answered in time, whatever the worker does
// (docs/architecture.md):
//
//	initialize        worker | memory from 1 s on | minimal answer at InitializeTimeout
//	server/discover   worker | memory from 1 s on | -32601 at DiscoverTimeout
//
// An answer ahead of the worker's makes the worker's an answer to us: a link
// that has the client's initialize already is then a replaying one.

// greetingDue returns when the client's initialize is answered ahead of the
// worker.
func (s *Session) greetingDue() (time.Time, bool) {
	p := s.told.pending
	switch {
	case p == nil || s.told.initialize != nil:
		return time.Time{}, false
	case s.resting:
		return p.arrived, true // it would wait for nothing
	case s.memory.Initialize != nil:
		return p.arrived.Add(earlyAfter), true
	case s.limits.InitializeTimeout > 0 && s.traits.Legacy != No:
		return p.arrived.Add(s.limits.InitializeTimeout), true
	}
	return time.Time{}, false
}

// probeDue returns when a server/discover is answered ahead of the worker.
func (s *Session) probeDue(r *request) (time.Time, bool) {
	from := r.arrived
	if r.number == 1 && from.Sub(s.began) < earlyAfter {
		from = s.began // clients count from the start of our process
	}
	switch {
	case s.resting:
		return from, true
	case s.memory.Discover != nil:
		return from.Add(earlyAfter), true
	case s.limits.DiscoverTimeout > 0 && !s.traits.onlyModern():
		return from.Add(s.limits.DiscoverTimeout), true
	}
	return time.Time{}, false
}

// onlyModern reports whether a client that falls back to initialize would be
// refused.
func (t Traits) onlyModern() bool { return t.Legacy == No && t.Modern != No }

// refusalDue returns when a worker has to have answered initialize.
func (s *Session) refusalDue() (Link, time.Time, bool) {
	if s.limits.StartTimeout == 0 {
		return 0, time.Time{}, false
	}
	if p := s.told.pending; p != nil && p.link != 0 && !p.overdue {
		return p.link, p.since.Add(s.limits.StartTimeout), true
	}
	for n, l := range s.links {
		if l.phase == replaying && !l.greeted.IsZero() {
			return n, l.greeted.Add(s.limits.StartTimeout), true
		}
	}
	return 0, time.Time{}, false
}

// greetingDeadline returns when greetDue has something to do.
func (s *Session) greetingDeadline(d *deadline) {
	if at, ok := s.greetingDue(); ok {
		d.add(at)
	}
	for _, r := range s.probes {
		if at, ok := s.probeDue(r); ok {
			d.add(at)
		}
	}
	if _, at, ok := s.refusalDue(); ok {
		d.add(at)
	}
}

// greetDue answers what is due, and refuses a worker that has not answered
// initialize (SUP-8, C34).
func (s *Session) greetDue(now time.Time, out *Output) {
	for _, r := range slices.Clone(s.probes) {
		if at, ok := s.probeDue(r); ok && !now.Before(at) {
			s.settleProbe(r, "no server was ready in time", out)
		}
	}
	if at, ok := s.greetingDue(); ok && !now.Before(at) {
		s.greet(s.told.pending, out)
	}
	if l, at, ok := s.refusalDue(); ok && !now.Before(at) {
		s.links[l].greeted = time.Time{}
		if p := s.told.pending; p != nil {
			p.overdue = true
		}
		s.refuseLink(l, "it did not answer initialize within "+s.limits.StartTimeout.String()+
			": it is alive but silent; is its stdout buffered?", out)
	}
}

// greet answers initialize ahead of the worker.
func (s *Session) greet(r *request, out *Output) {
	result := s.memory.Initialize
	s.told.early = EarlyMemory
	if result == nil {
		s.told.early = EarlyMinimal
		result = minimalResult(minimalVersion(r.params), s.version)
	}
	out.line(resultLine(r.id, s.offeringControls(result)))
	s.told.initialize = r.payload
	s.told.version = protocolVersion(result)
	s.learnOffers(result)
	link, number, since := r.link, r.number, r.since
	s.dropQueued(func(q *request) bool { return q == r })
	s.forget(r)
	s.queue = slices.DeleteFunc(s.queue, func(it item) bool {
		if it.request != nil {
			return false
		}
		s.queueSize -= len(it.note)
		s.keepNotification(it.note)
		return true
	})
	if l := s.links[link]; l != nil {
		s.own[number] = ownCall{link: link, method: methodInitialize}
		if s.serving == link { // one that has been retired serves no more
			s.serving, l.phase, l.greeted = 0, replaying, since
		}
	}
	s.answerHeldLists(out)
	s.prepareWaiting(out)
}

// settleProbe answers a server/discover ahead of the worker. What the worker
// says later is only learnt from.
func (s *Session) settleProbe(r *request, why string, out *Output) {
	if s.memory.Discover != nil && metaFault(r.params) == nil {
		out.line(resultLine(r.id, s.offeringControls(s.memory.Discover)))
		s.discovered(r, s.memory.Discover)
	} else {
		s.refuseProbe(r, why, out)
	}
	s.leaveProbe(r)
	if r.link == 0 {
		s.answerHeldLists(out)
	}
}

// leaveProbe notes that a probe has its answer, whatever its worker says later.
func (s *Session) leaveProbe(r *request) {
	s.dropQueued(func(q *request) bool { return q == r })
	if r.link == 0 {
		s.forget(r)
		return
	}
	s.release(r)
	s.forlornly(r)
	r.answered = true
}

// refuseProbe has the client fall back to initialize.
func (s *Session) refuseProbe(r *request, why string, out *Output) {
	if !r.gone {
		out.line(rpcErrorLine(r.id, -32601, "Method not found: "+why))
	}
}

// settleProbes answers all open ones, since the client has given up on them or
// no worker survives them.
func (s *Session) settleProbes(why string, out *Output) {
	for _, r := range slices.Clone(s.probes) {
		s.refuseProbe(r, why, out)
		s.leaveProbe(r)
	}
}

// unproven reports whether a request that needs no initialize has to wait for
// the first sign of life of the serving link: behind a bridge the server may
// still be starting. Workers that take many sessions are ready when they say so.
func (s *Session) unproven(r *request) bool {
	l := s.links[s.serving]
	return l != nil && r.modern && r.method != methodDiscover && r.method != methodListen && s.told.initialize == nil &&
		!l.multi && !l.spoke && l.probe < probeRefused && !s.deadly && metaFault(r.params) == nil
}

// prove asks the serving link for that sign, unless the client has done so.
func (s *Session) prove(out *Output) {
	l := s.links[s.serving]
	if l.probe != notProbed && !l.unheard {
		return
	}
	l.probe, l.unheard = probeOpen, false
	n := s.number()
	s.own[n] = ownCall{link: s.serving, method: methodDiscover}
	meta := s.modern.meta
	for _, it := range s.queue {
		if it.request != nil && it.request.modern {
			meta = plainMeta(it.request.params)
			break
		}
	}
	out.frame(s.serving, Request, n, requestLine(n, methodDiscover, slices.Concat([]byte(`{"_meta":`), meta, []byte{'}'})))
}

// knowsLegacy reports whether a probe would be refused, or do harm.
func (s *Session) knowsLegacy() bool {
	return s.traits.Modern == No && s.traits.Legacy != No || s.traits.DiesOfProbe || s.deadly
}

// discovered notes that the client has been told that it may do without
// initialize.
func (s *Session) discovered(r *request, result []byte) {
	s.modern.discovered = true
	s.speaks(r)
	if s.told.initialize == nil {
		s.told.ownTools = offersOf(result)&offersTools == 0
		s.told.offers = offersOf(s.offeringControls(result))
	}
}

// speaks notes in which version a client of the modern era asks, and what it
// says of itself: by a request that is valid, or that a worker has accepted.
func (s *Session) speaks(r *request) {
	version, _ := envelope.Find(r.params, "_meta", metaVersion)
	s.modern.version, s.modern.meta = text(version.Of(r.params)), plainMeta(r.params)
}

// learnEra notes that a worker has served a client that does without initialize,
// and that did not ask before whether it may. A worker that refuses to say what
// it speaks cannot be compared with later ones.
func (s *Session) learnEra(r *request) {
	if s.told.initialize == nil && s.modern.version == "" && s.links[r.link].probe != probeRefused {
		s.speaks(r)
	}
}

// probeAnswered learns from a worker's answer to server/discover.
func (s *Session) probeAnswered(from Link, l *link, r *request, payload []byte, env envelope.Envelope, out *Output) {
	if metaFault(r.params) != nil {
		return // it says nothing of the server
	}
	if env.Kind == envelope.Response {
		result := env.Result.Of(payload)
		l.probe, l.offers = probeAccepted, offersOf(result)
		s.traits.Modern, l.memory.Discover = Yes, result
		if !r.answered && !r.gone {
			s.discovered(r, result)
		}
		s.remember(from, out)
		s.flush(out)
		return
	}
	first := l.probe == probeOpen && !l.shaken
	l.probe = probeRefused
	code, _ := envelope.Find(env.Error.Of(payload), "code")
	if first && string(code.Of(env.Error.Of(payload))) != "-32022" {
		s.traits.Modern = No
		s.remember(from, out)
	}
	s.flush(out)
	if r.answered && s.modern.discovered && s.told.initialize == nil {
		s.refuseLink(from, "version_changed: it does not speak "+s.modern.version+", which the client was told", out)
	}
}

// initializeAnswered learns from a worker's answer to the client's initialize.
// It reports false if the request goes to a fresh session of the worker, since
// it was only the probe before that made the worker refuse it (EDGE-7).
func (s *Session) initializeAnswered(from Link, l *link, r *request, env envelope.Envelope, out *Output) bool {
	if env.Kind == envelope.Response || s.told.initialize != nil {
		return true
	}
	if l.probe != probeOpen && l.probe != probeAccepted || r.renewed {
		s.refusedInitialize(from, l, out)
		return true
	}
	r.renewed = true
	s.requeue(r)
	s.renew(from, out)
	return false
}

// refusedInitialize learns from a worker that refuses initialize.
func (s *Session) refusedInitialize(from Link, l *link, out *Output) {
	if l.probe == notProbed {
		s.traits.Legacy = No
		s.remember(from, out)
	}
}

// requeue puts a request back to wait for the next link, before all others.
func (s *Session) requeue(r *request) {
	s.settle(r)
	delete(s.sent, r.number)
	r.link = 0
	s.queued++
	s.queueSize += len(r.payload)
	s.queue = slices.Insert(s.queue, 0, item{request: r})
}

// renew has the caller replace a link by a fresh one to the same worker.
func (s *Session) renew(of Link, out *Output) {
	if l := s.links[of]; l != nil {
		l.phase = dismissed
	}
	if s.serving == of {
		s.serving = 0
	}
	out.Renew = of
}

// spoilt reports whether the serving link has answered a probe with success:
// some servers refuse initialize then.
func (s *Session) spoilt() bool {
	l := s.links[s.serving]
	return l != nil && l.probe == probeAccepted && l.active == 0 && s.told.initialize == nil
}

// DiedOfProbe reports whether a link whose worker has ended had been given a
// server/discover and nothing that it answered: it is charged to nothing. One
// that is known to answer those has died of something else.
func (s *Session) DiedOfProbe(of Link) bool {
	l := s.links[of]
	return l != nil && l.probe == probeOpen && !l.spoke && s.traits.Modern != Yes
}

// minimalVersion follows the rule of all SDKs: the version asked for if it is
// known and has an initialize at all, else the last one that has.
func minimalVersion(params []byte) string {
	const last = "2025-11-25"
	span, ok := envelope.Find(params, "protocolVersion")
	if !ok {
		return last
	}
	switch v := strings.Trim(string(span.Of(params)), `"`); v {
	case "2024-11-05", "2025-03-26", "2025-06-18", last:
		return v
	}
	return last
}

func minimalResult(told, version string) []byte {
	return []byte(`{"protocolVersion":` + strconv.Quote(told) +
		`,"capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true}}` +
		`,"serverInfo":{"name":"holdfast","version":` + strconv.Quote(version) + `}}`)
}
