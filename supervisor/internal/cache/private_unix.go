//go:build unix

package cache

import (
	"io/fs"
	"os"
	"syscall"
)

// checkPrivate refuses what belongs to another user, and what others can use.
func checkPrivate(info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) != os.Getuid() || info.Mode().Perm()&0o077 != 0 {
		return ErrNotPrivate
	}
	return nil
}
