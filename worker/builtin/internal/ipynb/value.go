package ipynb

import (
	"bytes"
	"iter"
	"slices"
)

// The functions of this file walk over text that has passed checkSyntax.

// span is a part of a text, from its first byte to behind its last.
type span struct{ from, to int }

func (s span) of(b []byte) []byte { return b[s.from:s.to] }

// member is a member of an object.
type member struct {
	name string // the key, decoded
	// lead is the space before the key, back to the comma or the brace.
	lead, key, value span
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// skipString returns the place behind the string at i: the first quote with an
// even number of backslashes before it.
func skipString(b []byte, i int) int {
	for {
		i += 1 + bytes.IndexByte(b[i+1:], '"')
		n := 0
		for b[i-1-n] == '\\' {
			n++
		}
		if n%2 == 0 {
			return i + 1
		}
	}
}

// skipValue returns the place behind the value at i.
func skipValue(b []byte, i int) int {
	depth := 0
	for {
		switch b[i] {
		case '"':
			i = skipString(b, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ' ', '\n', '\r', '\t', ',', ':':
			i++
			continue
		default:
			for i < len(b) && bytes.IndexByte([]byte(" \n\r\t,:{}[]\""), b[i]) < 0 {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
}

// members yields those of the object at a place of text.
func members(text []byte, at int) iter.Seq[member] {
	return func(yield func(member) bool) {
		for i := at + 1; ; i++ {
			lead := span{i, skipSpace(text, i)}
			if text[lead.to] == '}' {
				return
			}
			key := span{lead.to, skipString(text, lead.to)}
			from := skipSpace(text, skipSpace(text, key.to)+1)
			value := span{from, skipValue(text, from)}
			if !yield(member{decode(key.of(text)), lead, key, value}) {
				return
			}
			if i = skipSpace(text, value.to); text[i] == '}' {
				return
			}
		}
	}
}

// elements yields those of the array at a place of text.
func elements(text []byte, at int) iter.Seq[span] {
	return func(yield func(span) bool) {
		for i := at + 1; ; i++ {
			from := skipSpace(text, i)
			if text[from] == ']' {
				return
			}
			value := span{from, skipValue(text, from)}
			if !yield(value) {
				return
			}
			if i = skipSpace(text, value.to); text[i] == ']' {
				return
			}
		}
	}
}

// find returns the last member of a name, which is the one that counts.
func find(all []member, name string) (member, bool) {
	for _, m := range slices.Backward(all) {
		if m.name == name {
			return m, true
		}
	}
	return member{}, false
}

func isString(text []byte) bool { return text[0] == '"' }
func isObject(text []byte) bool { return text[0] == '{' }
func isList(text []byte) bool   { return text[0] == '[' }
func isNull(text []byte) bool   { return text[0] == 'n' }
func isBool(text []byte) bool   { return text[0] == 't' || text[0] == 'f' }

// isInteger reports whether a value is a whole number as nbformat has it:
// without a fraction or an exponent.
func isInteger(text []byte) bool {
	return text[len(text)-1] != 'y' && (text[0] == '-' || isDigit(text[0])) && !bytes.ContainsAny(text, ".eE")
}

// kindOf names a value for people.
func kindOf(text []byte) string {
	switch text[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f', 'n':
		return string(text)
	}
	return "the number " + clip(string(text))
}
