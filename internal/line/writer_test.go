package line_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-mcp/holdfast/internal/line"
)

// recorder keeps each write apart.
type recorder struct {
	mu     sync.Mutex
	writes []string
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes = append(r.writes, string(p))
	return len(p), nil
}

// EDGE-2.
func TestWriterOneWriteALine(t *testing.T) {
	var out recorder
	w := line.NewWriter(&out)
	var wg sync.WaitGroup
	for i := range 50 {
		// Each ends with its one line.
		wg.Go(func() {
			if err := w.WriteLine(bytes.Repeat([]byte{'a'}, 1000+i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(out.writes) != 50 {
		t.Errorf("%d writes", len(out.writes))
	}
	for _, s := range out.writes {
		if body, ok := strings.CutSuffix(s, "\n"); !ok || strings.Trim(body, "a") != "" || len(body) < 1000 {
			t.Errorf("wrote %q", s)
		}
	}
}

func TestWriterInnerLineEnds(t *testing.T) {
	var out recorder
	if err := line.NewWriter(&out).WriteLine([]byte("\n{\n\n\"a\":1}\n")); err != nil {
		t.Fatal(err)
	}
	if len(out.writes) != 1 || out.writes[0] != " {  \"a\":1} \n" {
		t.Errorf("wrote %q", out.writes)
	}
}

func TestWriterAppendsInPlace(t *testing.T) {
	b := append(make([]byte, 0, 3), "{}"...)
	if err := line.NewWriter(io.Discard).WriteLine(b); err != nil {
		t.Fatal(err)
	}
	if got := string(b[:3]); got != "{}\n" {
		t.Errorf("buffer holds %q", got)
	}
}

type failing struct {
	n     int
	err   error
	calls int
}

func (f *failing) Write([]byte) (int, error) { f.calls++; return f.n, f.err }

func TestWriterFirstFailureIsFinal(t *testing.T) {
	cause := errors.New("cause")
	for _, tt := range []struct {
		out  failing
		want error
	}{{failing{0, cause, 0}, cause}, {failing{1, nil, 0}, io.ErrShortWrite}} {
		w := line.NewWriter(&tt.out)
		for range 2 {
			if err := w.WriteLine([]byte("{}")); !errors.Is(err, line.ErrBroken) || !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
		}
		if tt.out.calls != 1 {
			t.Errorf("%d writes", tt.out.calls)
		}
	}
}
