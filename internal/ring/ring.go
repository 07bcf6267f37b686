// Package ring keeps the last lines that a child process wrote to its standard
// error, in a form that may be shown to anyone: bounded, sanitised, and with
// the values of the configured environment masked (SUP-13, SEC-3).
//
//	r := ring.New(ring.Options{Mask: values, Sink: logLine})
//	cmd.Stderr = r
//	...
//	r.Close()
//	show(r.Tail())
//
// Text is treated here once and for all; who gets it from [Ring.Tail] or the
// sink has nothing to add. A Ring is safe for concurrent use and starts no
// goroutines. It does not read from the child and does not write files.
package ring

import (
	"bytes"
	"fmt"
	"sync"
)

// Options are the settings of a [Ring]. Zero values mean the defaults.
type Options struct {
	// Lines is how many lines are kept, 20 by default.
	Lines int
	// LineBytes is how many bytes of a line are kept, 400 by default.
	LineBytes int
	// Mask holds values to be shown as ***. Those shorter than 8 characters
	// are left out, since they are no secrets but would mangle the text.
	Mask []string
	// Sink, if set, gets each line when it is finished, in order, at most
	// SinkBytes of it (8192 by default). It must neither block nor call the
	// Ring.
	Sink      func(line string)
	SinkBytes int
}

// Ring is an io.Writer that keeps the last lines written to it.
//
// Blank lines are left out. Equal lines in a row are kept once and followed by
// a line that says how often they were repeated. A line cut short ends in "…",
// and one that came with such an end counts as cut short by who wrote it: what
// stands there may be the beginning of a masked value.
type Ring struct {
	lines, lineBytes, sinkBytes int
	masks                       masks
	sink                        func(string)

	mu      sync.Mutex
	tail    []string // at most lines of them
	partial []byte   // the line being written, as far as it is of interest
	cut     bool     // it was longer
	last    string   // the last finished line, as the sink got it
	repeats int      // how often it was repeated
}

// New returns a Ring.
func New(o Options) *Ring {
	r := &Ring{lines: o.Lines, lineBytes: o.LineBytes, sinkBytes: o.SinkBytes, sink: o.Sink, masks: newMasks(o.Mask)}
	if r.lines <= 0 {
		r.lines = 20
	}
	if r.lineBytes <= 0 {
		r.lineBytes = 400
	}
	if r.sinkBytes <= 0 {
		r.sinkBytes = 8192
	}
	return r
}

// Write takes any part of the text. It never fails.
func (r *Ring) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for rest := p; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte{'\n'})
		r.appendLocked(line)
		if ended {
			r.finishLocked()
		}
		rest = after
	}
	return len(p), nil
}

// Close finishes a last line without LF and a count of repeats. Text written
// later is taken all the same. It never fails.
func (r *Ring) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.partial) > 0 {
		r.finishLocked()
	}
	r.foldLocked()
	r.last = ""
	return nil
}

// Tail returns the last lines, oldest first, including an unfinished one.
func (r *Ring) Tail() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := append(make([]string, 0, r.lines+2), r.tail...)
	if r.repeats > 0 {
		lines = append(lines, repeated(r.repeats))
	}
	if text := r.textLocked(false); text != "" {
		lines = append(lines, shorten(text, r.lineBytes))
	}
	return lines[max(0, len(lines)-r.lines):]
}

// appendLocked keeps enough of a line that a masked value is seen as a whole
// if it begins within the bytes shown.
func (r *Ring) appendLocked(b []byte) {
	room := max(r.sinkBytes, r.lineBytes) + r.masks.longest - len(r.partial)
	if len(b) > room {
		b = b[:room]
		r.cut = true
	}
	r.partial = append(r.partial, b...)
}

// textLocked returns the line being written as it may be shown.
func (r *Ring) textLocked(finished bool) string {
	raw := bytes.TrimSuffix(r.partial, []byte{'\r'})
	if len(bytes.TrimSpace(raw)) == 0 {
		return ""
	}
	raw, cut := bytes.CutSuffix(raw, []byte(ellipsis))
	cut = cut || r.cut
	masked := r.masks.apply(raw, cut || !finished)
	text := sanitise(masked, cut)
	if cut {
		text += ellipsis
	}
	return text
}

func (r *Ring) finishLocked() {
	text := r.textLocked(true)
	r.partial, r.cut = r.partial[:0], false
	switch text {
	case "":
	case r.last:
		r.repeats++
	default:
		r.foldLocked()
		r.last = text
		r.emitLocked(text)
	}
}

// foldLocked puts out how often the last line was repeated.
func (r *Ring) foldLocked() {
	if r.repeats > 0 {
		r.emitLocked(repeated(r.repeats))
		r.repeats = 0
	}
}

func (r *Ring) emitLocked(text string) {
	if len(r.tail) == r.lines {
		r.tail = append(r.tail[:0], r.tail[1:]...)
	}
	r.tail = append(r.tail, shorten(text, r.lineBytes))
	if r.sink != nil {
		r.sink(shorten(text, r.sinkBytes))
	}
}

func repeated(n int) string {
	if n == 1 {
		return "previous line repeated once"
	}
	return fmt.Sprintf("previous line repeated %d times", n)
}
