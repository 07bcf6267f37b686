package bridge

import (
	"errors"
	"sync"
)

// queueLimit bounds, in bytes, what waits for a server that does not read.
const queueLimit = 16 << 20

// errFull is returned when the queue has no room.
var errFull = errors.New("the server does not read its input")

// queue holds lines for the server, so that a server that stops reading blocks
// the queue's writer and nobody else (SUP-20). Memory stays bounded: requests
// get half of the room that cancellations and answers get.
type queue struct {
	limit int

	mu     sync.Mutex
	filled sync.Cond // signalled by add and close
	lines  [][]byte
	size   int
	closed bool
}

func newQueue(limit int) *queue {
	q := &queue{limit: limit}
	q.filled.L = &q.mu
	return q
}

// add appends a line, or returns errFull. A line always fits an empty queue.
func (q *queue) add(line []byte, urgent bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	limit := q.limit / 2
	if urgent {
		limit = q.limit
	}
	if q.size > 0 && q.size+len(line) > limit {
		return errFull
	}
	if !q.closed {
		q.lines = append(q.lines, line)
		q.size += len(line)
		q.filled.Signal()
	}
	return nil
}

// close lets run end once the queue is empty.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.filled.Signal()
}

// run writes lines until the queue is closed and empty. After a failed write,
// it swallows the rest: the server's end is seen elsewhere.
func (q *queue) run(write func([]byte) error) {
	broken := false
	for {
		line, ok := q.next()
		if !ok {
			return
		}
		n := len(line) // write owns line
		if !broken {
			broken = write(line) != nil
		}
		q.done(n)
	}
}

func (q *queue) next() ([]byte, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.lines) == 0 && !q.closed {
		q.filled.Wait()
	}
	if len(q.lines) == 0 {
		return nil, false
	}
	line := q.lines[0]
	q.lines[0] = nil
	q.lines = q.lines[1:]
	return line, true
}

func (q *queue) done(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.size -= n
}
