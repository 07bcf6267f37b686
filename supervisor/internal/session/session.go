package session

import (
	"slices"
	"time"

	"github.com/holdfast-mcp/holdfast/internal/envelope"
	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/catalog"
)

// Limits bound what a session keeps for its client.
type Limits struct {
	// HoldTimeout is how long a request waits for a worker before it is
	// refused as worker_starting. initialize and server/discover are exempt.
	HoldTimeout time.Duration
	// StartTimeout is how long a worker may take to answer the client's
	// initialize; 0: for ever.
	StartTimeout time.Duration
	// InitializeTimeout and DiscoverTimeout are how long the client waits for
	// the answer to initialize and server/discover if nothing is remembered; 0:
	// for ever.
	InitializeTimeout time.Duration
	DiscoverTimeout   time.Duration
	// Lazy: no worker is started before a request demands it (SEC-7).
	Lazy bool
	// ChainTimeout is how long a worker that is replaced waits for the next
	// request of a chain that it has begun; 0: not at all.
	ChainTimeout time.Duration
	// Controls: the client has tools of ours beside those of the server.
	Controls bool
	// Leases is how many resources may be watched on the connection (LEASE-5).
	Leases int
	// HoldRequests and HoldBytes bound what may wait at one time; a request
	// beyond either is refused as worker_unavailable.
	HoldRequests int
	HoldBytes    int
	// ReplayAnnotated lets calls of tools that the client was shown as
	// readOnlyHint count as reads.
	ReplayAnnotated bool
	// ForwardStale lets calls pass whose arguments the live tool ignores
	// (CAT-4).
	ForwardStale bool
}

// Session is one client connection. It is not safe for concurrent use.
type Session struct {
	limits  Limits
	version string // of holdfast, for the minimal initialize answer
	began   time.Time

	told   handshake
	modern modernEra

	shape     Shape // of the client, valid if shaped
	shaped    bool
	memory    Memory
	traits    Traits
	recalling *request   // waits for Recalled
	probes    []*request // server/discover that the client waits for
	deadly    bool       // a worker has died of one

	numbers uint64              // last number issued to a request of either kind
	sent    map[uint64]*request // requests on a link, by number
	own     map[uint64]ownCall  // requests of the session's own, by number
	byID    map[string]uint64   // requests of the client that await an answer
	byToken map[string]uint64   // progress tokens of those requests
	forlorn []uint64            // cancelled requests that may still be answered

	queue     []item // waits for a serving link, in order
	queueSize int    // bytes in queue
	queued    int    // requests in queue

	links   map[Link]*link
	serving Link
	resting bool            // nothing is started before a request demands it
	down    *protocol.Error // why nothing can serve; nil while something may
	// demandAt is when a request may demand a start although down is set.
	demandAt time.Time

	asked     map[int32]question // requests of workers that the client has to answer
	lastAsked int32

	chains map[state]*chain // that workers have begun

	watched  watched
	lastSide Link // last number of a side link, less firstSide

	rootsChanged bool // client said so while nothing served

	readOnly map[string]bool      // tools shown as such, with Limits.ReplayAnnotated
	shown    map[string]arguments // of the tools, as the client has seen them
	tools    map[string]struct{}  // of the server, by name, with Limits.Controls
	views    [catalog.Kinds]view
	cursors  map[string]Link // of pages that the client got, by the link that gave them
}

// handshake is what passed between client and worker at the beginning. It is
// what a later worker is told again.
type handshake struct {
	initialize  []byte // client's request, nil before the first answer
	version     string // protocol version that the client was told
	early       Early  // who answered
	offers      offer  // what initialize, or else server/discover, has told
	initialized []byte // client's notification, nil until it came
	setLevel    []byte // last logging/setLevel that a worker took
	logging     bool   // the answer offered log messages
	ownTools    bool   // the answer offered tools for the sake of ours alone
	pending     *request
}

// Early says who answered the client's initialize.
type Early string

// Early answers.
const (
	// EarlyNot: the worker did, or nobody yet.
	EarlyNot Early = ""
	// EarlyMemory: it is that of an earlier run.
	EarlyMemory Early = "cache"
	// EarlyMinimal: it is our own, until the worker corrects it.
	EarlyMinimal Early = "minimal"
)

// modernEra is what later workers have to agree with, in the era of
// per-request _meta.
type modernEra struct {
	discovered bool   // the client was told so by server/discover
	version    string // that it speaks
	meta       []byte // raw _meta of a request of ours
}

// request is a request of the client that awaits its answer.
type request struct {
	number   uint64
	id       []byte // raw token
	key      string // of id
	method   string
	payload  []byte // the client's line
	params   []byte // part of payload
	token    string // key of the progress token, empty if there is none
	modern   bool
	gone     bool // cancelled
	active   bool // counted by its link
	link     Link // 0 while it is queued
	attempts int
	arrived  time.Time
	since    time.Time // it waits, in the queue or for the initialize answer
	overdue  bool      // its link was refused for the lack of an answer
	answered bool      // ahead of the worker, whose answer nobody waits for
	renewed  bool      // it was sent to a fresh session already

	reply        []byte // worker's answer, until the table of what is watched decides
	acknowledged bool   // of a listen: it is open
	stranded     bool   // of a listen: its worker takes none, the next one may
}

// item is an entry of the queue: a request, or a notification that must not
// overtake the requests before it.
type item struct {
	request *request
	note    []byte
}

// phase is the state of a link, in this order but for waiting.
type phase uint8

const (
	// dismissed: it was retired before it could serve, and never will.
	dismissed phase = iota
	// waiting: an initialize of the client is under way elsewhere, and its
	// answer decides what this link has to be told.
	waiting
	// replaying: the handshake has been told again and is not answered.
	replaying
	// listingFirst: it is asked for the lists that the client has seen.
	listingFirst
	// standby: it could serve.
	standby
	// serving: it gets the client's requests.
	serving
	// draining: it serves no more, and answers what it has.
	draining
)

type link struct {
	generation uint64
	phase      phase
	active     int  // requests that its drain waits for
	shaken     bool // its worker has been told the handshake
	ready      bool // its worker has been told the client's initialized
	spoke      bool // its worker has answered something but a probe
	probe      probed
	unheard    bool                 // the client has cancelled that: it may never be answered
	offers     offer                // what its worker has declared
	another    bool                 // its executable is not that of the link before
	memory     Memory               // what its worker, or that command in an earlier run, has answered
	greeted    time.Time            // it has an initialize that was answered ahead of it; zero if not
	listing    *listing             // while it does not serve
	multi      bool                 // its worker takes many sessions
	dropped    int                  // side links that its worker has closed by itself
	serverInfo []byte               // raw, of a worker with a union
	schemas    map[string]arguments // of its tools, as far as they are known
	level      []byte               // params of the logging/setLevel that its worker took
	roots      bool                 // the client's roots have changed since the link came
	// early holds what the worker sent before its first initialize answer.
	early     []Frame
	earlySize int // bytes
}

// question is a request of a worker, known to the client by another number.
type question struct {
	link Link
	id   uint64
}

type ownCall struct {
	link   Link
	method string
	list   *catalog.Listing // that the answer is a page of, nil for other calls
}

// maxForlorn bounds how many cancelled requests are remembered. A worker may
// or may not answer them.
const maxForlorn = 1024

// maxAsked bounds how many requests of workers may await the client's answer.
const maxAsked = 4096

// maxEarly and maxEarlyBytes bound what is kept of a worker that talks before
// it has answered initialize.
const (
	maxEarly      = 256
	maxEarlyBytes = 4 << 20
)

// New returns the session of a client that has not said anything. version is
// that of holdfast itself, began when its process did, traits what is known of
// the command.
func New(limits Limits, version string, began time.Time, traits Traits) *Session {
	return &Session{
		limits:  limits,
		version: version,
		began:   began,
		traits:  traits,
		resting: limits.Lazy,
		sent:    make(map[uint64]*request),
		own:     make(map[uint64]ownCall),
		byID:    make(map[string]uint64),
		byToken: make(map[string]uint64),
		links:   make(map[Link]*link),
		asked:   make(map[int32]question),
		chains:  make(map[state]*chain),
		watched: newWatched(limits.Leases),

		readOnly: make(map[string]bool),
		cursors:  make(map[string]Link),
	}
}

// Idle reports whether no request of the client awaits an answer. Open listens
// do not count: they are answered when somebody ends them.
func (s *Session) Idle() bool {
	if s.queued > 0 {
		return false
	}
	for _, r := range s.sent {
		if !r.gone && !r.answered && r.method != methodListen {
			return false
		}
	}
	return true
}

// Awaits reports whether the client waits for the answer to a request that a
// link has.
func (s *Session) Awaits(of Link, number uint64) bool {
	r := s.sent[number]
	return r != nil && r.link == of
}

// InFlight returns how many requests of the client await an answer, held ones
// included.
func (s *Session) InFlight() int { return len(s.byID) }

// Serving returns the link that takes requests, 0 if there is none.
func (s *Session) Serving() Link { return s.serving }

// Deadline returns when Expire has something to do; false if it has not.
func (s *Session) Deadline() (time.Time, bool) {
	var d deadline
	s.greetingDeadline(&d)
	if at, due := s.listDeadline(); due {
		d.add(at)
	}
	s.chainDeadline(&d)
	s.watchDeadline(&d)
	for _, it := range s.queue {
		if r := it.request; r != nil && expires(r) {
			d.add(r.since.Add(s.limits.HoldTimeout))
		}
	}
	return d.at, d.some
}

// Expire answers ahead of the worker what is due, and refuses requests that
// were held for too long (SUP-23).
func (s *Session) Expire(now time.Time, out *Output) {
	s.greetDue(now, out)
	s.checkDue(now, out)
	s.endChains(now)
	s.stopDue(now, out)
	s.expireWatched(now, out)
	s.dropQueued(func(r *request) bool {
		if !expires(r) || now.Before(r.since.Add(s.limits.HoldTimeout)) {
			return false
		}
		s.refuse(r, s.heldTooLong(), out)
		return true
	})
}

func (s *Session) heldTooLong() *protocol.Error {
	return protocol.NewError(protocol.WorkerStarting, "the server did not become ready within "+
		s.limits.HoldTimeout.String()+"; the request was not executed, try again")
}

func expires(r *request) bool { return r.method != methodInitialize && r.method != methodDiscover }

// dropQueued removes the requests from the queue for which f returns true, and
// forgets them.
func (s *Session) dropQueued(f func(*request) bool) {
	s.queue = slices.DeleteFunc(s.queue, func(it item) bool {
		r := it.request
		if r == nil || !f(r) {
			return false
		}
		s.unqueued(r)
		s.forget(r)
		return true
	})
}

func (s *Session) enqueue(r *request) {
	s.queue = append(s.queue, item{request: r})
	s.queued++
	s.queueSize += len(r.payload)
}

func (s *Session) unqueued(r *request) {
	s.queued--
	s.queueSize -= len(r.payload)
}

// forget ends the life of a request: its id and token may be used again.
func (s *Session) forget(r *request) {
	s.release(r)
	delete(s.sent, r.number)
}

// release frees the id and token of a request that the client waits for no
// more.
func (s *Session) release(r *request) {
	s.settle(r)
	if s.byID[r.key] == r.number {
		delete(s.byID, r.key)
	}
	if r.token != "" && s.byToken[r.token] == r.number {
		delete(s.byToken, r.token)
	}
	if s.told.pending == r {
		s.told.pending = nil
	}
	if r.method == methodDiscover {
		s.probes = slices.DeleteFunc(s.probes, func(p *request) bool { return p == r })
	}
}

// forlornly keeps a request on its link that the client waits for no more: its
// worker may still answer it.
func (s *Session) forlornly(r *request) {
	s.forlorn = append(s.forlorn, r.number)
	if len(s.forlorn) > maxForlorn {
		delete(s.sent, s.forlorn[0])
		s.forlorn = s.forlorn[1:]
	}
}

// refuse answers a request that no worker has executed.
func (s *Session) refuse(r *request, err *protocol.Error, out *Output) {
	if kind, ok := catalog.OfMethod(r.method); ok {
		s.views[kind].owed = true
	}
	if !r.gone {
		out.line(errorLine(r.id, err.RPC()))
	}
}

// settle notes that no drain waits for r any more.
func (s *Session) settle(r *request) {
	if l := s.links[r.link]; l != nil && r.active {
		l.active--
	}
	r.active = false
}

func (s *Session) number() uint64 {
	s.numbers++
	return s.numbers
}

// progressToken returns the key of the progress token in params, or "".
func progressToken(params []byte) string {
	if span, ok := envelope.Find(params, "_meta", "progressToken"); ok {
		return envelope.IDKey(span.Of(params))
	}
	return ""
}

// isModern reports whether params carry the per-request protocol version of
// the 2026-07-28 revision or a later one.
func isModern(params []byte) bool {
	span, ok := envelope.Find(params, "_meta", metaVersion)
	return ok && string(span.Of(params)) >= `"2026-`
}

// Call is a request of the client that awaits its answer.
type Call struct {
	ID     string
	Method string
	// Generation that has it, 0 while it is held.
	Generation uint64
	Since      time.Time
}

// Calls returns the requests that await an answer, in no order.
func (s *Session) Calls() []Call {
	var calls []Call
	add := func(r *request, generation uint64) {
		if !r.gone && !r.answered {
			calls = append(calls, Call{string(r.id), r.method, generation, r.since})
		}
	}
	for _, r := range s.sent {
		add(r, s.generation(r.link))
	}
	for _, it := range s.queue {
		if it.request != nil {
			add(it.request, 0)
		}
	}
	return calls
}

// generation returns that of a link, 0 if there is none.
func (s *Session) generation(of Link) uint64 {
	if l := s.links[of]; l != nil {
		return l.generation
	}
	return 0
}

// Version returns the protocol version that the client was told by initialize,
// or "".
func (s *Session) Version() string { return s.told.version }

// Leases returns how many resources the client watches.
func (s *Session) Leases() int { return s.watched.table.Used() }

// Early tells who answered the client's initialize, if not the worker.
func (s *Session) Early() Early { return s.told.early }
