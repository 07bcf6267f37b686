package integration

import "testing"

// inodeOf is not needed: its tests are skipped here.
func inodeOf(t *testing.T, _ string) uint64 {
	t.Helper()
	t.Skip("files have no inodes here")
	return 0
}
