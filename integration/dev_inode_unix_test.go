//go:build unix

package integration

import (
	"os"
	"syscall"
	"testing"
)

// inodeOf returns what tells a file from another that took its place.
func inodeOf(t *testing.T, path string) uint64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return uint64(info.Sys().(*syscall.Stat_t).Ino) //nolint:unconvert // its type varies between systems
}
