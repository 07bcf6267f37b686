package rebuild

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/gofrs/flock"
)

// keptCopies is how many copies of the executable are kept: that of the worker
// that serves, and that of the one which is about to.
const keptCopies = 2

// shadowPrefix starts the names of directories with copies.
const shadowPrefix = "shadow-"

// Shadows keeps copies of a native executable, which workers are started from.
// So a build can write over the file, where the system lets nobody write to one
// that runs, and a file that is written in place never becomes the one that
// runs (cases C12 and C13). Anything else is started from where it is.
//
//	<base>/shadow-<random>/      0700
//	    lock                     locked as long as the owner lives
//	    <n>/<name>               0700, made anew
type Shadows struct {
	project string
	base    string // empty: no copies

	mu   sync.Mutex
	dir  string // with the copies, once there is one
	own  *flock.Flock
	n    int
	kept []string
	of   string      // file that the newest is a copy of
	as   os.FileInfo // as it was then
	run  string      // the newest
}

// NewShadows returns the copies of executables that lie in a project; in mode
// "auto" below the user's cache, in mode "off" there are none, any other mode
// is the directory for them.
func NewShadows(mode, project string) (*Shadows, error) {
	s := &Shadows{project: resolved(project)}
	var err error
	switch mode {
	case "off":
	case "auto":
		s.base, err = privateDir("shadows")
	default:
		if s.base, err = filepath.Abs(mode); err == nil {
			err = os.MkdirAll(s.base, 0o700)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("--shadow %s: %w", mode, err)
	}
	return s, nil
}

// Base returns the directory below which copies are kept, empty if none are.
func (s *Shadows) Base() string { return s.base }

// Refresh waits until the executable is whole, and copies it if it is to be
// started from a copy and has changed since the last one.
func (s *Shadows) Refresh(ctx context.Context, path string) error {
	k, info, err := awaitWhole(ctx, path)
	if err != nil || !s.covers(path) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case k != native && s.of == path: // no executable any more, but what is started from where it is
		s.of = ""
		return nil
	case k != native, s.hasLocked(path) && sameFile(s.as, info):
		return nil
	}
	return s.copyLocked(path, info)
}

// Stand returns what to start in place of the executable, and the executable as
// it was when that was made. If the file has changed since, and fresh is set,
// that is made anew if it can be.
func (s *Shadows) Stand(ctx context.Context, path string, fresh bool) (run string, as os.FileInfo, err error) {
	if !s.covers(path) {
		as, err = os.Stat(path)
		return path, as, err
	}
	if fresh || !s.has(path) {
		err = s.Refresh(ctx, path)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hasLocked(path) {
		return s.run, s.as, nil // perhaps of an older file, if the newer one is no good
	}
	if err == nil {
		as, err = os.Stat(path)
	}
	return path, as, err
}

func (s *Shadows) has(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hasLocked(path)
}

// hasLocked reports whether there is a copy of the file. Who cleans caches may
// have removed it.
func (s *Shadows) hasLocked(path string) bool {
	if s.of != path {
		return false
	}
	_, err := os.Lstat(s.run)
	return err == nil
}

// covers reports whether the executable is one that a build of the project
// makes: it lies in it, and not where packages of others are installed.
func (s *Shadows) covers(path string) bool {
	if s.base == "" {
		return false
	}
	rel, ok := below(s.project, resolved(path))
	return ok && !slices.ContainsFunc(strings.Split(rel, "/"), func(d string) bool { return slices.Contains(ignoredDirs, d) })
}

// copyLocked makes the newest copy.
func (s *Shadows) copyLocked(path string, info os.FileInfo) error {
	if err := s.makeDirLocked(); err != nil {
		return fmt.Errorf("keep a copy of %s: %w", path, err)
	}
	s.n++
	dir := filepath.Join(s.dir, strconv.Itoa(s.n))
	to := filepath.Join(dir, filepath.Base(path))
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		err = copyFile(path, to)
	}
	if err == nil {
		var now os.FileInfo
		if now, err = os.Stat(path); err == nil && !sameFile(now, info) {
			err = ErrIncomplete // it is being written again; that is a change of its own
		}
	}
	if err != nil {
		os.RemoveAll(dir)
		return fmt.Errorf("keep a copy of %s: %w", path, err)
	}
	s.of, s.as, s.run = path, info, to
	if s.kept = append(s.kept, dir); len(s.kept) > keptCopies {
		os.RemoveAll(s.kept[0]) // what runs from it runs on
		s.kept = s.kept[1:]
	}
	return nil
}

// copyFile copies an executable to a path where nothing is.
func copyFile(from, to string) error {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	// A child that is forked now would have the file open for writing until
	// its exec, and nobody could execute it.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	w, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Close())
}

// makeDirLocked makes the directory of this process, and removes those of dead
// ones.
func (s *Shadows) makeDirLocked() error {
	if s.dir != "" {
		if _, err := os.Lstat(filepath.Join(s.dir, "lock")); err == nil {
			return nil
		}
		s.own.Close() // of what is gone
		s.dir = ""
	}
	if err := os.MkdirAll(s.base, 0o700); err != nil {
		return err
	}
	sweepShadows(s.base)
	dir, err := os.MkdirTemp(s.base, shadowPrefix) // with mode 0700
	if err != nil {
		return err
	}
	own := flock.New(filepath.Join(dir, "lock"), flock.SetPermissions(0o600))
	if _, err := own.TryLock(); err != nil {
		os.RemoveAll(dir)
		return err
	}
	s.dir, s.own = dir, own
	return nil
}

// Close removes the copies.
func (s *Shadows) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir != "" {
		os.RemoveAll(s.dir)
		s.own.Close()
	}
}

// sweepShadows removes the directories whose owner is dead.
func sweepShadows(base string) {
	entries, _ := os.ReadDir(base)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), shadowPrefix) {
			continue
		}
		dir := filepath.Join(base, e.Name())
		// Without a lock file the directory is not one of ours, or too young.
		lock := flock.New(filepath.Join(dir, "lock"), flock.SetFlag(os.O_RDWR))
		if ok, err := lock.TryLock(); ok && err == nil {
			os.RemoveAll(dir)
			lock.Close()
		}
	}
}

// resolved returns path without symbolic links, as far as that is possible.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}
