//go:build unix

package jupyter

import (
	"os"
	"syscall"
)

// owned reports whether a folder is this user's.
func owned(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}
