package logging

import (
	"bytes"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// Defaults of [NewRecent].
const (
	DefaultRecentLines = 2000
	DefaultRecentBytes = 1 << 20
)

// recentLineBytes bounds one line: a longer one is told of, and not kept.
const recentLineBytes = 64 << 10

// Recent keeps the last lines of a log for those who ask later. It is bounded,
// and never waits for a reader: one that is slow misses lines, and can tell how
// many. It is safe for concurrent use and starts no goroutines.
type Recent struct {
	maxLines, maxBytes int

	mu    sync.Mutex
	lines [][]byte
	bytes int
	next  uint64        // number of the line after the last one
	news  chan struct{} // closed with the next line; nil if nobody waits
}

// NewRecent returns one that keeps so many lines and bytes; 0 means the default.
func NewRecent(lines, bytes int) *Recent {
	return &Recent{maxLines: orDefault(lines, DefaultRecentLines), maxBytes: orDefault(bytes, DefaultRecentBytes)}
}

// Write takes one line, a JSON object.
func (r *Recent) Write(line []byte) (int, error) {
	kept := bytes.Clone(bytes.TrimSuffix(line, []byte{'\n'}))
	if len(kept) > min(recentLineBytes, r.maxBytes) {
		kept = fmt.Appendf(nil, `{"level":"warn","time":%s,"msg":"a line of %d bytes is left out here"}`,
			strconv.Quote(time.Now().Format(time.RFC3339Nano)), len(kept))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, kept)
	r.bytes += len(kept)
	r.next++
	for len(r.lines) > r.maxLines || r.bytes > r.maxBytes && len(r.lines) > 1 {
		r.bytes -= len(r.lines[0])
		r.lines[0] = nil
		r.lines = r.lines[1:]
	}
	if r.news != nil {
		close(r.news)
		r.news = nil
	}
	return len(line), nil
}

// Sync does nothing: lines are in memory alone.
func (r *Recent) Sync() error { return nil }

// Since returns the lines that are kept from number n on, the first line ever
// being number 0, the number of the one after them, and a channel that is closed
// when that is there. missed lines, from n on, are no longer kept.
func (r *Recent) Since(n uint64) (lines [][]byte, next, missed uint64, more <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.news == nil {
		r.news = make(chan struct{})
	}
	first := r.next - uint64(len(r.lines))
	if n < first {
		n, missed = first, first-n
	}
	n = min(n, r.next)
	lines = append(lines, r.lines[n-first:]...)
	return lines, r.next, missed, r.news
}
