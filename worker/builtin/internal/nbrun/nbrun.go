// Package nbrun executes the cells of a notebook file in a fresh kernel and
// saves what they show.
//
//	report, err := nbrun.Run(ctx, nbrun.Config{File: "a.ipynb", Env: os.Environ()})
//
// # What happens to each cell
//
//	code ---- blank, or tagged skip-execution --------------------> skipped
//	  +------ executed ------ to its end ------------------------> done
//	              +---------- error, timeout, death, interrupt --> error --+
//	  +------ not reached -------------------------------------- cancelled <+
//
// An error ends the run, unless errors are allowed, for all cells or for one by
// its tag raises-exception. These rules and names are nbclient's. Outputs and
// execution counts of the cells that were executed are saved, also when the run
// ended early; all other bytes of the file stay.
//
// # Ends
//
// An interrupt stops the cell and with it the run; a cell that goes on for
// longer than [graceTime] is ended with its kernel, as it is when the context
// ends. After Run nothing of the kernel is left. A file that was changed
// meanwhile is not overwritten: the results are saved beside it.
//
// # Concurrency
//
// Each Run is on its own. It calls the functions of its [Config] one at a time,
// but Input while others may run.
//
// # Limits
//
// There is no other client, no document that is edited meanwhile, and no state
// of widgets. All outputs are in memory.
package nbrun

import (
	"context"
	"errors"
	"time"
)

var (
	// ErrNotebook is returned when the file cannot be read as a notebook; the
	// cause says where and why.
	ErrNotebook = errors.New("notebook cannot be used")
	// ErrSave is returned when the results could not be saved, or were saved
	// elsewhere.
	ErrSave = errors.New("save the results")
)

// Config says what to run, and how.
type Config struct {
	// File is the notebook.
	File string
	// Output is the file that the results go to; empty: File.
	Output string
	// Kernel is the name of the kernel; empty: that of the notebook, and
	// python3 if it names none.
	Kernel string
	// Timeout is how long a cell may take; 0: without limit.
	Timeout time.Duration
	// AllowErrors goes on behind cells that fail.
	AllowErrors bool
	// IPC keeps the output from other users of the machine, see package jupyter.
	IPC bool
	// Env is the environment that the kernel is searched and started in.
	Env []string
	// Interrupt stops the run with what it receives.
	Interrupt <-chan struct{}
	// Input answers code that asks for input; nil: there is none.
	Input func(ctx context.Context, prompt string, password bool) (string, error)

	// Ready is told the report when the kernel is, Begin and End are told each
	// cell. All may be nil.
	Ready      func(Report)
	Begin, End func(Cell)
}

// State is what became of a cell.
type State string

// The states.
const (
	Done      State = "done"
	Failed    State = "error"
	Cancelled State = "cancelled"
	Skipped   State = "skipped"
)

// Reasons for the state Failed, beside the error of the code.
const (
	ReasonError       = "error"
	ReasonTimeout     = "timeout"
	ReasonInterrupted = "interrupted"
	ReasonDied        = "kernel_died"
	ReasonUnknown     = "outcome_unknown"
)

// Cell is a cell of code in a report.
type Cell struct {
	// Index counts all cells of the notebook from 0.
	Index int    `json:"index"`
	ID    string `json:"id"`
	State State  `json:"state"`
	// Count is the execution count.
	Count    *int          `json:"execution_count"`
	Duration time.Duration `json:"-"`
	Seconds  float64       `json:"seconds"`
	// Reason is why the state is Failed; Allowed tells that the run went on.
	Reason  string `json:"reason,omitempty"`
	Allowed bool   `json:"allowed,omitempty"`
	// EName and EValue are those of the error of the code, or say how the
	// kernel ended.
	EName  string `json:"ename,omitempty"`
	EValue string `json:"evalue,omitempty"`
	// Cut tells that some output is missing.
	Cut bool `json:"output_incomplete,omitempty"`

	Source string `json:"-"`
}

// Report is what a run did.
type Report struct {
	File string `json:"file"`
	// Saved is the file that has the results, empty if nothing was saved.
	Saved   string  `json:"saved"`
	Kernel  string  `json:"kernel"`
	Seconds float64 `json:"seconds"`
	// Cells are those of code.
	Cells []Cell `json:"cells"`

	DisplayName string `json:"-"`
	Total       int    `json:"-"` // cells that are to be executed
}

// OK reports whether no cell failed that was not allowed to.
func (r Report) OK() bool {
	for _, c := range r.Cells {
		if c.State == Cancelled || c.State == Failed && !c.Allowed {
			return false
		}
	}
	return true
}

// Count returns how many cells have a state.
func (r Report) Count(s State) int {
	n := 0
	for _, c := range r.Cells {
		if c.State == s {
			n++
		}
	}
	return n
}
