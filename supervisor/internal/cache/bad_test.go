package cache

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/zap/zaptest/observer"

	"github.com/holdfast-mcp/holdfast/internal/logging"
)

// badFiles makes of a file of the cache one that is not to be used.
func badFiles() map[string]struct {
	spoil func(path string) error
	want  error
} {
	edit := func(change func([]byte) []byte) func(string) error {
		return func(path string) error {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, change(content), 0o600)
		}
	}
	again := func(name string, body string) []byte { return append(head(name, []byte(body)), body...) }
	return map[string]struct {
		spoil func(path string) error
		want  error
	}{
		"empty":     {func(path string) error { return os.Truncate(path, 0) }, ErrDamaged},
		"no file":   {edit(func([]byte) []byte { return []byte("garbage\n\x00\xff") }), ErrDamaged},
		"truncated": {edit(func(b []byte) []byte { return b[:len(b)-1] }), ErrDamaged},
		"zeros":     {edit(func(b []byte) []byte { return make([]byte, len(b)) }), ErrDamaged},
		"one bit":   {edit(func(b []byte) []byte { b[len(b)-3] ^= 4; return b }), ErrDamaged},
		"appended":  {edit(func(b []byte) []byte { return append(b, '\n') }), ErrDamaged},
		"newer": {edit(func(b []byte) []byte {
			return []byte(strings.Replace(string(b), magic+" 1 ", magic+" 2 ", 1))
		}), ErrNewer},
		"older": {edit(func(b []byte) []byte {
			return []byte(strings.Replace(string(b), magic+" 1 ", magic+" 0 ", 1))
		}), ErrDamaged},
		"oversized": {func(path string) error { return os.Truncate(path, maxFile+1) }, ErrTooLarge},
		"open to others": {func(path string) error {
			return os.Chmod(path, 0o604)
		}, ErrNotPrivate},
		"foreign": {func(path string) error { return os.Chown(path, 12345, -1) }, ErrNotPrivate},
		"link": {func(path string) error {
			return errors.Join(os.Rename(path, path+".moved"), os.Symlink(filepath.Base(path)+".moved", path))
		}, ErrNotRegular},
		"link to the outside": {func(path string) error {
			target := filepath.Join(filepath.Dir(filepath.Dir(path)), "outside")
			return errors.Join(os.Rename(path, target), os.Symlink(target, path))
		}, ErrNotRegular},
		"of another name": {func(path string) error {
			return os.WriteFile(path, again("other", "{}\n"), 0o600)
		}, ErrDamaged},
		"two lines": {func(path string) error {
			return os.WriteFile(path, again(filepath.Base(path), "{\n}\n"), 0o600)
		}, ErrDamaged},
		"of another kind": {func(path string) error {
			return os.WriteFile(path, again(filepath.Base(path), "[]\n"), 0o600)
		}, ErrDamaged},
		"no answer": {func(path string) error {
			body := `{"initialize":[],"lists":{"tools/list":1},"legacy":"perhaps"}` + "\n"
			return os.WriteFile(path, again(filepath.Base(path), body), 0o600)
		}, ErrAnswer},
		"null": {func(path string) error {
			body := `{"initialize":null,"legacy":"null"}` + "\n"
			return os.WriteFile(path, again(filepath.Base(path), body), 0o600)
		}, ErrAnswer},
		"part of a list": {func(path string) error {
			body := `{"lists":{"tools/list":{"tools":[],"nextCursor":"2"}},"legacy":"1"}` + "\n"
			return os.WriteFile(path, again(filepath.Base(path), body), 0o600)
		}, ErrAnswer},
	}
}

// SEC-2: a file that is not what it should be is ignored with one line in the
// log that tells why, and replaced by the next save.
func TestSEC2BadFile(t *testing.T) {
	for name, bad := range badFiles() {
		t.Run(name, func(t *testing.T) {
			if bad.want == ErrNotPrivate || bad.want == ErrNotRegular {
				needs(t, name)
			}
			dir := filepath.Join(t.TempDir(), "cache")
			command := program(t)
			c, _ := open(t, dir)
			s := storeOf(t, c, command)
			mustSave(t, s, client, entry)
			if err := s.SaveTraits(traits); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{s.entryName(client), s.traitsName()} {
				if err := bad.spoil(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			c, logs := open(t, dir)
			s = storeOf(t, c, command)
			expect(t, "entry", s.Entry(client), Entry{})
			checkIgnored(t, logs, s.entryName(client), bad.want)
			expect(t, "traits", s.Traits(), Traits{})
			checkIgnored(t, logs, s.traitsName(), bad.want)

			mustSave(t, s, client, entry)
			if err := s.SaveTraits(traits); err != nil {
				t.Fatal(err)
			}
			expect(t, "entry, replaced", s.Entry(client), entry)
			expect(t, "traits, replaced", s.Traits(), traits)
			expect(t, "further log lines", logs.Len(), 0)
			for _, name := range []string{s.entryName(client), s.traitsName()} {
				if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || !info.Mode().IsRegular() ||
					runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
					t.Errorf("%s, replaced: %v, %v", name, info, err)
				}
			}
		})
	}
}

// checkIgnored takes the one line of the log that tells why a file is ignored.
func checkIgnored(t *testing.T, logs *observer.ObservedLogs, name string, want error) {
	t.Helper()
	lines := logs.TakeAll()
	if len(lines) != 1 {
		t.Fatalf("%d log lines for %s", len(lines), name)
	}
	var path string
	var why error
	for _, f := range lines[0].Context {
		switch f.Key {
		case "error":
			why, _ = f.Interface.(error)
		case logging.FieldPath:
			path = f.String
		}
	}
	if filepath.Base(path) != name || !errors.Is(why, want) {
		t.Errorf("log says of %s: %v; want %v", path, why, want)
	}
}

// SEC-2: a bad key is replaced. What was kept under the old one is out of reach.
func TestSEC2BadKey(t *testing.T) {
	for name, bad := range badFiles() {
		// A key has no format: what is left is its length, and what it is.
		switch name {
		case "zeros", "one bit", "newer", "older":
			continue
		}
		t.Run(name, func(t *testing.T) {
			if bad.want == ErrNotPrivate || bad.want == ErrNotRegular {
				needs(t, name)
			}
			dir := filepath.Join(t.TempDir(), "cache")
			command := program(t)
			c, _ := open(t, dir)
			mustSave(t, storeOf(t, c, command), client, entry)
			if err := bad.spoil(filepath.Join(dir, keyName)); err != nil {
				t.Fatal(err)
			}
			c, logs := open(t, dir)
			want := bad.want
			if want == ErrAnswer {
				want = ErrDamaged
			}
			checkIgnored(t, logs, keyName, want)
			s := storeOf(t, c, command)
			expect(t, "entry", s.Entry(client), Entry{})
			mustSave(t, s, client, entry)
			c, logs = open(t, dir)
			expect(t, "entry, later", storeOf(t, c, command).Entry(client), entry)
			expect(t, "log lines", logs.Len(), 0)
		})
	}
}
