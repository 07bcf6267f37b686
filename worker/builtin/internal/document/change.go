package document

import (
	"maps"
	"slices"
)

// Cell is a cell as its authors see it.
type Cell struct {
	ID, Type, Source string
	// Metadata is JSON by key, Attachments an object of JSON or empty.
	Metadata    map[string]string
	Attachments string
}

func (c Cell) equal(other Cell) bool {
	return c.Type == other.Type && c.Source == other.Source && c.Attachments == other.Attachments && maps.Equal(c.Metadata, other.Metadata)
}

// Kind says what a change does.
type Kind string

// Kinds of changes, and the fields of Change that each uses.
const (
	InsertCell      Kind = "insert_cell"       // Cell, a new id; After; Type; Value, the source
	DeleteCell      Kind = "delete_cell"       // Cell
	MoveCell        Kind = "move_cell"         // Cell, After
	SetSource       Kind = "set_source"        // Cell, Value
	SetType         Kind = "set_type"          // Cell, Type
	SetCellMetadata Kind = "set_cell_metadata" // Cell, Key, Value: JSON, or empty to remove the key
	SetAttachments  Kind = "set_attachments"   // Cell, Value: JSON, or empty
	SetMetadata     Kind = "set_metadata"      // Key, Value, of the notebook
)

// Change is one change of a document.
type Change struct {
	Kind  Kind
	Cell  string
	After string // id of the cell before it; empty: it is the first
	Type  string
	Key   string
	Value string
}

// step is a change, and for InsertCell the whole cell.
type step struct {
	Change

	cell Cell
}

func (ch Change) step() step {
	return step{ch, Cell{ID: ch.Cell, Type: ch.Type, Source: ch.Value}}
}

// content is what a document holds at a revision.
type content struct {
	order    []string
	cells    map[string]Cell
	metadata map[string]string
}

func (c *content) clone() *content {
	return &content{slices.Clone(c.order), maps.Clone(c.cells), maps.Clone(c.metadata)}
}

// place returns where a cell behind the one with the id after stands.
func (c *content) place(after string) (int, bool) {
	if after == "" {
		return 0, true
	}
	i := slices.Index(c.order, after)
	return i + 1, i >= 0
}

// before returns the id of the cell before a place.
func (c *content) before(place int) string {
	if place == 0 {
		return ""
	}
	return c.order[place-1]
}

// apply makes a change and returns the one that takes it back. It reports false
// and does nothing where the change makes no sense.
func (c *content) apply(s step) (undo step, ok bool) {
	switch s.Kind {
	case InsertCell:
		return c.insert(s)
	case DeleteCell, MoveCell:
		return c.take(s)
	case SetMetadata:
		undo = step{Change: Change{Kind: SetMetadata, Key: s.Key, Value: c.metadata[s.Key]}}
		c.metadata = with(c.metadata, s.Key, s.Value)
		return undo, true
	default:
		return c.edit(s)
	}
}

// edit changes a cell in its place.
func (c *content) edit(s step) (undo step, ok bool) {
	cell, ok := c.cells[s.Cell]
	if !ok {
		return step{}, false
	}
	undo = step{Change: Change{Kind: s.Kind, Cell: s.Cell, Key: s.Key}}
	switch s.Kind {
	case SetSource:
		undo.Value, cell.Source = cell.Source, s.Value
	case SetType:
		undo.Type, cell.Type = cell.Type, s.Type
	case SetAttachments:
		undo.Value, cell.Attachments = cell.Attachments, s.Value
	case SetCellMetadata:
		undo.Value = cell.Metadata[s.Key]
		cell.Metadata = with(maps.Clone(cell.Metadata), s.Key, s.Value)
	default:
		return step{}, false
	}
	c.cells[s.Cell] = cell
	return undo, true
}

func (c *content) insert(s step) (undo step, ok bool) {
	place, ok := c.place(s.After)
	if _, taken := c.cells[s.Cell]; taken || !ok || s.Cell == "" {
		return step{}, false
	}
	c.order = slices.Insert(c.order, place, s.Cell)
	c.cells[s.Cell] = s.cell
	return step{Change: Change{Kind: DeleteCell, Cell: s.Cell}}, true
}

// take takes a cell out, and for MoveCell puts it elsewhere.
func (c *content) take(s step) (undo step, ok bool) {
	from := slices.Index(c.order, s.Cell)
	if from < 0 {
		return step{}, false
	}
	undo = step{Change{Kind: InsertCell, Cell: s.Cell, After: c.before(from)}, c.cells[s.Cell]}
	if s.Kind == DeleteCell {
		c.order = slices.Delete(c.order, from, from+1)
		delete(c.cells, s.Cell)
		return undo, true
	}
	undo.Kind = MoveCell
	if s.After == s.Cell {
		return step{}, false
	}
	if _, ok := c.place(s.After); !ok {
		return step{}, false
	}
	c.order = slices.Delete(c.order, from, from+1)
	to, _ := c.place(s.After)
	c.order = slices.Insert(c.order, to, s.Cell)
	return undo, true
}

// with sets a key, or removes it if value is empty.
func with(all map[string]string, key, value string) map[string]string {
	if all == nil {
		all = map[string]string{}
	}
	if all[key] = value; value == "" {
		delete(all, key)
	}
	return all
}
