//go:build unix

package editor

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives a file the owner and group of another: root may edit the
// file of a user, who has to be able to read it then.
func keepOwner(f *os.File, as fs.FileInfo) error {
	if as == nil {
		return nil
	}
	want, ok := as.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if have, ok := info.Sys().(*syscall.Stat_t); ok && have.Uid == want.Uid && have.Gid == want.Gid {
		return nil
	}
	return f.Chown(int(want.Uid), int(want.Gid))
}

// checkPrivate refuses a directory that others could have prepared or could
// read.
func checkPrivate(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s: %w: others can use it; `chmod 700 %s`", path, ErrState, path)
	case ok && int(stat.Uid) != os.Getuid():
		return fmt.Errorf("%s: %w: it belongs to another user", path, ErrState)
	}
	return nil
}
