package check

import (
	"fmt"
	"io"
	"time"
)

// Table writes results for people, a row each.
type Table struct {
	w      io.Writer
	colour bool
	name   int // width of the column
	rule   int
}

// NewTable returns a Table; colour is for terminals.
func NewTable(w io.Writer, colour bool) *Table {
	t := &Table{w: w, colour: colour}
	for _, ch := range all() {
		t.name = max(t.name, len(ch.name))
		t.rule = max(t.rule, len(ch.rule))
	}
	return t
}

// labels are as wide as labelWidth at most.
var labels = map[Status]struct{ text, colour string }{
	OK:      {"ok", "\x1b[32m"},
	Failed:  {"FAIL", "\x1b[1;31m"},
	Note:    {"note", "\x1b[33m"},
	Skipped: {"skip", "\x1b[2m"},
}

const (
	labelWidth = 4
	plain      = "\x1b[0m"
)

// Row writes one result. What was expected stands below a failure; the rest
// speaks for itself.
func (t *Table) Row(r Result) {
	label := labels[r.Status]
	text := fmt.Sprintf("%-*s", labelWidth, label.text)
	if t.colour {
		text = label.colour + text + plain
	}
	fmt.Fprintf(t.w, "%s  %-*s  %-*s  %s\n", text, t.name, r.Name, t.rule, r.Rule, r.Seen)
	if r.Status == Failed {
		fmt.Fprintf(t.w, "%*s  expected: %s\n", labelWidth+2+t.name+2+t.rule, "", r.Expected)
	}
}

// Sum writes what it comes to.
func (t *Table) Sum(r Report, took time.Duration) {
	if r.Count(Failed) > 0 && len(r.Stderr) > 0 {
		fmt.Fprintln(t.w, "\nlast lines on the worker's stderr:")
		for _, line := range r.Stderr {
			fmt.Fprintf(t.w, "  %s\n", line)
		}
	}
	fmt.Fprintf(t.w, "\n%d ok, %d failed, %d notes, %d skipped, in %.1f s\n",
		r.Count(OK), r.Count(Failed), r.Count(Note), r.Count(Skipped), took.Seconds())
}
