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
	// Lists is what the client has seen of each kind of list.
	Lists []List `json:"lists,omitempty"`
	// Calls are the requests that await an answer, the oldest first.
	Calls []Call `json:"calls,omitempty"`
}

// List is a list as the client has seen it.
type List struct {
	// Kind is tools, prompts, resources or resourceTemplates.
	Kind  string `json:"kind"`
	Items int    `json:"items"`
	// Digest tells it from another list; empty for no items.
	Digest string `json:"digest,omitempty"`
	// Partly: the client has not asked for all pages.
	Partly bool `json:"partly,omitempty"`
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
	for _, l := range p.session.Lists() {
		status.Lists = append(status.Lists, List{l.Kind.Member(), l.Items, l.Digest, !l.Complete})
	}
	for _, c := range p.session.Calls() {
		status.Calls = append(status.Calls, Call{c.ID, c.Method, c.Generation, time.Since(c.Since)})
	}
	slices.SortFunc(status.Calls, func(a, b Call) int { return cmp.Compare(b.Age, a.Age) })
	return status
}
