package ipynb_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/ipynb"
	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/jupytertest"
)

// said is what nbformat says of a file.
type said struct {
	File, Error, Written string
	Valid                bool
	Cells                [][2]string
}

// oracle asks nbformat about texts, all in one process.
func oracle(t *testing.T, texts []string) []said {
	t.Helper()
	python := jupytertest.Python(t, "nbformat")
	dir := t.TempDir()
	for i, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%06d.ipynb", i)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var stderr strings.Builder
	cmd := exec.CommandContext(t.Context(), python, "testdata/oracle.py", dir)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	var all []said
	for lines := bufio.NewReader(bytes.NewReader(out)); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var one said
		if err := json.Unmarshal(line, &one); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	if len(all) != len(texts) {
		t.Fatalf("%d answers for %d texts", len(all), len(texts))
	}
	return all
}

// samples draws n texts, each from its own seed.
func samples(n int, draw func(t *rapid.T) string) []string {
	generator := rapid.Custom(draw)
	texts := make([]string, n)
	for i := range texts {
		texts[i] = generator.Example(i)
	}
	return texts
}

func utf16Hex(s string) string {
	var b strings.Builder
	for _, unit := range units(s) {
		for _, u := range unit {
			fmt.Fprintf(&b, "%04x", u)
		}
	}
	return b.String()
}

// faultless reports whether nbformat should find nothing wrong with a file; a
// byte order mark is taken off before it looks.
func faultless(nb *ipynb.Notebook) bool {
	return !slices.ContainsFunc(nb.Faults(), func(e *ipynb.Error) bool { return !strings.Contains(e.Problem, "byte order mark") })
}

// TestReadAsNbformatReads: ROOM-3, the same verdict as nbformat on files good
// and bad, and the same cells.
func TestReadAsNbformatReads(t *testing.T) {
	texts := samples(400, func(t *rapid.T) string {
		m := drawManner(t)
		nb := drawNotebook(t, m, rapid.Bool().Draw(t, "odd"))
		if rapid.Bool().Draw(t, "broken") {
			nb = breakTree(t, nb).(object)
		}
		return m.write(nb).text
	})
	for _, data := range notebookFiles(t) {
		texts = append(texts, string(data))
	}
	valid, faulty, refused := 0, 0, 0
	for i, want := range oracle(t, texts) {
		nb, err := ipynb.Read([]byte(texts[i]))
		switch {
		case errors.Is(err, ipynb.ErrFormat):
			continue // other formats are none of ours
		case (err == nil && faultless(nb)) != want.Valid:
			t.Errorf("valid: %v, %s; here %v, %v:\n%s", want.Valid, want.Error, err, faults(nb), texts[i])
		case err != nil:
			refused++
		case want.Valid:
			valid++
		default:
			faulty++
		}
		if err != nil || want.Cells == nil {
			continue
		}
		n := 0
		for cell := range nb.Cells() {
			if got := [2]string{cell.Type, utf16Hex(cell.Source)}; n >= len(want.Cells) || got != want.Cells[n] {
				t.Errorf("cell %d is %q:\n%s", n, got, texts[i])
			}
			n++
		}
		if n != len(want.Cells) {
			t.Errorf("%d cells, want %d", n, len(want.Cells))
		}
	}
	t.Logf("%d valid, %d with faults, %d refused", valid, faulty, refused)
	if valid < 50 || faulty < 50 || refused < 20 {
		t.Errorf("the samples are one-sided")
	}
}

func faults(nb *ipynb.Notebook) []*ipynb.Error {
	if nb == nil {
		return nil
	}
	return nb.Faults()
}

// breakTree changes one value or drops one member somewhere.
func breakTree(t *rapid.T, v any) any {
	deeper := rapid.IntRange(0, 4).Draw(t, "deeper") > 0
	switch v := v.(type) {
	case object:
		if len(v) == 0 {
			return object{{"more", token("1")}}
		}
		v = slices.Clone(v)
		i := rapid.IntRange(0, len(v)-1).Draw(t, "member")
		if !deeper {
			return slices.Delete(v, i, i+1)
		}
		if v[i].key == "nbformat_minor" {
			return v // another minor is another format
		}
		v[i].value = breakTree(t, v[i].value)
		return v
	case list:
		if len(v) > 0 && deeper {
			v = slices.Clone(v)
			i := rapid.IntRange(0, len(v)-1).Draw(t, "element")
			v[i] = breakTree(t, v[i])
			return v
		}
	}
	return rapid.SampledFrom([]any{token("null"), token("-3"), token("3"), token("1.5"), token("true"), str(""), str("raw"), str("a,b"), list{}, list{str("a"), str("a")}, list{token("1")}, object{}}).Draw(t, "instead")
}

// TestWrittenForNbformat: ROOM-3, nbformat finds nothing wrong with an edited
// file with which there was nothing wrong, reads the cells that were written,
// and where it had written the file would write every edit the same.
func TestWrittenForNbformat(t *testing.T) {
	originals := samples(200, func(t *rapid.T) string {
		m := drawManner(t)
		return m.write(drawNotebook(t, m, false)).text
	})
	for _, said := range oracle(t, originals) {
		originals = append(originals, said.Written) // in the form of nbformat
	}
	for name, data := range notebookFiles(t) {
		if _, err := ipynb.Read(data); errors.Is(err, ipynb.ErrFormat) {
			continue
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		originals = append(originals, string(data))
	}
	before := oracle(t, originals)

	var edited []string
	var notebooks []*ipynb.Notebook
	for i, text := range originals {
		nb := read(t, []byte(text))
		editAtRandom(t, nb, i)
		edited, notebooks = append(edited, string(nb.Bytes())), append(notebooks, nb)
	}
	canonical := 0
	for i, after := range oracle(t, edited) {
		if before[i].Valid && !after.Valid {
			t.Errorf("made invalid: %s\n%s\n%s", after.Error, originals[i], edited[i])
		}
		if !after.Valid {
			continue
		}
		n := 0
		for cell := range notebooks[i].Cells() {
			if got := [2]string{cell.Type, utf16Hex(cell.Source)}; n >= len(after.Cells) || got != after.Cells[n] {
				t.Fatalf("cell %d is %q:\n%s", n, got, edited[i])
			}
			n++
		}
		// It cannot write lone surrogates.
		if before[i].Written == originals[i] && after.Written != "" {
			canonical++
			if after.Written != edited[i] {
				t.Errorf("nbformat would write it otherwise, from here: %s", difference(edited[i], after.Written))
			}
		}
	}
	t.Logf("%d files, %d of them in the form of nbformat", len(edited), canonical)
	if canonical < 100 {
		t.Error("too few files in the form of nbformat")
	}
}

// difference shows two texts from where they part.
func difference(a, b string) string {
	at := 0
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	part := func(s string) string { return s[max(0, at-60):min(len(s), at+60)] }
	return fmt.Sprintf("%q, nbformat: %q", part(a), part(b))
}

// editAtRandom edits a notebook in several ways at once.
func editAtRandom(t *testing.T, nb *ipynb.Notebook, seed int) {
	t.Helper()
	rapid.Custom(func(rt *rapid.T) int {
		if err := nb.Insert("", ipynb.Cell{ID: "inserted", Type: ipynb.Markdown, Source: texts(false).Draw(rt, "new"), Attachments: []byte(`{"a.txt":{"text/plain":"a\nb","image/png":"AAAA\n"}}`)}); err != nil {
			t.Fatal(err)
		}
		if err := nb.SetMetadata("a", []byte(`{"b": [1, {}], "a": "é\u2603"}`)); err != nil {
			t.Fatal(err)
		}
		for cell := range nb.Cells() {
			editCell(rt, nb, cell)
		}
		last := nth(nb, nb.Len()-1)
		if err := nb.Move(last, ""); err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(rt, "delete") {
			if err := nb.Delete(last); err != nil {
				t.Fatal(err)
			}
		}
		return 0
	}).Example(seed)
}
