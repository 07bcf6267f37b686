package control

import (
	"time"

	"github.com/holdfast-mcp/holdfast/supervisor/internal/proxy"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/rebuild"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/restart"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/supervise"
)

// Status is what a supervisor tells of itself (SUP-15).
type Status struct {
	// Name by which it is chosen; several may have the same.
	Name    string    `json:"name"`
	Pid     int       `json:"pid"`
	Version string    `json:"version"`
	Started time.Time `json:"started,omitzero"`
	// Silent: it runs and does not answer; nothing else but Pid is known.
	Silent bool `json:"silent,omitempty"`
	// Outdated: the file of the running supervisor has been replaced (SUP-19).
	Outdated bool   `json:"outdated,omitempty"`
	Command  string `json:"command"`
	// Dir is the working directory of the server, Project that with its
	// sources, if it is being developed.
	Dir     string `json:"dir"`
	Project string `json:"project,omitempty"`
	// Settings has the value and the origin of each setting.
	Settings map[string]Setting `json:"settings,omitempty"`
	// Crashes and Handoffs say how much of the budgets is used.
	Crashes  Budget           `json:"crash_budget"`
	Handoffs Budget           `json:"handoff_budget"`
	Worker   supervise.Status `json:"worker"`
	Client   proxy.Status     `json:"client"`
	// Build is what is built, nil in a supervisor that builds nothing.
	Build *rebuild.Status `json:"build,omitempty"`
}

// Setting is a value and where it comes from: default, flag, environment or
// file.
type Setting struct {
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

// Budget says how many events within a period count, and how many may.
type Budget struct {
	Used   int           `json:"used"`
	Limit  int           `json:"limit"`
	Window time.Duration `json:"window_ns"`
}

// BudgetOf returns how much of a budget is used.
func BudgetOf(b restart.Budget, used int) Budget { return Budget{used, b.Count, b.Window} }

// SwapResult is the outcome of a swap.
type SwapResult struct {
	// Generation that serves now, 0 if none does.
	Generation uint64 `json:"generation"`
	// Error is why it is not a new one, or empty.
	Error string `json:"error,omitempty"`
}
