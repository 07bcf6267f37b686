// Package rundir gives each running supervisor a private directory for its
// sockets, finds those of others, and removes what killed ones left behind
// (SEC-4).
//
//	<place>/holdfast-<random>/       mode 0700
//	    lock                         locked as long as the owner lives
//	    pid                          of the owner
//	    control                      control socket
//	    <generation>/                sockets of go-plugin
//
// The place is the first that is usable of the temporary directory,
// XDG_RUNTIME_DIR, the user's cache directory and /tmp. Others look in all of
// them, since their own temporary directory may be another one.
//
// A directory whose lock can be taken has no owner. The package leaves no
// sockets behind and talks to none.
package rundir

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

const (
	prefix   = "holdfast-"
	lockName = "lock"
	pidName  = "pid"
	// staleAge protects a directory whose owner has not locked it yet.
	staleAge = time.Minute
)

// ErrTooLong is returned for a place whose sockets would have paths that are
// too long for the system.
var ErrTooLong = errors.New("its path is too long for sockets")

// Dir is the directory of one running supervisor.
type Dir struct {
	// Path is absolute.
	Path string
	// PassedOver says of each place that came first why it is not used.
	PassedOver []error
	lock       *flock.Flock
}

// New makes a directory, and removes stale ones of this user.
func New() (*Dir, error) {
	sweep()
	var passed []error
	for _, place := range places() {
		d, err := newIn(place)
		if err == nil {
			d.PassedOver = passed
			return d, nil
		}
		passed = append(passed, fmt.Errorf("%s: %w", place, err))
	}
	err := passed[0]
	for _, next := range passed[1:] {
		err = fmt.Errorf("%w; %w", err, next)
	}
	return nil, fmt.Errorf("no place for sockets: %w", err)
}

func newIn(place string) (*Dir, error) {
	if len(place) > maxPlace {
		return nil, ErrTooLong
	}
	path, err := os.MkdirTemp(place, prefix) // with mode 0700
	if err != nil {
		return nil, err
	}
	d := &Dir{Path: path, lock: flock.New(filepath.Join(path, lockName))}
	if err := d.own(); err != nil {
		d.Remove()
		return nil, err
	}
	return d, nil
}

// own takes the lock and finds out whether sockets can be made, which not all
// file systems have.
func (d *Dir) own() error {
	// Somebody who looks for an owner has the lock for an instant.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := d.lock.TryLockContext(ctx, time.Millisecond); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(d.Path, pidName), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return err
	}
	if runtime.GOOS == "windows" {
		return nil // where go-plugin uses TCP, and a control socket can be done without
	}
	probe, err := net.Listen("unix", filepath.Join(d.Path, "probe"))
	if err != nil {
		return err
	}
	return probe.Close()
}

// Remove removes the directory.
func (d *Dir) Remove() {
	os.RemoveAll(d.Path)
	d.lock.Close()
}

// Control returns the path of the control socket in a directory.
func Control(dir string) string { return filepath.Join(dir, "control") }

// Owner returns the process id of the owner of a directory, 0 if it has none
// that lives.
func Owner(dir string) int {
	// Without a lock file the directory is not one of ours.
	lock := flock.New(filepath.Join(dir, lockName), flock.SetFlag(os.O_RDWR))
	defer lock.Close()
	if ok, err := lock.TryLock(); ok || err != nil {
		return 0
	}
	text, err := os.ReadFile(filepath.Join(dir, pidName))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		return 0
	}
	return pid
}

// All returns the directories of this user's supervisors, those of dead ones
// perhaps included.
func All() []string {
	var dirs []string
	for _, place := range places() {
		entries, err := os.ReadDir(place)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), prefix) || !e.IsDir() {
				continue
			}
			if info, err := e.Info(); err == nil && ownedByUs(info) {
				dirs = append(dirs, filepath.Join(place, e.Name()))
			}
		}
	}
	return dirs
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
