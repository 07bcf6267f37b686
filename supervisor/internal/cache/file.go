package cache

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/holdfast-mcp/holdfast/internal/logging"
)

const (
	maxFile  = 4 << 20
	maxFiles = 64 // with answers or traits

	keyName      = "key"
	keySize      = 32
	entrySuffix  = ".entry"
	traitsSuffix = ".traits"
	tempPrefix   = "temp-"
	// tempAge is when whoever wrote a temporary file has ended in between.
	tempAge = time.Hour
)

// openPrivate opens a directory that nobody else can use, and makes it if there
// is none. What is above it is as the user wants it.
func openPrivate(dir string) (*os.Root, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, err
	}
	parent, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	name := filepath.Base(dir)
	if err := parent.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	info, err := parent.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, ErrNotRegular
	}
	if err := checkPrivate(info); err != nil {
		return nil, err
	}
	root, err := parent.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if opened, err := root.Stat("."); err != nil || !os.SameFile(info, opened) {
		root.Close()
		return nil, ErrNotRegular // it has become a link in between
	}
	return root, nil
}

// ignored tells why a file is not used.
func (c *Cache) ignored(name string, why error) {
	c.log.Warn("cache file is ignored", zap.String(logging.FieldPath, filepath.Join(c.root.Name(), name)), zap.Error(why))
}

// read returns the content of a file that nobody else can have written.
func (c *Cache) read(name string) ([]byte, error) {
	info, err := c.root.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, ErrNotRegular
	}
	if err := checkPrivate(info); err != nil {
		return nil, err
	}
	f, err := c.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// Another process may have replaced the file since, which is as good. A link
	// that came in between leads to another file of this directory, which does
	// not have the checksum of this one.
	if opened, err := f.Stat(); err != nil || !opened.Mode().IsRegular() || checkPrivate(opened) != nil {
		return nil, ErrNotRegular
	}
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if len(content) > maxFile {
		return nil, ErrTooLarge
	}
	return content, err
}

// write replaces a file in one step. It needs no name outside the directory that
// is open, works on all systems, and does not wait for the disk.
func (c *Cache) write(name string, content []byte) error {
	temp, err := c.writeTemp(content)
	if err != nil {
		return err
	}
	if err := c.root.Rename(temp, name); err != nil {
		return errors.Join(err, c.root.Remove(temp))
	}
	return nil
}

// writeTemp writes a file with a name of its own, which it returns.
func (c *Cache) writeTemp(content []byte) (string, error) {
	name := tempPrefix + rand.Text()
	f, err := c.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, c.root.Remove(name))
	}
	return name, nil
}

// evict removes the files that were not used for longest, if there are too many,
// and what writers that were killed left behind. The file to keep is the one
// that has just been written.
func (c *Cache) evict(keep string) error {
	names, err := fs.ReadDir(c.root.FS(), ".")
	if err != nil {
		return err
	}
	var kept []fs.FileInfo
	var failed error
	remove := func(name string) {
		if err := c.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, err)
		}
	}
	for _, entry := range names {
		info, err := c.root.Lstat(entry.Name())
		switch name := entry.Name(); {
		case err != nil, info.IsDir(): // another process was faster; not ours
		case strings.HasPrefix(name, tempPrefix):
			if time.Since(info.ModTime()) > tempAge {
				remove(name)
			}
		case name != keep && (strings.HasSuffix(name, entrySuffix) || strings.HasSuffix(name, traitsSuffix)):
			kept = append(kept, info)
		}
	}
	slices.SortFunc(kept, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	for _, info := range kept[:max(0, len(kept)+1-maxFiles)] {
		remove(info.Name())
	}
	return failed
}

// userKey returns the key of the directory. The first process to need it makes
// it: a link, unlike a rename, fails where there is one, and the key is read
// from where all others read it.
func (c *Cache) userKey() ([]byte, error) {
	key, err := c.readKey()
	if err == nil {
		return key, nil
	}
	made := make([]byte, keySize)
	rand.Read(made) // never fails
	if errors.Is(err, fs.ErrNotExist) {
		err = c.writeFirst(keyName, made)
	} else {
		// Processes that do this at the same time may go on with different keys,
		// and find nothing of each other until their next start.
		c.ignored(keyName, err)
		err = c.write(keyName, made)
	}
	if err != nil {
		return nil, err
	}
	return c.readKey()
}

// writeFirst writes a file in one step, unless there is one.
func (c *Cache) writeFirst(name string, content []byte) error {
	temp, err := c.writeTemp(content)
	if err != nil {
		return err
	}
	err = c.root.Link(temp, name)
	if errors.Is(err, fs.ErrExist) {
		err = nil // another process was faster
	}
	return errors.Join(err, c.root.Remove(temp))
}

func (c *Cache) readKey() ([]byte, error) {
	key, err := c.read(keyName)
	if err == nil && len(key) != keySize {
		return nil, fmt.Errorf("%w: %d bytes", ErrDamaged, len(key))
	}
	return key, err
}
