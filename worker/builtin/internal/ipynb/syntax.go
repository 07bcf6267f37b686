package ipynb

import (
	"bytes"
	"fmt"
	"slices"
	"unicode/utf8"
)

// mark is the byte order mark of UTF-8.
var mark = []byte("\ufeff")

// maxDepth bounds recursion, as encoding/json does.
const maxDepth = 10000

const (
	hintCut      = "the file was cut off; take it from a backup, from version control or from .ipynb_checkpoints"
	hintConflict = "resolve the merge conflict in the file"
	hintUTF8     = "save the file in UTF-8"
)

// syntax walks over a text once and finds out whether it is JSON. Everything
// else in this package looks only at text that has passed it.
type syntax struct {
	b     []byte
	i     int
	depth int
	// steps leads to an error, backwards: each level adds its own on the way
	// out, so that good text costs nothing.
	steps []string
	// escapes: the text has an escape beyond ASCII.
	escapes bool
}

// checkSyntax returns the offset of the only value in text and whether it uses
// escapes for characters beyond ASCII.
func checkSyntax(text []byte) (at int, escapes bool, err *Error) {
	if err := checkUTF8(text); err != nil {
		return 0, false, err
	}
	s := &syntax{b: text}
	if bytes.HasPrefix(text, mark) {
		s.i = len(mark)
	}
	s.space()
	if s.i == len(text) {
		return 0, false, errorAt(text, 0, ErrSyntax, "", "the file is empty", "an empty file is no notebook; delete it, or take it from a backup")
	}
	at = s.i
	if err = s.value(); err == nil {
		if s.space(); s.i < len(text) {
			err = s.unexpected("the end of the file")
		}
	}
	if err != nil {
		slices.Reverse(s.steps)
		err.Path = join("", s.steps...)
	}
	return at, s.escapes, err
}

func checkUTF8(text []byte) *Error {
	if utf8.Valid(text) {
		return nil
	}
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return errorAt(text, 0, ErrSyntax, "", "the file is in UTF-16", hintUTF8)
	}
	at := 0
	for {
		r, n := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && n <= 1 {
			return errorAt(text, at, ErrSyntax, "", fmt.Sprintf("the byte 0x%02x is not UTF-8", text[at]), hintUTF8)
		}
		at += n
	}
}

func (s *syntax) space() { s.i = skipSpace(s.b, s.i) }

// peek returns the next byte, or 0, which is legal nowhere, at the end.
func (s *syntax) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *syntax) fail(problem, hint string) *Error {
	return errorAt(s.b, s.i, ErrSyntax, "", problem, hint)
}

// unexpected says what is at the present place instead of what is wanted.
func (s *syntax) unexpected(want string) *Error {
	if s.i >= len(s.b) {
		return s.fail("the file ends, want "+want, hintCut)
	}
	line := s.b[bytes.LastIndexByte(s.b[:s.i], '\n')+1:]
	for _, conflict := range []string{"<<<<<<<", "=======", ">>>>>>>", "|||||||"} {
		if bytes.HasPrefix(line, []byte(conflict)) {
			return s.fail("found a conflict marker, want "+want, hintConflict)
		}
	}
	r, _ := utf8.DecodeRune(s.b[s.i:])
	hint := "mend the file in a text editor"
	switch r {
	case '\'':
		hint = "JSON has double quotes only"
	case '/', '#':
		hint = "JSON has no comments"
	case 0:
		hint = "the file holds zeros, as after a crash of the machine; take it from a backup"
	}
	return s.fail(fmt.Sprintf("found %q, want %s", r, want), hint)
}

func (s *syntax) value() *Error {
	switch c := s.peek(); {
	case c == '{':
		return s.nested((*syntax).object)
	case c == '[':
		return s.nested((*syntax).array)
	case c == '"':
		return s.string()
	case c == '-' || '0' <= c && c <= '9':
		return s.number()
	}
	for _, word := range []string{"true", "false", "null", "NaN", "Infinity"} {
		if bytes.HasPrefix(s.b[s.i:], []byte(word)) {
			s.i += len(word)
			return nil
		}
	}
	return s.unexpected("a value")
}

func (s *syntax) nested(scan func(*syntax) *Error) *Error {
	if s.depth++; s.depth > maxDepth {
		return s.fail(fmt.Sprintf("nested deeper than %d", maxDepth), "")
	}
	err := scan(s)
	s.depth--
	return err
}

func (s *syntax) object() *Error {
	s.i++
	s.space()
	if s.peek() == '}' {
		s.i++
		return nil
	}
	for {
		from := s.i
		if s.peek() != '"' {
			return s.unexpected("a key in double quotes")
		}
		if err := s.string(); err != nil {
			return err
		}
		key := s.b[from:s.i]
		if s.space(); s.peek() != ':' {
			return s.unexpected("a colon")
		}
		s.i++
		s.space()
		if err := s.value(); err != nil {
			s.steps = append(s.steps, step(decode(key)))
			return err
		}
		if more, err := s.more('}'); !more {
			return err
		}
	}
}

func (s *syntax) array() *Error {
	s.i++
	s.space()
	if s.peek() == ']' {
		s.i++
		return nil
	}
	for n := 0; ; n++ {
		if err := s.value(); err != nil {
			s.steps = append(s.steps, element(n))
			return err
		}
		if more, err := s.more(']'); !more {
			return err
		}
	}
}

// more steps over what follows an element and reports whether it was a comma.
func (s *syntax) more(closer byte) (bool, *Error) {
	switch s.space(); s.peek() {
	case closer:
		s.i++
		return false, nil
	case ',':
		comma := s.i
		s.i++
		if s.space(); s.peek() == closer {
			s.i = comma
			return false, s.fail(fmt.Sprintf("found a comma, want %q", closer), "remove the comma")
		}
		return true, nil
	}
	return false, s.unexpected(fmt.Sprintf("a comma or %q", closer))
}

func (s *syntax) string() *Error {
	for {
		s.i++
		b := s.b[s.i:] // most of a file is in strings
		n := 0
		for n < len(b) && b[n] >= ' ' && b[n] != '"' && b[n] != '\\' {
			n++
		}
		s.i += n
		switch s.peek() {
		case '"':
			s.i++
			return nil
		case '\\':
			if err := s.escape(); err != nil {
				return err
			}
		default:
			if s.i == len(s.b) {
				return s.unexpected("the end of a string")
			}
			return s.fail(fmt.Sprintf("found %q in a string", s.peek()), "write it as an escape, or add the missing quote")
		}
	}
}

// escape steps to the last byte of an escape.
func (s *syntax) escape() *Error {
	rest := s.b[s.i+1:]
	if len(rest) == 0 {
		s.i++
		return s.unexpected("an escape")
	}
	if bytes.IndexByte([]byte(`"\/bfnrt`), rest[0]) >= 0 {
		s.i++
		return nil
	}
	unit, ok := hex4(rest)
	if !ok {
		return s.fail("found an escape that JSON does not have", `a backslash is written \\`)
	}
	s.escapes = s.escapes || unit >= utf8.RuneSelf && (unit < surrogates || unit > lastSurrogate)
	s.i += 5
	return nil
}

// number accepts what JSON does, and -Infinity.
func (s *syntax) number() *Error {
	if s.peek() == '-' {
		s.i++
		if bytes.HasPrefix(s.b[s.i:], []byte("Infinity")) {
			s.i += len("Infinity")
			return nil
		}
	}
	from := s.i
	if !s.digits() {
		return s.unexpected("a digit")
	}
	if s.b[from] == '0' && s.i > from+1 {
		s.i = from
		return s.fail("found a number with a leading zero", "remove the zero")
	}
	if s.peek() == '.' {
		s.i++
		if !s.digits() {
			return s.unexpected("a digit")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.i++
		if c := s.peek(); c == '+' || c == '-' {
			s.i++
		}
		if !s.digits() {
			return s.unexpected("a digit")
		}
	}
	return nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func (s *syntax) digits() bool {
	from := s.i
	for isDigit(s.peek()) {
		s.i++
	}
	return s.i > from
}
