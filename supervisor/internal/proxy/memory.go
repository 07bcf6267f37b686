package proxy

import (
	"sync"

	"github.com/holdfast-mcp/holdfast/supervisor/internal/session"
)

// Memory keeps what one command has answered, for later starts. It is
// comparable: one that is another belongs to another executable.
type Memory interface {
	// Traits returns what kind of server the command is.
	Traits() session.Traits
	// Recall returns what a client of this shape was answered.
	Recall(session.Shape) session.Memory
	// Remember keeps both. What is unknown now stays as it was.
	Remember(session.Shape, session.Memory, session.Traits)
}

// notes are what has to be written to a Memory. The last of each client is
// enough.
type notes struct {
	mu      sync.Mutex
	pending map[client]note
	writes  bool // a goroutine writes
	writer  sync.WaitGroup
}

type client struct {
	of    Memory
	shape session.Shape
}

type note struct {
	memory session.Memory
	traits session.Traits
}

// put has a note written soon. It does not wait.
func (n *notes) put(c client, text note) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pending == nil {
		n.pending = make(map[client]note)
	}
	n.pending[c] = text
	if !n.writes {
		n.writes = true
		n.writer.Go(n.write) // ends when nothing is left to write
	}
}

func (n *notes) write() {
	for {
		n.mu.Lock()
		pending := n.pending
		n.pending = nil
		n.writes = len(pending) > 0
		n.mu.Unlock()
		if len(pending) == 0 {
			return
		}
		for c, text := range pending {
			c.of.Remember(c.shape, text.memory, text.traits)
		}
	}
}

// wait returns when all is written.
func (n *notes) wait() { n.writer.Wait() }

// recallLocked looks up what the client was answered before.
func (p *Proxy) recallLocked() session.Memory {
	if p.config.Memory == nil {
		return session.Memory{}
	}
	return p.config.Memory.Recall(p.session.Shape())
}

// rememberLocked keeps what a link's worker has answered.
func (p *Proxy) rememberLocked(of session.Link) {
	if c := p.conns[of]; c != nil && c.memory != nil {
		p.notes.put(client{c.memory, p.session.Shape()}, note{p.session.Memory(of), p.session.Traits()})
	}
}
