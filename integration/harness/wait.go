package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Pending is a request whose answer may be waited for.
type Pending struct {
	c     *Client
	Token string
	what  string
}

// Request sends a request under the next free number.
func (c *Client) Request(method string, params any) *Pending {
	c.mu.Lock()
	c.nextID++
	id := strconv.Itoa(c.nextID)
	c.mu.Unlock()
	return c.RequestID(id, method, params)
}

// RequestID sends a request with the given id token.
func (c *Client) RequestID(token, method string, params any) *Pending {
	m := map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(token), "method": method}
	if params != nil {
		m["params"] = params
	}
	c.SendJSON(m)
	return &Pending{c: c, Token: token, what: method}
}

// Wait returns the answer. Without one the test ends; from a goroutine other
// than the test's own use [Pending.Answer].
func (p *Pending) Wait() Frame {
	p.c.tb.Helper()
	f, err := p.Answer()
	if err != nil {
		p.c.tb.Fatal(err)
	}
	return f
}

// Answer returns the answer, or an error if none came.
func (p *Pending) Answer() (Frame, error) { return p.Within(Patience) }

// Within is [Pending.Answer] for a client that gives up after so long.
func (p *Pending) Within(patience time.Duration) (Frame, error) {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		p.c.mu.Lock()
		got, news, ended := p.c.answers[p.Token], p.c.news, p.c.ended
		p.c.mu.Unlock()
		if got.n > 0 {
			return got.first, nil
		}
		err := errEnded
		if !ended {
			select {
			case <-news:
				continue
			case <-deadline.C:
				err = errOverdue
			}
		}
		return Frame{}, fmt.Errorf("request %s %s has no answer: %w", p.Token, p.what, err)
	}
}

// Answered reports whether the answer has come.
func (p *Pending) Answered() bool {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	return p.c.answers[p.Token].n > 0
}

// WaitFor returns the first frame, of all that came and will come, for which
// match holds. what names it in the failure.
func (c *Client) WaitFor(what string, match func(Frame) bool) Frame {
	c.tb.Helper()
	f, err := c.find(0, Patience, match)
	if err != nil {
		c.tb.Fatalf("%s: %v", what, err)
	}
	return f
}

// Within returns the first frame, of all that came and come within so long, for
// which match holds.
func (c *Client) Within(patience time.Duration, match func(Frame) bool) (Frame, error) {
	return c.find(0, patience, match)
}

// Errors of a wait for a frame.
var (
	errEnded   = errors.New("stdout has ended")
	errOverdue = errors.New("out of patience")
)

// find scans the frames from index from on and those to come.
func (c *Client) find(from int, patience time.Duration, match func(Frame) bool) (Frame, error) {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		c.mu.Lock()
		frames, news, ended := c.frames, c.news, c.ended
		c.mu.Unlock()
		for ; from < len(frames); from++ {
			if match(frames[from]) {
				return frames[from], nil
			}
		}
		if ended {
			return Frame{}, errEnded
		}
		select {
		case <-news:
		case <-deadline.C:
			return Frame{}, errOverdue
		}
	}
}
