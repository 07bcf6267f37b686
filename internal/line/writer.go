package line

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
)

// ErrBroken is returned when this or an earlier write failed. What the other
// side has got is unknown, so nothing further is written.
var ErrBroken = errors.New("line: broken stream")

// Writer puts out messages as lines. It is safe for concurrent use.
type Writer struct {
	mu  sync.Mutex
	w   io.Writer
	err error // of the first write that failed
}

// NewWriter returns a Writer on w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// WriteLine writes b and LF with one call of Write and takes ownership of b. An
// LF inside b, which can only be space between the tokens of a JSON text,
// becomes a blank, since it would split the line.
//
// The first failure is final: it and all later calls return an error that
// wraps [ErrBroken] and the cause.
func (w *Writer) WriteLine(b []byte) error {
	for rest := b; ; {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			break
		}
		rest[i] = ' '
		rest = rest[i+1:]
	}
	b = append(b, '\n')

	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	n, err := w.w.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		w.err = fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return w.err
}
