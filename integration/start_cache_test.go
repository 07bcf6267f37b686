//go:build unix

package integration

import (
	"bytes"
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// spoilers make a file of the cache one that must not be used.
var spoilers = map[string]func(t *testing.T, path string, content []byte) error{
	"corrupt": func(_ *testing.T, path string, content []byte) error {
		spoilt := bytes.Clone(content)
		spoilt[len(spoilt)-3] ^= 1
		return os.WriteFile(path, spoilt, 0o600)
	},
	"truncated": func(_ *testing.T, path string, content []byte) error {
		return os.Truncate(path, int64(len(content)/2))
	},
	"empty": func(_ *testing.T, path string, _ []byte) error { return os.Truncate(path, 0) },
	"of another user": func(t *testing.T, path string, _ []byte) error {
		if os.Getuid() != 0 {
			t.Skip("skipped: only root can give a file away")
		}
		return os.Chown(path, 65534, -1)
	},
	"open to others": func(_ *testing.T, path string, _ []byte) error { return os.Chmod(path, 0o666) },
	"a link": func(_ *testing.T, path string, _ []byte) error {
		elsewhere := filepath.Join(filepath.Dir(filepath.Dir(path)), "elsewhere-"+filepath.Base(path))
		if err := os.Rename(path, elsewhere); err != nil {
			return err
		}
		return os.Symlink(elsewhere, path)
	},
	"oversized": func(_ *testing.T, path string, content []byte) error {
		return os.WriteFile(path, append(content, bytes.Repeat([]byte(" "), 5<<20)...), 0o600)
	},
	"newer": func(_ *testing.T, path string, content []byte) error {
		return os.WriteFile(path, bytes.Replace(content, []byte(" 1 "), []byte(" 2 "), 1), 0o600)
	},
}

// TestSEC2SpoiltFiles: SEC-2. A file of the cache that is corrupt, truncated, not
// this user's alone, a link, too large or of a newer version is ignored, told in
// the log, and replaced: the start after the next one has its cache again.
func TestSEC2SpoiltFiles(t *testing.T) {
	sideBySide(t, spoilers, func(t *testing.T, spoil func(*testing.T, string, []byte) error) {
		s := newStarter(t, nil, "-era", "legacy")
		first := s.warm()
		files := cacheFiles(t, s.cache)
		for path, content := range files {
			if err := spoil(t, path, content); err != nil {
				t.Fatal(err)
			}
		}
		h := s.start("2s")
		hello := h.greet()
		hello.within(t, "initialize without a cache", 2*time.Second, 2*time.Second)
		second := processOf(hello.Frame)
		if first[second] || second == "" {
			t.Errorf("initialize was answered with %.300s", hello.Raw)
		}
		h.listKinds()
		h.works()
		h.end()
		for path := range files {
			if !strings.Contains(h.Stderr(), filepath.Base(path)) {
				t.Errorf("the log does not tell of %s", filepath.Base(path))
			}
			checkPrivateFile(t, path)
		}
		h = s.start("3s")
		hello = h.greet()
		hello.within(t, "initialize with a cache", cacheAfter, cacheAfter)
		if processOf(hello.Frame) != second {
			t.Errorf("initialize of the third start was answered with %.300s", hello.Raw)
		}
	})
}

// cacheFiles returns the files of the cache that have answers, with what is in
// them. There is at least one.
func cacheFiles(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		checkPrivateFile(t, path)
		content, err := os.ReadFile(path)
		if bytes.HasPrefix(content, []byte("holdfast-cache ")) {
			files[path] = content
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("nothing is cached")
	}
	return files
}

// checkPrivateFile fails the test unless it is a regular file of this user alone,
// in a directory of this user alone.
func checkPrivateFile(t *testing.T, path string) {
	t.Helper()
	for name, mode := range map[string]fs.FileMode{path: 0o600, filepath.Dir(path): 0o700 | fs.ModeDir} {
		info, err := os.Lstat(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if owner, ok := info.Sys().(*syscall.Stat_t); info.Mode() != mode || !ok || int(owner.Uid) != os.Getuid() {
			t.Errorf("%s is %v of %+v", name, info.Mode(), info.Sys())
		}
	}
}

// TestSEC2SpoiltDirectory: SEC-2. A directory of the cache that is a link, not
// this user's or open to others is not used, neither read nor written; the log
// tells, and the session works without a cache. So it does if there can be none.
func TestSEC2SpoiltDirectory(t *testing.T) {
	sideBySide(t, map[string]func(t *testing.T, dir string) error{
		"a link": func(_ *testing.T, dir string) error {
			if err := os.Rename(dir, dir+"-elsewhere"); err != nil {
				return err
			}
			return os.Symlink(dir+"-elsewhere", dir)
		},
		"open to others": func(_ *testing.T, dir string) error { return os.Chmod(dir, 0o777) },
		"of another user": func(t *testing.T, dir string) error {
			if os.Getuid() != 0 {
				t.Skip("skipped: only root can give a directory away")
			}
			return os.Chown(dir, 65534, -1)
		},
		"a file": func(_ *testing.T, dir string) error {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			return os.WriteFile(dir, nil, 0o600)
		},
	}, func(t *testing.T, spoil func(*testing.T, string) error) {
		s := newStarter(t, nil, "-era", "legacy")
		first := s.warm()
		var dir string
		for path := range cacheFiles(t, s.cache) {
			dir = filepath.Dir(path)
		}
		if err := spoil(t, dir); err != nil {
			t.Fatal(err)
		}
		h := s.start("2s")
		hello := h.greet()
		hello.within(t, "initialize without a cache", 2*time.Second, 2*time.Second)
		if p := processOf(hello.Frame); first[p] || p == "" {
			t.Errorf("initialize was answered with %.300s", hello.Raw)
		}
		h.works()
		h.end()
		if !strings.Contains(h.Stderr(), dir) {
			t.Errorf("the log does not tell of %s:\n%s", dir, h.Stderr())
		}
	})
}

// TestSEC2KeyedByCommand: SEC-2. Another argument, another working directory,
// another configured variable, another credential that is inherited or another
// executable is another command, which gets nothing of the first one's answers;
// an inherited variable of any other kind changes nothing.
func TestSEC2KeyedByCommand(t *testing.T) {
	type change struct {
		program string
		flags   []string
		args    []string
		env     []string
		same    bool
	}
	s := newStarter(t, []string{"--env", "REGION=here"}, "-era", "legacy")
	s.env = []string{"SERVICE_TOKEN=secret-one", "COLOUR=red"}
	earlier := s.warm()
	replaced := filepath.Join(t.TempDir(), "startserver")
	copyFile(t, s.program, replaced)
	sideBySide(t, map[string]change{
		"executable":          {program: replaced},
		"the same":            {same: true},
		"argument":            {args: []string{"-journal", os.DevNull}},
		"directory":           {flags: []string{"--cwd", t.TempDir()}},
		"configured variable": {flags: []string{"--env", "REGION=there"}},
		"credential":          {env: []string{"SERVICE_TOKEN=secret-two"}},
		"other variable":      {env: []string{"COLOUR=blue"}, same: true},
	}, func(t *testing.T, c change) {
		other := s.in(t)
		other.program = cmp.Or(c.program, s.program)
		other.flags = append(append([]string{}, s.flags...), c.flags...)
		other.args = append(append([]string{}, s.args...), c.args...)
		other.env = append(append([]string{}, s.env...), c.env...)
		hello := other.start("2s").greet()
		if cached := earlier[processOf(hello.Frame)]; cached != c.same {
			t.Errorf("answered from the cache: %v, after %v: %.300s", cached, hello.after, hello.Raw)
		}
	})
	for path := range cacheFiles(t, s.cache) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte("secret-")) || strings.Contains(path, "secret") {
			t.Errorf("a credential in the cache: %s", path)
		}
	}
}
