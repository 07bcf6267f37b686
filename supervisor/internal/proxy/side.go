package proxy

import (
	"sync"

	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/session"
)

// side is a stream beside a connection, to the same worker. It carries a few
// frames down, and those that come before it is open wait for that.
type side struct {
	parent session.Link

	mu     sync.Mutex
	stream Stream
	early  []*workerv1.Frame
	closed bool
}

// openSideLocked begins to open a side link.
func (p *Proxy) openSideLocked(s session.Side) {
	sd := &side{parent: s.Beside}
	p.sides[s.Link] = sd
	parent := p.conns[s.Beside]
	go p.runSide(s.Link, sd, parent) // ends with the stream, at the latest with the worker
}

func (p *Proxy) runSide(link session.Link, sd *side, parent *Conn) {
	defer p.dropSide(link)
	if parent == nil || parent.open == nil {
		return
	}
	stream, err := parent.open()
	if err != nil || !sd.opened(stream) {
		return
	}
	for {
		f, err := stream.Recv()
		if err != nil {
			return
		}
		p.out.awaitRoom(outboxRoom)
		p.do(func(s *session.Session, out *session.Output) {
			s.Frame(link, session.Frame{Kind: session.Kind(f.Kind), ID: f.Id, Payload: f.Payload}, out)
		})
	}
}

// opened sends what has waited. It reports false if nobody wants the stream any
// more, which is closed then.
func (sd *side) opened(stream Stream) bool {
	sd.mu.Lock()
	defer sd.mu.Unlock()
	if sd.closed {
		go stream.Close() // ends with the stream
		return false
	}
	sd.stream = stream
	for _, f := range sd.early {
		stream.Send(f, true)
	}
	sd.early = nil
	return true
}

func (sd *side) send(f *workerv1.Frame) {
	sd.mu.Lock()
	defer sd.mu.Unlock()
	switch {
	case sd.closed:
	case sd.stream == nil:
		sd.early = append(sd.early, f)
	default:
		sd.stream.Send(f, true)
	}
}

// close closes the stream. It does not wait.
func (sd *side) close() {
	sd.mu.Lock()
	defer sd.mu.Unlock()
	if sd.closed {
		return
	}
	sd.closed = true
	if sd.stream != nil {
		go sd.stream.Close() // ends with the stream
	}
}

// dropSide forgets a side link that is over.
func (p *Proxy) dropSide(link session.Link) {
	p.do(func(s *session.Session, out *session.Output) { s.SideLost(link, out) })
	p.mu.Lock()
	defer p.mu.Unlock()
	if sd := p.sides[link]; sd != nil {
		sd.close()
		delete(p.sides, link)
	}
}

// closeSideLocked closes a side link that the session needs no more.
func (p *Proxy) closeSideLocked(link session.Link) {
	if sd := p.sides[link]; sd != nil {
		sd.close()
		delete(p.sides, link)
	}
}
