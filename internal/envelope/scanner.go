package envelope

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// maxRecursion is where scanning gives up, as encoding/json does. Between
// MaxDepth and here it goes on, for the sake of an id that comes last.
const maxRecursion = 10000

// scanner walks over JSON text and accepts exactly what encoding/json does.
// Its methods report whether the text is well formed as far as they went.
type scanner struct {
	b []byte
	i int
	// high has the bits of all bytes in strings, and perhaps of a few behind
	// them: it only has to show whether the text is ASCII.
	high uint64
	// deep: nesting exceeded MaxDepth.
	deep bool
}

// Constants for looking at eight bytes at once.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// validUTF8 reports whether the text is UTF-8. Only strings need the check:
// elsewhere a byte beyond ASCII is a syntax error.
func (s *scanner) validUTF8() bool { return s.high&highs == 0 || utf8.Valid(s.b) }

// peek returns the next byte, or 0, which is legal nowhere, at the end.
func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\r', '\n':
			s.i++
		default:
			return
		}
	}
}

// end reports whether nothing but space is left.
func (s *scanner) end() bool {
	s.space()
	return s.i == len(s.b)
}

// enter steps over the opening bracket and reports whether an element follows.
func (s *scanner) enter(closer byte) bool {
	s.i++
	s.space()
	if s.peek() == closer {
		s.i++
		return false
	}
	return true
}

// more steps over what follows an element: a comma, then there is more, or the
// closing bracket.
func (s *scanner) more(closer byte) (more, ok bool) {
	s.space()
	switch s.peek() {
	case ',':
		s.i++
		s.space()
		return true, true
	case closer:
		s.i++
		return false, true
	}
	return false, false
}

// key steps over a member's name and colon, up to its value. The span is
// without the quotes.
func (s *scanner) key() (key Span, escaped, ok bool) {
	if s.peek() != '"' {
		return Span{}, false, false
	}
	start := s.i + 1
	if escaped, ok = s.str(); !ok {
		return Span{}, false, false
	}
	key = Span{start, s.i - 1}
	s.space()
	if s.peek() != ':' {
		return Span{}, false, false
	}
	s.i++
	s.space()
	return key, escaped, true
}

// value steps over one value that is inside of depth containers.
func (s *scanner) value(depth int) bool {
	switch c := s.peek(); c {
	case '"':
		_, ok := s.str()
		return ok
	case '{', '[':
		depth++
		if depth > MaxDepth {
			s.deep = true
			if depth > maxRecursion {
				return false
			}
		}
		if c == '{' {
			return s.object(depth)
		}
		return s.array(depth)
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	}
	return s.number()
}

func (s *scanner) object(depth int) bool {
	for more := s.enter('}'); more; {
		_, _, ok := s.key()
		if !ok || !s.value(depth) {
			return false
		}
		if more, ok = s.more('}'); !ok {
			return false
		}
	}
	return true
}

func (s *scanner) array(depth int) bool {
	for more := s.enter(']'); more; {
		if !s.value(depth) {
			return false
		}
		var ok bool
		if more, ok = s.more(']'); !ok {
			return false
		}
	}
	return true
}

func (s *scanner) literal(word string) bool {
	if len(s.b)-s.i < len(word) || string(s.b[s.i:s.i+len(word)]) != word {
		return false
	}
	s.i += len(word)
	return true
}

func (s *scanner) number() bool {
	if s.peek() == '-' {
		s.i++
	}
	if s.peek() == '0' {
		s.i++
	} else if !s.digits() {
		return false
	}
	if s.peek() == '.' {
		s.i++
		if !s.digits() {
			return false
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.i++
		if c := s.peek(); c == '+' || c == '-' {
			s.i++
		}
		return s.digits()
	}
	return true
}

// digits steps over one or more digits.
func (s *scanner) digits() bool {
	start := s.i
	for s.i < len(s.b) && s.b[s.i]-'0' <= 9 {
		s.i++
	}
	return s.i > start
}

// str steps over the string whose opening quote is at s.i.
func (s *scanner) str() (escaped, ok bool) {
	b, i, high := s.b, s.i+1, s.high
	for i < len(b) {
		// Text with escapes has short plain stretches: one word first, and
		// the long stride only behind a plain one.
		if len(b)-i >= 8 {
			x := binary.LittleEndian.Uint64(b[i:])
			high |= x
			m := special(x) & highs
			if m == 0 {
				n, h := stride(b[i+8:])
				high |= h
				i += 8 + n
				continue
			}
			i += bits.TrailingZeros64(m) >> 3
		}
		switch c := b[i]; {
		case c == '"':
			s.i, s.high = i+1, high
			return escaped, true
		case c == '\\':
			escaped = true
			start := i
			for len(b)-i >= 2 && b[i] == '\\' && short[b[i+1]] {
				i += 2
			}
			if i > start {
				continue
			}
			if !unicodeEscape(b[i:]) {
				return escaped, false
			}
			i += 6
		case c < ' ':
			return escaped, false
		default:
			high |= uint64(c)
			i++
		}
	}
	return escaped, false
}

// stride returns how many bytes at the start of b surely need no attention in
// a string, a multiple of 32, and the bits they have.
func stride(b []byte) (n int, high uint64) {
	for ; len(b)-n >= 32; n += 32 {
		w := b[n : n+32]
		x0, x1 := binary.LittleEndian.Uint64(w), binary.LittleEndian.Uint64(w[8:])
		x2, x3 := binary.LittleEndian.Uint64(w[16:]), binary.LittleEndian.Uint64(w[24:])
		if (special(x0)|special(x1)|special(x2)|special(x3))&highs != 0 {
			break
		}
		high |= x0 | x1 | x2 | x3
	}
	return n, high
}

// special marks with its high bit the lowest byte of x that is a quote, a
// backslash or a control character. Other bits and bytes mean nothing, but
// without such a byte there is no mark.
func special(x uint64) uint64 {
	return (((x ^ '"'*ones) - ones) | ((x ^ '\\'*ones) - ones) | (x - ' '*ones)) &^ x
}

// short has the characters that make an escape of two with a backslash.
var short = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

// unicodeEscape reports whether b starts with a \uXXXX.
func unicodeEscape(b []byte) bool {
	return len(b) >= 6 && b[1] == 'u' && hex(b[2]) && hex(b[3]) && hex(b[4]) && hex(b[5])
}

func hex(c byte) bool {
	return c-'0' <= 9 || (c|0x20)-'a' <= 5
}
