package bridge

import (
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
	// reportInterval is the shortest time between two reports of one kind.
	reportInterval = 10 * time.Second
	// quoteLimit is how many bytes of a bad line a report quotes.
	quoteLimit = 120
)

// reporter tells the author of a server what is wrong with its output, each
// kind at once and then at most every reportInterval, with a count of the rest.
type reporter struct {
	mu    sync.Mutex
	w     io.Writer
	now   func() time.Time
	kinds map[string]*reported
}

type reported struct {
	last time.Time
	more int // since last
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
	r.say(kind, fmt.Sprintf("dropped %s on stdout: %s (%s)", kind, quote(line), hint))
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
		seen = &reported{}
		r.kinds[kind] = seen
	} else if r.now().Sub(seen.last) < reportInterval {
		seen.more++
		return
	}
	if seen.more > 0 {
		text += fmt.Sprintf(" [%d more like this before]", seen.more)
	}
	*seen = reported{last: r.now()}
	fmt.Fprintf(r.w, "holdfast-worker: %s\n", text)
}

func quote(line []byte) string {
	if len(line) > quoteLimit {
		return fmt.Sprintf("%q... (%d bytes)", line[:quoteLimit], len(line))
	}
	return fmt.Sprintf("%q", line)
}
