// Package restart is the policy by which a worker that ended is started again:
// crash budget, backoff, circuit and the limiter of handoffs. It is pure: every
// method takes the time, and returns what to do. Nothing here starts, waits or
// logs.
//
//	        crash, within the budget: wait the backoff
//	     +----------------------------------------------+
//	     v                                              |
//	[ closed ] --- crash beyond the budget ---> [ open ]   start refused, cause told
//	     ^                                       |   ^
//	     |     on demand, once the last start    |   | ends before a sustained
//	     |     is older than the longest backoff |   | uptime: cooldown doubles
//	     |     or unattended after the cooldown  v   |
//	     +---- sustained uptime ----------- [ half-open ]
//
// There are two such circuits, one for crashes and one for handoffs (exit code
// 75); neither charges the other (SUP-2, SUP-3). A requested replacement
// re-arms both. An uptime is sustained when it exceeds the window of the
// budget: reset by spawn or by readiness would let a crash loop go on for ever.
package restart

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Budget allows Count events in any period of Window.
type Budget struct {
	Count  int
	Window time.Duration
}

// Backoff is the range of pauses between restarts.
type Backoff struct{ Min, Max time.Duration }

// Policy has the settings.
type Policy struct {
	Crash   Budget
	Handoff Budget
	Backoff Backoff
	// Cooldown is how long an open circuit waits before it tries unattended;
	// it doubles with each try that fails, up to MaxCooldown.
	Cooldown time.Duration
}

// MaxCooldown bounds the doubling of Policy.Cooldown.
const MaxCooldown = 10 * time.Minute

// Default returns the policy of SUP-2 and SUP-3.
func Default() Policy {
	return Policy{
		Crash:    Budget{5, 30 * time.Second},
		Handoff:  Budget{5, 30 * time.Second},
		Backoff:  Backoff{100 * time.Millisecond, 10 * time.Second},
		Cooldown: time.Minute,
	}
}

// End says how a worker ended, or a start failed.
type End uint8

// Kinds of ends.
const (
	// Crash is any end that nobody asked for, failed starts included.
	Crash End = iota
	// Handoff is an exit with code 75.
	Handoff
	// Uncharged is an end that was asked for, or taught something: a swap, a
	// probe.
	Uncharged
)

// Decision says when the next start may happen.
type Decision struct {
	// Open: nothing is started for now; calls are answered at once. Until then
	// the next start is on demand, or at At.
	Open bool
	// At is the time of the next start.
	At time.Time
	// Reason is for people, empty unless Open.
	Reason string
}

// State is the policy with what it has seen. It is not safe for concurrent use.
type State struct {
	policy  Policy
	jitter  func(time.Duration) time.Duration
	started time.Time // of the last start
	crash   circuit
	handoff circuit
}

// New returns the state of a supervisor that has started nothing. jitter
// varies a pause; nil takes half to all of it.
func New(policy Policy, jitter func(time.Duration) time.Duration) *State {
	if jitter == nil {
		jitter = func(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }
	}
	s := &State{policy: policy, jitter: jitter}
	s.Rearm()
	return s
}

// Started notes that a start begins now.
func (s *State) Started(now time.Time) {
	s.started = now
	for _, c := range s.circuits() {
		c.probing = c.open
	}
}

// Ended notes the end of a worker that was started at began, and returns when
// to start the next one.
func (s *State) Ended(end End, began, now time.Time) Decision {
	uptime := now.Sub(began)
	for _, c := range s.circuits() {
		if uptime > c.budget.Window {
			c.reset()
		}
	}
	switch end {
	case Crash:
		pause := s.crash.charge(now, s.policy)
		return s.crash.decide(now.Add(s.jitter(pause)))
	case Handoff:
		s.handoff.charge(now, s.policy)
		return s.handoff.decide(now)
	default: // a probe that ends so goes on with the next start
		return Decision{At: now}
	}
}

// Demand is asked when a request comes while a circuit is open: it reports
// whether a start may be tried for it.
func (s *State) Demand(now time.Time) bool {
	return now.Sub(s.started) >= s.policy.Backoff.Max
}

// Rearm forgets what was charged: somebody has asked for a start, or changed
// what is started.
func (s *State) Rearm() {
	s.crash = circuit{budget: s.policy.Crash, what: "crashed", flag: "--crash-budget"}
	s.handoff = circuit{budget: s.policy.Handoff, what: "asked for an upgrade", flag: "--handoff-budget"}
}

// Used returns how many crashes and handoffs count now.
func (s *State) Used(now time.Time) (crashes, handoffs int) {
	return len(s.crash.recent(now)), len(s.handoff.recent(now))
}

func (s *State) circuits() [2]*circuit { return [2]*circuit{&s.crash, &s.handoff} }

// circuit limits one kind of end.
type circuit struct {
	budget Budget
	what   string // for the reason
	flag   string

	events  []time.Time
	streak  int // events since the last sustained uptime
	open    bool
	probing bool // the worker under way was started while open
	fails   int  // probes that failed in a row
	retryAt time.Time
}

func (c *circuit) reset() {
	*c = circuit{budget: c.budget, what: c.what, flag: c.flag}
}

// charge notes an event and returns the pause that it asks for. A probe that
// ends so opens the circuit again; an event beyond the budget opens it.
func (c *circuit) charge(now time.Time, p Policy) time.Duration {
	c.events = append(c.recent(now), now)
	c.streak++
	switch {
	case c.probing:
		c.fails++
	case len(c.events) <= c.budget.Count:
		return p.Backoff.pause(c.streak)
	}
	c.open, c.probing = true, false
	c.retryAt = now.Add(cooldown(p.Cooldown, c.fails))
	return 0
}

// decide returns the next start: at, unless the circuit is open.
func (c *circuit) decide(at time.Time) Decision {
	if c.open {
		return Decision{Open: true, At: c.retryAt, Reason: c.reason()}
	}
	return Decision{At: at}
}

// recent returns the events that lie within the window.
func (c *circuit) recent(now time.Time) []time.Time {
	for len(c.events) > 0 && now.Sub(c.events[0]) >= c.budget.Window {
		c.events = c.events[1:]
	}
	return c.events
}

func (c *circuit) reason() string {
	return fmt.Sprintf("it %s more than %d times within %v (%s)", c.what, c.budget.Count, c.budget.Window, c.flag)
}

// pause returns the pause before restart n, counted from 1 since the last
// sustained uptime: none, then Min doubling to Max.
func (b Backoff) pause(n int) time.Duration {
	if n <= 1 {
		return 0
	}
	return doubled(b.Min, n-2, b.Max)
}

func cooldown(first time.Duration, fails int) time.Duration {
	return doubled(first, fails, max(first, MaxCooldown))
}

// doubled returns d doubled n times, at most limit.
func doubled(d time.Duration, n int, limit time.Duration) time.Duration {
	for range n {
		if d >= limit/2 {
			return limit
		}
		d *= 2
	}
	return min(d, limit)
}

// Set parses forms such as 5/30s. It is a flag value.
func (b *Budget) Set(text string) error {
	count, window, ok := strings.Cut(text, "/")
	n, err := strconv.Atoi(count)
	d, derr := time.ParseDuration(window)
	if !ok || err != nil || derr != nil || n < 0 || d <= 0 {
		return fmt.Errorf("must be COUNT/PERIOD such as 5/30s")
	}
	*b = Budget{n, d}
	return nil
}

func (b Budget) String() string { return fmt.Sprintf("%d/%v", b.Count, b.Window) }

// Type names the kind of value in help texts.
func (b Budget) Type() string { return "count/period" }

// Set parses forms such as 100ms..10s. It is a flag value.
func (b *Backoff) Set(text string) error {
	low, high, ok := strings.Cut(text, "..")
	lo, err := time.ParseDuration(low)
	hi, herr := time.ParseDuration(high)
	if !ok || err != nil || herr != nil || lo < 0 || hi < lo {
		return fmt.Errorf("must be SHORTEST..LONGEST such as 100ms..10s")
	}
	*b = Backoff{lo, hi}
	return nil
}

func (b Backoff) String() string { return fmt.Sprintf("%v..%v", b.Min, b.Max) }

// Type names the kind of value in help texts.
func (b Backoff) Type() string { return "range" }
