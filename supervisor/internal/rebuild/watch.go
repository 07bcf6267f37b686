package rebuild

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Errors of NewWatcher and Run.
var (
	// ErrTooManyDirs is wrapped when there are more than maxDirs directories:
	// somebody has taken all of a disk for a project.
	ErrTooManyDirs = errors.New("too many directories to watch: narrow --watch, or give --project")
	// ErrNoWatches is wrapped when the system has no room for more.
	ErrNoWatches = errors.New("the system can watch no more directories: narrow --watch, or raise fs.inotify.max_user_watches")
)

// maxDirs bounds how many directories are watched.
const maxDirs = 10_000

// touchedSince is how fresh the time of a file must be so that a change of its
// metadata alone counts as one of its content.
const touchedSince = 2 * time.Second

// Watcher tells which of the watched files change. It watches directories and
// not files, so that a file may be written in place, replaced by rename, or
// deleted and made again; and the directories that lead to them, and the one that
// the project lies in, so that those may as well.
type Watcher struct {
	patterns patterns
	limit    int // of directories
	dirs     int // that were added
	fs       *fsnotify.Watcher
	changes  chan string
}

// NewWatcher watches paths and globs, relative to dir, from now on. A path has
// to exist; one that starts with ! leaves out what it matches. Files and
// directories in ignored are left out too.
func NewWatcher(dir string, watch, ignored []string) (*Watcher, error) {
	return newWatcher(dir, watch, ignored, maxDirs)
}

func newWatcher(dir string, watch, ignored []string, limit int) (*Watcher, error) {
	p, err := parsePatterns(dir, watch, ignored)
	if err != nil {
		return nil, err
	}
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch files: %w", err)
	}
	w := &Watcher{patterns: p, limit: limit, fs: fs, changes: make(chan string)}
	for _, in := range p.in {
		if err := errors.Join(w.addAbove(dir, in.base), w.addTree(in.base, nil)); err != nil {
			return nil, errors.Join(err, fs.Close())
		}
	}
	// So that it is seen if dir is moved away and back, or made anew. One that
	// cannot be read is done without.
	_ = w.add(filepath.Dir(dir))
	return w, nil
}

// Changes has the path of each change, the empty one where some were lost.
func (w *Watcher) Changes() <-chan string { return w.changes }

// Dirs returns how many directories are watched.
func (w *Watcher) Dirs() int { return len(w.fs.WatchList()) }

// Run passes changes on until ctx ends. Errors that leave some directory
// unwatched are given to report.
func (w *Watcher) Run(ctx context.Context, report func(error)) {
	defer func() { _ = w.fs.Close() }()
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-w.fs.Events:
			w.take(ctx, e, report)
		case err := <-w.fs.Errors:
			if errors.Is(err, fsnotify.ErrEventOverflow) {
				w.tell(ctx, "")
				continue
			}
			report(err)
		}
	}
}

func (w *Watcher) tell(ctx context.Context, path string) {
	select {
	case w.changes <- path:
	case <-ctx.Done():
	}
}

func (w *Watcher) take(ctx context.Context, e fsnotify.Event, report func(error)) {
	info, err := os.Stat(e.Name)
	if err == nil && info.IsDir() {
		if e.Has(fsnotify.Create) {
			// What is in it already was made before it was watched.
			if err := w.addNew(e.Name, func(path string) { w.tell(ctx, path) }); err != nil {
				report(err)
			}
		}
		return
	}
	if e.Op == fsnotify.Chmod && (err != nil || time.Since(info.ModTime()) > touchedSince) {
		return // readers and virus scanners cause these too
	}
	if w.patterns.match(e.Name) {
		w.tell(ctx, e.Name)
	}
}

// addNew watches a directory that has come to be, as far as something in it may
// match, or something below it does.
func (w *Watcher) addNew(dir string, found func(path string)) error {
	for _, in := range w.patterns.in {
		if _, ok := below(dir, in.base); ok && dir != in.base {
			if err := w.add(dir); err != nil { // it leads to a base
				return err
			}
			next := dir
			for next != in.base {
				rel, _ := filepath.Rel(next, in.base)
				next = filepath.Join(next, firstElement(rel))
				if err := w.add(next); err != nil {
					break // it comes later
				}
			}
			if err := w.addTree(in.base, found); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	return w.addTree(dir, found)
}

// addTree watches a directory and those below it in which something may match,
// and tells the files that do. Symbolic links to directories are not followed.
func (w *Watcher) addTree(dir string, found func(path string)) error {
	if !w.patterns.reaches(dir) {
		return nil
	}
	if err := w.add(dir); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil //nolint:nilerr // it is gone already
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case e.IsDir():
			// What we may not read, as the data of a database in a container, no
			// build of ours reads either.
			if err := w.addTree(path, found); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
				return err
			}
		case found != nil && w.patterns.match(path):
			found(path)
		}
	}
	return nil
}

// addAbove watches the directories from dir down to base, without base, so that
// it is seen if base is made anew. For a base elsewhere that is its parent.
func (w *Watcher) addAbove(dir, base string) error {
	if _, ok := below(dir, base); !ok {
		return w.add(filepath.Dir(base))
	}
	for base != dir {
		base = filepath.Dir(base)
		if err := w.add(base); err != nil {
			return err
		}
	}
	return nil
}

func (w *Watcher) add(dir string) error {
	if w.dirs++; w.dirs > w.limit {
		w.dirs = len(w.fs.WatchList()) // some may be gone, some were added twice
		if w.dirs >= w.limit {
			return fmt.Errorf("watch %s: %w", dir, ErrTooManyDirs)
		}
	}
	err := w.fs.Add(dir)
	switch {
	case runtime.GOOS == "linux" && errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("watch %s: %w", dir, ErrNoWatches)
	case err != nil:
		return fmt.Errorf("watch %s: %w", dir, err)
	}
	return nil
}

func firstElement(rel string) string {
	for i := range rel {
		if os.IsPathSeparator(rel[i]) {
			return rel[:i]
		}
	}
	return rel
}
