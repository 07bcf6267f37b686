package ipynb

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// validID reports whether an id is one that nbformat allows.
func validID(id string) bool {
	if len(id) < 1 || len(id) > 64 {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if (c|0x20 < 'a' || c|0x20 > 'z') && !isDigit(c) && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// nameCells gives each cell its id. Where the file has none to go by, faults
// of c say so, if the format wants ids.
func (n *Notebook) nameCells(c *checker, list span) {
	taken := map[string]bool{}
	var places []span
	for e := range elements(c.text, list.from) {
		places = append(places, e)
	}
	for i, cell := range n.cells {
		v := cell.value("id")
		path := join("cells", element(i))
		switch {
		case v == nil:
			if n.minor >= idMinor {
				c.fault(c.fail(places[i].from, path, `"id" is missing`, "the cell gets one when it is edited"))
			}
		case !isString(v) || !validID(decode(v)):
			// Below 4.5 the field means nothing; above, Read has refused it.
		case taken[decode(v)]:
			if n.minor >= idMinor {
				c.fault(c.fail(places[i].from, path, fmt.Sprintf("the id %q is that of an earlier cell", decode(v)), "the cell gets another one when it is edited"))
			}
		default:
			cell.id = decode(v)
			taken[cell.id] = true
		}
	}
	for _, cell := range n.cells {
		if cell.id == "" {
			cell.id = deriveID(cell.value("cell_type"), cell.value("source"), taken)
			taken[cell.id] = true
		}
	}
}

// deriveID makes an id of eight hexadecimal digits, as nbformat does, for the
// first free number of cells with this content.
func deriveID(kind, source []byte, taken map[string]bool) string {
	text := textOf(source)
	for i := 0; ; i++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %s", i, kind, text))
		if id := hex.EncodeToString(sum[:4]); !taken[id] {
			return id
		}
	}
}
