package main

import (
	"io"
	"sync/atomic"
)

// cuttingWriter is a stdout that dies in the middle of a write once cut is
// set.
type cuttingWriter struct {
	w   io.Writer
	cut atomic.Bool
}

func (c *cuttingWriter) Write(p []byte) (int, error) {
	if c.cut.Load() {
		_, _ = c.w.Write(p[:len(p)/2])
		die()
	}
	return c.w.Write(p)
}

// Close does nothing: stdout ends with the process.
func (c *cuttingWriter) Close() error { return nil }
