package proxy

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-mcp/holdfast/supervisor/internal/session"
)

// Status is a snapshot of the client edge.
type Status struct {
	// Protocol version that the client was told by initialize; empty for a
	// client of the modern era.
	Protocol string `json:"protocol,omitempty"`
	// Early says who answered initialize ahead of the worker: cache or minimal;
	// empty once the worker has confirmed it.
	Early session.Early `json:"early,omitempty"`
	// Lacking names capabilities that the client was told and the worker lacks.
	Lacking []string `json:"lacking,omitempty"`
	// Leases is how many resources the client watches.
	Leases int `json:"leases"`
	// Calls are the requests that await an answer, the oldest first.
	Calls []Call `json:"calls,omitempty"`
}

// Call is a request that awaits its answer.
type Call struct {
	ID     string `json:"id"`
	Method string `json:"method"`
	// Generation that has it, 0 while it waits for one.
	Generation uint64        `json:"generation,omitempty"`
	Age        time.Duration `json:"age_ns"`
}

// Status returns a snapshot.
func (p *Proxy) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	status := Status{Protocol: p.session.Version(), Early: p.session.Early(), Lacking: p.session.Lacking(), Leases: p.session.Leases()}
	for _, c := range p.session.Calls() {
		status.Calls = append(status.Calls, Call{c.ID, c.Method, c.Generation, time.Since(c.Since)})
	}
	slices.SortFunc(status.Calls, func(a, b Call) int { return cmp.Compare(b.Age, a.Age) })
	return status
}
