// Package rundir gives each running supervisor a private directory for its
// sockets, finds those of others, and removes what killed ones left behind
// (SEC-4).
//
//	<temp>/holdfast-<random>/        mode 0700
//	    lock                         locked as long as the owner lives
//	    control                      control socket
//	    <generation>/                sockets of go-plugin
//
// A directory whose lock can be taken has no owner. The package makes no
// sockets itself.
package rundir

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

const (
	prefix   = "holdfast-"
	lockName = "lock"
	// maxBase keeps socket paths under the 100 bytes or so that systems allow:
	// go-plugin adds two names of its own.
	maxBase = 48
	// staleAge protects a directory whose owner has not locked it yet.
	staleAge = time.Minute
)

// Dir is the directory of one running supervisor.
type Dir struct {
	// Path is absolute.
	Path string
	lock *flock.Flock
}

// New makes a directory, and removes stale ones of this user.
func New() (*Dir, error) {
	sweep()
	path, err := os.MkdirTemp(base(), prefix) // with mode 0700
	if err != nil {
		return nil, fmt.Errorf("make a directory for sockets: %w", err)
	}
	d := &Dir{path, flock.New(filepath.Join(path, lockName))}
	if _, err := d.lock.TryLock(); err != nil {
		os.RemoveAll(path)
		return nil, fmt.Errorf("lock the directory for sockets: %w", err)
	}
	return d, nil
}

// Remove removes the directory.
func (d *Dir) Remove() {
	os.RemoveAll(d.Path)
	d.lock.Close()
}

// Control returns the path of the control socket in a directory.
func Control(dir string) string { return filepath.Join(dir, "control") }

// All returns the directories of this user's supervisors, those of dead ones
// perhaps included.
func All() []string {
	entries, err := os.ReadDir(base())
	if err != nil {
		return nil
	}
	var dirs []string
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && e.IsDir() && strings.HasPrefix(e.Name(), prefix) && ownedByUs(info) {
			dirs = append(dirs, filepath.Join(base(), e.Name()))
		}
	}
	return dirs
}

func base() string {
	// Absolute, since workers have a working directory of their own.
	if dir, err := filepath.Abs(os.TempDir()); err == nil && len(dir) <= maxBase {
		return dir
	}
	return "/tmp"
}

func sweep() {
	for _, path := range All() {
		info, err := os.Lstat(path)
		if err != nil || time.Since(info.ModTime()) < staleAge {
			continue
		}
		// Without a lock file the directory is not one of ours.
		lock := flock.New(filepath.Join(path, lockName), flock.SetFlag(os.O_RDWR))
		if ok, err := lock.TryLock(); ok && err == nil {
			os.RemoveAll(path)
			lock.Close()
		}
	}
}
