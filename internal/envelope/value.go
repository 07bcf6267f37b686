package envelope

import "iter"

// Find returns the span in raw, one JSON value, of the value at path, which
// names a member at each level of nested objects. Names compare decoded and
// exactly, and the first of equal ones counts. Without a path it is raw itself
// without surrounding space.
//
// What stands behind the value found is not examined; raw should have been
// accepted by [Peek] before.
func Find(raw []byte, path ...string) (Span, bool) {
	s := scanner{b: raw}
	s.space()
	for _, name := range path {
		if !s.seek(name) {
			return Span{}, false
		}
	}
	start := s.i
	if !s.value(0) {
		return Span{}, false
	}
	return Span{start, s.i}, true
}

// seek goes from an object to the value of its member called name.
func (s *scanner) seek(name string) bool {
	if s.peek() != '{' {
		return false
	}
	for more := s.enter('}'); more; {
		key, escaped, ok := s.key()
		if !ok {
			return false
		}
		if same(key.Of(s.b), escaped, name) {
			return true
		}
		if !s.value(1) {
			return false
		}
		if more, ok = s.more('}'); !ok {
			return false
		}
	}
	return false
}

// same reports whether the inside of a key token decodes to name.
func same(key []byte, escaped bool, name string) bool {
	if !escaped {
		return string(key) == name
	}
	if len(key) < len(name) || len(key) > 6*len(name) {
		return false
	}
	var buf [64]byte
	return string(appendUnquoted(buf[:0], key, false)) == name
}

// Members returns the members of the object raw in their order, with decoded
// names and the spans of their values. It ends early where raw is malformed,
// and is empty if raw is no object.
func Members(raw []byte) iter.Seq2[string, Span] {
	return func(yield func(string, Span) bool) {
		s := scanner{b: raw}
		s.space()
		if s.peek() != '{' {
			return
		}
		for more := s.enter('}'); more; {
			key, _, ok := s.key()
			if !ok {
				return
			}
			start := s.i
			if !s.value(1) || !yield(unquoted(key.Of(raw)), Span{start, s.i}) {
				return
			}
			if more, ok = s.more('}'); !ok {
				return
			}
		}
	}
}

// IDKey returns a map key for the raw token of an id: equal for strings of
// equal content however they are escaped, and for numbers of the same digits.
// The keys of 1 and "1" differ (EDGE-1).
func IDKey(raw []byte) string {
	if len(raw) < 2 || raw[0] != '"' {
		return string(raw)
	}
	return string(appendUnquoted([]byte{'"'}, raw[1:len(raw)-1], true))
}

// Splice returns a new slice: line with repl in place of the span. It has room
// for at least one more byte, so that a line end can be appended in place.
func Splice(line []byte, s Span, repl []byte) []byte {
	out := make([]byte, 0, len(line)-(s.End-s.Start)+len(repl)+1)
	out = append(out, line[:s.Start]...)
	out = append(out, repl...)
	return append(out, line[s.End:]...)
}
