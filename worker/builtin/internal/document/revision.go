package document

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"maps"
	"slices"
	"time"
)

// Revision names a state of a document and its history: a SHA-256 in 64
// hexadecimal digits.
type Revision string

// Entry is a revision's part of the history.
type Entry struct {
	Revision, Prev Revision
	Time           time.Time
	Author         string
	// Operation is the id of the mutation, and Request a digest of it.
	Operation, Request string
	// Changes are those that were made: sources are merged, places are there.
	Changes []Change
	// Merged: a source is not what its author wrote alone, it has what others have
	// changed as well.
	Merged bool
}

// digest is a hash over strings, each with its length.
type digest struct{ hash.Hash }

// newDigest returns a digest for one purpose.
func newDigest(purpose string) digest {
	d := digest{sha256.New()}
	d.text("holdfast document 1", purpose)
	return d
}

func (d digest) text(all ...string) {
	for _, s := range all {
		d.number(len(s))
		d.Write([]byte(s))
	}
}

func (d digest) number(n int) {
	d.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
}

func (d digest) changes(all []Change) {
	d.number(len(all))
	for _, ch := range all {
		d.text(string(ch.Kind), ch.Cell, ch.After, ch.Type, ch.Key, ch.Value)
	}
}

func (d digest) metadata(all map[string]string) {
	d.number(len(all))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		d.text(key, all[key])
	}
}

func (d digest) sum() string { return hex.EncodeToString(d.Sum(nil)) }

// first is the revision of a new document.
func first(id string, epoch uint64, c *content) Revision {
	d := newDigest("first")
	d.text(id)
	d.number(int(epoch))
	d.metadata(c.metadata)
	d.number(len(c.order))
	for _, id := range c.order {
		cell := c.cells[id]
		d.text(cell.ID, cell.Type, cell.Source, cell.Attachments)
		d.metadata(cell.Metadata)
	}
	return Revision(d.sum())
}

// name is the revision of an entry.
func (e Entry) name() Revision {
	d := newDigest("entry")
	d.text(string(e.Prev), e.Author, e.Operation, e.Request)
	d.number(int(e.Time.UnixNano()))
	d.changes(e.Changes)
	merged := 0
	if e.Merged {
		merged = 1
	}
	d.number(merged)
	return Revision(d.sum())
}
