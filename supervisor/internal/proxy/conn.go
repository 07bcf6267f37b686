package proxy

import (
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/status"

	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/session"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/supervise"
)

// Stream is one MCP connection to a worker.
type Stream interface {
	// Send queues a frame, or reports that there is no room for it. A held one
	// is always taken.
	Send(f *workerv1.Frame, held bool) bool
	// Recv returns the next frame of the worker; its error is final.
	Recv() (*workerv1.Frame, error)
	// Close ends the connection and returns the numbers of the requests that
	// the worker cannot have seen.
	Close() []uint64
}

// Conn is a Stream attached to the client.
type Conn struct {
	proxy  *Proxy
	link   session.Link
	stream Stream
	memory Memory // of the worker's command; nil if there is none
	open   func() (Stream, error)

	readyCh chan struct{} // has a token when the connection could serve
	drained chan struct{}
	drains  sync.Once // for the timer that closes drained
	ended   chan struct{}

	mu      sync.Mutex
	refused string
	renewed bool
	probed  bool // its worker died of a probe
	proven  bool
	end     error
	exit    *workerv1.Exit
	alive   time.Time // when the worker last sent a frame, or owed none
	pinged  bool      // since then
	looked  time.Time // last call of Hung
	held    bool      // a frame of it waits for the client to read
}

// drainLinger is how long a drained worker stays connected: what it has to say
// beside its last answer, such as a notification that it debounces, may come a
// little later.
const drainLinger = 50 * time.Millisecond

// Worker is a worker at the end of a stream.
type Worker struct {
	Generation uint64
	// Memory is that of its command, nil if there is none.
	Memory Memory
	// Multi: it takes many sessions.
	Multi bool
	// Open opens another one.
	Open func() (Stream, error)
}

// Attach connects a worker to the client. It serves as soon as the session says
// so, which Ready tells.
func (p *Proxy) Attach(stream Stream, w Worker) *Conn {
	c := &Conn{
		proxy: p, stream: stream, memory: w.Memory, open: w.Open, alive: time.Now(),
		readyCh: make(chan struct{}, 1), drained: make(chan struct{}), ended: make(chan struct{}),
	}
	p.mu.Lock()
	p.links++
	c.link = p.links
	p.conns[c.link] = c
	another := w.Memory != p.memory
	p.memory = w.Memory
	p.mu.Unlock()
	p.do(func(s *session.Session, out *session.Output) {
		s.Attach(c.link, session.Worker{Generation: w.Generation, Another: another, Multi: w.Multi}, out)
	})
	go c.recvAll() // ends with the stream
	return c
}

func (c *Conn) recvAll() {
	defer close(c.ended)
	for {
		f, err := c.stream.Recv()
		if err != nil {
			c.mu.Lock()
			c.end = err
			c.mu.Unlock()
			return
		}
		c.mu.Lock()
		c.alive, c.pinged = time.Now(), false
		c.mu.Unlock()
		switch f.Kind {
		case workerv1.Frame_KIND_EXIT:
			c.mu.Lock()
			c.exit = f.Exit
			c.mu.Unlock()
		case workerv1.Frame_KIND_RESPONSE:
			c.mu.Lock()
			c.proven = true
			c.mu.Unlock()
			c.pass(f)
		case workerv1.Frame_KIND_REQUEST, workerv1.Frame_KIND_NOTIFICATION, workerv1.Frame_KIND_CANCEL:
			c.pass(f)
		default: // DRAINED tells nothing new, other kinds are of a later wire
		}
	}
}

func (c *Conn) pass(f *workerv1.Frame) {
	if c.isForClient(f) {
		c.hold(true)
		c.proxy.out.awaitRoom(outboxRoom)
		c.hold(false)
	}
	c.proxy.do(func(s *session.Session, out *session.Output) {
		s.Frame(c.link, session.Frame{Kind: session.Kind(f.Kind), ID: f.Id, Payload: f.Payload}, out)
	})
}

// isForClient reports whether a frame may become a line for the client. An
// answer to a request of our own does not: a worker gets ready although the
// client does not read (SUP-4).
func (c *Conn) isForClient(f *workerv1.Frame) bool {
	if f.Kind != workerv1.Frame_KIND_RESPONSE {
		return true
	}
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	return c.proxy.session.Awaits(c.link, f.Id)
}

// hold notes that a frame of the worker waits until the client has read: it is
// not the worker who is silent then.
func (c *Conn) hold(held bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held, c.alive = held, time.Now()
}

func (c *Conn) ready() {
	select {
	case c.readyCh <- struct{}{}:
	default:
	}
}

// idle is called when the connection has served and has nothing to answer.
func (c *Conn) idle() {
	c.drains.Do(func() { time.AfterFunc(drainLinger, func() { close(c.drained) }) })
}

// refusalGrace is how long a worker that cannot be used may take to end by
// itself. Its exit code then says more than the refusal: one that asks for its
// upgrade refuses what comes.
const refusalGrace = 100 * time.Millisecond

// refuse ends the connection because the session cannot use it.
func (c *Conn) refuse(reason string) {
	c.mu.Lock()
	c.refused = reason
	c.mu.Unlock()
	time.AfterFunc(refusalGrace, func() { c.stream.Close() })
}

// renew ends the connection, so that the worker gets another one. It does not
// wait.
func (c *Conn) renew() {
	c.mu.Lock()
	c.renewed = true
	c.mu.Unlock()
	go c.stream.Close() // ends with the write under way, which ends with the stream
}

// Ready has a token whenever the connection could begin to serve.
func (c *Conn) Ready() <-chan struct{} { return c.readyCh }

// Promote lets the connection serve, in place of the one that does. It reports
// false if it cannot yet.
func (c *Conn) Promote() bool {
	var ok bool
	c.proxy.do(func(s *session.Session, out *session.Output) { ok = s.Promote(c.link, out) })
	return ok
}

// Retire ends the service of the connection, or what would become one; requests
// wait for another.
func (c *Conn) Retire() {
	c.proxy.do(func(s *session.Session, out *session.Output) { s.Retire(c.link, out) })
}

// Drained is closed when the connection serves no more and has had nothing to
// answer for a moment.
func (c *Conn) Drained() <-chan struct{} { return c.drained }

// ChainUntil returns until when the client may go on with what the worker has
// begun, the zero Time if there is nothing.
func (c *Conn) ChainUntil() time.Time {
	var until time.Time
	c.proxy.do(func(s *session.Session, _ *session.Output) { until = s.ChainUntil(c.link) })
	return until
}

// Hung reports whether answers are due and nothing at all has come for d, not
// even an answer to a ping (SUP-11). It is to be called several times in d: a
// longer pause means that we did not run ourselves, because the machine was
// suspended or a container paused, and the worker gets all of d again.
func (c *Conn) Hung(d time.Duration) bool {
	var waits bool
	c.proxy.do(func(s *session.Session, _ *session.Output) { waits = s.Waits(c.link) })
	c.mu.Lock()
	now := time.Now()
	if !waits || c.held || now.Sub(c.looked) > d/2 {
		c.alive, c.pinged = now, false
	}
	c.looked = now
	silent := now.Sub(c.alive)
	hung := c.pinged && silent >= d
	ping := !c.pinged && silent >= d/2
	c.pinged = c.pinged || ping
	c.mu.Unlock()
	if ping {
		c.proxy.do(func(s *session.Session, out *session.Output) { s.Ping(c.link, out) })
	}
	return hung
}

// Ended is closed when the stream has ended and all its frames are passed on.
func (c *Conn) Ended() <-chan struct{} { return c.ended }

// State returns what is known of the connection.
func (c *Conn) State() supervise.ConnState {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := supervise.ConnState{
		Proven: c.proven, Refused: c.refused, Renewed: c.renewed, DiedOfProbe: c.probed, Reason: status.Convert(c.end).Message(),
	}
	if c.exit != nil {
		state.Exit = &protocol.Exit{Code: int(c.exit.Code), Signal: c.exit.Signal}
		if c.exit.StderrTail != "" {
			state.Tail = strings.Split(strings.TrimRight(c.exit.StderrTail, "\n"), "\n")
		}
	}
	return state
}

// Detach ends the connection. What was under way is answered as loss says;
// what never reached the worker waits for the next one.
func (c *Conn) Detach(loss session.Loss) {
	loss.Unsent = c.stream.Close()
	<-c.ended
	c.proxy.do(func(s *session.Session, out *session.Output) {
		c.mu.Lock()
		c.probed = loss.Exit != nil && s.DiedOfProbe(c.link)
		c.mu.Unlock()
		s.Lost(c.link, loss, time.Now(), out)
	})
	c.proxy.mu.Lock()
	delete(c.proxy.conns, c.link)
	c.proxy.mu.Unlock()
}
