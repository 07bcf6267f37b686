package jupyter

import (
	"fmt"
	"math"
	"testing"
)

// ROOM-8: what a kernel's own queue has dropped is noticed, in whatever order
// the rest comes, and told once.
func TestLedger(t *testing.T) {
	id := func(n int) string { return fmt.Sprintf("abc_17_%d", n) }
	var l ledger
	for _, n := range []int{3, 5, 4, 6} { // what was before the first is not ours
		l.note(id(n))
	}
	if got := l.missing(id(6)); got != 0 {
		t.Errorf("%d missing of all", got)
	}
	for _, n := range []int{8, 12, 11, 2} {
		l.note(id(n))
	}
	if got := l.missing(id(8)); got != 1 {
		t.Errorf("%d missing before 8", got)
	}
	if got := l.missing(id(12)); got != 3 {
		t.Errorf("%d missing before 12", got)
	}
	l.settle(id(8))
	if got := l.missing(id(12)); got != 2 {
		t.Errorf("%d missing before 12, after 8", got)
	}
	l.settle(id(12))
	l.note(id(10)) // late after all
	l.note(id(13))
	if got := l.missing(id(13)); got != 0 || l.next != 14 || len(l.early) != 0 {
		t.Errorf("%d missing before 13, next %d, early %v", got, l.next, l.early)
	}
	for _, other := range []string{"", "d0e1-uuid", "other_17_9000", "abc_18_9000", "x_9000", "abc_17_x", "abc_17_-9"} {
		l.note(other)
		if got := l.missing(other); got != 0 {
			t.Errorf("%d missing before %q", got, other)
		}
		l.settle(other)
	}
	if l.next != 14 {
		t.Errorf("next %d", l.next)
	}
	far := id(math.MaxInt)
	l.note(far)
	if got := l.missing(far); got != math.MaxInt-14 {
		t.Errorf("%d missing before the last number", got)
	}
}
