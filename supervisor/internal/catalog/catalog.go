// Package catalog compares lists of tools, prompts and resources: what a client
// has seen of a server with what another life of the server has to offer. It is
// pure.
//
// A list is compared by a digest of its items in their order, each in canonical
// JSON (RFC 8785), without cursors and what else belongs to the result and not
// to the list (CAT-1). A [Listing] takes the pages of one list as they come.
//
//	var seen catalog.Listing
//	next, err := seen.Add(catalog.Tools, page)   // "" when the list is complete
//	...
//	if !live.Shows(seen) { ... }                 // the client should list again
//
// A Listing is for one goroutine. The package asks nobody for a list and does
// not know why one has changed.
package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"slices"

	"github.com/gowebpki/jcs"

	"github.com/holdfast-mcp/holdfast/internal/envelope"
)

// Kind is one kind of list.
type Kind uint8

// Kinds of lists.
const (
	Tools Kind = iota
	Prompts
	Resources
	Templates
	Kinds = iota // how many there are
)

// kinds has what MCP calls each kind: the method that lists it, the member of
// the result that has its items, and the capability that offers it. Templates
// belong to the resources and change with them.
var kinds = [Kinds]struct{ method, member, capability string }{
	Tools:     {"tools/list", "tools", "tools"},
	Prompts:   {"prompts/list", "prompts", "prompts"},
	Resources: {"resources/list", "resources", "resources"},
	Templates: {"resources/templates/list", "resourceTemplates", "resources"},
}

// Method returns the method that lists the kind.
func (k Kind) Method() string { return kinds[k].method }

// Member returns the member of the result that has the items.
func (k Kind) Member() string { return kinds[k].member }

// Capability returns the server capability that offers the kind.
func (k Kind) Capability() string { return kinds[k].capability }

// Changed returns the notification that the kind has changed.
func (k Kind) Changed() string { return "notifications/" + kinds[k].capability + "/list_changed" }

// OfMethod returns the kind that a method lists.
func OfMethod(method string) (Kind, bool) {
	for k := range Kind(Kinds) {
		if kinds[k].method == method {
			return k, true
		}
	}
	return 0, false
}

// MaxPages bounds a listing: a server whose cursors never end has no list.
const MaxPages = 1000

// maxCanonical bounds the bytes of a page whose items are compared in canonical
// form, which takes 50 ms a megabyte; those of a larger one are compared as they
// are. A server that writes them in other words each time then seems to change.
const maxCanonical = 512 << 10

// Errors of a page.
var (
	// ErrPage is returned when a result has no list of the kind.
	ErrPage = errors.New("no page of this list")
	// ErrEndless is returned when a listing has more than MaxPages.
	ErrEndless = errors.New("the list does not end")
)

// Listing is a list as far as it is known. The zero value is an empty one.
type Listing struct {
	// Complete: the last page has been added.
	Complete bool

	sums  [][sha256.Size]byte // after each item, of all up to it
	pages int
	state hash.Hash

	first []byte   // first page
	items [][]byte // contents of the arrays of items, without brackets
	size  int      // bytes of first and items
}

// maxResult bounds the bytes of a list that is kept as a whole.
const maxResult = 2 << 20

// Add adds the next page, the result of a list request, and returns the raw
// cursor of the page after it, nil if there is none.
func (l *Listing) Add(kind Kind, result []byte) (cursor []byte, err error) {
	span, ok := envelope.Find(result, kinds[kind].member)
	if !ok {
		return nil, fmt.Errorf("%w: %s", ErrPage, kinds[kind].member)
	}
	list := span.Of(result)
	var items []json.RawMessage
	if err := json.Unmarshal(list, &items); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPage, err)
	}
	if l.pages++; l.pages > MaxPages {
		return nil, ErrEndless
	}
	if l.state == nil {
		l.state = sha256.New()
	}
	for _, item := range items {
		l.item(item, len(list) <= maxCanonical)
	}
	l.keep(result, list)
	if cursor = Cursor(result, "nextCursor"); cursor == nil {
		l.Complete = true
	}
	return cursor, nil
}

// Cursor returns the raw cursor in params or a result, nil if there is none.
// Clients take an empty one for none.
func Cursor(value []byte, member string) []byte {
	span, ok := envelope.Find(value, member)
	if !ok || len(span.Of(value)) <= 2 || span.Of(value)[0] != '"' {
		return nil
	}
	return span.Of(value)
}

// keep keeps the page for Result.
func (l *Listing) keep(result, list []byte) {
	if l.size += len(result); l.size > maxResult {
		l.first, l.items = nil, nil
		return
	}
	if l.pages == 1 {
		l.first = result
	}
	if list[0] != '[' {
		return // null
	}
	if inner := bytes.TrimSpace(list[1 : len(list)-1]); len(inner) > 0 {
		l.items = append(l.items, inner)
	}
}

// Result returns a result with all items of the list, as one page: the first
// page without its cursor, with the items of those after it. It returns false
// if the list is not complete, or too large to be kept.
func (l *Listing) Result(kind Kind) ([]byte, bool) {
	if !l.Complete || l.first == nil {
		return nil, false
	}
	if _, some := envelope.Find(l.first, "nextCursor"); l.pages == 1 && !some {
		return l.first, true
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(l.first, &members); err != nil {
		return nil, false
	}
	delete(members, "nextCursor")
	members[kinds[kind].member] = slices.Concat([]byte{'['}, bytes.Join(l.items, []byte{','}), []byte{']'})
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(members)
	return bytes.TrimSpace(b.Bytes()), err == nil
}

// item adds one item. One that has no canonical form, such as a number beyond
// all bounds, stands for itself as it is.
func (l *Listing) item(raw []byte, canonicalize bool) {
	canonical := raw
	if canonicalize {
		if c, err := jcs.Transform(raw); err == nil {
			canonical = c
		}
	}
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(canonical)))
	l.state.Write(size[:])
	l.state.Write(canonical)
	l.sums = append(l.sums, [sha256.Size]byte(l.state.Sum(nil)))
}

// Len returns the number of items.
func (l *Listing) Len() int { return len(l.sums) }

// Digest stands for all items so far, empty for none.
func (l *Listing) Digest() string {
	if l.Len() == 0 {
		return ""
	}
	return hex.EncodeToString(l.sums[l.Len()-1][:])
}

// Shows reports whether a client that has seen so much of a list would see the
// same in this one, which is complete. Of an incomplete one it has seen the
// beginning alone.
func (l *Listing) Shows(seen *Listing) bool {
	n := seen.Len()
	switch {
	case n > l.Len(), seen.Complete && n != l.Len():
		return false
	case n == 0:
		return true
	}
	return l.sums[n-1] == seen.sums[n-1]
}
