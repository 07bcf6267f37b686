package outputs

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// text is what a terminal without width shows of a stream, as JupyterLab does
// it: a carriage return goes to the beginning of the line and a backspace one
// character to the left, what is written there takes the place of what was,
// and a line break goes below the line and leaves the rest of it.
type text struct {
	shown []byte
	line  int // where the last line begins, which alone is written to
	at    int // the cursor, within that line
}

func (t *text) write(s string) {
	for {
		i := strings.IndexAny(s, "\n\r\b")
		if i < 0 {
			t.put(s)
			return
		}
		t.put(s[:i])
		switch s[i] {
		case '\n':
			t.shown = append(t.shown, '\n')
			t.line, t.at = len(t.shown), len(t.shown)
		case '\r':
			t.at = t.line
		case '\b':
			_, size := utf8.DecodeLastRune(t.shown[t.line:t.at])
			t.at -= size
		}
		s = s[i+1:]
	}
}

// put writes characters over those at the cursor.
func (t *text) put(s string) {
	if t.at == len(t.shown) {
		t.shown = append(t.shown, s...)
		t.at = len(t.shown)
		return
	}
	end := t.at
	for range s { // character by character
		_, size := utf8.DecodeRune(t.shown[end:])
		end += size
	}
	t.shown = slices.Replace(t.shown, t.at, end, []byte(s)...)
	t.at += len(s)
}

// String returns the text as it is shown.
func (t *text) String() string { return string(bytes.ToValidUTF8(t.shown, []byte("\uFFFD"))) }
