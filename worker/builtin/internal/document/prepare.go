package document

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Mutation is an edit by one author: changes that are made together or not at
// all.
type Mutation struct {
	// Base is the revision that the author has seen.
	Base []Revision
	// Operation is an id that the author has chosen for this edit. The same
	// mutation under the same id is the same edit, sent again.
	Operation, Author string
	Changes           []Change
}

// Prepare decides about a mutation and changes nothing. A fresh entry is to be
// committed, before anything else is prepared; one that is not fresh was
// committed when the mutation came the first time. Errors are ErrMutation,
// ErrOperation, ErrStaleBase, ErrNoCell, ErrID and *ConflictError.
func (d *Document) Prepare(m Mutation, now time.Time) (entry Entry, fresh bool, err error) {
	if m.Operation == "" || len(m.Changes) == 0 {
		return Entry{}, false, fmt.Errorf("%w: it has no operation id or no changes", ErrMutation)
	}
	request := m.digest()
	if n, ok := d.operations[m.Operation]; ok {
		known := d.past[n-d.dropped].Entry
		if known.Request != request {
			return Entry{}, false, fmt.Errorf("%w: %q", ErrOperation, m.Operation)
		}
		return known, false, nil
	}
	base, err := d.find(m.Base)
	if err != nil {
		return Entry{}, false, err
	}
	r := rebase{seen: d.at(base), now: d.now.clone(), heads: d.Heads()}
	for i, ch := range m.Changes {
		if err := r.add(i, ch); err != nil {
			return Entry{}, false, err
		}
	}
	entry = Entry{
		Prev: d.head, Time: now.UTC().Round(0), Author: m.Author,
		Operation: m.Operation, Request: request, Changes: r.made, Merged: r.merged,
	}
	entry.Revision = entry.name()
	return entry, true, nil
}

func (m Mutation) digest() string {
	d := newDigest("mutation")
	d.number(len(m.Base))
	for _, r := range m.Base {
		d.text(string(r))
	}
	d.text(m.Author)
	d.changes(m.Changes)
	return d.sum()
}

// rebase carries the changes of an author from the state that the author has
// seen to the present one.
type rebase struct {
	// seen is what the author sees: the base with the author's own changes.
	seen, now *content
	heads     []Revision
	made      []Change
	merged    bool
}

// add makes one change in both states, or returns why not.
func (r *rebase) add(index int, ch Change) error {
	made, wanted, err := r.carry(ch)
	if err != nil {
		if conflict, ok := errors.AsType[*ConflictError](err); ok {
			conflict.Change, conflict.Cell, conflict.Heads = index, ch.Cell, r.heads
		}
		return err
	}
	if _, ok := r.seen.apply(ch.step()); !ok {
		return fmt.Errorf("%w: change %d: %s of %q", ErrMutation, index, ch.Kind, ch.Cell)
	}
	if !wanted {
		return nil
	}
	if _, ok := r.now.apply(made.step()); !ok {
		return fmt.Errorf("%w: change %d: %s of %q", ErrMutation, index, ch.Kind, ch.Cell)
	}
	r.made = append(r.made, made)
	return nil
}

// carry returns what a change is in the present state, and whether it still has
// something to do there.
func (r *rebase) carry(ch Change) (made Change, wanted bool, err error) {
	switch ch.Kind {
	case SetMetadata:
		return r.value(ch, ConflictError{Field: "metadata", Key: ch.Key, Base: r.seen.metadata[ch.Key], Current: r.now.metadata[ch.Key], New: ch.Value})
	case InsertCell:
		_, seen := r.seen.cells[ch.Cell]
		_, exists := r.now.cells[ch.Cell]
		if seen || exists || ch.Cell == "" {
			return ch, false, fmt.Errorf("%w: %q", ErrID, ch.Cell)
		}
		ch, err = r.settle(ch)
		return ch, true, err
	case DeleteCell, MoveCell, SetSource, SetType, SetAttachments, SetCellMetadata:
		seen, ok := r.seen.cells[ch.Cell]
		if !ok {
			return ch, false, fmt.Errorf("%w: %q", ErrNoCell, ch.Cell)
		}
		now, exists := r.now.cells[ch.Cell]
		if exists {
			return r.edit(ch, seen, now)
		}
		if ch.Kind == DeleteCell {
			return ch, false, nil
		}
		return ch, false, &ConflictError{Field: "source", Base: seen.Source, New: newSource(ch, seen), CurrentDeleted: true}
	default:
		return ch, false, fmt.Errorf("%w: %q is no kind of change", ErrMutation, ch.Kind)
	}
}

// edit carries a change of a cell that is there.
func (r *rebase) edit(ch Change, seen, now Cell) (made Change, wanted bool, err error) {
	switch ch.Kind {
	case MoveCell:
		ch, err = r.settle(ch)
		return ch, true, err
	case DeleteCell:
		if !now.equal(seen) {
			return ch, false, &ConflictError{Field: "source", Base: seen.Source, Current: now.Source, NewDeleted: true}
		}
		return ch, true, nil
	case SetSource:
		return r.source(ch, seen, now)
	case SetType:
		if now.Source != seen.Source && now.Type != ch.Type {
			return ch, false, &ConflictError{Field: "source", Base: seen.Source, Current: now.Source, New: seen.Source}
		}
		return r.value(ch, ConflictError{Field: "type", Base: seen.Type, Current: now.Type, New: ch.Type})
	case SetAttachments:
		return r.value(ch, ConflictError{Field: "attachments", Base: seen.Attachments, Current: now.Attachments, New: ch.Value})
	default: // SetCellMetadata
		return r.value(ch, ConflictError{Field: "metadata", Key: ch.Key, Base: seen.Metadata[ch.Key], Current: now.Metadata[ch.Key], New: ch.Value})
	}
}

func newSource(ch Change, seen Cell) string {
	if ch.Kind == SetSource {
		return ch.Value
	}
	return seen.Source
}

// value carries a change of something that is replaced as a whole.
func (r *rebase) value(ch Change, three ConflictError) (Change, bool, error) {
	if three.Current != three.Base && three.Current != three.New {
		return ch, false, &three
	}
	return ch, true, nil
}

// source carries a change of a source, which is merged by line.
func (r *rebase) source(ch Change, seen, now Cell) (Change, bool, error) {
	if now.Type != seen.Type {
		return ch, false, &ConflictError{Field: "type", Base: seen.Type, Current: now.Type, New: seen.Type}
	}
	merged, ok := merge(seen.Source, now.Source, ch.Value)
	if !ok {
		return ch, false, &ConflictError{Field: "source", Base: seen.Source, Current: now.Source, New: ch.Value}
	}
	r.merged = r.merged || merged != ch.Value
	ch.Value = merged
	return ch, true, nil
}

// settle finds the place for a cell: behind the one that the author means, or if
// that is gone, behind the nearest before it that is there.
func (r *rebase) settle(ch Change) (Change, error) {
	place, ok := r.seen.place(ch.After)
	if !ok || ch.After == ch.Cell {
		return ch, fmt.Errorf("%w: %q, to come after", ErrNoCell, ch.After)
	}
	for _, id := range slices.Backward(r.seen.order[:place]) {
		if _, ok := r.now.cells[id]; ok && id != ch.Cell {
			ch.After = id
			return ch, nil
		}
	}
	ch.After = ""
	return ch, nil
}
