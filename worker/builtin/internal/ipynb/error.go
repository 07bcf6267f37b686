package ipynb

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

var (
	// ErrSyntax is returned when a text is no JSON in UTF-8.
	ErrSyntax = errors.New("not JSON")
	// ErrFormat is returned when a file is of an nbformat other than 4.0 to 4.5.
	ErrFormat = errors.New("another notebook format")
	// ErrInvalid is returned when JSON is not what nbformat allows in its place.
	ErrInvalid = errors.New("not a valid notebook")
	// ErrNoCell is returned when no cell has the id.
	ErrNoCell = errors.New("no such cell")
	// ErrID is returned when the id of a new cell is taken, or is none.
	ErrID = errors.New("not the id of a new cell")
	// ErrText is returned when a source is not UTF-8.
	ErrText = errors.New("not UTF-8")
)

// Error says what is wrong with a text, and where.
type Error struct {
	Kind error // ErrSyntax, ErrFormat or ErrInvalid
	// Offset counts bytes from 0, Line and Column count from 1. A column is a
	// character; a byte order mark is none.
	Offset, Line, Column int
	// Path leads to the value, as in cells[3].outputs[0].data["image/png"].
	// Empty: the text as a whole.
	Path    string
	Problem string
	Hint    string // what to do about it; may be empty
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "line %d, column %d", e.Line, e.Column)
	if e.Path != "" {
		fmt.Fprintf(&b, ", %s", e.Path)
	}
	fmt.Fprintf(&b, ": %s", e.Problem)
	if e.Hint != "" {
		fmt.Fprintf(&b, " (%s)", e.Hint)
	}
	return b.String()
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

// errorAt returns an error about the byte of text at offset.
func errorAt(text []byte, offset int, kind error, path, problem, hint string) *Error {
	before := text[:min(offset, len(text))]
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	return &Error{
		Kind:    kind,
		Offset:  offset,
		Line:    bytes.Count(before, []byte("\n")) + 1,
		Column:  utf8.RuneCount(bytes.TrimPrefix(line, mark)) + 1,
		Path:    path,
		Problem: problem,
		Hint:    hint,
	}
}

// step is the part of a path that leads to a member of an object.
func step(key string) string {
	for i := range len(key) {
		c := key[i]
		if c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (i == 0 || c < '0' || c > '9') {
			return fmt.Sprintf("[%q]", clip(key))
		}
	}
	if key == "" {
		return `[""]`
	}
	return "." + clip(key)
}

func element(i int) string { return fmt.Sprintf("[%d]", i) }

// join makes a path of steps.
func join(path string, steps ...string) string {
	return strings.TrimPrefix(path+strings.Join(steps, ""), ".")
}

// clip bounds what an error says of a text.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
