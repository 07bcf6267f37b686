package editor

import (
	"bytes"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// expression is one line of a TOML text that says something, or several lines
// if its value has them.
type expression struct {
	header bool
	// path is the whole key: of a table, or of a value with that of its table.
	path []string
	// start and end are those of its lines.
	start, end int
	// first and last are where the parts of its key begin.
	first, last int
	value       *node // nil for a header
}

// keySeparator parts the keys of a member of an inline table.
const keySeparator = "\x00"

// tomlScanner finds the spans of a text. It takes for granted that the text
// is valid: go-toml has read it.
type tomlScanner struct {
	src []byte
	at  int
}

func scanTOML(src []byte) []expression {
	start := len(src) - len(bytes.TrimPrefix(src, []byte(byteOrderMark)))
	s := tomlScanner{src: src, at: start}
	var found []expression
	var table []string
	for s.skip(true); s.at < len(src); s.skip(true) {
		e := expression{start: max(start, lineStart(src, s.at))}
		if src[s.at] == '[' {
			s.at += len("[")
			if s.at < len(src) && src[s.at] == '[' {
				s.at += len("[")
			}
			e.header = true
			e.path, e.first, e.last = s.key()
			table = e.path
		} else {
			e.path, e.first, e.last = s.key()
			e.path = slices.Concat(table, e.path)
			s.at++ // the equal sign
			e.value = s.value()
		}
		e.end = lineEnd(src, s.at)
		s.at = e.end
		found = append(found, e)
	}
	return found
}

// skip passes blanks, and with lines line ends and comments too.
func (s *tomlScanner) skip(lines bool) {
	for s.at < len(s.src) {
		switch c := s.src[s.at]; {
		case c == ' ' || c == '\t' || lines && (c == '\n' || c == '\r'):
			s.at++
		case lines && c == '#':
			s.at = lineEnd(s.src, s.at)
		default:
			return
		}
	}
}

// key reads the parts of a key, and returns where the first and the last one
// begin.
func (s *tomlScanner) key() (parts []string, first, last int) {
	s.skip(false)
	first = s.at
	for {
		last = s.at
		if c := s.src[s.at]; c == '"' || c == '\'' {
			n := s.str()
			parts = append(parts, tomlText(s.src, n))
		} else {
			for s.at < len(s.src) && bytes.IndexByte([]byte(" \t.=]\r\n"), s.src[s.at]) < 0 {
				s.at++
			}
			parts = append(parts, string(s.src[last:s.at]))
		}
		s.skip(false)
		if s.at >= len(s.src) || s.src[s.at] != '.' {
			return parts, first, last
		}
		s.at++
		s.skip(false)
	}
}

func (s *tomlScanner) value() *node {
	s.skip(false)
	switch s.src[s.at] {
	case '"', '\'':
		return s.str()
	case '[':
		return s.composite(array, ']', func(n *node) { n.elements = append(n.elements, s.value()) })
	case '{':
		return s.composite(object, '}', func(n *node) {
			parts, first, last := s.key()
			m := member{key: strings.Join(parts, keySeparator), keyStart: first, keyEnd: last}
			s.at++ // the equal sign
			m.value = s.value()
			n.members = append(n.members, m)
		})
	}
	start := s.at
	for s.at < len(s.src) && bytes.IndexByte([]byte(",]}#\r\n"), s.src[s.at]) < 0 {
		s.at++
	}
	return &node{kind: scalar, start: start, end: start + len(bytes.TrimRight(s.src[start:s.at], " \t"))}
}

func (s *tomlScanner) composite(k kind, end byte, item func(*node)) *node {
	n := &node{kind: k, start: s.at}
	s.at++
	for s.skip(true); s.at < len(s.src) && s.src[s.at] != end; s.skip(true) {
		if s.src[s.at] == ',' {
			s.at++
			continue
		}
		item(n)
	}
	s.at = min(s.at+1, len(s.src))
	n.end = s.at
	return n
}

// str reads one of the four kinds of strings.
func (s *tomlScanner) str() *node {
	start, quote := s.at, s.src[s.at]
	mark := s.src[start : start+1]
	if triple := bytes.Repeat(mark, 3); bytes.HasPrefix(s.src[start:], triple) {
		mark = triple
	}
	for s.at += len(mark); s.at < len(s.src) && !bytes.HasPrefix(s.src[s.at:], mark); s.at++ {
		if quote == '"' && s.src[s.at] == '\\' {
			s.at++
		}
	}
	s.at += len(mark)
	// A string over several lines may end in up to two quotes of its own.
	for i := 0; len(mark) == 3 && i < 2 && s.at < len(s.src) && s.src[s.at] == quote; i++ {
		s.at++
	}
	s.at = min(s.at, len(s.src))
	return &node{kind: text, start: start, end: s.at}
}

// tomlText returns what a string says.
func tomlText(src []byte, n *node) string {
	var v struct{ S string }
	_ = toml.Unmarshal(append([]byte("S = "), src[n.start:n.end]...), &v) // it was read before
	return v.S
}
