package editor

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// SyntaxError says where a file is not what its client reads.
type SyntaxError struct {
	// Line and Column count from 1, columns in characters.
	Line, Column int
	Message      string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// errorAt returns a SyntaxError for a byte of text.
func errorAt(text []byte, at int, format string, args ...any) error {
	before := text[:min(at, len(text))]
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	return &SyntaxError{
		Line: bytes.Count(before, []byte{'\n'}) + 1, Column: utf8.RuneCount(line) + 1,
		Message: fmt.Sprintf(format, args...),
	}
}

// byteOrderMark may stand at the start of a file; it is kept.
const byteOrderMark = "\uFEFF"

// checkText refuses bytes that are no UTF-8.
func checkText(text []byte) error {
	if utf8.Valid(text) {
		return nil
	}
	for at := 0; at < len(text); {
		r, n := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && n == 1 {
			return errorAt(text, at, "not UTF-8")
		}
		at += n
	}
	return nil
}

// kind is what a value is.
type kind int

const (
	scalar kind = iota
	text
	array
	object
)

// node is a value in a text: its span, and the spans of what it is made of.
type node struct {
	kind       kind
	start, end int
	elements   []*node
	members    []member
}

// member is one member of an object.
type member struct {
	key      string
	keyStart int
	keyEnd   int
	value    *node
}

// index returns the place of a key, -1 without it. A key that is there twice
// is an error: clients differ in which of the two they read.
func (n *node) index(src []byte, key string) (int, error) {
	found := -1
	for i, m := range n.members {
		if m.key != key {
			continue
		}
		if found >= 0 {
			return 0, errorAt(src, m.keyStart, "the key %q is there twice", key)
		}
		found = i
	}
	return found, nil
}

// member returns the value of a key, nil without it.
func (n *node) member(src []byte, key string) (*node, error) {
	i, err := n.index(src, key)
	if err != nil || i < 0 {
		return nil, err
	}
	return n.members[i].value, nil
}

// edit replaces a span of a text.
type edit struct {
	start, end int
	text       string
}

// apply makes edits, which are in order and do not overlap.
func apply(src []byte, edits []edit) []byte {
	var out bytes.Buffer
	at := 0
	for _, e := range edits {
		out.Write(src[at:e.start])
		out.WriteString(e.text)
		at = e.end
	}
	out.Write(src[at:])
	return out.Bytes()
}

// lineStart returns where the line of a byte begins.
func lineStart(src []byte, at int) int { return bytes.LastIndexByte(src[:at], '\n') + 1 }

// lineEnd returns where the line of a byte ends, behind its line end.
func lineEnd(src []byte, at int) int {
	if i := bytes.IndexByte(src[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(src)
}

// blank reports whether text has only blanks, tabs and line ends.
func blank(text []byte) bool { return len(bytes.Trim(text, " \t\r\n")) == 0 }

// indentOf returns the blanks at the start of the line of a byte.
func indentOf(src []byte, at int) string {
	line := src[lineStart(src, at):at]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// lineBreak returns the line end that a text uses.
func lineBreak(src []byte) string {
	if i := bytes.IndexByte(src, '\n'); i > 0 && src[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}
