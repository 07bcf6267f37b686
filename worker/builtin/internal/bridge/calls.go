package bridge

import (
	"strconv"
	"sync"

	"github.com/holdfast-mcp/holdfast/internal/envelope"
)

// maxCancelled bounds how many cancelled requests are remembered for an answer
// that may still come. Many servers answer none.
const maxCancelled = 1024

// calls maps the ids of requests in both directions. It is safe for concurrent
// use; its methods do no I/O.
type calls struct {
	mu sync.Mutex

	// Requests of the client, by the supervisor's number.
	client    map[uint64]*clientCall
	active    int      // requests that are waited for
	cancelled []uint64 // numbers of cancelled requests, oldest first
	draining  bool     // DRAIN is to be answered when active is 0

	// Requests of the server: by our number the raw id, and back.
	server  map[uint64][]byte
	numbers map[string]uint64 // by envelope.IDKey
	last    uint64
}

type clientCall struct {
	token []byte // the client's raw id
	// passive requests are not waited for: cancelled ones, and listens, which
	// stay open until the client ends them.
	passive bool
}

func newCalls() *calls {
	return &calls{
		client:  make(map[uint64]*clientCall),
		server:  make(map[uint64][]byte),
		numbers: make(map[string]uint64),
	}
}

// begin notes the client's request n.
func (c *calls) begin(n uint64, token []byte, listen bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.client[n] = &clientCall{token: token, passive: listen}
	if !listen {
		c.active++
	}
}

// cancel notes that the client's request n may stay without an answer.
func (c *calls) cancel(n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	call, ok := c.client[n]
	if !ok {
		return
	}
	if !call.passive {
		call.passive = true
		c.active--
	}
	c.cancelled = append(c.cancelled, n)
	if len(c.cancelled) > maxCancelled {
		delete(c.client, c.cancelled[0])
		c.cancelled = c.cancelled[1:]
	}
}

// answer takes the client's request n out and returns its raw id. The request
// counts as under way until sent is called.
func (c *calls) answer(n uint64) (token []byte, sent func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	call, ok := c.client[n]
	if !ok {
		return nil, nil, false
	}
	delete(c.client, n)
	if call.passive {
		return call.token, func() {}, true
	}
	return call.token, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.active--
	}, true
}

// drain notes a DRAIN.
func (c *calls) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining = true
}

// drained reports, once for each DRAIN, that no request is waited for.
func (c *calls) drained() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining && c.active == 0 {
		c.draining = false
		return true
	}
	return false
}

// number returns a number for the server's request with the raw id token.
func (c *calls) number(token []byte) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	c.server[c.last] = token
	c.numbers[envelope.IDKey(token)] = c.last
	return c.last
}

// numberOf returns the number of the server's request with that raw id.
func (c *calls) numberOf(token []byte) (uint64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, ok := c.numbers[envelope.IDKey(token)]
	return n, ok
}

// take takes the server's request out and returns its raw id.
func (c *calls) take(n uint64) (token []byte, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	token, ok = c.server[n]
	if !ok {
		return nil, false
	}
	delete(c.server, n)
	if key := envelope.IDKey(token); c.numbers[key] == n {
		delete(c.numbers, key)
	}
	return token, true
}

// callNumber reads the id of an answer, which is a number of the supervisor
// that the server may have put into another form: 7, 7.0, 7e0 or "7".
func callNumber(token []byte) (uint64, bool) {
	s := string(token)
	if unquoted, err := strconv.Unquote(s); err == nil {
		s = unquoted
	}
	if n, err := strconv.ParseUint(s, 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f < 0 || f > 1<<53 || f != float64(uint64(f)) {
		return 0, false
	}
	return uint64(f), true
}
