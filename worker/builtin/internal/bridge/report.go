package bridge

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
)

// Kinds of what a server should not have written.
const (
	junkText     = "text"
	junkGlued    = "text before a message"
	junkScalar   = "a bare value"
	junkObject   = "an object that is no MCP message"
	junkEncoding = "bytes that are not UTF-8"
	junkPartial  = "an unfinished line"
	junkTooLong  = "a line beyond the limit"
	junkAnswer   = "an answer to no request"
)

const (
	// reportInterval and reportBurst: so many reports of one kind in so much
	// time, since an object printed for people has several lines.
	reportInterval = 10 * time.Second
	reportBurst    = 10
	// quoteLimit is how many bytes of a bad line a report quotes.
	quoteLimit = 120
)

// reporter tells the author of a server what is wrong with its output: the
// first reportBurst of each kind in a reportInterval, and a count of the rest
// before the next.
type reporter struct {
	mu    sync.Mutex
	w     io.Writer
	now   func() time.Time
	kinds map[string]*reported
}

type reported struct {
	began time.Time // of the interval
	said  int       // in it
	more  int       // left out since
}

func newReporter(w io.Writer) *reporter {
	return &reporter{w: w, now: time.Now, kinds: make(map[string]*reported)}
}

// junk reports a line on stdout that was kept from the client.
func (r *reporter) junk(kind string, line []byte) {
	hint := "stdout is for MCP messages alone, print to stderr instead"
	switch kind {
	case junkPartial:
		hint = "the server ended in the middle of a message"
	case junkTooLong:
		hint = "raise the limit with --max-frame of holdfast run"
	case junkAnswer:
		hint = "it was answered before, or cancelled, or never asked"
	}
	r.say(kind, fmt.Sprintf("dropped %s on stdout (%s): %s", kind, hint, quote(line)))
}

// problem reports anything else; kind limits the rate.
func (r *reporter) problem(kind string, err error) {
	r.say(kind, fmt.Sprintf("%s: %v", kind, err))
}

func (r *reporter) say(kind, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen, ok := r.kinds[kind]
	if !ok {
		seen = &reported{began: r.now()}
		r.kinds[kind] = seen
	}
	if r.now().Sub(seen.began) >= reportInterval {
		seen.began, seen.said = r.now(), 0
	}
	if seen.said == reportBurst {
		seen.more++
		return
	}
	seen.said++
	if seen.more > 0 {
		text = fmt.Sprintf("[%d more like this before] ", seen.more) + text
		seen.more = 0
	}
	fmt.Fprintf(r.w, "holdfast-worker: %s\n", text)
}

// quote returns the beginning of a line as it is: the supervisor, which reads
// our stderr, makes control characters visible and masks what is secret, for
// which it must not be escaped before. What was cut ends in "…", so that the
// part of a secret before the cut is masked as well.
func quote(line []byte) string {
	text := string(bytes.ReplaceAll(line[:min(len(line), quoteLimit)], []byte{'\n'}, []byte{' '}))
	if len(line) > quoteLimit {
		return fmt.Sprintf("%d bytes: %s…", len(line), text)
	}
	return text
}
