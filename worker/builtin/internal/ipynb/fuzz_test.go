package ipynb_test

import (
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/ipynb"
)

// FuzzRead: ROOM-3, any text is read without loss or refused with a place in
// it; and what was read can be edited and read again.
func FuzzRead(f *testing.F) {
	for _, data := range notebookFiles(f) {
		f.Add(data)
	}
	for _, text := range []string{"", "{", codeCell(`{"output_type": "stream", "name": "", "text": ["a", "b"]}`), notebookOf(`{"cell_type": "raw", "metadata": {"a" : NaN}, "source": "\ud83d\ude00\ud83d"}`)} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		nb, err := ipynb.Read(data)
		if err != nil {
			refusal, ok := errors.AsType[*ipynb.Error](err)
			if !ok || refusal.Offset < 0 || refusal.Offset > len(data) || refusal.Line < 1 || refusal.Column < 1 || refusal.Problem == "" {
				t.Fatalf("%+v", err)
			}
			return
		}
		if string(nb.Bytes()) != string(data) {
			t.Fatalf("%q is written as %q", data, nb.Bytes())
		}
		for _, fault := range nb.Faults() {
			if fault.Offset < 0 || fault.Offset > len(data) {
				t.Fatalf("%+v", fault)
			}
		}
		editAll(t, nb)
		again, err := ipynb.Read(nb.Bytes())
		if err != nil {
			t.Fatalf("%v in %q", err, nb.Bytes())
		}
		if again.Len() != nb.Len() {
			t.Fatalf("%d cells, want %d", again.Len(), nb.Len())
		}
		for cell := range nb.Cells() {
			if got, err := again.Cell(cell.ID); nb.Minor() >= 5 && (err != nil || got.Source != cell.Source || got.Type != cell.Type) {
				t.Fatalf("%+v, want %+v: %v", got, cell, err)
			}
		}
	})
}

// editAll edits every cell; edits of what was read are not refused.
func editAll(t *testing.T, nb *ipynb.Notebook) {
	t.Helper()
	var errs []error
	for cell := range nb.Cells() {
		source := cell.Source + "\n#"
		if !utf8.ValidString(source) {
			source = "#" // two halves of a character may have met
		}
		errs = append(errs, nb.SetSource(cell.ID, source), nb.SetCellMetadata(cell.ID, "x", []byte(`[1]`)), nb.SetType(cell.ID, ipynb.Code), nb.SetOutputs(cell.ID, []byte("[]")))
	}
	errs = append(errs, nb.SetMetadata("x", []byte("{}")))
	if nb.Len() > 1 {
		errs = append(errs, nb.Move(nth(nb, 0), nth(nb, nb.Len()-1)), nb.Delete(nth(nb, 0)))
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
