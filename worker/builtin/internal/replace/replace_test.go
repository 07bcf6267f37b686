package replace

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func write(t *testing.T, name, content string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
}

func wantFile(t *testing.T, name, content string, mode os.FileMode) {
	t.Helper()
	got, err := os.ReadFile(name)
	if err != nil || string(got) != content {
		t.Errorf("%s: %q %v, want %q", name, got, err, content)
	}
	info, err := os.Stat(name)
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != mode {
		t.Errorf("%s: mode %v, want %v", name, info.Mode(), mode)
	}
	entries, _ := os.ReadDir(filepath.Dir(name))
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".tmp" {
			t.Errorf("left behind: %s", e.Name())
		}
	}
}

// ROOM-4: content is replaced, mode and links stay.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a.ipynb")
	write(t, name, "old", 0o640)
	was := VersionOf([]byte("old"))
	if err := File(name, []byte("new"), &was); err != nil {
		t.Fatal(err)
	}
	wantFile(t, name, "new", 0o640)

	if runtime.GOOS == "windows" {
		return
	}
	sub := filepath.Join(dir, "sub")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	link, second := filepath.Join(sub, "link"), filepath.Join(sub, "second")
	for name, to := range map[string]string{link: "../a.ipynb", second: link} {
		if err := os.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := File(second, []byte("by link"), nil); err != nil {
		t.Fatal(err)
	}
	wantFile(t, name, "by link", 0o640)
	if to, err := os.Readlink(link); err != nil || to != "../a.ipynb" {
		t.Errorf("link %q %v", to, err)
	}
}

// ROOM-4: a file that somebody else changed is not touched.
func TestChanged(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.ipynb")
	write(t, name, "theirs", 0o600)
	was := VersionOf([]byte("old"))
	if err := File(name, []byte("new"), &was); !errors.Is(err, ErrChanged) {
		t.Errorf("error %v", err)
	}
	wantFile(t, name, "theirs", 0o600)
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := File(name, []byte("new"), &was); !errors.Is(err, ErrChanged) {
		t.Errorf("of a file that is gone: %v", err)
	}
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it was created: %v", err)
	}
	if err := File(name, []byte("new"), nil); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(name); string(got) != "new" {
		t.Errorf("content %q", got)
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	if err := Check(filepath.Join(dir, "new")); err != nil {
		t.Error(err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("left behind: %v", entries)
	}
	for _, name := range []string{dir, filepath.Join(dir, "missing", "file")} {
		if Check(name) == nil || File(name, nil, nil) == nil {
			t.Errorf("%s could be replaced", name)
		}
	}
}
