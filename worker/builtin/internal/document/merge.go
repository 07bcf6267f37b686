package document

import (
	"slices"
	"strings"
)

// merge applies to one text what another has changed since base, line by line.
// It reports false where both have changed the same lines or lines beside each
// other, and not in the same way: then nobody but the authors can tell what is
// right. It decides as git merge-file does.
func merge(base, one, other string) (string, bool) {
	switch {
	case one == other || other == base:
		return one, true
	case one == base:
		return other, true
	}
	lines := splitLines(base)
	sides := [2]*side{newSide(lines, one), newSide(lines, other)}
	var merged strings.Builder
	for at := 0; ; {
		from, to := region(sides)
		if from < 0 {
			write(&merged, lines[at:])
			return merged.String(), true
		}
		write(&merged, lines[at:from])
		text, ok := settle(sides, from, to)
		if !ok {
			return "", false
		}
		write(&merged, text)
		at = to
	}
}

// side is a text, and what is left of its hunks.
type side struct {
	lines []string
	hunks []hunk
	// shift is by how much places in the text are behind those in the base.
	shift int
	taken []hunk // of the region
}

func newSide(base []string, text string) *side {
	lines := splitLines(text)
	return &side{lines: lines, hunks: diff(base, lines)}
}

// region takes the next hunks that touch each other off both sides, and
// returns the lines of the base that they are about. Without any, from is -1.
func region(sides [2]*side) (from, to int) {
	from = -1
	for _, s := range sides {
		s.taken = nil
		if len(s.hunks) > 0 && (from < 0 || s.hunks[0].aFrom < from) {
			from, to = s.hunks[0].aFrom, s.hunks[0].aFrom
		}
	}
	for grown := from >= 0; grown; {
		grown = false
		for _, s := range sides {
			for len(s.hunks) > 0 && s.hunks[0].aFrom <= to {
				s.taken = append(s.taken, s.hunks[0])
				to = max(to, s.hunks[0].aTo)
				s.hunks = s.hunks[1:]
				grown = true
			}
		}
	}
	return from, to
}

// settle returns the lines that replace a region of the base.
func settle(sides [2]*side, from, to int) ([]string, bool) {
	var texts [2][]string
	for i, s := range sides {
		bFrom := from + s.shift
		for _, h := range s.taken {
			s.shift += (h.bTo - h.bFrom) - (h.aTo - h.aFrom)
		}
		texts[i] = s.lines[bFrom : to+s.shift]
	}
	switch {
	case len(sides[0].taken) == 0:
		return texts[1], true
	case len(sides[1].taken) == 0:
		return texts[0], true
	}
	return texts[0], slices.Equal(texts[0], texts[1])
}

func write(b *strings.Builder, lines []string) {
	for _, line := range lines {
		b.WriteString(line)
	}
}
