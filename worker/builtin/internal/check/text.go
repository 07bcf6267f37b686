package check

import (
	"fmt"
	"strings"
)

// joined shows the first of count things.
func joined(first []string, count int) string {
	quoted := make([]string, len(first))
	for i, s := range first {
		quoted[i] = strings.TrimSpace(s)
	}
	text := strings.Join(quoted, "; ")
	if more := count - len(first); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// oneLine makes text of a worker fit for a line of a terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t', r == '\r':
			return ' '
		case r < ' ', r == 0x7f, r >= 0x80 && r < 0xa0:
			return '\uFFFD'
		}
		return r
	}, strings.TrimSpace(s))
}

// hint tells the faults seen so far, for a failure that may come from them.
func (l *ledger) hint() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count == 0 {
		return ""
	}
	return "; seen: " + joined(l.faults, l.count)
}
