//go:build unix

package rebuild

import (
	"io/fs"
	"os"
	"syscall"
)

// isPrivate reports whether something belongs to this user and nobody else can
// use it.
func isPrivate(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid() && info.Mode().Perm()&0o077 == 0
}
