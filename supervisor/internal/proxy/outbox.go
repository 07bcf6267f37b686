package proxy

import (
	"errors"
	"sync"

	"github.com/holdfast-mcp/holdfast/internal/gctune"
	"github.com/holdfast-mcp/holdfast/internal/line"
)

// outboxRoom is how many bytes may wait for a client that does not read before
// workers are slowed down.
const outboxRoom = 8 << 20

// floodRoom is how many bytes may wait before the client's own requests are no
// longer read: only a client that asks on and on without reading gets there.
const floodRoom = 4 * outboxRoom

var errAbandoned = errors.New("the session has ended")

// outbox is what waits to be written to the client.
type outbox struct {
	w     *line.Writer
	tuner *gctune.Tuner

	mu     sync.Mutex
	change *sync.Cond // of anything below
	lines  [][]byte
	size   int // bytes in lines and in the write under way
	closed bool
	err    error // why nothing is written any more

	written int // bytes

	// onRoom is called without a lock when, after hasRoom has said no, less than
	// room bytes wait.
	onRoom func()
	room   int
	asked  bool // hasRoom has said no
}

func newOutbox(w *line.Writer, tuner *gctune.Tuner) *outbox {
	o := &outbox{w: w, tuner: tuner}
	o.change = sync.NewCond(&o.mu)
	return o
}

// put appends lines, unless it is closed. It does not wait.
func (o *outbox) put(lines [][]byte) {
	if len(lines) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil || o.closed {
		return
	}
	for _, l := range lines {
		o.size += len(l)
		o.tuner.Hold(len(l))
	}
	o.lines = append(o.lines, lines...)
	o.change.Broadcast()
}

// awaitRoom waits until less than room bytes wait, or nothing is written any
// more.
func (o *outbox) awaitRoom(room int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.size > room && o.err == nil {
		o.change.Wait()
	}
}

// hasRoom reports whether less than room bytes wait. If not, onRoom is called
// when that is so.
func (o *outbox) hasRoom(room int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked = o.size >= room
	return !o.asked
}

// progress is how far the client has read, in bytes.
type progress struct{ written, waiting int }

func (o *outbox) progress() progress {
	o.mu.Lock()
	defer o.mu.Unlock()
	return progress{o.written, o.size}
}

// close lets run end once all lines are written.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.change.Broadcast()
}

// abandon gives up what is not written: nobody waits for room any more.
func (o *outbox) abandon() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = errAbandoned
	}
	o.lines = nil
	o.change.Broadcast()
}

// tellRoomLocked calls onRoom if there is room for what has waited for it. The
// lock is released meanwhile.
func (o *outbox) tellRoomLocked() {
	if !o.asked || o.size >= o.room {
		return
	}
	o.asked = false
	o.mu.Unlock()
	o.onRoom()
	o.mu.Lock()
}

// run writes lines until the outbox is closed and empty, or a write fails.
func (o *outbox) run() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		for len(o.lines) == 0 && !o.closed {
			o.change.Wait()
		}
		if len(o.lines) == 0 {
			o.err = errAbandoned // what comes now is for nobody
			return nil
		}
		lines := o.lines
		o.lines = nil
		for _, l := range lines {
			n := len(l)
			o.mu.Unlock()
			err := o.w.WriteLine(l)
			o.mu.Lock()
			o.size -= n
			o.written += n
			o.tuner.Release(n)
			o.change.Broadcast()
			if err != nil {
				o.err, o.lines = err, nil
				return err
			}
			o.tellRoomLocked()
		}
	}
}
