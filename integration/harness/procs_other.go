//go:build !linux

package harness

import "testing"

// Marked finds nothing: only Linux shows the environment of processes, and
// the tests that count processes are skipped elsewhere.
func Marked(testing.TB, string) []Proc { return nil }

// Usage tells what a process holds.
type Usage struct {
	FDs   int
	RSSKB int
}

// UsageOf is known on Linux only.
func UsageOf(testing.TB, int) Usage { return Usage{} }
