package supervise

import (
	"sync"
	"time"

	"github.com/holdfast-mcp/holdfast/protocol"
)

// keptExits is how many ends Status remembers.
const keptExits = 5

// Status is a snapshot of what the supervisor does.
type Status struct {
	// State is one of resting (until something is asked for), starting,
	// serving, swapping, backoff, open.
	State string `json:"state"`
	// Generation, Pid and Since of the worker that serves; zero if none does.
	Generation uint64    `json:"generation,omitempty"`
	Pid        int       `json:"pid,omitempty"`
	Since      time.Time `json:"since,omitzero"`
	// Outdated: the executable has been replaced since (SUP-19).
	Outdated bool `json:"outdated,omitempty"`
	// Draining lists generations that still answer what they had.
	Draining []uint64 `json:"draining,omitempty"`
	// Crashes and Handoffs that count against their budgets now.
	Crashes  int `json:"crashes"`
	Handoffs int `json:"handoffs"`
	// Reason and RetryAt are set while nothing is started.
	Reason  string    `json:"reason,omitempty"`
	RetryAt time.Time `json:"retry_at,omitzero"`
	// Exits has the last ends, the newest last.
	Exits []Ended `json:"exits,omitempty"`
}

// Ended is the end of one generation.
type Ended struct {
	Generation uint64          `json:"generation"`
	At         time.Time       `json:"at"`
	Uptime     time.Duration   `json:"uptime_ns"`
	Cause      *protocol.Error `json:"cause"`
}

// statusBoard holds what the owner publishes for others to read.
type statusBoard struct {
	mu     sync.Mutex
	status Status
	worker Worker // that serves, nil if none does
	exits  []Ended
}

// Status returns the last published snapshot.
func (s *Supervisor) Status() Status {
	b := &s.status
	b.mu.Lock()
	status, worker := b.status, b.worker
	status.Exits = append([]Ended(nil), b.exits...)
	b.mu.Unlock()
	if worker != nil {
		status.Outdated = worker.Outdated() // asks the file system, which may take its time
	}
	return status
}

func (b *statusBoard) record(l *life, e end) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.exits = append(b.exits, Ended{l.number, time.Now(), time.Since(l.began), e.cause})
	if len(b.exits) > keptExits {
		b.exits = b.exits[1:]
	}
}

// publish makes the owner's state readable.
func (s *Supervisor) publish() {
	now := time.Now()
	status := Status{}
	status.Crashes, status.Handoffs = s.policy.Used(now)
	for l := range s.draining {
		status.Draining = append(status.Draining, l.number)
	}
	switch {
	case s.serving != nil:
		status.State = "serving"
		if s.candidate != nil {
			status.State = "swapping"
		}
		status.Generation, status.Pid, status.Since = s.serving.number, s.serving.worker.Pid(), s.serving.began
	case s.candidate != nil || s.makesRoom():
		status.State = "starting"
	case s.resting:
		status.State = "resting"
	case s.circuit.Open:
		status.State, status.Reason, status.RetryAt = "open", s.circuit.Reason, s.circuit.At
	default:
		status.State, status.RetryAt = "backoff", s.circuit.At
	}
	s.status.mu.Lock()
	defer s.status.mu.Unlock()
	s.status.status, s.status.worker = status, nil
	if s.serving != nil {
		s.status.worker = s.serving.worker
	}
}
