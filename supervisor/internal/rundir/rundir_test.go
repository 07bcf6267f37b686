package rundir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// inTemp lets the package work below a directory of the test's own, with a
// name that is short enough.
func inTemp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "r")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv("TMPDIR", dir)
	return dir
}

// SEC-4: the directory is private and its socket paths are short.
func TestSEC4New(t *testing.T) {
	base := inTemp(t)
	d, err := New()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(d.Path)
	if err != nil || info.Mode().Perm() != 0o700 || filepath.Dir(d.Path) != base {
		t.Errorf("%s: %v, %v", d.Path, info.Mode(), err)
	}
	if got := All(); !slices.Equal(got, []string{d.Path}) {
		t.Errorf("All() = %q", got)
	}
	// What go-plugin adds: a generation and a name of its own.
	if longest := filepath.Join(d.Path, "18446744073709551615", "plugin1234567890"); len(longest) > 103 {
		t.Errorf("a socket path of %d bytes", len(longest))
	}
	d.Remove()
	if got := All(); len(got) > 0 {
		t.Errorf("after Remove, All() = %q", got)
	}
}

// A temporary directory with a long name is not used.
func TestSEC4LongTemp(t *testing.T) {
	long := filepath.Join(inTemp(t), strings.Repeat("x", maxBase))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", long)
	d, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Remove()
	if strings.HasPrefix(d.Path, long) {
		t.Errorf("%s is used", d.Path)
	}
}

// A relative temporary directory counts from where holdfast was started, not
// from the working directory of a worker.
func TestRelativeTemp(t *testing.T) {
	t.Chdir(inTemp(t))
	t.Setenv("TMPDIR", ".")
	d, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Remove()
	if !filepath.IsAbs(d.Path) {
		t.Errorf("Path = %q", d.Path)
	}
}

// What killed supervisors left behind is removed: nothing that is locked, young,
// without a lock file, or under another name.
func TestSEC4Sweep(t *testing.T) {
	base := inTemp(t)
	old := time.Now().Add(-2 * staleAge)
	make := func(name string, lock bool, age time.Time) string {
		t.Helper()
		path := filepath.Join(base, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if lock {
			if err := os.WriteFile(filepath.Join(path, lockName), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chtimes(path, age, age); err != nil {
			t.Fatal(err)
		}
		return path
	}
	alive, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Remove()
	if err := os.Chtimes(alive.Path, old, old); err != nil {
		t.Fatal(err)
	}
	dead := make(prefix+"dead", true, old)
	kept := []string{
		alive.Path, make(prefix+"young", true, time.Now()),
		make(prefix+"no-lock", false, old), make("other", true, old),
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.MkdirAll(outside, 0o700); err != nil {
		t.Fatal(err)
	}
	kept = append(kept, outside)
	if err := os.Symlink(outside, filepath.Join(base, prefix+"link")); err != nil {
		t.Fatal(err)
	}
	again, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer again.Remove()
	if _, err := os.Stat(dead); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left: %v", dead, err)
	}
	for _, path := range kept {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}
