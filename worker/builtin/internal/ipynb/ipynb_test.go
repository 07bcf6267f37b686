package ipynb_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/ipynb"
)

// notebookFiles are those of testdata, and of the folder that
// HOLDFAST_NOTEBOOKS names.
func notebookFiles(t testing.TB) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, dir := range []string{"testdata", os.Getenv("HOLDFAST_NOTEBOOKS")} {
		if dir == "" {
			continue
		}
		names, err := filepath.Glob(filepath.Join(dir, "*.ipynb"))
		if err != nil || len(names) == 0 {
			t.Fatalf("no notebooks in %s: %v", dir, err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			files[name] = data
		}
	}
	return files
}

func read(t testing.TB, data []byte) *ipynb.Notebook {
	t.Helper()
	nb, err := ipynb.Read(data)
	if err != nil {
		t.Fatalf("%v in:\n%s", err, data)
	}
	return nb
}

// TestUntouchedFiles: ROOM-3, read and written is the same.
func TestUntouchedFiles(t *testing.T) {
	for name, data := range notebookFiles(t) {
		nb, err := ipynb.Read(data)
		if errors.Is(err, ipynb.ErrFormat) {
			continue // of nbformat 3
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !bytes.Equal(nb.Bytes(), data) {
			t.Errorf("%s: written otherwise", name)
		}
		var out bytes.Buffer
		if n, err := nb.WriteTo(&out); err != nil || n != int64(len(data)) || !bytes.Equal(out.Bytes(), data) {
			t.Errorf("%s: WriteTo: %d bytes, %v", name, n, err)
		}
	}
}

// TestUntouchedSamples: ROOM-3, the same for all that one can think of.
func TestUntouchedSamples(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawManner(t)
		nb := drawNotebook(t, m, true)
		s := m.write(nb)
		got, err := ipynb.Read([]byte(s.text))
		if err != nil {
			t.Fatalf("%v in:\n%s", err, s.text)
		}
		if string(got.Bytes()) != s.text {
			t.Fatalf("written otherwise:\n%s\n%s", s.text, got.Bytes())
		}
		var ids []string
		i := 0
		for cell := range got.Cells() {
			tree := nb.get("cells").(list)[i].(object)
			if cell.Type != string(tree.get("cell_type").(str)) || cell.Source != plainText(tree.get("source")) {
				t.Fatalf("cell %d is %+v", i, cell)
			}
			ids = append(ids, cell.ID)
			i++
		}
		slices.Sort(ids)
		if i != len(s.cells) || len(slices.Compact(ids)) != i || slices.Contains(ids, "") {
			t.Fatalf("%d cells of %d, ids %q", i, len(s.cells), ids)
		}
	})
}

func plainText(v any) string {
	if s, ok := v.(str); ok {
		return string(s)
	}
	var b strings.Builder
	for _, s := range v.(list) {
		b.WriteString(string(s.(str)))
	}
	return b.String()
}

// TestEditsStayInTheirCell: ROOM-3, an edit of a cell changes its bytes only;
// cells that come and go take no bytes of others along.
func TestEditsStayInTheirCell(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawManner(t)
		s := m.write(drawNotebook(t, m, true))
		if len(s.cells) == 0 {
			return
		}
		nb, err := ipynb.Read([]byte(s.text))
		if err != nil {
			t.Fatal(err)
		}
		at := rapid.IntRange(0, len(s.cells)-1).Draw(t, "at")
		before := slices.Collect(nb.Cells())
		want := editCell(t, nb, before[at])

		got := string(nb.Bytes())
		head, tail := s.text[:s.cells[at][0]], s.text[s.cells[at][1]:]
		if !strings.HasPrefix(got, head) || !strings.HasSuffix(got, tail) || len(got) < len(head)+len(tail) {
			t.Fatalf("the edit of cell %d went further:\n%s\n%s", at, s.text, got)
		}
		again, err := ipynb.Read([]byte(got))
		if err != nil {
			t.Fatalf("%v in:\n%s", err, got)
		}
		after := slices.Collect(again.Cells())[at]
		if after.Type != want.Type || after.Source != want.Source || !sameJSON(after.Outputs, want.Outputs) || !sameJSON(after.Metadata, want.Metadata) {
			t.Fatalf("cell %d is\n%+v\nwant\n%+v", at, after, want)
		}
		if len(again.Faults()) > len(nb.Faults()) {
			t.Fatalf("new faults: %v", again.Faults())
		}
		if inside := strings.TrimSuffix(got, m.end); m.nl != "" && strings.ContainsAny(strings.ReplaceAll(inside, m.nl, ""), "\r\n") {
			t.Fatalf("another line end in:\n%q", got)
		}
	})
}

// editCell does something to a cell and returns what it then should be.
func editCell(t *rapid.T, nb *ipynb.Notebook, cell ipynb.Cell) ipynb.Cell {
	var err error
	switch op := rapid.SampledFrom([]string{"source", "source", "type", "outputs", "count", "metadata", "remove"}).Draw(t, "op"); op {
	case "source":
		cell.Source = rapid.OneOf(texts(true), rapid.Just(cell.Source+"\nmore"), rapid.Just("first\n"+cell.Source)).Draw(t, "source")
		err = nb.SetSource(cell.ID, cell.Source)
	case "type":
		kind := rapid.SampledFrom([]string{"code", "markdown", "raw"}).Draw(t, "to")
		if cell.Type != "code" && kind == "code" {
			cell.Outputs = []byte("[]")
		} else if kind != "code" {
			cell.Outputs = nil
		}
		cell.Type = kind
		err = nb.SetType(cell.ID, kind)
	case "outputs":
		if cell.Type != "code" {
			if err := nb.SetOutputs(cell.ID, []byte("[]")); !errors.Is(err, ipynb.ErrInvalid) {
				t.Fatalf("outputs of a cell without: %v", err)
			}
			break
		}
		cell.Outputs = []byte(` [{"output_type":"stream","name":"stdout","text":"a\nb☃\n"}, {"output_type":"display_data","metadata":{"n":1.5},"data":{"text/html":["<b>\n","</b>"],"application/json":{"x":[12345678901234567890]}}}]`)
		err = nb.SetOutputs(cell.ID, cell.Outputs)
	case "count":
		if cell.Type == "code" {
			err = nb.SetExecutionCount(cell.ID, new(42))
		}
	case "metadata":
		cell.Metadata = withMember(t, cell.Metadata, "middle", `{"deep":[1.0,"é"]}`)
		err = nb.SetCellMetadata(cell.ID, "middle", []byte(`{"deep":[1.0,"é"]}`))
	case "remove":
		cell.Metadata = withMember(t, cell.Metadata, "tags", "")
		err = nb.SetCellMetadata(cell.ID, "tags", nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return cell
}

func withMember(t *rapid.T, object []byte, key, value string) []byte {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(object, &all); err != nil {
		t.Fatal(err)
	}
	if all[key] = json.RawMessage(value); value == "" {
		delete(all, key)
	}
	out, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// sameJSON compares values, with texts joined and numbers as written.
func sameJSON(a, b []byte) bool {
	normal := func(data []byte) string {
		if data == nil {
			return "nil"
		}
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.UseNumber()
		var v any
		if decoder.Decode(&v) != nil {
			return "invalid: " + string(data)
		}
		out, _ := json.Marshal(joined(v))
		return string(out)
	}
	return normal(a) == normal(b)
}

func joined(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = joined(v[key])
		}
	case []any:
		var b strings.Builder
		texts := 0
		for i := range v {
			v[i] = joined(v[i])
			if s, ok := v[i].(string); ok {
				b.WriteString(s)
				texts++
			}
		}
		if texts == len(v) {
			return b.String()
		}
	}
	return v
}

// TestCellsComeAndGo: ROOM-3, against a list of cells as the model.
func TestCellsComeAndGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawManner(t)
		s := m.write(drawNotebook(t, m, true))
		nb, err := ipynb.Read([]byte(s.text))
		if err != nil {
			t.Fatal(err)
		}
		var texts, ids []string // of the model; a new cell has no known text
		for i, at := range s.cells {
			texts = append(texts, s.text[at[0]:at[1]])
			ids = append(ids, slices.Collect(nb.Cells())[i].ID)
		}
		for n := range rapid.IntRange(1, 6).Draw(t, "steps") {
			after, behind := "", 0
			if i := rapid.IntRange(-1, len(ids)-1).Draw(t, "after"); i >= 0 {
				after, behind = ids[i], i+1
			}
			op := rapid.SampledFrom([]string{"insert", "delete", "move"}).Draw(t, "op")
			if op == "insert" || len(ids) == 0 {
				id := "new-" + string(rune('a'+n))
				err = nb.Insert(after, ipynb.Cell{ID: id, Type: ipynb.Code, Source: "new\ncell" + loneHigh})
				ids, texts = slices.Insert(ids, behind, id), slices.Insert(texts, behind, "")
			} else if at := rapid.IntRange(0, len(ids)-1).Draw(t, "at"); op == "delete" {
				err = nb.Delete(ids[at])
				ids, texts = slices.Delete(ids, at, at+1), slices.Delete(texts, at, at+1)
			} else if id, text := ids[at], texts[at]; true {
				err = nb.Move(id, after)
				if id != after {
					to := behind
					if to > at {
						to--
					}
					ids = slices.Insert(slices.Delete(ids, at, at+1), to, id)
					texts = slices.Insert(slices.Delete(texts, at, at+1), to, text)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			compare(t, nb, m, s, ids, texts)
		}
	})
}

func compare(t *rapid.T, nb *ipynb.Notebook, m manner, s sample, ids, texts []string) {
	got := string(nb.Bytes())
	again, err := ipynb.Read([]byte(got))
	if err != nil {
		t.Fatalf("%v in:\n%s", err, got)
	}
	if again.Len() != len(ids) || nb.Len() != len(ids) {
		t.Fatalf("%d cells, want %d", again.Len(), len(ids))
	}
	i, rest := 0, got
	for cell := range nb.Cells() {
		if cell.ID != ids[i] {
			t.Fatalf("cell %d is %s, want %q", i, cell.ID, ids)
		}
		_, after, ok := strings.Cut(rest, texts[i])
		if !ok {
			t.Fatalf("cell %d is not\n%s\nin\n%s", i, texts[i], got)
		}
		rest = after
		i++
	}
	if first := strings.Index(s.text, `"cells"`); !strings.HasPrefix(got, s.text[:first]) || !strings.HasSuffix(got, m.end) {
		t.Fatalf("beside the cells:\n%s\n%s", s.text, got)
	}
	if m.nl != "" && len(ids) > 0 {
		if open := "[" + m.nl + m.unit + m.unit + "{"; !strings.Contains(got, open) {
			t.Fatalf("no %q in:\n%s", open, got)
		}
		if end := "}" + m.nl + m.unit + "]"; !strings.Contains(got, end) {
			t.Fatalf("no %q in:\n%s", end, got)
		}
	}
}
