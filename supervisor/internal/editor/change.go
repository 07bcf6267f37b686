package editor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/diff"
)

// Editor changes the files of clients.
type Editor struct{ Host Host }

func (e Editor) store() store { return store{e.Host.state()} }

// Change is a change of one file that has not been made yet.
type Change struct {
	Place Place
	Name  string
	// Server is the entry as it will be; without a command if it is taken out.
	Server Server
	// Backup is where the file as it was before is kept; empty if there was
	// none, and after an undo.
	Backup string
	// Exact is whether an undo restores the bytes of the whole file, Removes
	// whether it removes the file, Unwrapped whether it leaves the entry,
	// without holdfast.
	Exact     bool
	Removes   bool
	Unwrapped bool
	// Dropped are flags of holdfast that an undo without a record loses.
	Dropped []string

	from   contents
	to     []byte
	record *record
	store  store
}

// Diff returns the change as a unified diff.
func (c *Change) Diff() []byte {
	before, after := c.from.path, c.from.path
	if !c.from.exists {
		before = os.DevNull
	}
	if c.Removes {
		after = os.DevNull
	}
	return diff.Diff(before, c.from.text, after, c.to)
}

// Apply makes the change. It fails with [ErrChanged], and changes nothing, if
// the file is not what it was when the change was computed.
func (c *Change) Apply() error {
	ready := func() error { return c.Place.unchanged(c.from) }
	if err := ready(); err != nil {
		return err
	}
	if c.record != nil {
		if err := c.store.save(c.Place, c.record); err != nil {
			return fmt.Errorf("keep what the file was: %w", err)
		}
	}
	if err := c.write(ready); err != nil {
		return err
	}
	if c.record == nil {
		return c.store.drop(c.Place, c.Name)
	}
	return nil
}

func (c *Change) write(ready func() error) error {
	if c.Removes {
		return c.from.remove(ready)
	}
	folder, file := os.FileMode(0o700), os.FileMode(0o600) // entries have secrets
	if c.Place.Scope == Project {
		folder, file = 0o755, 0o644
	}
	if err := os.MkdirAll(filepath.Dir(c.from.path), folder); err != nil {
		return err
	}
	return c.from.replace(c.to, file, ready)
}

// Install puts an entry into a file. One of that name is left alone, with
// [ErrExists], unless it may be overwritten.
func (e Editor) Install(p Place, s Server, overwrite bool) (*Change, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	c, doc, err := e.begin(p, s.Name)
	if err != nil {
		return nil, err
	}
	base := c.from.text
	_, err = find(doc, s.Name)
	exists := !errors.Is(err, ErrNotFound) // be it readable or not
	if exists && !overwrite {
		return nil, fmt.Errorf("%s: %q: %w", p.File, s.Name, ErrExists)
	}
	r := c.record
	if exists {
		if base, doc, err = e.cleared(c, doc); err != nil {
			return nil, c.failed(err)
		}
	} else {
		r.before = base
	}
	if r.Depth, err = doc.depth(); err != nil {
		return nil, c.failed(err)
	}
	edits, err := doc.add(s)
	if err != nil {
		return nil, c.failed(err)
	}
	return c.finish(doc, base, s, edits)
}

// cleared returns the text without the entry that is to be overwritten. If
// holdfast had installed that one, what an undo restores is what was there
// before it.
func (e Editor) cleared(c *Change, doc document) ([]byte, document, error) {
	r := c.record
	old, err := c.store.load(c.Place, c.Name)
	if err != nil {
		return nil, nil, err
	}
	keep := len(c.Place.keys)
	if old != nil && !old.Wrapped {
		keep = old.Depth
	}
	edits, err := doc.remove(c.Name, keep)
	if err != nil {
		return nil, nil, err
	}
	base, doc, err := rewrite(doc, c.from.text, c.Name, edits, c.Place.parse)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case old != nil && old.After == hash(c.from.text):
		r.before, r.Existed = old.before, old.Existed
	case old != nil && !old.Wrapped:
		r.before = base // what is there beside the entry stays
	default:
		r.before = c.from.text
	}
	return base, doc, nil
}

// Wrap puts a command in front of that of an entry. around gets the entry and
// returns the new command and the arguments in front of the old ones, of which
// the last is the old command.
func (e Editor) Wrap(p Place, name string, around func(Server) (command string, prefix []string, err error)) (*Change, error) {
	c, doc, err := e.begin(p, name)
	if err != nil {
		return nil, err
	}
	s, err := find(doc, name)
	switch {
	case err != nil:
		return nil, c.failed(err)
	case s.Supervised():
		return nil, c.failed(ErrWrapped)
	case s.Command == "":
		return nil, c.failed(ErrNoCommand)
	}
	was, args, err := doc.command(name)
	if err != nil {
		return nil, c.failed(err)
	}
	command, prefix, err := around(s)
	if err != nil {
		return nil, err
	}
	r := c.record
	r.before, r.Wrapped = c.from.text, true
	r.Command, r.NoArgs = string(c.from.text[was.start:was.end]), args == nil
	r.Depth = len(p.keys)
	if len(prefix) > 0 {
		r.Behind = prefix[len(prefix)-1]
	}
	s.Command, s.Args = command, append(prefix, s.Args...)
	if err := s.check(); err != nil {
		return nil, c.failed(err)
	}
	edits, err := wrap(doc, c.from.text, name, command, prefix)
	if err != nil {
		return nil, c.failed(err)
	}
	return c.finish(doc, c.from.text, s, edits)
}

// begin reads a file.
func (e Editor) begin(p Place, name string) (*Change, document, error) {
	c := &Change{Place: p, Name: name, store: e.store()}
	var err error
	if c.from, err = p.read(); err != nil {
		return nil, nil, err
	}
	doc, err := p.parse(c.from.text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", p.File, err)
	}
	c.record = &record{Client: p.Client.Name, Scope: p.Scope, File: p.File, Keys: p.keys, Name: name, Existed: c.from.exists}
	return c, doc, nil
}

func (c *Change) failed(err error) error { return fmt.Errorf("%s: %q: %w", c.Place.File, c.Name, err) }

// finish makes the edits, and checks that the entry is what was asked for.
func (c *Change) finish(doc document, base []byte, s Server, edits []edit) (*Change, error) {
	var err error
	if c.to, doc, err = rewrite(doc, base, c.Name, edits, c.Place.parse); err != nil {
		return nil, c.failed(err)
	}
	if is, err := find(doc, s.Name); err != nil || !is.same(s) {
		return nil, c.failed(fmt.Errorf("%w: the entry would not be what it should be", ErrForm))
	}
	c.Server = s
	c.record.Before, c.record.After = hash(c.record.before), hash(c.to)
	if c.record.Existed {
		c.Backup = c.store.backup(c.Place, c.Name)
	}
	return c, nil
}
