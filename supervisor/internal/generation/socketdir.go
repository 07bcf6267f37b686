package generation

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

const (
	socketDirPrefix = "holdfast-"
	socketDirLock   = "lock"
	// maxSocketBase keeps socket paths under the 100 bytes or so that systems
	// allow: go-plugin adds two names of its own (SEC-4).
	maxSocketBase = 48
	// staleAge protects a directory whose owner has not locked it yet.
	staleAge = time.Minute
)

// SocketDir is a private directory for the sockets of one supervisor. A lock
// in it is held as long as its owner lives, so that what a killed one leaves
// behind is known as stale.
type SocketDir struct {
	Path string
	lock *flock.Flock
}

// NewSocketDir makes a SocketDir, and removes stale ones of this user.
func NewSocketDir() (*SocketDir, error) {
	base := os.TempDir()
	if len(base) > maxSocketBase {
		base = "/tmp"
	}
	sweepSocketDirs(base)
	path, err := os.MkdirTemp(base, socketDirPrefix) // with mode 0700
	if err != nil {
		return nil, fmt.Errorf("make a directory for sockets: %w", err)
	}
	d := &SocketDir{path, flock.New(filepath.Join(path, socketDirLock))}
	if _, err := d.lock.TryLock(); err != nil {
		os.RemoveAll(path)
		return nil, fmt.Errorf("lock the directory for sockets: %w", err)
	}
	return d, nil
}

// Remove removes the directory.
func (d *SocketDir) Remove() {
	os.RemoveAll(d.Path)
	d.lock.Close()
}

func sweepSocketDirs(base string) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.IsDir() || !strings.HasPrefix(e.Name(), socketDirPrefix) ||
			time.Since(info.ModTime()) < staleAge || !ownedByUs(info) {
			continue
		}
		path := filepath.Join(base, e.Name())
		lock := flock.New(filepath.Join(path, socketDirLock), flock.SetFlag(os.O_RDWR))
		if ok, err := lock.TryLock(); ok && err == nil {
			os.RemoveAll(path)
			lock.Close()
		}
	}
}
