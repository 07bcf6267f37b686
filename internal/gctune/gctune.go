// Package gctune sets the garbage collector of holdfast's own processes for
// their work: many small, short-lived frames and now and then a huge one.
//
// A small heap collects too often at the default GOGC of 100. [Start] lets it
// grow to five times what lives, under a soft memory limit that keeps the
// resident size down, and [Tuner.Hold] raises that limit while a large frame
// is in flight, so that one big message does not make the collector run all
// the time. A user who has set GOGC or GOMEMLIMIT is left alone.
//
// Setting the collector concerns the whole process: start one Tuner, in main.
// A Tuner is safe for concurrent use, and a nil Tuner does nothing.
package gctune

import (
	"maps"
	"math/bits"
	"os"
	"runtime/debug"
	"slices"
	"sync"
)

const (
	percent = 400
	// baseLimit is the soft limit in bytes while no large frame is in flight.
	baseLimit = 64 << 20
	// large is the size from which a frame moves the limit. Setting the limit
	// stops the world for a moment, so small frames must not.
	large = 1 << 20
	// copies of a frame that live at once: gRPC's buffer, the payload, what
	// was decoded from it, and the answer.
	copies = 4
)

// Tuner keeps the soft memory limit in step with the frames in flight.
type Tuner struct {
	setLimit func(int64) int64

	mu    sync.Mutex
	held  map[int]int // number of frames in flight by size class
	limit int64
}

// Start tunes the collector and returns the Tuner, or nil if the environment
// holds GOGC or GOMEMLIMIT.
func Start() *Tuner {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	debug.SetGCPercent(percent)
	debug.SetMemoryLimit(baseLimit)
	return newTuner(debug.SetMemoryLimit)
}

func newTuner(setLimit func(int64) int64) *Tuner {
	return &Tuner{setLimit: setLimit, held: make(map[int]int), limit: baseLimit}
}

// Hold notes that a frame of size bytes is in flight, until [Tuner.Release] is
// called with the same size.
func (t *Tuner) Hold(size int) { t.add(size, 1) }

// Release ends a [Tuner.Hold].
func (t *Tuner) Release(size int) { t.add(size, -1) }

func (t *Tuner) add(size, n int) {
	if t == nil || size < large {
		return
	}
	class := bits.Len(uint(size - 1)) // sizes up to 1<<class
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held[class] += n; t.held[class] <= 0 {
		delete(t.held, class)
	}
	limit := int64(baseLimit)
	if len(t.held) > 0 {
		limit += copies << slices.Max(slices.Collect(maps.Keys(t.held)))
	}
	if limit != t.limit {
		t.limit = limit
		t.setLimit(limit)
	}
}
