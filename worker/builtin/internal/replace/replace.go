// Package replace puts a new content in the place of a file, all of it or
// nothing.
//
//	data, err := os.ReadFile(name)
//	was := replace.VersionOf(data)
//	...
//	err = replace.File(name, content, &was)
//
// The content is written beside the file, made durable and renamed, so who
// reads or crashes meanwhile has the old one. A symbolic link stays, and what
// it points to is replaced; mode and, where that is allowed, owner stay as
// well. A file that somebody else has changed is left as it is (ROOM-4).
//
// The functions may be called from any goroutine. Between the last look at the
// file and the renaming there is a moment in which a change of somebody else is
// not seen; no system offers better. Hard links are torn.
package replace

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrChanged is returned when the file is not the version that it should be.
var ErrChanged = errors.New("the file was changed by somebody else")

// Version names a content.
type Version [sha256.Size]byte

// VersionOf returns the version of a content.
func VersionOf(content []byte) Version { return sha256.Sum256(content) }

// Check reports whether the file could be replaced now: whether its folder
// takes a file.
func Check(name string) error {
	target, err := resolve(name)
	if err != nil {
		return err
	}
	file, err := beside(target)
	if err != nil {
		return err
	}
	file.Close()
	return os.Remove(file.Name())
}

// File replaces the content of a file, which is created if there is none. With
// was, it does so only if the file still is that version, else its error is
// [ErrChanged].
func File(name string, content []byte, was *Version) error {
	target, err := resolve(name)
	if err != nil {
		return err
	}
	file, err := beside(target)
	if err != nil {
		return err
	}
	if err = fill(file, content, target); err == nil {
		err = unchanged(target, was)
	}
	if err == nil {
		err = os.Rename(file.Name(), target)
	}
	if err != nil {
		os.Remove(file.Name())
		return fmt.Errorf("replace %s: %w", name, cause(err))
	}
	return syncDir(filepath.Dir(target))
}

// resolve follows links, also one to a file that does not exist.
func resolve(name string) (string, error) {
	for range 40 { // as many as Linux follows
		info, err := os.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return name, nil
		}
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			if !info.Mode().IsRegular() {
				return "", fmt.Errorf("replace %s: not a regular file", name)
			}
			return name, nil
		}
		link, err := os.Readlink(name)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(link) {
			link = filepath.Join(filepath.Dir(name), link)
		}
		name = link
	}
	return "", fmt.Errorf("replace %s: too many links", name)
}

// beside creates a file in the folder of another one, with the rights that a
// new file has.
func beside(target string) (*os.File, error) {
	name := filepath.Join(filepath.Dir(target), "."+filepath.Base(target)+"."+rand.Text()[:8]+".tmp")
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
}

func fill(file *os.File, content []byte, target string) error {
	err := like(file, target)
	if err == nil {
		_, err = file.Write(content)
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// like gives file the mode and owner of target, if that exists.
func like(file *os.File, target string) error {
	info, err := os.Stat(target)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	keepOwner(file, info) // before the mode, of which a new owner drops bits
	return file.Chmod(info.Mode().Perm())
}

func unchanged(target string, was *Version) error {
	if was == nil {
		return nil
	}
	content, err := os.ReadFile(target)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: it is gone", ErrChanged)
	}
	if err != nil {
		return err
	}
	if VersionOf(content) != *was {
		return ErrChanged
	}
	return nil
}

// cause leaves out the name of the file beside, which says nothing to anyone.
func cause(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		return link.Err
	}
	return err
}
