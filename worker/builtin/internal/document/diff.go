package document

import (
	"slices"
	"strings"
)

// maxEdits bounds the search for the shortest edit script, whose time and
// memory grow with its square. Texts further apart than that count as entirely
// different between their common ends.
const maxEdits = 1000

// hunk says that lines from to to of one text are others in the other text.
type hunk struct{ aFrom, aTo, bFrom, bTo int }

// splitLines splits a text behind each newline; the last line may have none.
func splitLines(text string) []string {
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// diff returns the hunks that make b of a, in order, with at least one equal
// line between two of them.
func diff(a, b []string) []hunk {
	removed, added := make([]bool, len(a)), make([]bool, len(b))
	head := 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	mark(a[head:len(a)-tail], b[head:len(b)-tail], removed[head:], added[head:])
	slide(a, removed, added)
	slide(b, added, removed)
	return hunks(removed, added)
}

// mark finds a shortest edit script by the greedy algorithm of Myers (1986) and
// marks the lines it removes and adds.
func mark(a, b []string, removed, added []bool) {
	var trace [][]int // of each round: how far each diagonal got before it
	reach := make([]int, 2*maxEdits+3)
	const zero = maxEdits + 1
	for edits := 0; ; edits++ {
		if edits > maxEdits {
			fill(removed[:len(a)])
			fill(added[:len(b)])
			return
		}
		trace = append(trace, slices.Clone(reach[zero-edits-1:zero+edits+2]))
		for k := -edits; k <= edits; k += 2 {
			x := reach[zero+k-1] + 1
			if k == -edits || k != edits && reach[zero+k-1] < reach[zero+k+1] {
				x = reach[zero+k+1]
			}
			y := x - k
			for x < len(a) && y < len(b) && a[x] == b[y] {
				x, y = x+1, y+1
			}
			reach[zero+k] = x
			if x >= len(a) && y >= len(b) {
				back(trace, len(a), len(b), removed, added)
				return
			}
		}
	}
}

// back follows the script from its end and marks its steps.
func back(trace [][]int, x, y int, removed, added []bool) {
	for edits := len(trace) - 1; edits > 0; edits-- {
		reach := func(k int) int { return trace[edits][edits+1+k] }
		k := x - y
		if k == -edits || k != edits && reach(k-1) < reach(k+1) {
			x = reach(k + 1)
			y = x - k - 1
			added[y] = true
		} else {
			x = reach(k - 1)
			y = x - k + 1
			removed[x] = true
		}
	}
}

func fill(marks []bool) {
	for i := range marks {
		marks[i] = true
	}
}

// slide puts groups of changed lines where people expect them, as git does. A
// group may move by a line where the line it leaves is that which it takes. It
// moves down as far as it goes, groups it meets join it, and then back to where
// the other text changes as well, if there is such a place.
func slide(lines []string, changed, other []bool) {
	gaps := gapsOf(other)
	same := 0 // unchanged lines before the group
	for to := 0; to < len(lines); {
		if !changed[to] {
			same++
			to++
			continue
		}
		g := group{lines: lines, changed: changed, from: to, to: to, same: same}
		g.join()
		g.settle(gaps)
		same, to = g.same, g.to
	}
}

// gapsOf tells for each place before, between and behind the unchanged lines
// whether lines are changed there.
func gapsOf(changed []bool) []bool {
	gaps := []bool{false}
	for _, c := range changed {
		if c {
			gaps[len(gaps)-1] = true
		} else {
			gaps = append(gaps, false)
		}
	}
	return gaps
}

// group is a run of changed lines, behind so many unchanged ones.
type group struct {
	lines    []string
	changed  []bool
	from, to int
	same     int
}

// join takes in the changed lines on both sides.
func (g *group) join() {
	for g.from > 0 && g.changed[g.from-1] {
		g.from--
	}
	for g.to < len(g.lines) && g.changed[g.to] {
		g.to++
	}
}

func (g *group) up() bool {
	if g.from == 0 || g.lines[g.from-1] != g.lines[g.to-1] {
		return false
	}
	g.from, g.to, g.same = g.from-1, g.to-1, g.same-1
	g.changed[g.from], g.changed[g.to] = true, false
	g.join()
	return true
}

func (g *group) down() bool {
	if g.to == len(g.lines) || g.lines[g.from] != g.lines[g.to] {
		return false
	}
	g.changed[g.from], g.changed[g.to] = false, true
	g.from, g.to, g.same = g.from+1, g.to+1, g.same+1
	g.join()
	return true
}

func (g *group) settle(gaps []bool) {
	matched := false
	for size := -1; size != g.to-g.from; {
		size = g.to - g.from
		for g.up() {
		}
		matched = gaps[g.same]
		for g.down() {
			matched = matched || gaps[g.same]
		}
	}
	for matched && !gaps[g.same] && g.up() {
	}
}

func hunks(removed, added []bool) []hunk {
	var all []hunk
	for a, b := 0, 0; a < len(removed) || b < len(added); {
		h := hunk{a, a, b, b}
		for h.aTo < len(removed) && removed[h.aTo] {
			h.aTo++
		}
		for h.bTo < len(added) && added[h.bTo] {
			h.bTo++
		}
		if h.aTo > h.aFrom || h.bTo > h.bFrom {
			all = append(all, h)
		}
		a, b = h.aTo+1, h.bTo+1
	}
	return all
}
