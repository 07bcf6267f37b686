package ring

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// minMask is the least number of characters of a value that is masked.
	minMask = 8
	// minPrefix is the least part of a masked value, at an end that may cut
	// through it, that is masked too.
	minPrefix = 4
	mark      = "***"
	ellipsis  = "…"
)

// masks are the values to be masked. None of them contains LF.
type masks struct {
	values  [][]byte
	longest int
}

// newMasks takes the lines of a value for values of their own, as no line of
// text contains the whole.
func newMasks(values []string) masks {
	var m masks
	for _, value := range values {
		for part := range strings.Lines(value) {
			part = strings.TrimRight(part, "\r\n")
			if utf8.RuneCountInString(part) >= minMask {
				m.values = append(m.values, []byte(part))
				m.longest = max(m.longest, len(part))
			}
		}
	}
	return m
}

// apply returns b with every stretch covered by values replaced by one mark.
// If b is open, its end may cut through a value, and a prefix of one there
// counts as well.
func (m masks) apply(b []byte, open bool) []byte {
	type stretch struct{ from, to int }
	var hidden []stretch
	for _, v := range m.values {
		for from := 0; ; {
			i := bytes.Index(b[from:], v)
			if i < 0 {
				break
			}
			hidden = append(hidden, stretch{from + i, from + i + len(v)})
			from += i + 1
		}
		if open {
			for n := min(len(v)-1, len(b)); n >= minPrefix; n-- {
				if bytes.HasSuffix(b, v[:n]) {
					hidden = append(hidden, stretch{len(b) - n, len(b)})
					break
				}
			}
		}
	}
	if len(hidden) == 0 {
		return b
	}
	slices.SortFunc(hidden, func(x, y stretch) int { return x.from - y.from })
	var out []byte
	shown := 0 // b up to here is in out
	for _, h := range hidden {
		if h.from >= shown {
			out = append(append(out, b[shown:h.from]...), mark...)
		}
		shown = max(shown, h.to)
	}
	return append(out, b[shown:]...)
}

// sanitise returns b with control characters other than tab, and what is not
// UTF-8, as visible escapes. If b was cut, a character cut in two is dropped.
func sanitise(b []byte, cut bool) string {
	var out strings.Builder
	out.Grow(len(b))
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && n == 1:
			if cut && !utf8.FullRune(b) {
				return out.String()
			}
			fmt.Fprintf(&out, `\x%02x`, b[0])
		case r < ' ' && r != '\t', r == 0x7f:
			fmt.Fprintf(&out, `\x%02x`, r)
		case 0x80 <= r && r <= 0x9f:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			out.Write(b[:n])
		}
		b = b[n:]
	}
	return out.String()
}

// shorten cuts text between characters to at most limit bytes.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	limit = max(0, limit-len(ellipsis))
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + ellipsis
}
