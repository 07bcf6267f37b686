package document

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

func newDocument(t testing.TB) *Document {
	t.Helper()
	d, err := New("notebook", 1, State{
		Cells: []Cell{
			{ID: "a", Type: "code", Source: "one\ntwo\nthree\n", Metadata: map[string]string{"tags": `["x"]`}},
			{ID: "b", Type: "markdown", Source: "text", Attachments: "{}"},
			{ID: "c", Type: "code", Source: "c"},
		},
		Metadata: map[string]string{"kernelspec": `{"name":"python3"}`},
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// do prepares and commits a mutation.
func do(d *Document, base []Revision, operation string, changes ...Change) (Entry, error) {
	e, fresh, err := d.Prepare(Mutation{base, operation, "tester", changes}, epoch)
	if err == nil && fresh {
		err = d.Commit(e)
	}
	return e, err
}

func must(t testing.TB, d *Document, operation string, changes ...Change) Entry {
	t.Helper()
	e, err := do(d, d.Heads(), operation, changes...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// text shows a state in a line.
func text(s State) string {
	var b strings.Builder
	for _, c := range s.Cells {
		fmt.Fprintf(&b, "%s %s %q %v %s|", c.ID, c.Type, c.Source, c.Metadata, c.Attachments)
	}
	fmt.Fprint(&b, s.Metadata)
	return b.String()
}

// TestLateEdits: ROOM-1, the table of the package: what somebody has done, what
// another who has not seen it then does, and what comes of it.
func TestLateEdits(t *testing.T) {
	source := func(text string) Change { return Change{Kind: SetSource, Cell: "a", Value: text} }
	meta := func(key, value string) Change {
		return Change{Kind: SetCellMetadata, Cell: "a", Key: key, Value: value}
	}
	insert := func(id, after string) Change {
		return Change{Kind: InsertCell, Cell: id, After: after, Type: "raw", Value: id}
	}
	remove := func(id string) Change { return Change{Kind: DeleteCell, Cell: id} }
	move := func(id, after string) Change { return Change{Kind: MoveCell, Cell: id, After: after} }
	kind := func(name string) Change { return Change{Kind: SetType, Cell: "a", Type: name} }
	const was = "one\ntwo\nthree\n"
	for _, test := range []struct {
		name        string
		first, then []Change
		order       string // of the cells afterwards
		source      string // of cell a afterwards
		merged      bool
		conflict    *ConflictError
	}{
		{"another cell", []Change{{Kind: SetSource, Cell: "b", Value: "other"}}, []Change{source("new")}, "abc", "new", false, nil},
		{"other lines", []Change{source("ONE\ntwo\nthree\n")}, []Change{source("one\ntwo\nTHREE\n")}, "abc", "ONE\ntwo\nTHREE\n", true, nil},
		{"the same lines alike", []Change{source("ONE\ntwo\nthree\n")}, []Change{source("ONE\ntwo\nthree\n")}, "abc", "ONE\ntwo\nthree\n", false, nil},
		{
			"the same lines",
			[]Change{source("ONE\ntwo\nthree\n")},
			[]Change{source("1\ntwo\nthree\n")},
			"", "", false,
			&ConflictError{Cell: "a", Field: "source", Base: was, Current: "ONE\ntwo\nthree\n", New: "1\ntwo\nthree\n"},
		},
		{"twice in one mutation", []Change{source("ONE\ntwo\nthree\n")}, []Change{source("one\ntwo\n3\n"), source("one\ntwo\nTHREE\n")}, "abc", "ONE\ntwo\nTHREE\n", true, nil},
		{
			"all or nothing",
			[]Change{source("ONE\ntwo\nthree\n")},
			[]Change{remove("b"), source("1\ntwo\nthree\n")},
			"", "", false,
			&ConflictError{Change: 1, Cell: "a", Field: "source", Base: was, Current: "ONE\ntwo\nthree\n", New: "1\ntwo\nthree\n"},
		},
		{
			"edit of what is deleted",
			[]Change{remove("a")},
			[]Change{source("new")},
			"", "", false,
			&ConflictError{Cell: "a", Field: "source", Base: was, New: "new", CurrentDeleted: true},
		},
		{
			"move of what is deleted",
			[]Change{remove("a")},
			[]Change{move("a", "b")},
			"", "", false,
			&ConflictError{Cell: "a", Field: "source", Base: was, New: was, CurrentDeleted: true},
		},
		{"both delete", []Change{remove("b")}, []Change{remove("b")}, "ac", was, false, nil},
		{
			"deletion of what is edited",
			[]Change{source("new")},
			[]Change{remove("a")},
			"", "", false,
			&ConflictError{Cell: "a", Field: "source", Base: was, Current: "new", NewDeleted: true},
		},
		{
			"deletion of what is tagged",
			[]Change{meta("tags", `["y"]`)},
			[]Change{remove("a")},
			"", "", false,
			&ConflictError{Cell: "a", Field: "source", Base: was, Current: was, NewDeleted: true},
		},
		{"deletion of what is moved", []Change{move("b", "c")}, []Change{remove("b")}, "ac", was, false, nil},
		{"both move", []Change{move("a", "b")}, []Change{move("a", "c")}, "bca", was, false, nil},
		{"move behind what is deleted", []Change{remove("b")}, []Change{move("a", "b")}, "ac", was, false, nil},
		{"move behind what is moved", []Change{move("b", "")}, []Change{move("c", "b")}, "bca", was, false, nil},
		{"insertion behind what is deleted", []Change{remove("b")}, []Change{insert("n", "b")}, "anc", was, false, nil},
		{"insertion where all before is deleted", []Change{remove("a"), remove("b")}, []Change{insert("n", "b")}, "nc", "", false, nil},
		{"both insert", []Change{insert("m", "a")}, []Change{insert("n", "a")}, "anmbc", was, false, nil},
		{"insertion behind an own one", []Change{remove("b")}, []Change{insert("n", "b"), insert("o", "n")}, "anoc", was, false, nil},
		{
			"type of what is edited",
			[]Change{source("new")},
			[]Change{kind("raw")},
			"", "", false,
			&ConflictError{Cell: "a", Field: "source", Base: was, Current: "new", New: was},
		},
		{
			"edit of what has another type",
			[]Change{kind("raw")},
			[]Change{source("new")},
			"", "", false,
			&ConflictError{Cell: "a", Field: "type", Base: "code", Current: "raw", New: "code"},
		},
		{"both types alike", []Change{kind("raw")}, []Change{kind("raw")}, "abc", was, false, nil},
		{
			"both types",
			[]Change{kind("raw")},
			[]Change{kind("markdown")},
			"", "", false,
			&ConflictError{Cell: "a", Field: "type", Base: "code", Current: "raw", New: "markdown"},
		},
		{"other metadata", []Change{meta("x", "1")}, []Change{meta("y", "2"), source("new")}, "abc", "new", false, nil},
		{
			"the same metadata",
			[]Change{meta("tags", "[]")},
			[]Change{meta("tags", "")},
			"", "", false,
			&ConflictError{Cell: "a", Field: "metadata", Key: "tags", Base: `["x"]`, Current: "[]", New: ""},
		},
		{
			"attachments",
			[]Change{{Kind: SetAttachments, Cell: "b", Value: `{"x":{}}`}},
			[]Change{{Kind: SetAttachments, Cell: "b"}},
			"", "", false,
			&ConflictError{Cell: "b", Field: "attachments", Base: "{}", Current: `{"x":{}}`, New: ""},
		},
		{
			"metadata of the notebook",
			[]Change{{Kind: SetMetadata, Key: "k", Value: "1"}},
			[]Change{{Kind: SetMetadata, Key: "k", Value: "2"}},
			"", "", false,
			&ConflictError{Field: "metadata", Key: "k", Current: "1", New: "2"},
		},
		{"other metadata of the notebook", []Change{{Kind: SetMetadata, Key: "k", Value: "1"}}, []Change{{Kind: SetMetadata, Key: "l", Value: "2"}}, "abc", was, false, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDocument(t)
			base := d.Heads()
			must(t, d, "first", test.first...)
			between := d.State()
			if test.conflict != nil {
				test.conflict.Heads = d.Heads()
			}
			e, err := do(d, base, "then", test.then...)
			conflict, _ := errors.AsType[*ConflictError](err)
			if !reflect.DeepEqual(conflict, test.conflict) {
				t.Fatalf("%v, conflict %+v, want %+v", err, conflict, test.conflict)
			}
			if test.conflict != nil {
				if !errors.Is(err, ErrConflict) || err.Error() == "" || text(d.State()) != text(between) {
					t.Errorf("%v, and then %s", err, text(d.State()))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			order, a := "", ""
			for _, cell := range d.State().Cells {
				order += cell.ID
				if cell.ID == "a" {
					a = cell.Source
				}
			}
			if order != test.order || a != test.source || e.Merged != test.merged {
				t.Errorf("order %q, source %q, merged %v", order, a, e.Merged)
			}
		})
	}
}

// TestRepeats: ROOM-1, a repeat has the result of the first time, however late
// it comes and whatever happened since; its id is for no other mutation.
func TestRepeats(t *testing.T) {
	d := newDocument(t)
	m := Mutation{d.Heads(), "op", "tester", []Change{{Kind: SetSource, Cell: "a", Value: "new"}}}
	entry, fresh, err := d.Prepare(m, epoch)
	if err != nil || !fresh {
		t.Fatal(fresh, err)
	}
	if again, fresh, err := d.Prepare(m, epoch); err != nil || !fresh || !reflect.DeepEqual(entry, again) {
		t.Fatalf("before it is committed: %+v, %v, %v", again, fresh, err)
	}
	if err := d.Commit(entry); err != nil {
		t.Fatal(err)
	}
	must(t, d, "other", Change{Kind: DeleteCell, Cell: "a"})
	state := text(d.State())
	if again, fresh, err := d.Prepare(m, epoch.Add(time.Hour)); err != nil || fresh || !reflect.DeepEqual(entry, again) {
		t.Errorf("repeated: %+v, %v, %v", again, fresh, err)
	}
	for name, other := range map[string]Mutation{
		"changes": {m.Base, "op", "tester", []Change{{Kind: SetSource, Cell: "a", Value: "other"}}},
		"base":    {d.Heads(), "op", "tester", m.Changes},
		"author":  {m.Base, "op", "other", m.Changes},
	} {
		if _, _, err := d.Prepare(other, epoch); !errors.Is(err, ErrOperation) {
			t.Errorf("other %s: %v", name, err)
		}
	}
	if err := d.Commit(entry); !errors.Is(err, ErrChain) || text(d.State()) != state {
		t.Errorf("committed twice: %v, %s", err, text(d.State()))
	}
}

// TestRefusedMutations: ROOM-1, what cannot be done changes nothing.
func TestRefusedMutations(t *testing.T) {
	d := newDocument(t)
	other, err := New("notebook", 2, d.State())
	if err != nil {
		t.Fatal(err)
	}
	state, heads := text(d.State()), d.Heads()
	if other.Heads()[0] == heads[0] {
		t.Error("another epoch has the same revision")
	}
	for name, test := range map[string]struct {
		base   []Revision
		change Change
		want   error
	}{
		"no base":           {nil, Change{Kind: DeleteCell, Cell: "a"}, ErrStaleBase},
		"two bases":         {[]Revision{heads[0], heads[0]}, Change{Kind: DeleteCell, Cell: "a"}, ErrStaleBase},
		"unknown base":      {[]Revision{"x"}, Change{Kind: DeleteCell, Cell: "a"}, ErrStaleBase},
		"another epoch":     {other.Heads(), Change{Kind: DeleteCell, Cell: "a"}, ErrStaleBase},
		"no cell":           {heads, Change{Kind: SetSource, Cell: "x"}, ErrNoCell},
		"behind no cell":    {heads, Change{Kind: InsertCell, Cell: "x", After: "y"}, ErrNoCell},
		"behind itself":     {heads, Change{Kind: MoveCell, Cell: "a", After: "a"}, ErrNoCell},
		"move of no cell":   {heads, Change{Kind: MoveCell, Cell: "x"}, ErrNoCell},
		"taken id":          {heads, Change{Kind: InsertCell, Cell: "a"}, ErrID},
		"no id":             {heads, Change{Kind: InsertCell}, ErrID},
		"no kind of change": {heads, Change{Kind: "paint", Cell: "a"}, ErrMutation},
	} {
		if _, err := do(d, test.base, name, test.change); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
	if _, err := do(d, heads, "", Change{Kind: DeleteCell, Cell: "a"}); !errors.Is(err, ErrMutation) {
		t.Errorf("no operation id: %v", err)
	}
	if _, err := do(d, heads, "none"); !errors.Is(err, ErrMutation) {
		t.Errorf("no changes: %v", err)
	}
	if _, err := New("x", 1, State{Cells: []Cell{{ID: "a"}, {ID: "a"}}}); !errors.Is(err, ErrID) {
		t.Errorf("one id twice: %v", err)
	}
	if text(d.State()) != state || !slices.Equal(d.Heads(), heads) {
		t.Errorf("changed to %s", text(d.State()))
	}
}

// TestDamagedEntries: ROOM-1, the chain takes no entry that was not made for it.
func TestDamagedEntries(t *testing.T) {
	d := newDocument(t)
	first := must(t, d, "1", Change{Kind: SetSource, Cell: "a", Value: "x"}, Change{Kind: DeleteCell, Cell: "b"})
	second := must(t, d, "2", Change{Kind: SetMetadata, Key: "k", Value: "1"})
	impossible := first
	impossible.Changes = []Change{{Kind: SetSource, Cell: "a", Value: "x"}, {Kind: DeleteCell, Cell: "none"}}
	impossible.Revision = impossible.name()
	damage := map[string]Entry{"out of order": second, "impossible": impossible}
	for name, change := range map[string]func(e *Entry){
		"time":      func(e *Entry) { e.Time = e.Time.Add(1) },
		"author":    func(e *Entry) { e.Author = "x" },
		"operation": func(e *Entry) { e.Operation = "x" },
		"request":   func(e *Entry) { e.Request = "x" },
		"merged":    func(e *Entry) { e.Merged = true },
		"revision":  func(e *Entry) { e.Revision = second.Revision },
		"changes":   func(e *Entry) { e.Changes = e.Changes[:1] },
		"value":     func(e *Entry) { e.Changes = slices.Clone(e.Changes); e.Changes[0].Value = "y" },
		"fields":    func(e *Entry) { e.Changes = slices.Clone(e.Changes); e.Changes[0].Value, e.Changes[0].Key = "", "x" },
	} {
		e := first
		change(&e)
		damage[name] = e
	}
	for name, e := range damage {
		d := newDocument(t)
		state, heads := text(d.State()), d.Heads()
		if err := d.Commit(e); !errors.Is(err, ErrChain) || text(d.State()) != state || !slices.Equal(d.Heads(), heads) {
			t.Errorf("%s: %v, then %s", name, err, text(d.State()))
		}
	}
}

// TestForgetting: ROOM-1, bases and operation ids are kept for 24 h, and for
// 10,000 revisions at most; beyond that a repeat is stale and not made again.
func TestForgetting(t *testing.T) {
	for name, pause := range map[string]time.Duration{"by number": 0, "by time": KeptFor / 10} {
		d := newDocument(t)
		base := d.Heads()
		m := Mutation{base, "op", "tester", []Change{{Kind: InsertCell, Cell: "n", Type: "raw"}, {Kind: DeleteCell, Cell: "n"}}}
		now := epoch
		entry, _, err := d.Prepare(m, now)
		if err != nil || d.Commit(entry) != nil {
			t.Fatal(err)
		}
		kept := 0
		for n := 0; ; n++ {
			_, fresh, err := d.Prepare(m, now)
			if err == nil && !fresh && d.Knows(base) {
				kept = n
			} else if errors.Is(err, ErrStaleBase) && !d.Knows(base) {
				break
			} else {
				t.Fatalf("%s: %d later: fresh %v, %v", name, n, fresh, err)
			}
			now = now.Add(pause)
			next, _, err := d.Prepare(Mutation{d.Heads(), fmt.Sprint(n), "tester", []Change{{Kind: SetSource, Cell: "a", Value: fmt.Sprint(n)}}}, now)
			if err != nil || d.Commit(next) != nil {
				t.Fatal(err)
			}
		}
		if want := map[string]int{"by number": KeptRevisions - 1, "by time": 10}[name]; kept != want {
			t.Errorf("%s: kept for %d revisions, want %d", name, kept, want)
		}
		if len(d.operations) != len(d.past) || len(d.number) != len(d.past)+1 {
			t.Errorf("%s: %d entries, %d operations, %d revisions", name, len(d.past), len(d.operations), len(d.number))
		}
		if s, err := d.At(d.Heads()); err != nil || text(s) != text(d.State()) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What was moved is what was moved, not all that it passed.
func TestCompareFewestMoves(t *testing.T) {
	var s State
	for n := range 20 {
		s.Cells = append(s.Cells, Cell{ID: fmt.Sprint(n)})
	}
	d, err := New("x", 1, s)
	if err != nil {
		t.Fatal(err)
	}
	must(t, d, "1", Change{Kind: MoveCell, Cell: "3", After: "15"}, Change{Kind: MoveCell, Cell: "18"})
	if delta := Compare(s, d.State()); !slices.Equal(delta.Moved, []string{"18", "3"}) {
		t.Errorf("%+v", delta)
	}
}
