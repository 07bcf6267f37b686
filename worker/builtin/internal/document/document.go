package document

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// What is kept of the history: that many revisions, and for so long. An older
// base is stale, and an older operation id may be used again.
const (
	KeptRevisions = 10000
	KeptFor       = 24 * time.Hour
)

// Document is a notebook and its latest history. Use New.
type Document struct {
	now  *content
	head Revision
	// past is the history that is kept, oldest first; dropped counts what is not.
	past    []event
	dropped int
	// number is how many entries there were up to a revision that is known.
	number map[Revision]int
	// operations are entries by operation id, as indexes of all there were.
	operations map[string]int
}

// event is an entry, and what takes it back.
type event struct {
	Entry

	undo []step
}

// State is a document at a revision. It is never changed.
type State struct {
	Cells []Cell
	// Metadata is that of the notebook: JSON by key.
	Metadata map[string]string
}

// New returns a document with a content. An id names a notebook, the epoch one
// of its incarnations.
func New(id string, epoch uint64, state State) (*Document, error) {
	c := &content{cells: map[string]Cell{}, metadata: maps.Clone(state.Metadata)}
	for _, cell := range state.Cells {
		if _, taken := c.cells[cell.ID]; taken || cell.ID == "" {
			return nil, fmt.Errorf("%w: %q", ErrID, cell.ID)
		}
		c.order = append(c.order, cell.ID)
		cell.Metadata = maps.Clone(cell.Metadata)
		c.cells[cell.ID] = cell
	}
	head := first(id, epoch, c)
	return &Document{now: c, head: head, number: map[Revision]int{head: 0}, operations: map[string]int{}}, nil
}

// Heads returns the latest revision.
func (d *Document) Heads() []Revision { return []Revision{d.head} }

// Knows reports whether heads are in the history that is kept.
func (d *Document) Knows(heads []Revision) bool {
	_, err := d.find(heads)
	return err == nil
}

// find returns the number of a revision that is known.
func (d *Document) find(heads []Revision) (int, error) {
	if len(heads) != 1 {
		return 0, fmt.Errorf("%w: %d heads, want one", ErrStaleBase, len(heads))
	}
	n, ok := d.number[heads[0]]
	if !ok {
		return 0, ErrStaleBase
	}
	return n, nil
}

// State returns the latest state.
func (d *Document) State() State { return d.now.state() }

// At returns the state at a revision that is known; else its error is
// ErrStaleBase.
func (d *Document) At(heads []Revision) (State, error) {
	n, err := d.find(heads)
	if err != nil {
		return State{}, err
	}
	return d.at(n).state(), nil
}

// at goes back in history from the latest state.
func (d *Document) at(number int) *content {
	c := d.now.clone()
	for _, past := range slices.Backward(d.past[number-d.dropped:]) {
		c.undo(past.undo)
	}
	return c
}

func (c *content) undo(steps []step) {
	for _, s := range slices.Backward(steps) {
		c.apply(s)
	}
}

func (c *content) state() State {
	s := State{Cells: make([]Cell, 0, len(c.order)), Metadata: maps.Clone(c.metadata)}
	for _, id := range c.order {
		s.Cells = append(s.Cells, c.cells[id])
	}
	return s
}

// Commit takes the next entry into the document. Its error is ErrChain, and the
// document stays as it was then.
func (d *Document) Commit(e Entry) error {
	if e.Prev != d.head || e.Revision != e.name() {
		return fmt.Errorf("%w: %.8s after %.8s, want one after %.8s", ErrChain, e.Revision, e.Prev, d.head)
	}
	past := event{Entry: e}
	for _, ch := range e.Changes {
		undo, ok := d.now.apply(ch.step())
		if !ok {
			d.now.undo(past.undo)
			return fmt.Errorf("%w: %.8s cannot %s %q", ErrChain, e.Revision, ch.Kind, ch.Cell)
		}
		past.undo = append(past.undo, undo)
	}
	d.operations[e.Operation] = d.dropped + len(d.past)
	d.past = append(d.past, past)
	d.head = e.Revision
	d.number[d.head] = d.dropped + len(d.past)
	d.forget(e.Time)
	return nil
}

// forget drops history beyond its bounds. The latest revision stays known.
func (d *Document) forget(now time.Time) {
	for len(d.past) > 0 && (len(d.past) > KeptRevisions || now.Sub(d.past[0].Time) > KeptFor) {
		old := d.past[0]
		delete(d.number, old.Prev)
		if d.operations[old.Operation] == d.dropped {
			delete(d.operations, old.Operation)
		}
		d.past[0] = event{}
		d.past = d.past[1:]
		d.dropped++
	}
}
