package ring_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/holdfast-mcp/holdfast/internal/ring"
)

// write writes text in pieces of n bytes.
func write(r *ring.Ring, text string, n int) {
	for piece := range slices.Chunk([]byte(text), n) {
		r.Write(piece)
	}
}

// SUP-13, SEC-3.
func TestTail(t *testing.T) {
	const secret = "correct horse"
	tests := []struct {
		name, in string
		want     []string
	}{
		{"empty", "", nil},
		{"lines", "a\nb\r\n\n  \nc\td\n", []string{"a", "b", "c\td"}},
		{"unfinished", "a\nb", []string{"a", "b"}},
		{"last lines", "1\n2\n3\n4\n5\n6\n", []string{"3", "4", "5", "6"}},
		{"last lines and unfinished", "1\n2\n3\n4\n5", []string{"2", "3", "4", "5"}},
		{"SEC-3 controls", "\x1b[31mred\x07\x00\x7f a\rb\n", []string{`\x1b[31mred\x07\x00\x7f a\x0db`}},
		{"SEC-3 C1", "a\u009bb\x9bc\n", []string{`a\u009bb\x9bc`}},
		{"SEC-3 bad UTF-8", "a\xC3(é\xFF\n", []string{`a\xc3(é\xff`}},
		{"SEC-3 masked", "x=correct horse, correct horsecorrect horse!\n", []string{"x=***, ******!"}},
		{"SEC-3 overlapping", "correct horse battery\n", []string{"***"}},
		{"SEC-3 short value stays", "short\n", []string{"short"}},
		{"SEC-3 line of a value", "key second line\n", []string{"key ***"}},
		{"SEC-3 unfinished value", "x=correct h", []string{"x=***"}},
		{"SEC-3 value cut before", "x=correct h…\n", []string{"x=***…"}},
		{"character cut before", "caf\xC3…\n", []string{"caf…"}},
		{"SEC-3 prefix of a value", "x=correct\n", []string{"x=correct"}},
		{"SEC-3 masked before cut", strings.Repeat("x", 34) + "correct horse and more\n", []string{strings.Repeat("x", 34) + "***…"}},
		{"cut", strings.Repeat("x", 41) + "\n" + strings.Repeat("y", 40) + "\n", []string{strings.Repeat("x", 37) + "…", strings.Repeat("y", 40)}},
		{"cut between characters", strings.Repeat("é", 40) + "\n", []string{strings.Repeat("é", 18) + "…"}},
		{"repeats", "a\na\na\nb\n", []string{"a", "previous line repeated 2 times", "b"}},
		{"repeats so far", "a\na\n", []string{"a", "previous line repeated once"}},
		{"repeats across blank lines", "a\n\na\nb", []string{"a", "previous line repeated once", "b"}},
	}
	for _, tt := range tests {
		for _, n := range []int{1, 3, 1 << 20} {
			t.Run(fmt.Sprintf("%s/%d", tt.name, n), func(t *testing.T) {
				r := ring.New(ring.Options{
					Lines: 4, LineBytes: 40,
					Mask: []string{"short", secret, "horse battery", "first\nsecond line"},
				})
				write(r, tt.in, n)
				if got := r.Tail(); !slices.Equal(got, tt.want) {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			})
		}
	}
}

// SEC-3: whatever the cut and the pieces, no value shows.
func TestSEC3MaskAtTheCut(t *testing.T) {
	const secret = "0123456789abcdef"
	for at := range 120 {
		var sunk []string
		r := ring.New(ring.Options{LineBytes: 40, SinkBytes: 80, Mask: []string{secret}, Sink: func(s string) { sunk = append(sunk, s) }})
		write(r, strings.Repeat("x", at)+secret+strings.Repeat(secret, 10)+"\n", 7)
		for _, s := range append(r.Tail(), sunk...) {
			if strings.Contains(s, secret[:5]) {
				t.Errorf("at %d: %q", at, s)
			}
		}
		if len(r.Tail()[0]) > 40 || len(sunk[0]) > 80 {
			t.Errorf("at %d: %d and %d bytes", at, len(r.Tail()[0]), len(sunk[0]))
		}
	}
}

// SUP-13: the sink gets every line, longer than the tail has it, and repeats
// folded; Close brings what is left.
func TestSink(t *testing.T) {
	var got []string
	r := ring.New(ring.Options{Lines: 1, LineBytes: 10, SinkBytes: 40, Sink: func(s string) { got = append(got, s) }})
	write(r, "a\na\na\nb\n"+strings.Repeat("x", 40)+"\n"+strings.Repeat("y", 41)+"\nc\nc\nd", 5)
	r.Close()
	want := []string{
		"a", "previous line repeated 2 times", "b", strings.Repeat("x", 40), strings.Repeat("y", 37) + "…",
		"c", "previous line repeated once", "d",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if tail := r.Tail(); !slices.Equal(tail, []string{"d"}) {
		t.Errorf("tail %q", tail)
	}
	r.Close()
	if len(got) != len(want) {
		t.Errorf("closing twice gave %q", got[len(want):])
	}
}

func TestCloseEndsRepeats(t *testing.T) {
	var got []string
	r := ring.New(ring.Options{Sink: func(s string) { got = append(got, s) }})
	write(r, "a\na\n", 10)
	r.Close()
	want := []string{"a", "previous line repeated once"}
	if !slices.Equal(got, want) || !slices.Equal(r.Tail(), want) {
		t.Errorf("sink got %q, tail is %q", got, r.Tail())
	}
}

// SUP-13, C45: 10 MB without LF.
func TestC45EndlessLineIsBounded(t *testing.T) {
	r := ring.New(ring.Options{Mask: []string{"0123456789"}})
	chunk := bytes.Repeat([]byte{'x'}, 64<<10)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 160 {
		if n, err := r.Write(chunk); n != len(chunk) || err != nil {
			t.Fatal(n, err)
		}
	}
	tail := r.Tail()
	runtime.ReadMemStats(&after)
	if len(tail) != 1 || len(tail[0]) != 400 {
		t.Errorf("tail %q", tail)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("%d bytes allocated", got)
	}
	r.Write([]byte("\nafter\n"))
	if tail := r.Tail(); len(tail) != 2 || tail[1] != "after" {
		t.Errorf("then tail %q", tail)
	}
}

func TestConcurrentUse(t *testing.T) {
	lines := 0
	r := ring.New(ring.Options{Sink: func(string) { lines++ }})
	var wg sync.WaitGroup
	for i := range 8 {
		// Each ends after its lines.
		wg.Go(func() {
			for j := range 100 {
				fmt.Fprintf(r, "%d %d\n", i, j)
				if n := len(r.Tail()); n > 20 {
					t.Errorf("%d lines", n)
				}
			}
		})
	}
	wg.Wait()
	if lines != 800 {
		t.Errorf("sink got %d lines", lines)
	}
}

// FuzzRing: any text in any pieces gives the same lines, which are safe.
func FuzzRing(f *testing.F) {
	f.Add([]byte("a\x1b[0m\xC3\nhunter2hunter2\r\nhunter2hunter2\nhunter2hun"), uint64(1), "hunter2hunter2")
	f.Add(bytes.Repeat([]byte("é\u009b"), 200), uint64(2), "é\u009bé\u009bé\u009bé\u009b")
	f.Fuzz(func(t *testing.T, in []byte, seed uint64, mask string) {
		o := ring.Options{Lines: 5, LineBytes: 50, SinkBytes: 70, Mask: []string{mask}}
		whole, parts := ring.New(o), ring.New(o)
		whole.Write(in)
		rnd := rand.New(rand.NewPCG(seed, 0))
		for rest := in; len(rest) > 0; {
			n := 1 + rnd.IntN(len(rest))
			parts.Write(rest[:n])
			rest = rest[n:]
		}
		tail := whole.Tail()
		if got := parts.Tail(); !slices.Equal(got, tail) {
			t.Errorf("in parts %q, as a whole %q", got, tail)
		}
		if len(tail) > 5 {
			t.Errorf("%d lines", len(tail))
		}
		for _, line := range tail {
			if len(line) > 50 || !utf8.ValidString(line) || line == "" {
				t.Errorf("line %q of %d bytes", line, len(line))
			}
			for _, r := range line {
				if r < ' ' && r != '\t' || 0x7f <= r && r <= 0x9f {
					t.Errorf("control %q in %q", r, line)
				}
			}
			// A value of escapes or marks may arise by sanitising.
			plain := !strings.ContainsAny(mask, "\\*\n\r") && !strings.Contains("previous line repeated 0123456789 times once", mask)
			if plain && utf8.ValidString(mask) && utf8.RuneCountInString(mask) >= 8 && strings.Contains(line, mask) {
				t.Errorf("%q shows in %q", mask, line)
			}
		}
	})
}
