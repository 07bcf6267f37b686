package jupyter

import (
	"maps"
	"strconv"
	"strings"
	"sync"
)

// ledger finds out that messages of a kernel are missing. Jupyter does not
// number messages, but ipykernel's ids end in a number that counts all that one
// process has made, on all channels: session_pid_7. A number that has not come
// when a later execution has ended was lost on its way, in the kernel's own
// queue, which drops what a starved thread does not send in time. With ids of
// another form nothing is ever missing.
type ledger struct {
	mu      sync.Mutex
	prefix  string       // session_pid_
	next    int          // all below have come, or are known as lost
	early   map[int]bool // those from next on that have come
	started bool
}

// note takes the id of a message that has come.
func (l *ledger) note(id string) {
	prefix, n, ok := numbered(id)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.started {
		l.prefix, l.next, l.early, l.started = prefix, n, make(map[int]bool), true
	}
	if prefix != l.prefix || n < l.next {
		return
	}
	l.early[n] = true
	l.advanceLocked()
}

// missing returns how many messages before that with an id have not come.
func (l *ledger) missing(id string) int {
	prefix, n, ok := numbered(id)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !ok || prefix != l.prefix || n < l.next {
		return 0
	}
	count := n - l.next
	for early := range l.early {
		if early < n {
			count--
		}
	}
	return count
}

// settle takes what is missing before a message for lost.
func (l *ledger) settle(id string) {
	prefix, n, ok := numbered(id)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !ok || prefix != l.prefix {
		return
	}
	l.next = max(l.next, n)
	maps.DeleteFunc(l.early, func(early int, _ bool) bool { return early < l.next })
	l.advanceLocked()
}

func (l *ledger) advanceLocked() {
	for l.early[l.next] {
		delete(l.early, l.next)
		l.next++
	}
}

// numbered takes an id of the form session_pid_number apart.
func numbered(id string) (prefix string, n int, ok bool) {
	at := strings.LastIndexByte(id, '_')
	if at < 0 || strings.IndexByte(id[:at], '_') < 0 {
		return "", 0, false
	}
	n, err := strconv.Atoi(id[at+1:])
	return id[:at+1], n, err == nil && n >= 0
}
