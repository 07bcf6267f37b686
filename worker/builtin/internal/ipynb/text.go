package ipynb

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Halves of UTF-16 pairs. A lone one in a string is three bytes in memory.
const (
	surrogates    = 0xd800
	lowSurrogates = 0xdc00
	lastSurrogate = 0xdfff
)

// hex4 reads the four digits behind the u at the beginning of b.
func hex4(b []byte) (unit rune, ok bool) {
	if len(b) < 5 || b[0] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[1:5]), 16, 16)
	return rune(n), err == nil
}

// decode returns the text of a JSON string, which has passed checkSyntax.
func decode(token []byte) string {
	token = token[1 : len(token)-1]
	var b strings.Builder
	from := 0
	for i := 0; i < len(token); {
		if token[i] != '\\' {
			i++
			continue
		}
		b.Write(token[from:i])
		if token[i+1] != 'u' {
			b.WriteByte(unescape(token[i+1]))
			i += 2
		} else {
			unit, _ := hex4(token[i+1:])
			i += 6
			if i < len(token) && token[i] == '\\' {
				if low, ok := hex4(token[i+1:]); ok && utf16.DecodeRune(unit, low) != utf8.RuneError {
					unit = utf16.DecodeRune(unit, low)
					i += 6
				}
			}
			writeRune(&b, unit)
		}
		from = i
	}
	if from == 0 {
		return string(token)
	}
	b.Write(token[from:])
	return b.String()
}

func unescape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

func writeRune(b *strings.Builder, r rune) {
	if r < surrogates || r > lastSurrogate {
		b.WriteRune(r)
		return
	}
	b.Write([]byte{0xe0 | byte(r>>12), 0x80 | byte(r>>6)&0x3f, 0x80 | byte(r)&0x3f})
}

// loneSurrogate returns the half of a pair at the beginning of s.
func loneSurrogate(s string) (rune, bool) {
	if len(s) < 3 || s[0] != 0xed || s[1] < 0xa0 || s[1] > 0xbf || s[2]&0xc0 != 0x80 {
		return 0, false
	}
	return rune(s[0]&0x0f)<<12 | rune(s[1]&0x3f)<<6 | rune(s[2]&0x3f), true
}

// validText reports whether s is what decode can return.
func validText(s string) bool {
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			if _, ok := loneSurrogate(s); !ok {
				return false
			}
			n = 3
		}
		s = s[n:]
	}
	return true
}

// appendString appends s as a JSON string with the escapes that nbformat uses:
// as few as possible, or if ascii is set, for everything beyond ASCII.
func appendString(dst []byte, s string, ascii bool) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' && (c != 0x7f || !ascii) {
				i++
				continue
			}
			dst = append(dst, s[from:i]...)
			dst = appendEscape(dst, c)
			i++
			from = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		lone := false
		if r == utf8.RuneError && n == 1 {
			r, lone = loneSurrogate(s[i:])
			n = 3
		}
		if !lone && !ascii {
			i += n
			continue
		}
		dst = append(dst, s[from:i]...)
		if high, low := utf16.EncodeRune(r); !lone && high != utf8.RuneError {
			dst = appendUnit(appendUnit(dst, high), low)
		} else {
			dst = appendUnit(dst, r)
		}
		i += n
		from = i
	}
	return append(append(dst, s[from:]...), '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	return appendUnit(dst, rune(c))
}

func appendUnit(dst []byte, unit rune) []byte {
	const digits = "0123456789abcdef"
	return append(dst, '\\', 'u', digits[unit>>12&15], digits[unit>>8&15], digits[unit>>4&15], digits[unit&15])
}

// splitLines splits a text as nbformat does, which is what Python calls lines:
// behind \n, \r\n and \r, and behind other separators of old and of Unicode.
func splitLines(s string) []string {
	var lines []string
	from := 0
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		i += n
		switch r {
		case '\r':
			if i < len(s) && s[i] == '\n' {
				i++
			}
		case '\n', '\v', '\f', 0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029:
		default:
			continue
		}
		lines = append(lines, s[from:i])
		from = i
	}
	if from < len(s) {
		lines = append(lines, s[from:])
	}
	return lines
}
