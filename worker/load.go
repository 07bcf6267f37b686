package worker

import "sync"

// load counts the calls under way in all sessions, for the end of the process.
type load struct {
	mu       sync.Mutex
	calls    int
	closing  bool          // no call is taken any more once calls is 0
	refusing bool          // no call is taken any more
	idle     chan struct{} // closed when refusing
}

func newLoad() *load { return &load{idle: make(chan struct{})} }

// begin reports whether a request may be taken, and counts it if counted. It
// is followed by end.
func (l *load) begin(counted bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refusing {
		return false
	}
	if counted {
		l.calls++
	}
	return true
}

func (l *load) end(counted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if counted {
		l.calls--
	}
	l.settleLocked()
}

// close ends the taking of calls at the first moment without one under way,
// and returns a channel that is closed then.
func (l *load) close() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closing = true
	l.settleLocked()
	return l.idle
}

// refuse ends the taking of calls now.
func (l *load) refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuseLocked()
}

func (l *load) settleLocked() {
	if l.closing && l.calls == 0 {
		l.refuseLocked()
	}
}

func (l *load) refuseLocked() {
	if !l.refusing {
		l.refusing = true
		close(l.idle)
	}
}
