package editor

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// record is what is remembered of one entry, to undo it.
type record struct {
	Client string   `json:"client"`
	Scope  Scope    `json:"scope"`
	File   string   `json:"file"`
	Keys   []string `json:"keys"`
	Name   string   `json:"name"`

	// Existed is whether the file did; Before is the hash of what it was,
	// After that of what was written.
	Existed bool   `json:"existed"`
	Before  string `json:"before"`
	After   string `json:"after"`
	// Depth is how many keys above the entry were there.
	Depth int `json:"depth"`

	// Wrapped is whether the entry was there before. Then Command is the text
	// of its command, Behind the command that was put behind holdfast, and
	// NoArgs whether there were no arguments.
	Wrapped bool   `json:"wrapped"`
	Command string `json:"command,omitempty"`
	Behind  string `json:"behind,omitempty"`
	NoArgs  bool   `json:"no_args,omitempty"`

	before []byte
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// store keeps records, and beside each the file as it was before.
type store struct{ dir string }

// name returns the name of a record, without its extension.
func (s store) name(p Place, name string) string {
	id := hash([]byte(strings.Join(append([]string{p.File, name}, p.keys...), "\x00")))
	return filepath.Join(s.dir, p.Client.Name+"-"+id[:16])
}

// backup returns where the file as it was before an entry is kept.
func (s store) backup(p Place, name string) string { return s.name(p, name) + ".before" }

// load returns the record of an entry, nil without it. One that cannot be
// read is as good as none: what is in the file is enough to undo most of it.
func (s store) load(p Place, name string) (*record, error) {
	if err := s.check(); err != nil {
		return nil, ignoreMissing(err)
	}
	text, err := os.ReadFile(s.name(p, name) + ".json")
	if err != nil {
		return nil, ignoreMissing(err)
	}
	var r record
	if err := json.Unmarshal(text, &r); err != nil || r.File != p.File || r.Name != name {
		return nil, nil //nolint:nilerr // see above
	}
	if r.Existed {
		if r.before, err = os.ReadFile(s.backup(p, name)); err != nil || hash(r.before) != r.Before {
			r.After = "" // it cannot be restored
		}
	}
	return &r, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (s store) save(p Place, r *record) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	if err := s.check(); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if r.Existed {
		// Before the record: one whose backup is not its own is noticed by the hash.
		if err := s.write(s.backup(p, r.Name), r.before); err != nil {
			return err
		}
	}
	return s.write(s.name(p, r.Name)+".json", append(text, '\n'))
}

func (s store) write(path string, text []byte) error {
	return contents{path: path}.replace(text, 0o600, func() error { return nil })
}

func (s store) drop(p Place, name string) error {
	return errors.Join(
		ignoreMissing(os.Remove(s.name(p, name)+".json")),
		ignoreMissing(os.Remove(s.backup(p, name))))
}

// check refuses a directory that is not this user's own (SEC-4).
func (s store) check() error {
	info, err := os.Lstat(s.dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s: %w: not a directory", s.dir, ErrState)
	}
	return checkPrivate(s.dir, info)
}
