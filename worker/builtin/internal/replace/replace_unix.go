//go:build unix

package replace

import (
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives a file the owner of another, which only root may.
func keepOwner(file *os.File, info fs.FileInfo) {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && (int(stat.Uid) != os.Getuid() || int(stat.Gid) != os.Getgid()) {
		_ = file.Chown(int(stat.Uid), int(stat.Gid))
	}
}

// syncDir makes a renaming durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
