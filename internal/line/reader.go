// Package line frames messages as lines: a [Reader] that is liberal in what it
// takes and bounded in what it keeps, and a [Writer] that puts out each
// message as one line with one write.
//
//	r := line.NewReader(os.Stdin, 64<<20)
//	for {
//		b, err := r.Next()
//		if tooLong, ok := errors.AsType[*line.TooLongError](err); ok {
//			... // answer it, the stream goes on
//		}
//		if err != nil {
//			break
//		}
//		... // b is ours
//	}
//
// A Reader is for one goroutine, a Writer for many. Neither starts goroutines,
// and neither knows what is in a message.
package line

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
)

const (
	bufferSize = 64 << 10
	// keep is how much of either end of a message too long is kept.
	keep = 64 << 10
	// maxEmptyReads is how often a reader may return nothing without an error.
	maxEmptyReads = 100
)

// TooLongError is returned for a message beyond the limit. The Reader has
// passed it and goes on with the next.
type TooLongError struct {
	// Size is the length of the message in bytes.
	Size int64
	// Limit is what it exceeds.
	Limit int
	// Head and Tail are its first and last bytes, at most 64 KiB each. They
	// overlap if it is shorter than both together.
	Head, Tail []byte
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("message of %d bytes exceeds the limit of %d", e.Size, e.Limit)
}

// Reader takes a stream apart into messages. A message is
//
//   - a line that is not blank, ended by LF, CR LF or the end of the stream,
//     without that end, or
//   - the body after a header block as in the Language Server Protocol, which
//     begins with a Content-Length or Content-Type line and ends with a blank
//     one: as many bytes as Content-Length says.
//
// A byte order mark at the start of the stream is dropped (EDGE-2).
type Reader struct {
	r     io.Reader
	limit int

	buf   []byte
	start int // of what is unread in buf
	empty int // reads in a row that returned nothing
	err   error
	begun bool
}

// NewReader returns a Reader of messages of at most limit bytes.
func NewReader(r io.Reader, limit int) *Reader {
	return &Reader{r: r, limit: limit, buf: make([]byte, 0, bufferSize)}
}

// Next returns the next message as a slice that belongs to the caller, with
// room for at least one byte behind it. A body may contain LF.
//
// It returns *TooLongError for a message beyond the limit, and the error of
// the underlying reader, such as io.EOF, once all before it has been returned,
// a last line without LF included.
func (r *Reader) Next() ([]byte, error) {
	if !r.begun {
		r.begun = true
		r.skipBOM()
	}
	header := false // in a header block
	body := int64(-1)
	for {
		b, err := r.line()
		if err != nil {
			return nil, err
		}
		if n, ok := contentHeader(b); ok {
			header = true
			body = max(body, n)
			continue
		}
		switch {
		case header && len(b) == 0:
			header = false
			if body >= 0 {
				b, err = r.body(body)
				body = -1
				if err != nil || !blank(b) {
					return b, err
				}
			}
		case header && isHeader(b), blank(b):
		default:
			return b, nil
		}
	}
}

// line reads up to the next LF.
func (r *Reader) line() ([]byte, error) {
	m := message{limit: r.limit}
	for {
		chunk := r.buf[r.start:]
		if i := bytes.IndexByte(chunk, '\n'); i >= 0 {
			m.add(chunk[:i])
			r.start += i + 1
			return m.finish(true)
		}
		m.add(chunk)
		if !r.fill() {
			if m.size == 0 {
				return nil, r.err
			}
			return m.finish(true)
		}
	}
}

// body reads n bytes, or what there is before the end of the stream.
func (r *Reader) body(n int64) ([]byte, error) {
	m := message{limit: r.limit}
	for {
		chunk := r.buf[r.start:]
		if left := n - m.size; int64(len(chunk)) >= left {
			m.add(chunk[:left])
			r.start += int(left)
			return m.finish(false)
		}
		m.add(chunk)
		if !r.fill() {
			if m.size == 0 {
				return nil, r.err
			}
			return m.finish(false)
		}
	}
}

// fill replaces the buffer, which has been used up, by what one read returns.
func (r *Reader) fill() bool {
	r.buf, r.start = r.buf[:0], 0
	return r.extend()
}

// extend adds what one read returns to the buffer. It reports false when the
// stream has ended, for the reason in r.err.
func (r *Reader) extend() bool {
	for r.err == nil {
		n, err := r.r.Read(r.buf[len(r.buf):cap(r.buf)])
		r.buf = r.buf[:len(r.buf)+n]
		r.err = err
		if n > 0 {
			r.empty = 0
			return true
		}
		if r.empty++; r.err == nil && r.empty > maxEmptyReads {
			r.err = io.ErrNoProgress
		}
	}
	return false
}

// skipBOM waits for more only as long as the bytes so far may become a mark.
func (r *Reader) skipBOM() {
	const bom = "\xEF\xBB\xBF"
	for len(r.buf) < len(bom) && bytes.HasPrefix([]byte(bom), r.buf) {
		if !r.extend() {
			return
		}
	}
	if bytes.HasPrefix(r.buf, []byte(bom)) {
		r.start = len(bom)
	}
}

// message collects one message and, beyond the limit, only its ends.
type message struct {
	limit int
	size  int64
	b     []byte // all of it up to the limit, else the last part
	head  []byte // set once it is too long
}

func (m *message) add(chunk []byte) {
	if len(chunk) == 0 {
		return
	}
	m.size += int64(len(chunk))
	if m.head == nil && len(m.b)+len(chunk) > m.limit+1 {
		// One more than the limit may still be a CR before LF.
		m.head = append(append(make([]byte, 0, keep), m.b[:min(len(m.b), keep)]...),
			chunk[:min(len(chunk), keep-min(len(m.b), keep))]...)
		m.b = bytes.Clone(m.b[max(0, len(m.b)-keep):])
	}
	if m.head != nil && len(m.b)+len(chunk) > 2*keep {
		n := copy(m.b, m.b[max(0, len(m.b)-keep):])
		m.b = m.b[:n]
	}
	if need := len(m.b) + len(chunk); cap(m.b) <= need {
		// Exactly what a short line takes, then doubling up to the limit.
		m.b = slices.Grow(m.b, max(len(chunk)+1, min(len(m.b), m.limit+2-len(m.b))))
	}
	m.b = append(m.b, chunk...)
}

// finish returns the message. A CR at the end belongs to the end of a line.
func (m *message) finish(line bool) ([]byte, error) {
	if line && len(m.b) > 0 && m.b[len(m.b)-1] == '\r' {
		m.b = m.b[:len(m.b)-1]
		m.size--
		m.head = m.head[:min(int64(len(m.head)), m.size)]
	}
	if m.size > int64(m.limit) {
		if m.head == nil {
			m.head = m.b[:min(len(m.b), keep)]
		}
		return nil, &TooLongError{
			Size: m.size, Limit: m.limit,
			Head: bytes.Clone(m.head), Tail: bytes.Clone(m.b[max(0, len(m.b)-keep):]),
		}
	}
	return m.b, nil
}

// contentHeader reports whether b begins or belongs to a header block, and the
// length it announces, or -1.
func contentHeader(b []byte) (int64, bool) {
	if len(b) == 0 || b[0]|0x20 != 'c' || len(b) > 1024 {
		return -1, false
	}
	name, value, ok := bytes.Cut(b, []byte{':'})
	if !ok {
		return -1, false
	}
	switch name = bytes.TrimSpace(name); {
	case bytes.EqualFold(name, []byte("Content-Type")):
		return -1, true
	case bytes.EqualFold(name, []byte("Content-Length")):
		n, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 63)
		return int64(n), err == nil
	}
	return -1, false
}

// isHeader reports whether b has the form of a header line: a message that
// follows a stray header without a blank line must not be taken for one.
func isHeader(b []byte) bool {
	name, _, ok := bytes.Cut(b, []byte{':'})
	return ok && len(name) > 0 && !bytes.ContainsAny(name, " \t\"{}[](),;")
}

// blank reports whether b is only space.
func blank(b []byte) bool {
	for _, c := range b {
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return false
		}
	}
	return true
}
