package logging

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// queueBytes bounds what waits for stderr.
	queueBytes = 256 << 10
	// closeTimeout bounds how long closing waits for it.
	closeTimeout = 100 * time.Millisecond
)

// queue is a writer that never blocks and never fails. One goroutine hands
// what it takes to the real writer, as fast as that reads.
type queue struct {
	w    io.Writer
	wake chan struct{} // holds one token if there is something to do
	done chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex
	pending []byte
	dropped int // lines that did not fit since pending was last taken
	closed  bool
}

func newQueue(w io.Writer) *queue {
	q := &queue{w: w, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go q.run() // ends after Close, unless w blocks for ever
	return q
}

// Write takes one line, or drops it if the queue is full.
func (q *queue) Write(line []byte) (int, error) {
	q.mu.Lock()
	switch {
	case q.closed:
	case q.dropped > 0, len(q.pending)+len(line) > queueBytes:
		q.dropped++ // also what would fit: lines keep their order
	default:
		q.pending = append(q.pending, line...)
	}
	q.mu.Unlock()
	q.signal()
	return len(line), nil
}

// Sync does nothing: waiting for stderr is what the queue is there to avoid.
func (q *queue) Sync() error { return nil }

// Close hands on what is pending, as far as that takes no longer than
// closeTimeout. Later lines are forgotten.
func (q *queue) Close() error {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
	timeout := time.NewTimer(closeTimeout)
	defer timeout.Stop()
	select {
	case <-q.done:
	case <-timeout.C:
	}
	return nil
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *queue) run() {
	defer close(q.done)
	var taken []byte
	for range q.wake {
		q.mu.Lock()
		taken, q.pending = q.pending, taken[:0]
		if q.dropped > 0 {
			taken = fmt.Appendf(taken, "... %d lines dropped: stderr is not read fast enough\n", q.dropped)
			q.dropped = 0
		}
		closed := q.closed
		q.mu.Unlock()
		if len(taken) > 0 {
			_, _ = q.w.Write(taken) // nobody could be told of an error
		}
		if closed {
			return
		}
	}
}
