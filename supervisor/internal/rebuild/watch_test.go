package rebuild

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long anything that must happen may take.
const patience = 30 * time.Second

// tree is a directory of the test, whose changes are watched.
type tree struct {
	t   *testing.T
	dir string
	w   *Watcher
}

// watched makes the files, and watches.
func watched(t *testing.T, files, watch []string, ignored ...string) tree {
	t.Helper()
	f := tree{t: t, dir: t.TempDir()}
	for _, name := range files {
		f.write(name, "before")
	}
	for i := range ignored {
		ignored[i] = f.path(ignored[i])
	}
	f.watch(watch, ignored...)
	return f
}

// watch watches until the end of the test.
func (f *tree) watch(watch []string, ignored ...string) {
	f.t.Helper()
	w, err := NewWatcher(f.dir, watch, ignored)
	if err != nil {
		f.t.Fatal(err)
	}
	f.w = w
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan struct{})
	go func() { // ends by cancel
		defer close(done)
		w.Run(ctx, func(err error) { f.t.Errorf("not watched: %v", err) })
	}()
	f.t.Cleanup(func() {
		cancel()
		<-done
	})
}

func (f tree) path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

func (f tree) write(name, text string) {
	f.t.Helper()
	if err := os.MkdirAll(filepath.Dir(f.path(name)), 0o700); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(f.path(name), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f tree) rename(from, to string) {
	f.t.Helper()
	if err := os.Rename(f.path(from), f.path(to)); err != nil {
		f.t.Fatal(err)
	}
}

func (f tree) remove(name string) {
	f.t.Helper()
	if err := os.RemoveAll(f.path(name)); err != nil {
		f.t.Fatal(err)
	}
}

// tells waits until a change of the file is told.
func (f tree) tells(name string) {
	f.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case path := <-f.w.Changes():
			if path == f.path(name) {
				return
			}
		case <-deadline:
			f.t.Fatalf("no change of %s was told", name)
		}
	}
}

// tellsOnly waits for a change of the file, before which none of another is
// told. Changes of one watcher come in order, as far as they are of one
// directory.
func (f tree) tellsOnly(name string) {
	f.t.Helper()
	select {
	case path := <-f.w.Changes():
		if path != f.path(name) {
			f.t.Errorf("a change of %s was told, want %s alone", path, name)
		}
	case <-time.After(patience):
		f.t.Fatalf("no change of %s was told", name)
	}
}

// Files may be written in place, replaced by rename as editors do it, deleted
// and made again.
func TestWatchSaves(t *testing.T) {
	f := watched(t, []string{"src/a.go", "src/b.go"}, []string{"src/a.go"})
	f.write("src/b.go", "not watched")
	f.write("src/a.go", "in place")
	f.tellsOnly("src/a.go")
	f.write("src/.a.go.swp", "by an editor")
	f.write("src/new", "beside it")
	f.rename("src/new", "src/a.go")
	f.tells("src/a.go")
	f.rename("src/a.go", "src/a.go~")
	f.write("src/a.go", "with a backup")
	f.tells("src/a.go")
	f.remove("src/a.go")
	f.tells("src/a.go")
	f.write("src/a.go", "again")
	f.tells("src/a.go")
}

// A file that gets a new time counts, as touch does it.
func TestWatchTouch(t *testing.T) {
	f := watched(t, []string{"a.go"}, []string{"*.go"})
	now := time.Now()
	if err := os.Chtimes(f.path("a.go"), now, now); err != nil {
		t.Fatal(err)
	}
	f.tells("a.go")
}

// New directories are watched, with what is in them already, and so are ones
// that were deleted and made again, the watched one included.
func TestWatchDirectories(t *testing.T) {
	f := watched(t, []string{"deep/src/a.go"}, []string{"deep/src/**/*.go"})
	f.write("deep/src/new/er/b.go", "1")
	f.tells("deep/src/new/er/b.go")
	f.write("deep/src/new/er/b.go", "2")
	f.tells("deep/src/new/er/b.go")
	f.write("elsewhere/c.go", "1")
	f.rename("elsewhere", "deep/src/moved")
	f.tells("deep/src/moved/c.go")
	for _, gone := range []string{"deep/src/new", "deep/src", "deep"} {
		f.remove(gone)
		f.write("deep/src/new/er/b.go", "3")
		f.tells("deep/src/new/er/b.go")
		f.write("deep/src/new/er/b.go", "4")
		f.tells("deep/src/new/er/b.go")
	}
}

// SUP-22: a project that is moved away and comes back, or is made anew, is
// watched as before, and what has changed in between is told.
func TestWatchProject(t *testing.T) {
	for _, watch := range []string{".", "src/*.go"} {
		t.Run(watch, func(t *testing.T) {
			f := tree{t: t, dir: filepath.Join(t.TempDir(), "project")}
			f.write("src/a.go", "before")
			f.watch([]string{watch})
			away := f.dir + ".away"
			move := func(from, to string) {
				if err := os.Rename(from, to); err != nil {
					t.Fatal(err)
				}
			}
			move(f.dir, away)
			move(away, f.dir)
			f.tells("src/a.go")
			f.write("src/a.go", "after it came back")
			f.tells("src/a.go")
			move(f.dir, away)
			f.write("src/a.go", "of another one")
			f.tells("src/a.go")
			f.write("src/b.go", "in it")
			f.tells("src/b.go")
			f.remove(".")
			f.write("src/a.go", "made anew")
			f.tells("src/a.go")
			f.write("src/b.go", "in it")
			f.tells("src/b.go")
		})
	}
}

// What tools write is not watched: histories, packages, caches, what editors
// leave beside a file, what is left out by name, and our own files.
func TestWatchIgnores(t *testing.T) {
	quiet := []string{
		".git/HEAD", "node_modules/x/index.js", "src/node_modules/y/z.js", "venv/bin/a", "src/__pycache__/a.pyc",
		"src/a.js~", "src/.a.js.swp", "src/#a.js#", "src/.#a.js", "dist/a.js", "bin/server", "src/skip/a.js", "src/a.test.js",
	}
	f := watched(t, append(quiet, "src/a.js"), []string{".", "!dist", "!src/skip/**", "!**/*.test.js"}, "bin/server")
	if dirs := f.w.Dirs(); dirs != 4 { // the project and what it lies in, src, bin
		t.Errorf("%d directories are watched: %v", dirs, f.w.fs.WatchList())
	}
	for _, name := range quiet {
		f.write(name, "written")
	}
	f.remove("dist")
	f.write("dist/b.js", "by a build")
	f.write("src/late/.git/x", "a new repository")
	f.write("src/a.js", "edited")
	f.tellsOnly("src/a.js")
}

// A pattern that leads into what is ignored by itself means it.
func TestWatchIgnoredByName(t *testing.T) {
	f := watched(t, []string{"node_modules/own/a.js"}, []string{"node_modules/own"})
	f.write("node_modules/own/a.js", "edited")
	f.tells("node_modules/own/a.js")
}

func TestWatchRefuses(t *testing.T) {
	dir := t.TempDir()
	for pattern, says := range map[string]string{
		"none":         "none",
		"none/**/*.go": "none",
		"[":            "no valid glob",
		"":             "is empty",
	} {
		w, err := NewWatcher(dir, []string{pattern}, nil)
		if err == nil {
			w.fs.Close()
		}
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "--watch "+pattern) {
			t.Errorf("NewWatcher(%q) = %v, want %q", pattern, err, says)
		}
	}
}

// A disk that was taken for a project is refused, and one that grows too large
// is watched as far as it was.
func TestWatchTooMuch(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"a/b", "c/d", "e"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := newWatcher(dir, []string{"."}, nil, 5); !errors.Is(err, ErrTooManyDirs) || !strings.Contains(err.Error(), dir) {
		t.Errorf("six directories of five: %v", err)
	}
	w, err := newWatcher(dir, []string{"."}, nil, 6)
	if err != nil {
		t.Fatal(err)
	}
	defer w.fs.Close()
	if err := os.Mkdir(filepath.Join(dir, "f"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := w.addNew(filepath.Join(dir, "f"), nil); !errors.Is(err, ErrTooManyDirs) {
		t.Errorf("one more: %v", err)
	}
}

func TestPatterns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "with [odd] name")
	for _, sub := range []string{"src", "lib"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "file[1].go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		watch    []string
		match    []string
		not      []string
		reaches  []string
		reachNot []string
	}{
		{[]string{"**/*.go"}, []string{"a.go", "src/a.go", "src/x/y/a.go"}, []string{"a.js", "src/a.go/b"}, []string{".", "src", "src/x"}, []string{".git", "src/node_modules"}},
		{[]string{"*.go"}, []string{"a.go"}, []string{"src/a.go"}, []string{"."}, []string{"src"}},
		{[]string{"src/*/*.go"}, []string{"src/x/a.go"}, []string{"src/a.go", "a.go"}, []string{"src", "src/x"}, []string{"lib", "src/x/y"}},
		{[]string{"src"}, []string{"src/a", "src/x/a"}, []string{"lib/a", "srcs/a"}, []string{"src"}, []string{"lib"}},
		{[]string{"**/*.{js,ts}", "!**/*.d.ts"}, []string{"a.js", "src/a.ts"}, []string{"src/a.d.ts", "a.jsx"}, []string{"src"}, nil},
		{[]string{".", "!dist", "!**/gen/**"}, []string{"a", "src/a"}, []string{"dist", "dist/a", "src/gen/a"}, []string{"src"}, []string{"dist", "src/gen"}},
		{[]string{"file[1].go"}, []string{"file[1].go"}, []string{"file1.go"}, []string{"."}, nil},
	} {
		p, err := parsePatterns(dir, tt.watch, nil)
		if err != nil {
			t.Errorf("%q: %v", tt.watch, err)
			continue
		}
		check := func(what string, names []string, f func(string) bool, want bool) {
			for _, name := range names {
				if f(filepath.Join(dir, filepath.FromSlash(name))) != want {
					t.Errorf("%q: %s of %s is %v", tt.watch, what, name, !want)
				}
			}
		}
		check("match", tt.match, p.match, true)
		check("match", tt.not, p.match, false)
		check("reaches", tt.reaches, p.reaches, true)
		check("reaches", tt.reachNot, p.reaches, false)
	}
}

// FuzzPatterns: no pattern panics, and what is left out does not match.
func FuzzPatterns(f *testing.F) {
	for _, seed := range []string{"**/*.go", "{a,b}/[c-d]*", "!x", `\`, "..", "/", "a/**/**/b", "[^a]"} {
		f.Add(seed, "src/a.go")
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, glob, name string) {
		p, err := parsePatterns(dir, []string{".", "!" + glob}, nil)
		if err != nil {
			return
		}
		path := filepath.Join(dir, name)
		if p.match(path) && slices.ContainsFunc(p.out, func(o pattern) bool { return o.match(path) }) {
			t.Errorf("%q matches although %q is left out", name, glob)
		}
		p.reaches(path)
	})
}
