package editor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// SEC-4: what a file was is kept where only its user can read it.
func TestSEC4State(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("skipped: Windows has no such modes")
	}
	e := home(t)
	p := placeOf(t, e, "cursor", User)
	write(t, p.File, "{}")
	c := applied(t)(e.Install(p, ours, false))
	for path, want := range map[string]fs.FileMode{e.Host.state(): 0o700, c.Backup: 0o600, strings.TrimSuffix(c.Backup, ".before") + ".json": 0o600} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if read(t, c.Backup) != "{}" {
		t.Errorf("backup: %s", read(t, c.Backup))
	}

	if err := os.Chmod(e.Host.state(), 0o770); err != nil {
		t.Fatal(err)
	}
	written := read(t, p.File)
	if _, err := e.Uninstall(p, ours.Name); !errors.Is(err, ErrState) {
		t.Errorf("records that others could have written: %v", err)
	}
	other := ours
	other.Name = "other"
	c, err := e.Install(p, other, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(); !errors.Is(err, ErrState) || read(t, p.File) != written {
		t.Errorf("without a safe place for the backup: %v", err)
	}

	elsewhere := t.TempDir()
	if err := errors.Join(os.RemoveAll(e.Host.state()), os.Symlink(elsewhere, e.Host.state())); err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(); !errors.Is(err, ErrState) || read(t, p.File) != written {
		t.Errorf("a symlink for the backup: %v", err)
	}
}

// A backup that is not what it was is not restored.
func TestBackupChanged(t *testing.T) {
	e := home(t)
	p := placeOf(t, e, "cursor", User)
	write(t, p.File, "{}")
	c := applied(t)(e.Install(p, ours, false))
	write(t, c.Backup, "garbage")
	if c := applied(t)(e.Uninstall(p, ours.Name)); c.Exact || read(t, p.File) != "{}" {
		t.Errorf("%s", read(t, p.File))
	}
}

// A record of something else is as good as none: the entry keeps its server.
func TestForeignRecord(t *testing.T) {
	e := home(t)
	p := placeOf(t, e, "cursor", User)
	write(t, p.File, "{}")
	c := applied(t)(e.Install(p, ours, false))
	path := strings.TrimSuffix(c.Backup, ".before") + ".json"
	record := read(t, path)
	for _, text := range []string{strings.Replace(record, "notes", "other", 1), strings.Replace(record, ".cursor", ".other", 1), "garbage"} {
		write(t, path, text)
		if c, err := e.Uninstall(p, ours.Name); err != nil || c.Exact || !c.Unwrapped {
			t.Errorf("with the record %s: %+v, %v", text, c, err)
		}
	}
}

// The mode of a file stays, and a symlink stays one.
func TestFileStays(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("skipped: Windows has no such modes, and symlinks only for some")
	}
	e := home(t)
	p := placeOf(t, e, "cursor", User)
	target := filepath.Join(e.Host.Home, "dotfiles", "mcp.json")
	write(t, target, "{}")
	if err := errors.Join(os.Chmod(target, 0o640), os.Mkdir(filepath.Dir(p.File), 0o755), os.Symlink(target, p.File)); err != nil {
		t.Fatal(err)
	}
	applied(t)(e.Install(p, ours, false))
	info, err := os.Lstat(target)
	if err != nil || info.Mode() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if link, err := os.Readlink(p.File); err != nil || link != target || !strings.Contains(read(t, target), "notes") {
		t.Errorf("the symlink leads to %q, %v", link, err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(target), ".*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if err := errors.Join(os.Remove(target)); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Install(p, ours, false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a symlink to nothing: %v", err)
	}
	for _, bad := range []string{"folder", "large"} {
		path := filepath.Join(e.Host.Home, bad)
		if bad == "folder" {
			err = os.Mkdir(path, 0o755)
		} else {
			write(t, path, "")
			err = os.Truncate(path, maxFile+1)
		}
		if err := errors.Join(err, os.Remove(p.File), os.Symlink(path, p.File)); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Install(p, ours, false); !errors.Is(err, ErrFile) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// A file that is changed while its successor is being written stays as it is,
// and nothing is left of that.
func TestChangedWhileWriting(t *testing.T) {
	e := home(t)
	p := placeOf(t, e, "cursor", User)
	write(t, p.File, "{}")
	c, err := p.read()
	if err != nil {
		t.Fatal(err)
	}
	err = c.replace([]byte("new"), 0o600, func() error {
		write(t, p.File, "{ }")
		return p.unchanged(c)
	})
	if !errors.Is(err, ErrChanged) || read(t, p.File) != "{ }" {
		t.Errorf("%v, %s", err, read(t, p.File))
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(p.File), ".*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// SEC-1: the symlinks of a project do not choose what is edited.
func TestSEC1ProjectSymlink(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("skipped: Windows has symlinks only for some")
	}
	outside := t.TempDir()
	write(t, filepath.Join(outside, "mcp.json"), "{}")
	for _, tt := range []struct{ name, link, to string }{
		{"file", ".mcp.json", filepath.Join(outside, "mcp.json")},
		{"folder", ".cursor", outside},
		{"folder without the file", ".vscode", t.TempDir()},
	} {
		e := home(t)
		client := map[string]string{".mcp.json": "claude-code", ".cursor": "cursor", ".vscode": "vscode"}[tt.link]
		p := placeOf(t, e, client, Project)
		if err := os.Symlink(tt.to, filepath.Join(e.Host.Dir, tt.link)); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Install(p, ours, false); !errors.Is(err, ErrFile) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	e := home(t)
	p := placeOf(t, e, "claude-code", Project)
	inside := filepath.Join(e.Host.Dir, "config", "mcp.json")
	write(t, inside, "{}")
	if err := os.Symlink(inside, p.File); err != nil {
		t.Fatal(err)
	}
	applied(t)(e.Install(p, ours, false))
	if !strings.Contains(read(t, inside), "notes") {
		t.Error("a symlink within the project is not followed")
	}
}
