package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/holdfast-mcp/holdfast/internal/gctune"
	"github.com/holdfast-mcp/holdfast/internal/line"
	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/session"
)

// ErrClientGone is returned by Run when the client can no longer be written to
// (EDGE-9).
var ErrClientGone = errors.New("the client no longer reads")

// flushGrace bounds the last write to a client that ends us.
const flushGrace = 250 * time.Millisecond

// Config has the settings of a Proxy.
type Config struct {
	In       io.Reader
	Out      io.Writer
	MaxFrame int
	Limits   session.Limits
	// EOFGrace is how long requests may take after the client's EOF (EDGE-8).
	EOFGrace time.Duration
	Version  string
	// Memory is that of the command as it is now; nil if there is none.
	Memory Memory
	// Began is when this process did.
	Began time.Time
	// Tuner is told of large messages in flight; it may be nil.
	Tuner *gctune.Tuner
	// Control executes one of our own tools, with Limits.Controls. It may wait,
	// and is told when the session ends.
	Control func(ctx context.Context, tool string, arguments []byte) (answer string, failed bool)
	// Demand is called when a request waits that wants a worker to be started.
	// It must not wait.
	Demand func()
	Log    *zap.Logger
}

// Proxy is the client edge.
type Proxy struct {
	config Config
	out    *outbox

	mu      sync.Mutex
	session *session.Session
	conns   map[session.Link]*Conn
	sides   map[session.Link]*side
	links   session.Link
	memory  Memory // of the last connection
	notes   notes
	// controls are calls of our own tools; they end with ctx.
	controls sync.WaitGroup
	ctx      context.Context //nolint:containedctx // that of Run
	output   session.Output
	expiry   *time.Timer
	idle     chan struct{} // closed when the session is idle after EOF; nil before
}

// New returns a Proxy.
func New(config Config) *Proxy {
	var traits session.Traits
	if config.Memory != nil {
		traits = config.Memory.Traits()
	}
	p := &Proxy{
		ctx:     context.Background(),
		config:  config,
		out:     newOutbox(line.NewWriter(config.Out), config.Tuner),
		session: session.New(config.Limits, config.Version, config.Began, traits),
		conns:   make(map[session.Link]*Conn),
		sides:   make(map[session.Link]*side),
		memory:  config.Memory,
	}
	p.out.onRoom, p.out.room = p.roomAgain, updatesRoom
	p.expiry = time.AfterFunc(time.Hour, p.expire)
	p.expiry.Stop()
	return p
}

// Run reads the client until its end, and returns nil when all that it had
// asked is answered or EOFGrace is over. It returns ErrClientGone if stdout is
// broken, and early if ctx ends.
func (p *Proxy) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer p.controls.Wait()
	defer cancel()
	p.mu.Lock()
	p.ctx = ctx
	p.mu.Unlock()
	defer p.notes.wait()
	defer p.expiry.Stop()
	written := make(chan error, 1)
	go func() { written <- p.out.run() }() // ends by close, or with the process
	read := make(chan error, 1)
	go func() { read <- p.readAll() }() // ends at EOF, or with the process
	select {
	case err := <-written:
		return fmt.Errorf("%w: %w", ErrClientGone, err)
	case <-ctx.Done():
	case err := <-read: // a read error is an end like EOF
		if err != nil {
			p.config.Log.Warn("cannot read the client", zap.Error(err))
		}
		if err := p.drain(ctx, written); err != nil {
			return err
		}
	}
	return p.flush(ctx, written)
}

// drain waits for the answers that are due at EOF. As long as workers wait for
// the client, and it reads on, it is not they who are late.
func (p *Proxy) drain(ctx context.Context, written <-chan error) error {
	grace := time.NewTimer(p.config.EOFGrace)
	defer grace.Stop()
	idle, before := p.awaitIdle(), p.out.progress()
	for {
		select {
		case <-idle:
			return nil
		case <-grace.C:
			if now := p.out.progress(); now.waiting > outboxRoom && now.written > before.written {
				before = now
				grace.Reset(p.config.EOFGrace)
				continue
			}
			p.config.Log.Warn("requests were not answered before the end", zap.Int("requests", p.inFlight()))
			return nil
		case <-ctx.Done():
			return nil
		case err := <-written:
			return fmt.Errorf("%w: %w", ErrClientGone, err)
		}
	}
}

// flush ends the session and writes what is left: for as long as the client
// takes something within each EOFGrace, and once ctx has ended for flushGrace.
func (p *Proxy) flush(ctx context.Context, written <-chan error) error {
	p.do(func(s *session.Session, out *session.Output) { s.Close(out) })
	p.out.close()
	before, ended := p.out.progress(), ctx.Done()
	patience := time.NewTimer(max(flushGrace, p.config.EOFGrace))
	defer patience.Stop()
	for {
		select {
		case err := <-written:
			if err != nil {
				return fmt.Errorf("%w: %w", ErrClientGone, err)
			}
			return nil
		case <-ended:
			ended = nil
			patience.Reset(flushGrace)
		case <-patience.C:
			now := p.out.progress()
			if ended != nil && now.written > before.written {
				before = now
				patience.Reset(max(flushGrace, p.config.EOFGrace))
				continue
			}
			p.config.Log.Warn("the client has not read all answers", zap.Int("bytes", now.waiting))
			p.out.abandon()
			return nil
		}
	}
}

func (p *Proxy) awaitIdle() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = make(chan struct{})
	if p.session.Idle() {
		close(p.idle)
	}
	return p.idle
}

func (p *Proxy) inFlight() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.session.InFlight()
}

func (p *Proxy) readAll() error {
	r := line.NewReader(p.config.In, p.config.MaxFrame)
	for {
		b, err := r.Next()
		if tooLong, ok := errors.AsType[*line.TooLongError](err); ok {
			p.do(func(s *session.Session, out *session.Output) {
				s.ReceiveTooLong(tooLong.Head, tooLong.Tail, tooLong.Size, out)
			})
			continue
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		n := len(b) // the session owns b
		p.config.Tuner.Hold(n)
		p.do(func(s *session.Session, out *session.Output) { s.Receive(b, time.Now(), out) })
		p.config.Tuner.Release(n)
		p.out.awaitRoom(floodRoom)
	}
}

func (p *Proxy) expire() {
	p.do(func(s *session.Session, out *session.Output) { s.Expire(time.Now(), out) })
}

// Starting tells the session that a worker is about to start.
func (p *Proxy) Starting() {
	p.do(func(s *session.Session, _ *session.Output) { s.Starting() })
}

// Announce tells the client something in a log message, where it takes those.
func (p *Proxy) Announce(text string) {
	p.do(func(s *session.Session, out *session.Output) { s.Announce(text, out) })
}

// Down answers all that waits with the reason why no worker serves. A request
// that comes at demandAt or later demands a start.
func (p *Proxy) Down(cause *protocol.Error, demandAt time.Time) {
	p.do(func(s *session.Session, out *session.Output) { s.Down(cause, demandAt, out) })
}

// do runs one step of the session and carries out what it decided.
func (p *Proxy) do(step func(*session.Session, *session.Output)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := &p.output
	out.Reset()
	step(p.session, out)
	if out.Recall {
		p.session.Recalled(p.recallLocked(), time.Now(), out)
	}
	for i, opened := 0, 0; i < len(out.Frames); i++ { // a frame that is not sent appends to both
		for ; opened < len(out.Open); opened++ {
			p.openSideLocked(out.Open[opened])
		}
		p.sendLocked(out.Frames[i], out)
	}
	for _, link := range out.Closed {
		p.closeSideLocked(link)
	}
	p.out.put(out.Lines)
	p.updateLocked(out)
	if c := p.conns[out.Ready]; c != nil {
		c.ready()
	}
	if c := p.conns[out.Refused]; c != nil {
		c.refuse(out.RefusedReason)
	}
	if c := p.conns[out.Renew]; c != nil {
		c.renew()
	}
	p.rememberLocked(out.Remember)
	for _, call := range out.Controls {
		ctx := p.ctx
		p.controls.Go(func() { p.control(ctx, call) }) // ends with the call, or with ctx
	}
	if out.Demand {
		p.config.Demand()
	}
	for _, n := range out.Notices {
		level := zap.DebugLevel
		if n.Warn {
			level = zap.WarnLevel
		}
		p.config.Log.Log(level, n.What, zap.String("method", n.Method), zap.String("request_id", n.ID))
	}
	p.afterLocked()
}

// control executes one of our own tools.
func (p *Proxy) control(ctx context.Context, call session.ControlCall) {
	answer, failed := p.config.Control(ctx, call.Tool, call.Arguments)
	p.do(func(s *session.Session, out *session.Output) { s.Controlled(call.Number, answer, failed, out) })
}

// updatesRoom is how many bytes may wait for the client when it is told of
// something that can wait: while it does not read, changes of one resource
// become one (LEASE-8).
const updatesRoom = 64 << 10

// updateLocked tells the client of changes as long as it reads.
func (p *Proxy) updateLocked(out *session.Output) {
	for p.session.HasUpdates() && p.out.hasRoom(updatesRoom) {
		out.Lines = out.Lines[:0]
		p.session.Update(out)
		p.out.put(out.Lines)
	}
}

// roomAgain is called when the client has read so much that it can be told
// more.
func (p *Proxy) roomAgain() {
	p.do(func(*session.Session, *session.Output) {})
}

// afterLocked looks after what waits for the session to change.
func (p *Proxy) afterLocked() {
	for link, c := range p.conns {
		if p.session.Drained(link) {
			c.idle()
		}
	}
	if deadline, ok := p.session.Deadline(); ok {
		p.expiry.Reset(time.Until(deadline))
	}
	if p.idle != nil && p.session.Idle() {
		select {
		case <-p.idle:
		default:
			close(p.idle)
		}
	}
}

func (p *Proxy) sendLocked(o session.Outgoing, out *session.Output) {
	f := &workerv1.Frame{Kind: workerv1.Frame_Kind(o.Frame.Kind), Id: o.Frame.ID, Payload: o.Frame.Payload}
	if sd := p.sides[o.Link]; sd != nil {
		sd.send(f)
		return
	}
	c := p.conns[o.Link]
	switch {
	case c == nil:
	case c.stream.Send(f, o.Held):
	case o.Frame.Kind == session.Request:
		p.session.Unsent(o.Frame.ID, out)
	default:
		p.config.Log.Debug("dropped a notification: the server does not read")
	}
}
