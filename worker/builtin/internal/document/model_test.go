package document

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// model is what a document promises, without its history: the states there
// were, whole, and all entries.
type model struct {
	states  map[Revision]State
	chain   []Revision
	entries []Entry
	sent    []Mutation // of the entries
}

func (m *model) latest() State { return m.states[m.chain[len(m.chain)-1]] }

// TestModel: ROOM-1, any history of edits, late and repeated, against whole
// copies of all states.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := drawState(t)
		d, err := New("id", 7, start)
		if err != nil {
			t.Fatal(err)
		}
		m := &model{states: map[Revision]State{d.Heads()[0]: d.State()}, chain: d.Heads()}
		if text(d.State()) != text(start) {
			t.Fatalf("%s, want %s", text(d.State()), text(start))
		}
		for n := range rapid.IntRange(1, 25).Draw(t, "steps") {
			if len(m.sent) > 0 && rapid.IntRange(0, 5).Draw(t, "repeat") == 0 {
				i := rapid.IntRange(0, len(m.sent)-1).Draw(t, "which")
				if e, fresh, err := d.Prepare(m.sent[i], epoch); err != nil || fresh || !reflect.DeepEqual(e, m.entries[i]) {
					t.Fatalf("repeated: %+v %v %v, want %+v", e, fresh, err, m.entries[i])
				}
				continue
			}
			m.edit(t, d, n)
		}
		m.check(t, d, start)
	})
}

// edit makes one change from a base of the past.
func (m *model) edit(t *rapid.T, d *Document, n int) {
	base := m.chain[max(0, len(m.chain)-1-rapid.IntRange(0, 6).Draw(t, "late"))]
	change := drawChange(t, m.states[base], n)
	mutation := Mutation{[]Revision{base}, fmt.Sprint("op", n), "author", []Change{change}}
	want, merged, conflict := expect(m.states[base], m.latest(), change)
	entry, fresh, err := d.Prepare(mutation, epoch)
	if (err != nil) != conflict || err != nil && !errors.Is(err, ErrConflict) && !errors.Is(err, ErrID) {
		t.Fatalf("%+v: %v, want conflict %v", change, err, conflict)
	}
	if text(d.State()) != text(m.latest()) {
		t.Fatalf("Prepare changed the document to %s", text(d.State()))
	}
	if err != nil {
		return
	}
	if err := d.Commit(entry); err != nil || !fresh {
		t.Fatal(fresh, err)
	}
	if text(d.State()) != text(want) || entry.Merged != merged {
		t.Fatalf("%+v on %s:\n%s, %v, want\n%s, %v", change, text(m.latest()), text(d.State()), entry.Merged, text(want), merged)
	}
	if _, known := m.states[entry.Revision]; known || entry.Prev != m.chain[len(m.chain)-1] || !slices.Equal(d.Heads(), []Revision{entry.Revision}) {
		t.Fatalf("revision %s after %s", entry.Revision, entry.Prev)
	}
	m.states[entry.Revision] = d.State()
	m.chain = append(m.chain, entry.Revision)
	m.entries, m.sent = append(m.entries, entry), append(m.sent, mutation)
}

// check looks at the whole history, and replays it.
func (m *model) check(t *rapid.T, d *Document, start State) {
	again, err := New("id", 7, start)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range m.entries {
		if err := again.Commit(e); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(again.Heads(), d.Heads()) || text(again.State()) != text(d.State()) {
		t.Fatalf("replayed: %s, want %s", text(again.State()), text(d.State()))
	}
	for revision, want := range m.states {
		got, err := d.At([]Revision{revision})
		if err != nil || text(got) != text(want) {
			t.Fatalf("at %.8s: %s, %v, want %s", revision, text(got), err, text(want))
		}
		checkDelta(t, want, d.State())
	}
}

// expect is what should come of a change, the plain way.
func expect(seen, now State, ch Change) (want State, merged, conflict bool) {
	old, current := cellOf(seen, ch.Cell), cellOf(now, ch.Cell)
	want = State{slices.Clone(now.Cells), maps.Clone(now.Metadata)}
	if ch.Kind == SetMetadata {
		was, is := seen.Metadata[ch.Key], now.Metadata[ch.Key]
		want.Metadata = with(want.Metadata, ch.Key, ch.Value)
		return want, false, is != was && is != ch.Value
	}
	if ch.Kind == InsertCell {
		if old != nil || current != nil {
			return want, false, true
		}
		want.Cells = insertBehind(want.Cells, seen, ch.After, Cell{ID: ch.Cell, Type: ch.Type, Source: ch.Value})
		return want, false, false
	}
	if current == nil {
		return want, false, ch.Kind != DeleteCell
	}
	i := slices.IndexFunc(want.Cells, func(c Cell) bool { return c.ID == ch.Cell })
	cell := *current
	switch ch.Kind {
	case DeleteCell:
		want.Cells = slices.Delete(want.Cells, i, i+1)
		return want, false, !old.equal(*current)
	case MoveCell:
		want.Cells = insertBehind(slices.Delete(want.Cells, i, i+1), seen, ch.After, cell)
		return want, false, false
	case SetSource:
		text, ok := merge(old.Source, current.Source, ch.Value)
		merged, conflict = text != ch.Value, !ok || old.Type != current.Type
		cell.Source = text
	case SetType:
		conflict = current.Type != ch.Type && (current.Source != old.Source || current.Type != old.Type)
		cell.Type = ch.Type
	case SetAttachments:
		conflict = current.Attachments != old.Attachments && current.Attachments != ch.Value
		cell.Attachments = ch.Value
	default: // SetCellMetadata
		conflict = current.Metadata[ch.Key] != old.Metadata[ch.Key] && current.Metadata[ch.Key] != ch.Value
		cell.Metadata = with(maps.Clone(cell.Metadata), ch.Key, ch.Value)
	}
	want.Cells[i] = cell
	return want, merged, conflict
}

func cellOf(s State, id string) *Cell {
	for _, c := range s.Cells {
		if c.ID == id {
			return &c
		}
	}
	return nil
}

// insertBehind puts a cell behind the first of these that is there: the one
// meant, and those that came before it, backwards.
func insertBehind(cells []Cell, seen State, after string, cell Cell) []Cell {
	passed := after == ""
	for _, c := range slices.Backward(seen.Cells) {
		passed = passed || c.ID == after
		at := slices.IndexFunc(cells, func(other Cell) bool { return other.ID == c.ID })
		if passed && after != "" && at >= 0 && c.ID != cell.ID {
			return slices.Insert(cells, at+1, cell)
		}
	}
	return slices.Insert(cells, 0, cell)
}

// checkDelta makes one state of another by what Compare says.
func checkDelta(t *rapid.T, from, to State) {
	delta := Compare(from, to)
	gone := append(slices.Clone(delta.Removed), delta.Moved...)
	var order []string
	for _, c := range from.Cells {
		if !slices.Contains(gone, c.ID) {
			order = append(order, c.ID)
		}
	}
	for i, c := range to.Cells {
		if slices.Contains(delta.Added, c.ID) || slices.Contains(delta.Moved, c.ID) {
			order = slices.Insert(order, i, c.ID)
		}
	}
	changed := map[string]Changed{}
	for _, c := range delta.Changed {
		changed[c.ID] = c
	}
	for i, c := range to.Cells {
		if i >= len(order) || order[i] != c.ID {
			t.Fatalf("order %q by %+v:\n%s\n%s", order, delta, text(from), text(to))
		}
		was := cellOf(from, c.ID)
		what, ok := changed[c.ID]
		if was == nil {
			was = &c
		}
		if ok == was.equal(c) || what.Source != (was.Source != c.Source) || what.Type != (was.Type != c.Type) ||
			what.Attachments != (was.Attachments != c.Attachments) || (len(what.Metadata) == 0) != maps.Equal(was.Metadata, c.Metadata) {
			t.Fatalf("%+v of %+v and %+v", what, was, c)
		}
	}
	if len(order) != len(to.Cells) || (len(delta.Metadata) == 0) != maps.Equal(from.Metadata, to.Metadata) {
		t.Fatalf("%+v:\n%s\n%s", delta, text(from), text(to))
	}
	if same := Compare(to, to); !reflect.DeepEqual(same, Delta{}) {
		t.Fatalf("a state differs from itself: %+v", same)
	}
}

func drawSource(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n", "a\nb\nC\nd\n", "a\nB\nc\n", "", "x"}).Draw(t, "source")
}

func drawState(t *rapid.T) State {
	s := State{Metadata: map[string]string{}}
	for n := range rapid.IntRange(0, 4).Draw(t, "cells") {
		s.Cells = append(s.Cells, Cell{ID: fmt.Sprint("c", n), Type: "code", Source: drawSource(t), Metadata: map[string]string{"k": "1"}})
	}
	return s
}

// drawChange draws a change that makes sense to who sees a state.
func drawChange(t *rapid.T, seen State, n int) Change {
	ids := []string{""}
	for _, c := range seen.Cells {
		ids = append(ids, c.ID)
	}
	after := rapid.SampledFrom(ids).Draw(t, "after")
	value := rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "value")
	if kind := rapid.IntRange(0, 7).Draw(t, "kind"); kind == 0 || len(ids) == 1 {
		return Change{Kind: InsertCell, Cell: fmt.Sprint("n", n%6), After: after, Type: "raw", Value: drawSource(t)}
	} else if kind == 1 {
		return Change{Kind: SetMetadata, Key: "k", Value: value}
	}
	cell := rapid.SampledFrom(ids[1:]).Draw(t, "cell")
	switch rapid.IntRange(0, 7).Draw(t, "edit") {
	case 0:
		return Change{Kind: DeleteCell, Cell: cell}
	case 1:
		if after != cell {
			return Change{Kind: MoveCell, Cell: cell, After: after}
		}
		return Change{Kind: MoveCell, Cell: cell}
	case 2:
		return Change{Kind: SetType, Cell: cell, Type: rapid.SampledFrom([]string{"code", "raw", "markdown"}).Draw(t, "type")}
	case 3:
		return Change{Kind: SetCellMetadata, Cell: cell, Key: rapid.SampledFrom([]string{"k", "l"}).Draw(t, "key"), Value: value}
	case 4:
		return Change{Kind: SetAttachments, Cell: cell, Value: value}
	}
	return Change{Kind: SetSource, Cell: cell, Value: drawSource(t)}
}
