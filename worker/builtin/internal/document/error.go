package document

import (
	"errors"
	"fmt"
)

var (
	// ErrStaleBase is returned when the base of a mutation is no revision of the
	// document, or one that was forgotten: its author has to read again.
	ErrStaleBase = errors.New("the base is not in the document's history")
	// ErrConflict is returned when an edit and an earlier one that its author has
	// not seen exclude each other. It comes as a *ConflictError.
	ErrConflict = errors.New("the cell was changed by somebody else")
	// ErrNoCell is returned when a change is about a cell that was not there when
	// its author looked.
	ErrNoCell = errors.New("no such cell")
	// ErrID is returned when the id of a new cell is empty or taken.
	ErrID = errors.New("not the id of a new cell")
	// ErrMutation is returned when a mutation is not well formed.
	ErrMutation = errors.New("not a mutation")
	// ErrOperation is returned when the operation id of a mutation is that of
	// another one.
	ErrOperation = errors.New("the operation id was used for another mutation")
	// ErrChain is returned when an entry does not follow on the latest revision,
	// or is not what its revision says.
	ErrChain = errors.New("not the next entry of the document's history")
)

// ConflictError says which change of a mutation is refused, and what its author needs
// to decide anew.
type ConflictError struct {
	Change int    // index in the mutation
	Cell   string // empty: the metadata of the notebook
	// Field is source, type, attachments or metadata, which has a key.
	Field, Key string
	// Base is what the author had seen, Current what is there, New what the
	// author wants.
	Base, Current, New string
	// CurrentDeleted: the cell is gone. NewDeleted: the author wants it gone.
	CurrentDeleted, NewDeleted bool
	// Heads is the revision of Current.
	Heads []Revision
}

func (c *ConflictError) Error() string {
	switch {
	case c.CurrentDeleted:
		return fmt.Sprintf("cell %s: was deleted by somebody else", c.Cell)
	case c.Cell == "":
		return fmt.Sprintf("metadata %q: was changed by somebody else", c.Key)
	}
	return fmt.Sprintf("%s of cell %s: was changed by somebody else", c.Field, c.Cell)
}

// Unwrap returns ErrConflict.
func (c *ConflictError) Unwrap() error { return ErrConflict }
