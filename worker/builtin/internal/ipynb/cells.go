package ipynb

import (
	"errors"
	"fmt"
	"slices"
)

// Insert adds a cell behind the one with the id after, or at the beginning if
// that is empty. The id of the cell must be new; metadata, outputs and
// attachments may be nil.
func (n *Notebook) Insert(after string, cell Cell) error {
	at, err := n.behind(after)
	if err != nil {
		return err
	}
	if _, err := n.index(cell.ID); err == nil || !validID(cell.ID) {
		return fmt.Errorf("%w: %q", ErrID, clip(cell.ID))
	}
	if !validText(cell.Source) {
		return fmt.Errorf("source of cell %s: %w", cell.ID, ErrText)
	}
	object, err := n.object(cell)
	if err != nil {
		return err
	}
	added := newCell(n.style.render(nil, object, n.open(at), cellShape))
	added.id = cell.ID
	n.cells = slices.Insert(n.cells, at, added)
	return nil
}

// object returns a new cell as one line of JSON, in the order of nbformat.
func (n *Notebook) object(cell Cell) ([]byte, error) {
	c := &checker{minor: n.minor}
	b := []byte("{")
	add := func(name string, value []byte) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(fmt.Appendf(b, "%q:", name), value...)
	}
	given := func(name string, value []byte, otherwise string) error {
		if value == nil && otherwise == "" {
			return nil
		}
		if value == nil {
			value = []byte(otherwise)
		}
		value, err := c.given(name, value, anything)
		add(name, value)
		return err
	}

	errs := []error{given("attachments", cell.Attachments, "")}
	add("cell_type", appendString(nil, cell.Type, false))
	outputs := ""
	if cell.Type == Code {
		add("execution_count", []byte(countText(cell.ExecutionCount)))
		outputs = "[]"
	}
	if n.minor >= idMinor {
		add("id", appendString(nil, cell.ID, false))
	}
	errs = append(errs, given("metadata", cell.Metadata, "{}"), given("outputs", cell.Outputs, outputs))
	add("source", appendString(nil, cell.Source, false))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return c.given("cell "+cell.ID, append(b, '}'), (*checker).cell)
}

// behind returns the place behind the cell of an id.
func (n *Notebook) behind(after string) (int, error) {
	if after == "" {
		return 0, nil
	}
	i, err := n.index(after)
	return i + 1, err
}

// open makes a gap for a cell and returns the layout of the cell.
func (n *Notebook) open(at int) layout {
	if len(n.cells) == 0 {
		outside := layoutOf(n.member("cells").lead.of(n.top))
		inside := outside.deeper(n.style)
		n.gaps = [][]byte{[]byte(inside.space()), []byte(outside.space())}
		return inside
	}
	gap := []byte(n.style.between(layoutOf(n.gaps[0])))
	place := max(at, 1)
	if len(n.cells) > 1 {
		gap = n.gaps[min(place, len(n.cells)-1)]
	}
	n.gaps = slices.Insert(n.gaps, place, gap)
	return closing(n.cells[max(at-1, 0)].text)
}

// Delete removes a cell.
func (n *Notebook) Delete(id string) error {
	i, err := n.index(id)
	if err != nil {
		return err
	}
	if len(n.cells) == 1 {
		n.gaps = [][]byte{nil}
	} else {
		gap := min(i+1, len(n.cells)-1) // the first and the last one stay
		n.gaps = slices.Delete(n.gaps, gap, gap+1)
	}
	n.cells = slices.Delete(n.cells, i, i+1)
	return nil
}

// Move puts a cell behind the one with the id after, or at the beginning if
// that is empty.
func (n *Notebook) Move(id, after string) error {
	from, err := n.index(id)
	if err != nil {
		return err
	}
	to, err := n.behind(after)
	if err != nil {
		return err
	}
	if to > from {
		to--
	}
	if id == after {
		return nil
	}
	c := n.cells[from]
	n.cells = slices.Insert(slices.Delete(n.cells, from, from+1), to, c)
	return nil
}
