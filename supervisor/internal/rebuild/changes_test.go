package rebuild

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// edits are somebody who edits sources at any moment, and a build that makes one
// output from them.
type edits struct {
	t       *rapid.T
	changes changes
	sources map[string]int // the edit that the content is of
	output  string
	last    int // edit
	built   int // the last edit that the last build has seen
	builds  int
}

func (e *edits) content(path string) string {
	if path == "out" {
		return e.output
	}
	return fmt.Sprint(e.sources[path])
}

func (e *edits) edit() string {
	path := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(e.t, "edited")
	e.last++
	e.sources[path] = e.last
	return path
}

// build builds until no build is due. During each, edits may come.
func (e *edits) build(busy bool) {
	for again := true; again; {
		e.builds++
		seen, output := e.last, fmt.Sprint(e.sources)
		cancelled := false
		for busy && !cancelled && rapid.Bool().Draw(e.t, "edits go on") {
			if cancelled = e.changes.inside(e.edit()); cancelled {
				e.changes.cancelled(e.content)
			}
		}
		if cancelled {
			continue
		}
		e.output = output
		if e.changes.inside("out") {
			e.t.Fatal("a build was ended by its own output")
		}
		e.built = seen
		again, _ = e.changes.ended(e.content)
	}
}

// TestChanges: SUP-22. No edit is lost, at whatever moment it is saved; and
// where nobody edits, builds end.
func TestChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := &edits{t: t, sources: make(map[string]int)}
		for range rapid.IntRange(1, 20).Draw(t, "edits") {
			if !e.changes.outside(e.edit(), e.content) {
				t.Fatal("an edit does not count")
			}
			e.build(true)
			if e.built != e.last {
				t.Fatalf("edit %d was saved, and the last build has seen %d", e.last, e.built)
			}
		}
		e.build(false)
		before := e.builds
		e.changes.outside(e.edit(), e.content)
		if e.build(false); e.builds-before > 2 {
			t.Errorf("%d builds for one edit", e.builds-before)
		}
		before = e.builds
		e.changes.outside(e.edit(), e.content)
		if e.build(false); e.builds-before != 1 {
			t.Errorf("%d builds for an edit after that", e.builds-before)
		}
		if e.changes.outside("out", e.content) {
			t.Error("an output that nobody has changed counts")
		}
	})
}

// An edited file that a build writes as well ends a few builds and no more.
func TestGeneratedSource(t *testing.T) {
	var c changes
	stamp := 0
	content := func(string) string { return fmt.Sprint(stamp) }
	c.outside("generated.go", content)
	var ended []bool
	for range 6 {
		stamp++
		if c.inside("generated.go") {
			c.cancelled(content)
			ended = append(ended, true)
			continue
		}
		ended = append(ended, false)
		c.ended(content)
	}
	if want := []bool{true, true, true, false, false, false}; !slices.Equal(ended, want) {
		t.Errorf("builds ended by what they write: %v, want %v", ended, want)
	}
}

// Where the system lost count, anything may have changed.
func TestLostChanges(t *testing.T) {
	var c changes
	content := func(string) string { return "" }
	for range 3 {
		if !c.outside("", content) {
			t.Error("lost changes do not count")
		}
		c.inside("")
		if again, _ := c.ended(content); !again {
			t.Error("changes lost during a build are ignored")
		}
	}
}
