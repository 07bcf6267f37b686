//go:build unix

package editor

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"
)

// A file of a user that root edits stays that user's.
func TestOwnerStays(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: only root can give files away")
	}
	e := home(t)
	p := placeOf(t, e, "gemini", User)
	write(t, p.File, "{}")
	if err := os.Chown(p.File, 12345, 23456); err != nil {
		t.Fatal(err)
	}
	applied(t)(e.Install(p, ours, false))
	info, err := os.Stat(p.File)
	if err != nil {
		t.Fatal(err)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Uid != 12345 || stat.Gid != 23456 {
		t.Errorf("%+v", info.Sys())
	}
}

// A file that its owner has made read-only is left alone.
func TestReadOnly(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("skipped: root can write everything")
	}
	e := home(t)
	p := placeOf(t, e, "gemini", User)
	write(t, p.File, "{}")
	if err := os.Chmod(p.File, 0o400); err != nil {
		t.Fatal(err)
	}
	c, err := e.Install(p, ours, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(); !errors.Is(err, fs.ErrPermission) || read(t, p.File) != "{}" {
		t.Errorf("%v, %s", err, read(t, p.File))
	}
}
