package editor

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// contents is a file as it was read.
type contents struct {
	path   string // without symlinks
	exists bool
	text   []byte
	info   fs.FileInfo
}

// maxFile bounds what is read.
const maxFile = 64 << 20

// read reads the file; one that does not exist is empty.
func (p Place) read() (contents, error) {
	c := contents{path: p.File}
	_, err := os.Lstat(p.File)
	if errors.Is(err, fs.ErrNotExist) {
		return c, p.checkInside(existing(p.File))
	}
	if err == nil {
		if c.path, err = filepath.EvalSymlinks(p.File); err != nil {
			err = fmt.Errorf("%s is a symlink: %w", p.File, err)
		}
	}
	if err == nil {
		err = p.checkInside(c.path)
	}
	if err == nil {
		c.info, err = os.Stat(c.path)
	}
	if err == nil && (!c.info.Mode().IsRegular() || c.info.Size() > maxFile) {
		err = fmt.Errorf("%s: %w", p.File, ErrFile)
	}
	if err != nil {
		return c, err
	}
	c.exists = true
	c.text, err = os.ReadFile(c.path)
	return c, err
}

// same reports whether two places are the same keys of the same file.
func (p Place) same(o Place) bool {
	if !slices.Equal(p.keys, o.keys) {
		return false
	}
	a, err1 := os.Stat(p.File)
	b, err2 := os.Stat(o.File)
	return p.File == o.File || err1 == nil && err2 == nil && os.SameFile(a, b)
}

// checkInside refuses a path out of the project. A project may come from
// anywhere; its symlinks do not choose what is edited.
func (p Place) checkInside(path string) error {
	if p.root == "" {
		return nil
	}
	root, err := filepath.EvalSymlinks(p.root)
	if err != nil {
		return err
	}
	clean, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	if rel, err := filepath.Rel(root, clean); err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return fmt.Errorf("%s: %w: a symlink leads out of the project", p.File, ErrFile)
	}
	return nil
}

// existing returns the path, or what exists of it.
func existing(path string) string {
	for {
		_, err := os.Lstat(path)
		parent := filepath.Dir(path)
		if err == nil || parent == path {
			return path
		}
		path = parent
	}
}

// unchanged reports by [ErrChanged] that a file is not what was read.
func (p Place) unchanged(was contents) error {
	is, err := p.read()
	if err != nil {
		return err
	}
	if is.path != was.path || is.exists != was.exists || !bytes.Equal(is.text, was.text) {
		return fmt.Errorf("%s: %w", p.File, ErrChanged)
	}
	return nil
}

// replace writes the file at once, with the mode and the owner that it had.
// ready is asked at the last moment.
func (c contents) replace(text []byte, mode fs.FileMode, ready func() error) error {
	if c.exists {
		mode = c.info.Mode().Perm()
		// A file that its owner cannot write is not to be changed.
		f, err := os.OpenFile(c.path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		f.Close()
	}
	f, err := os.CreateTemp(filepath.Dir(c.path), "."+filepath.Base(c.path)+".holdfast-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // there is nothing to remove once it is renamed
	defer f.Close()
	if _, err := f.Write(text); err != nil {
		return err
	}
	if err := keepOwner(f, c.info); err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := ready(); err != nil {
		return err
	}
	return os.Rename(f.Name(), c.path)
}

// remove removes the file, if ready agrees.
func (c contents) remove(ready func() error) error {
	if err := ready(); err != nil {
		return err
	}
	return os.Remove(c.path)
}
