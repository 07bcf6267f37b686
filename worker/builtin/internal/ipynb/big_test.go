package ipynb_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/ipynb"
)

// bigNotebook has a cell with 50 MB of output, half of it in short lines, and a
// small one before and behind it.
func bigNotebook() []byte {
	var b bytes.Buffer
	small := `{"cell_type": "raw", "id": %q, "metadata": {}, "source": ["small\n", "cell"]}`
	fmt.Fprintf(&b, `{"cells": [`+small+`, {"cell_type": "code", "execution_count": 1, "id": "big", "metadata": {}, "outputs": [{"name": "stdout", "output_type": "stream", "text": [""`, "first")
	for range 1 << 20 {
		b.WriteString(`, "a line of output\n"`)
	}
	fmt.Fprintf(&b, `]}, {"data": {"image/png": "%s"}, "metadata": {}, "output_type": "display_data"}], "source": ["big\n", "cell"]}, `+small+`], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}`,
		strings.Repeat("iVBORw0KGgo=", 25<<20/12), "last")
	return b.Bytes()
}

// TestBigOutputs: ROOM-3, an edit costs in proportion to the text of the cell
// at most, and reading needs no memory for what is in outputs.
func TestBigOutputs(t *testing.T) {
	data := bigNotebook()
	size := uint64(len(data))
	if size < 45<<20 {
		t.Fatalf("only %d bytes", size)
	}
	nb := read(t, data)
	for _, step := range []struct {
		name string
		most uint64 // bytes that may be allocated
		do   func() error
	}{
		{"read", size / 10, func() error { _, err := ipynb.Read(data); return err }},
		{"edit a small cell", 1 << 20, func() error { return nb.SetSource("first", "edited\n") }},
		{"edit the big cell", size * 3, func() error { return nb.SetSource("big", "edited\nbig\ncell") }},
		{"move it", 1 << 20, func() error { return nb.Move("big", "last") }},
		{"write", 1 << 20, func() error { _, err := nb.WriteTo(&counter{}); return err }},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		err := step.do()
		took := time.Since(began)
		runtime.ReadMemStats(&after)
		allocated := after.TotalAlloc - before.TotalAlloc
		t.Logf("%s: %v, %d KB allocated", step.name, took, allocated>>10)
		if err != nil || allocated > step.most || took > 30*time.Second {
			t.Errorf("%s: %v, %v, %d bytes allocated, at most %d are allowed", step.name, err, took, allocated, step.most)
		}
	}
	if got, err := nb.Cell("big"); err != nil || got.Source != "edited\nbig\ncell" || len(got.Outputs) < 45<<20 {
		t.Errorf("%q, %d bytes of output, %v", got.Source, len(got.Outputs), err)
	}
	// Written anew, the outputs are as large and no other.
	outputs, err := nb.Cell("big")
	if err != nil {
		t.Fatal(err)
	}
	if err := nb.SetOutputs("big", outputs.Outputs); err != nil {
		t.Fatal(err)
	}
	if got, err := nb.Cell("big"); err != nil || !bytes.Equal(got.Outputs, bytes.Replace(outputs.Outputs, []byte(`[""`+", "), []byte("["), 1)) {
		t.Errorf("%d bytes of output, %v", len(got.Outputs), err)
	}
}

type counter struct{ n int }

func (c *counter) Write(p []byte) (int, error) { c.n += len(p); return len(p), nil }

func BenchmarkRead(b *testing.B) {
	data := bigNotebook()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := ipynb.Read(data); err != nil {
			b.Fatal(err)
		}
	}
}
