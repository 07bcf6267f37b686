package logging

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// file is a log file of bounded size. Several processes may write to the same
// one: lines are appended whole, and who finds that another has renamed it
// opens the new one.
type file struct {
	path     string
	maxBytes int64
	keep     int

	mu     sync.Mutex
	f      *os.File // nil if it could not be opened again
	closed bool
}

func openFile(path string, maxBytes int64, keep int) (*file, error) {
	path, err := filepath.Abs(path) // whatever the working directory will be
	if err != nil {
		return nil, fmt.Errorf("log file: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("log file: %w", err)
	}
	l := &file{path: path, maxBytes: maxBytes, keep: keep}
	if err := l.openLocked(); err != nil {
		return nil, fmt.Errorf("log file: %w", err)
	}
	return l, nil
}

// Write appends one line, to a new file if the present one would grow beyond
// its limit.
func (l *file) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, fs.ErrClosed
	}
	if l.f == nil {
		if err := l.openLocked(); err != nil {
			return 0, err
		}
	}
	// The size is asked for each time, since others may write as well.
	if info, err := l.f.Stat(); err == nil && info.Size() > 0 && info.Size()+int64(len(line)) > l.maxBytes {
		if err := l.rotateLocked(info); err != nil {
			return 0, err
		}
	}
	return l.f.Write(line)
}

// Sync does nothing: a log need not survive the end of the machine.
func (l *file) Sync() error { return nil }

func (l *file) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.f == nil {
		return nil
	}
	err := l.f.Close()
	l.f = nil
	return err
}

// rotateLocked renames the files and opens a new one. If that fails, the
// present file is emptied rather than let grow.
func (l *file) rotateLocked(open fs.FileInfo) error {
	l.f.Close() // Windows renames no open file
	l.f = nil
	if now, err := os.Stat(l.path); err == nil && os.SameFile(now, open) {
		for n := l.keep - 1; n > 1; n-- {
			_ = os.Rename(l.numbered(n-1), l.numbered(n))
		}
		if l.keep > 1 {
			err = os.Rename(l.path, l.numbered(1))
		} else {
			err = os.Remove(l.path)
		}
		if err != nil {
			_ = os.Truncate(l.path, 0)
		}
	}
	return l.openLocked()
}

func (l *file) openLocked() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	l.f = f
	return nil
}

func (l *file) numbered(n int) string { return l.path + "." + strconv.Itoa(n) }
