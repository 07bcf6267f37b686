package rundir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
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
	for _, name := range []string{"TMPDIR", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "HOME"} {
		t.Setenv(name, dir)
	}
	return dir
}

// here are the directories below a place of the test: /tmp may have those of
// others.
func here(place string) []string {
	return slices.DeleteFunc(All(), func(path string) bool { return !strings.HasPrefix(path, place+string(filepath.Separator)) })
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
	if got := here(base); !slices.Equal(got, []string{d.Path}) {
		t.Errorf("All() = %q", got)
	}
	// What go-plugin adds: a generation and a name of its own.
	if longest := filepath.Join(d.Path, "18446744073709551615", "plugin1234567890"); len(longest) > 103 {
		t.Errorf("a socket path of %d bytes", len(longest))
	}
	d.Remove()
	if got := here(base); len(got) > 0 {
		t.Errorf("after Remove, All() = %q", got)
	}
}

// SEC-4: where the temporary directory cannot have sockets, another place is
// used, and why is told. Who looks for supervisors finds them there.
func TestSEC4Places(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("skipped: XDG_CACHE_HOME names the user's cache directory on Linux only")
	}
	base := inTemp(t)
	at := func(name string) string { return filepath.Join(base, name) }
	long := at(strings.Repeat("x", maxPlace))
	for _, dir := range []string{long, at("run"), at("cache"), at("tmp")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(at("file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, temp, run, cache string
		want                   string
		passed                 int
	}{
		{"usable", at("tmp"), at("run"), at("cache"), at("tmp"), 0},
		{"too long", long, at("run"), at("cache"), at("run"), 1},
		{"missing", at("none"), at("run"), at("cache"), at("run"), 1},
		{"a file", at("file"), at("run"), at("cache"), at("run"), 1},
		{"two of them", at("none"), at("file"), at("cache"), at("cache"), 2},
		{"a relative one is none", at("none"), "run", at("cache"), at("cache"), 1},
		{"the same twice", at("none"), at("none"), at("cache"), at("cache"), 1},
		{"all of them", long, at("none"), at("file"), "/tmp", 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("TMPDIR", tt.temp)
			t.Setenv("XDG_RUNTIME_DIR", tt.run)
			t.Setenv("XDG_CACHE_HOME", tt.cache)
			d, err := New()
			if err != nil {
				t.Fatal(err)
			}
			defer d.Remove()
			if filepath.Dir(d.Path) != tt.want || len(d.PassedOver) != tt.passed {
				t.Errorf("%s, passed over: %v", d.Path, d.PassedOver)
			}
			if tt.temp == long && !errors.Is(d.PassedOver[0], ErrTooLong) {
				t.Errorf("passed over: %v", d.PassedOver)
			}
			t.Setenv("TMPDIR", at("tmp")) // as another program has it
			if !slices.Contains(All(), d.Path) && tt.want != at("tmp") {
				t.Errorf("%s is not found", d.Path)
			}
		})
	}
}

// The owner of a directory is known as long as it lives.
func TestOwner(t *testing.T) {
	inTemp(t)
	d, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Remove()
	if pid := Owner(d.Path); pid != os.Getpid() {
		t.Errorf("Owner() = %d", pid)
	}
	d.lock.Close()
	if pid := Owner(d.Path); pid != 0 {
		t.Errorf("without its lock, Owner() = %d", pid)
	}
	if err := os.Remove(filepath.Join(d.Path, lockName)); err != nil {
		t.Fatal(err)
	}
	if pid := Owner(d.Path); pid != 0 {
		t.Errorf("without a lock file, Owner() = %d", pid)
	}
	if _, err := os.Stat(filepath.Join(d.Path, lockName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a lock file was made: %v", err)
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
