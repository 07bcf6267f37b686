//go:build unix

package config

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// checkPrivate refuses a file that others than this user or root can write.
func checkPrivate(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s can be written by others; `chmod go-w %s`", path, path)
	case ok && int(stat.Uid) != os.Getuid() && stat.Uid != 0:
		return fmt.Errorf("%s belongs to another user", path)
	}
	return nil
}
