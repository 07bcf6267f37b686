package session

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-mcp/holdfast/internal/envelope"
	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/catalog"
)

// Worker is what a session has to know of the worker at the end of a link.
type Worker struct {
	Generation uint64
	// Another: its executable is not that of the link before. What is known of
	// the command does not hold for it.
	Another bool
	// Multi: it takes many sessions.
	Multi bool
}

// Attach tells the session about a new link. Once the handshake, if there was
// one, has been told again, the link is in Output.Ready. It serves from then on
// if no other link does, else it stands by until Promote.
//
//	session                              worker
//	   | initialize, told version           |
//	   |----------------------------------->|
//	   |                             answer | another version: refused
//	   |<-----------------------------------|
//	   | initialized                        | if the client has said so
//	   | logging/setLevel                   | if the client has set one
//	   | roots/list_changed                 | if it came meanwhile
//	   |----------------------------------->|
//	   | what waited, in order              | once it serves
//
// The order matters: real servers lose tools when initialized overtakes the
// handling of initialize.
func (s *Session) Attach(l Link, w Worker, out *Output) {
	if w.Another {
		s.traits = Traits{}
	}
	s.links[l] = &link{generation: w.Generation, another: w.Another, multi: w.Multi}
	if !w.Another {
		s.links[l].memory = s.memory
	}
	s.down = nil
	s.prepare(l, out)
}

// prepare tells a link the handshake, if it lacks it.
func (s *Session) prepare(to Link, out *Output) {
	l := s.links[to]
	p := s.told.pending
	switch {
	case p != nil && p.link != 0:
		l.phase = waiting
	case s.told.initialize != nil && !l.shaken:
		l.phase = replaying
		n := s.number()
		s.own[n] = ownCall{link: to, method: methodInitialize}
		out.frame(to, Request, n, requestLine(n, methodInitialize, s.initializeParams()))
	case s.mustAgree(l):
		l.phase = replaying
		n := s.number()
		s.own[n] = ownCall{link: to, method: methodDiscover}
		out.frame(to, Request, n, requestLine(n, methodDiscover, slices.Concat([]byte(`{"_meta":`), s.modern.meta, []byte{'}'})))
	case l.listing == nil:
		s.takeStock(to, l, out)
	default:
		s.standby(to, l, out)
	}
}

// takeStock asks a candidate for the lists that the client has seen, and offers
// it what the client watches. It stands by when it has answered.
func (s *Session) takeStock(to Link, l *link, out *Output) {
	l.phase, l.listing = listingFirst, new(listing)
	s.listFirst(to, l, out)
	s.offerLeases(to, l, out)
	s.goOn(out)
}

// mustAgree reports whether a link has to be asked whether it speaks the version
// of a client that does without initialize.
func (s *Session) mustAgree(l *link) bool {
	return s.modern.version != "" && s.told.initialize == nil && s.told.pending == nil && l.probe != probeAccepted
}

// standby makes a link that has been told all one that could serve.
func (s *Session) standby(to Link, l *link, out *Output) {
	l.phase = standby
	out.Ready = to
	if s.serving == 0 {
		s.Promote(to, out)
	}
}

// prepareWaiting goes on with the links that waited for the answer to an
// initialize.
func (s *Session) prepareWaiting(out *Output) {
	for n, l := range s.links {
		if l.phase == waiting {
			s.prepare(n, out)
		}
	}
}

// Promote makes a link that stands by the serving one, and the one that served
// a draining one. It reports false if the link cannot serve yet, because the
// client has shaken hands meanwhile: it will be in Output.Ready again.
func (s *Session) Promote(to Link, out *Output) bool {
	l := s.links[to]
	if l == nil || l.phase != standby {
		return l != nil && l.phase == serving
	}
	if p := s.told.pending; p != nil && p.link != 0 || s.told.initialize != nil && !l.shaken || s.mustAgree(l) {
		s.prepare(to, out)
		return false
	}
	s.Retire(s.serving, out)
	s.serving, l.phase = to, serving
	s.memory = l.memory
	s.catchUp(to, l, out)
	s.promoteLeases(to, l, out)
	s.checkLists(l, out)
	s.flush(out)
	return true
}

// Retire ends the service of a link: it drains, and requests wait until another
// one serves. A link that does not serve yet never will, whatever it answers.
func (s *Session) Retire(l Link, out *Output) {
	old := s.links[l]
	switch {
	case old == nil || old.phase == draining:
	case l == s.serving:
		s.loseLeases(l, out)
		s.takeBackWatched(l)
		s.serving, old.phase = 0, draining
		out.frame(l, Drain, 0, nil)
	default:
		s.loseLeases(l, out)
		old.phase = dismissed
	}
}

// Drained reports whether a link serves no more, or never will, and has
// answered what it had. Open listens do not count.
func (s *Session) Drained(of Link) bool {
	l := s.links[of]
	return l != nil && (l.phase == draining || l.phase == dismissed) && l.active == 0 && !s.hasChain(of)
}

// Ping asks a worker for a sign of life; the answer goes nowhere.
func (s *Session) Ping(to Link, out *Output) {
	if s.links[to] == nil {
		return
	}
	n := s.number()
	s.own[n] = ownCall{link: to, method: methodPing}
	out.frame(to, Request, n, requestLine(n, methodPing, nil))
}

// catchUp tells a link what the client has said since the handshake.
func (s *Session) catchUp(to Link, l *link, out *Output) {
	if !l.shaken {
		return
	}
	if s.told.initialized != nil && !l.ready {
		l.ready = true
		out.frame(to, Notification, 0, s.told.initialized)
	}
	if s.told.setLevel != nil && !bytes.Equal(l.level, s.told.setLevel) && s.lost(l)&offersLogging == 0 {
		l.level = s.told.setLevel
		n := s.number()
		s.own[n] = ownCall{link: to, method: methodSetLevel}
		out.frame(to, Request, n, requestLine(n, methodSetLevel, s.told.setLevel))
	}
	if s.rootsChanged || l.roots {
		s.rootsChanged, l.roots = false, false
		out.frame(to, Notification, 0, notificationLine(noteRootsChanged, nil))
	}
	if l.ready {
		s.releaseEarly(to, out)
	}
}

// Waits reports whether a link owes an answer, to the client or to us. Open
// listens do not count.
func (s *Session) Waits(of Link) bool {
	l := s.links[of]
	if l == nil {
		return false
	}
	return l.active > 0 || l.phase == replaying || l.phase == listingFirst
}

// initializeParams returns the client's params with the version that it was
// told, which may differ from the one that it asked for.
func (s *Session) initializeParams() []byte {
	env, err := envelope.Peek(s.told.initialize)
	if err != nil {
		return nil
	}
	params := env.Params.Of(s.told.initialize)
	span, ok := envelope.Find(params, "protocolVersion")
	if !ok || s.told.version == "" {
		return params
	}
	return envelope.Splice(params, span, strconv.AppendQuote(nil, s.told.version))
}

// replayed takes a worker's answer to the handshake that was told again.
func (s *Session) replayed(from Link, l *link, payload []byte, out *Output) {
	if l.phase != replaying {
		return // it was retired meanwhile
	}
	env, err := envelope.Peek(payload)
	switch {
	case err == nil && env.Kind == envelope.Response:
	case l.probe == probeOpen || l.probe == probeAccepted:
		s.renew(from, out) // it may be for the probe alone
		return
	default:
		s.refusedInitialize(from, l, out)
		s.refuseLink(from, "it refused the handshake of this client", out)
		return
	}
	result := env.Result.Of(payload)
	version := protocolVersion(result)
	switch {
	case version == s.told.version:
	case s.told.early == EarlyMinimal:
		out.notice("the server speaks "+version+", the client was told "+s.told.version, methodInitialize, nil)
		s.told.version = version
	default:
		l.memory.Initialize = result
		s.remember(from, out) // the next client is told so
		if !l.greeted.IsZero() && s.toldAnother() {
			s.memory.Initialize = result
			s.renew(from, out) // it was asked for a version that this client was not told
			return
		}
		s.refuseLink(from, "version_changed: it speaks "+version+", the client was told "+s.told.version, out)
		return
	}
	// What is remembered is for clients that ask in their own words.
	if kept := l.memory.Initialize; !l.greeted.IsZero() || kept == nil || protocolVersion(kept) == version {
		l.memory.Initialize = result
	}
	s.shaken(from, l, result, out)
	if s.told.early == EarlyMinimal {
		s.oweLists()
	}
	s.told.early = EarlyNot
	s.catchUp(from, l, out)
	s.prepare(from, out)
}

// toldAnother reports whether the client was told another version than it had
// asked for.
func (s *Session) toldAnother() bool {
	env, err := envelope.Peek(s.told.initialize)
	if err != nil {
		return false
	}
	asked, ok := envelope.Find(env.Params.Of(s.told.initialize), "protocolVersion")
	return ok && text(asked.Of(env.Params.Of(s.told.initialize))) != s.told.version
}

// oweLists notes that a client whose initialize was answered before any worker
// was ready has to hear what there is.
func (s *Session) oweLists() {
	for k := range s.views {
		s.views[k].owed = s.views[k].owed || s.views[k].seen == nil && catalog.Kind(k) != catalog.Templates
	}
}

// proven takes a sign of life of a link that serves.
func (s *Session) proven(from Link, l *link, payload []byte, env envelope.Envelope, out *Output) {
	if l.probe != probeOpen || from != s.serving {
		return // it was retired meanwhile
	}
	l.probe = probeRefused
	if env.Kind == envelope.Response {
		l.probe, l.offers = probeAccepted, offersOf(env.Result.Of(payload))
		l.memory.Discover, s.traits.Modern = env.Result.Of(payload), Yes
		s.remember(from, out)
	}
	s.flush(out)
}

// rediscovered takes a worker's answer to the server/discover by which we ask
// whether it speaks the version that the client has chosen.
func (s *Session) rediscovered(from Link, l *link, payload []byte, out *Output) {
	env, err := envelope.Peek(payload)
	if l.phase != replaying {
		s.proven(from, l, payload, env, out)
		return
	}
	if err != nil || env.Kind != envelope.Response {
		s.traits.Modern = No
		s.remember(from, out)
		s.refuseLink(from, "version_changed: it does not speak "+s.modern.version+", which the client was told", out)
		return
	}
	result := env.Result.Of(payload)
	l.memory.Discover = result
	if versions, ok := envelope.Find(result, "supportedVersions"); ok &&
		!bytes.Contains(versions.Of(result), strconv.AppendQuote(nil, s.modern.version)) {
		s.remember(from, out)
		s.refuseLink(from, "version_changed: it speaks "+string(versions.Of(result))+", the client was told "+s.modern.version, out)
		return
	}
	l.probe, l.offers = probeAccepted, offersOf(result)
	s.traits.Modern = Yes
	s.remember(from, out)
	s.prepare(from, out)
}

func (s *Session) refuseLink(l Link, reason string, out *Output) {
	out.Refused, out.RefusedReason = l, reason
}

// Announce tells the client something in a log message, if it has been offered
// those and has not asked for worse ones only (SUP-10). Clients of the modern
// era get log messages with their own requests alone.
func (s *Session) Announce(text string, out *Output) {
	if s.told.initialized == nil || !s.told.logging || !s.wantsWarnings() {
		return
	}
	out.line(notificationLine("notifications/message",
		[]byte(`{"level":"warning","logger":"holdfast","data":`+quote(text)+`}`)))
}

func (s *Session) wantsWarnings() bool {
	span, ok := envelope.Find(s.told.setLevel, "level")
	if !ok {
		return true
	}
	switch string(span.Of(s.told.setLevel)) {
	case `"error"`, `"critical"`, `"alert"`, `"emergency"`:
		return false
	}
	return true
}

// Starting tells the session that a worker is about to start: what comes now
// waits for it.
func (s *Session) Starting() { s.down, s.resting = nil, false }

// Down tells the session that no worker can serve for now, and why. What waits
// is answered at once, and so is what comes until the next start: initialize
// by a minimal answer of our own, so that the client stays and learns the
// cause from its calls. A request that comes at demandAt or later waits, and
// demands a start.
func (s *Session) Down(cause *protocol.Error, demandAt time.Time, out *Output) {
	s.down, s.demandAt = cause, demandAt
	waiting := s.queue
	s.queue, s.queued, s.queueSize = nil, 0, 0
	for _, it := range waiting {
		switch {
		case it.request != nil:
			s.forget(it.request)
			s.answerDown(it.request, out)
		default:
			s.keepNotification(it.note)
		}
	}
	for _, r := range s.pendingWatched() {
		if s.inTable(r) {
			s.refuseWatch(r, cause, out)
		}
	}
}

// keepNotification remembers what a later worker has to be told.
func (s *Session) keepNotification(note []byte) {
	env, err := envelope.Peek(note)
	switch {
	case err != nil:
	case env.Method == noteInitialized:
		s.told.initialized = note
	case env.Method == noteRootsChanged:
		s.rootsChanged = true
	}
}

// answerDown answers a request while nothing can serve.
func (s *Session) answerDown(r *request, out *Output) {
	switch {
	case r.method == methodInitialize && s.told.initialize == nil:
		s.greet(r, out)
	case r.method == methodDiscover && s.told.initialize == nil:
		// Clients fall back to initialize, which has an answer.
		s.settleProbe(r, "no server is running", out)
	case s.answerList(r, out):
	case s.controlsAlone(r, out):
	default:
		s.refuse(r, s.down, out)
	}
}
