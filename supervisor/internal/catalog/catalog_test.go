package catalog

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func listing(t interface{ Fatal(...any) }, pages ...string) *Listing {
	var l Listing
	for _, p := range pages {
		if _, err := l.Add(Tools, []byte(p)); err != nil {
			t.Fatal(err)
		}
	}
	return &l
}

func TestCAT1SameListInOtherWords(t *testing.T) {
	a := listing(t, `{"tools":[{"name":"a","n":1.0,"s":"é"},{"name":"b"}],"ttlMs":5,"_meta":{"x":1}}`)
	b := listing(t, `{"tools":[{"s":"\u00e9","n":1,"name":"a"}],"nextCursor":"c"}`, `{"tools":[ {"name" : "b"} ]}`)
	if !a.Shows(b) || !b.Shows(a) {
		t.Error("the same items in other pages and words are another list")
	}
	if a.Digest() != b.Digest() || len(a.Digest()) != 64 {
		t.Errorf("digests %q and %q", a.Digest(), b.Digest())
	}
	for _, other := range []string{
		`{"tools":[{"name":"b"},{"name":"a","n":1,"s":"é"}]}`,
		`{"tools":[{"name":"a","n":1,"s":"é"}]}`,
		`{"tools":[{"name":"a","n":2,"s":"é"},{"name":"b"}]}`,
		`{"tools":[{"name":"a","n":1,"s":"é"},{"name":"b"},{"name":"c"}]}`,
		`{"tools":[]}`,
	} {
		if listing(t, other).Shows(a) || listing(t, other).Digest() == a.Digest() {
			t.Errorf("%s is the same list", other)
		}
	}
}

func TestCAT1BeginningOfAList(t *testing.T) {
	seen := listing(t, `{"tools":[{"name":"a"}],"nextCursor":"c"}`)
	if !listing(t, `{"tools":[{"name":"a"},{"name":"b"}]}`).Shows(seen) {
		t.Error("a list does not show its own beginning")
	}
	if listing(t, `{"tools":[{"name":"x"},{"name":"b"}]}`).Shows(seen) {
		t.Error("another beginning is the same")
	}
}

func TestCAT6NoPage(t *testing.T) {
	for _, page := range []string{`{}`, `{"tools":{}}`, `{"prompts":[]}`} {
		if _, err := new(Listing).Add(Tools, []byte(page)); !errors.Is(err, ErrPage) {
			t.Errorf("%s: %v", page, err)
		}
	}
	var endless Listing
	var err error
	for range MaxPages + 1 {
		_, err = endless.Add(Tools, []byte(`{"tools":[],"nextCursor":"again"}`))
	}
	if !errors.Is(err, ErrEndless) {
		t.Errorf("an endless list: %v", err)
	}
}

// TestCAT1Model: two lists show the same if and only if their items are equal,
// however they are cut into pages.
func TestCAT1Model(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 5)
		x, y := items.Draw(t, "x"), items.Draw(t, "y")
		a, b := paged(t, x), paged(t, y)
		if got, want := a.Shows(b), strings.Join(x, " ") == strings.Join(y, " "); got != want {
			t.Fatalf("%v shows %v: %v", x, y, got)
		}
	})
}

func paged(t *rapid.T, names []string) *Listing {
	var l Listing
	for first := true; first || len(names) > 0; first = false {
		n := rapid.IntRange(0, len(names)).Draw(t, "page")
		if !first && n == 0 {
			n = 1
		}
		page := make([]string, 0, n)
		for _, name := range names[:n] {
			page = append(page, fmt.Sprintf(`{"name":%q}`, name))
		}
		names = names[n:]
		cursor := ""
		if len(names) > 0 {
			cursor = `,"nextCursor":"next"`
		}
		if _, err := l.Add(Tools, []byte(`{"tools":[`+strings.Join(page, ",")+`]`+cursor+`}`)); err != nil {
			t.Fatal(err)
		}
	}
	return &l
}

// A page that would take long is compared as it is.
func TestLargePage(t *testing.T) {
	page := func(item string) *Listing {
		return listing(t, `{"tools":[`+strings.Repeat(item+",", maxCanonical/len(item))+item+`]}`)
	}
	a, b := page(`{"name":"a","n":1}`), page(`{"n":1,"name":"a"}`)
	if !a.Shows(page(`{"name":"a","n":1}`)) || a.Shows(b) {
		t.Error("a large page is not compared as it is")
	}
}

// An empty cursor is none, and is not kept: what is remembered has no cursor.
func TestEmptyCursor(t *testing.T) {
	l := listing(t, `{"tools":[{"name":"a"}],"nextCursor":""}`)
	if got, ok := l.Result(Tools); !l.Complete || !ok || string(got) != `{"tools":[{"name":"a"}]}` {
		t.Errorf("complete %v, result %s", l.Complete, got)
	}
}
