package cache

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"pgregory.net/rapid"
)

var (
	client = Client{Era: "legacy", Version: "2025-06-18", Capabilities: []byte(`{"roots":{}}`), Name: "an-editor"}
	entry  = Entry{
		Initialize: json.RawMessage(`{"protocolVersion":"2025-06-18","serverInfo":{"name":"<a> & \u2028"}}`),
		Lists:      map[string]json.RawMessage{"tools/list": json.RawMessage(`{"tools":[{"name":"echo"}]}`)},
	}
	traits = Traits{Legacy: Yes, Modern: No, DiesOfProbe: true}
)

// open opens a cache that tells its log.
func open(t *testing.T, dir string) (*Cache, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	c, err := Open(dir, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c, logs
}

// program makes an executable, and the command that is nothing else.
func program(t *testing.T) Command {
	t.Helper()
	path := filepath.Join(t.TempDir(), "server")
	if err := os.WriteFile(path, []byte("#!"), 0o700); err != nil {
		t.Fatal(err)
	}
	return Command{Argv: []string{path}, Dir: filepath.Dir(path), Executable: path}
}

func storeOf(t *testing.T, c *Cache, command Command) *Store {
	t.Helper()
	s, err := c.For(command)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustSave(t *testing.T, s *Store, client Client, e Entry) {
	t.Helper()
	if err := s.Save(client, e); err != nil {
		t.Fatal(err)
	}
}

func expect[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: -want +got\n%s", what, diff)
	}
}

// SEC-2, CAT-3: what one process saved is what the next one finds, in private
// files of a private directory.
func TestSEC2Kept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "no", "such", "cache")
	command := program(t)
	c, _ := open(t, dir)
	s := storeOf(t, c, command)
	expect(t, "empty entry", s.Entry(client), Entry{})
	expect(t, "empty traits", s.Traits(), Traits{})
	mustSave(t, s, client, entry)
	if err := s.SaveTraits(traits); err != nil {
		t.Fatal(err)
	}

	again, logs := open(t, dir)
	s = storeOf(t, again, command)
	expect(t, "entry", s.Entry(client), entry)
	expect(t, "traits", s.Traits(), traits)
	expect(t, "entry of another", s.Entry(Client{}), Entry{})
	expect(t, "log lines", logs.Len(), 0)
	for path, info := range tree(t, dir) {
		want := fs.FileMode(0o600)
		if info.IsDir() {
			want = 0o700
		}
		if runtime.GOOS != "windows" && info.Mode().Perm() != want {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
	}
	expect(t, "files", len(tree(t, dir)), 1+3)
}

// tree returns all that is in and below a directory by its name.
func tree(t *testing.T, dir string) map[string]fs.FileInfo {
	t.Helper()
	all := make(map[string]fs.FileInfo)
	if err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		all[path], err = e.Info()
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// SEC-2: what is equal is not written again.
func TestSEC2EqualStays(t *testing.T) {
	dir := t.TempDir() + "/cache"
	c, _ := open(t, dir)
	s := storeOf(t, c, program(t))
	mustSave(t, s, client, entry)
	path := filepath.Join(dir, s.entryName(client))
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	spaced := entry
	spaced.Lists = map[string]json.RawMessage{"tools/list": json.RawMessage(`{ "tools": [ {"name":"echo"} ] }`)}
	mustSave(t, s, client, spaced)
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("written again: %v", err)
	}
	spaced.Discover = json.RawMessage(`{}`)
	mustSave(t, s, client, spaced)
	if after, err := os.Stat(path); err != nil || os.SameFile(before, after) {
		t.Errorf("not written: %v", err)
	}
}

// SEC-2: a directory that others can use, or that is none, is refused, and left
// as it is.
func TestSEC2Directory(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(dir string) error
		want    error
	}{
		"open to others": {func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o750))
		}, ErrNotPrivate},
		"foreign": {func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, 12345, -1))
		}, ErrNotPrivate},
		"link": {func(dir string) error {
			return errors.Join(os.Mkdir(dir+"-real", 0o700), os.Symlink(filepath.Base(dir)+"-real", dir))
		}, ErrNotRegular},
		"link to nowhere": {func(dir string) error { return os.Symlink(dir+"-nowhere", dir) }, ErrNotRegular},
		"file":            {func(dir string) error { return os.WriteFile(dir, nil, 0o600) }, ErrNotRegular},
		"below a file": {func(dir string) error {
			return errors.Join(os.Remove(filepath.Dir(dir)), os.WriteFile(filepath.Dir(dir), nil, 0o600))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			needs(t, name)
			above := filepath.Join(t.TempDir(), "above")
			if err := os.Mkdir(above, 0o700); err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(above, "cache")
			if err := test.prepare(dir); err != nil {
				t.Fatal(err)
			}
			before := len(tree(t, above))
			c, err := Open(dir, zap.NewNop())
			if err == nil {
				c.Close()
			}
			if err == nil || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			expect(t, "files", len(tree(t, above)), before)
		})
	}
}

// needs skips a case that this system or user cannot have.
func needs(t *testing.T, kind string) {
	t.Helper()
	switch {
	case runtime.GOOS == "windows":
		t.Skip("modes, owners and links of Unix")
	case strings.Contains(kind, "foreign") && os.Getuid() != 0:
		t.Skip("only root can give a file away")
	}
}

// CAT-6: what is no complete answer is not saved, and what was saved stays.
func TestCAT6OnlyCompleteAnswersAreCached(t *testing.T) {
	c, _ := open(t, t.TempDir()+"/cache")
	s := storeOf(t, c, program(t))
	mustSave(t, s, client, entry)
	list := func(result string) Entry {
		return Entry{Lists: map[string]json.RawMessage{"tools/list": json.RawMessage(result)}}
	}
	for name, e := range map[string]Entry{
		"array":              {Initialize: json.RawMessage(`[]`)},
		"nothing":            {Discover: json.RawMessage{}},
		"null":               {Discover: json.RawMessage(`null`)},
		"broken":             {Initialize: json.RawMessage(`{"a":}`)},
		"two objects":        {Initialize: json.RawMessage(`{}{}`)},
		"no UTF-8":           {Initialize: json.RawMessage("{\"a\":\"\xff\"}")},
		"no list":            list(`"tools"`),
		"broken list":        list(`{`),
		"part of a list":     list(`{"tools":[],"nextCursor":"2"}`),
		"part, empty cursor": list(`{"tools":[],"nextCursor":""}`),
	} {
		if err := s.Save(client, e); !errors.Is(err, ErrAnswer) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if err := s.SaveTraits(Traits{Legacy: "perhaps"}); !errors.Is(err, ErrAnswer) {
		t.Errorf("traits: error %v", err)
	}
	expect(t, "entry", s.Entry(client), entry)
	mustSave(t, s, client, list(`{"tools":[],"nextCursor":null}`))
}

// SEC-2: nothing that may be secret stands in a file or in its name.
func TestSEC2NoSecrets(t *testing.T) {
	dir := t.TempDir() + "/cache"
	c, _ := open(t, dir)
	command := program(t)
	canaries := []string{"canary-argument", "canary-configured", "canary-inherited", "canary-other"}
	command.Argv = append(command.Argv, "--password="+canaries[0])
	command.Configured = []string{"SETTING=" + canaries[1]}
	command.Inherited = []string{"API_KEY=" + canaries[2], "EDITOR=" + canaries[3]}
	s := storeOf(t, c, command)
	mustSave(t, s, client, entry)
	if err := s.SaveTraits(traits); err != nil {
		t.Fatal(err)
	}
	for path, info := range tree(t, dir) {
		text := filepath.Base(path)
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text += string(content)
		}
		for _, canary := range canaries {
			for _, form := range []string{canary, base64.StdEncoding.EncodeToString([]byte(canary)), fmt.Sprintf("%x", canary)} {
				if strings.Contains(text, form) {
					t.Errorf("%s has %s", path, form)
				}
			}
		}
	}
}

// SEC-2: whoever sees the names of files and knows all but one value cannot try
// values: with another key it is another name.
func TestSEC2NamesNeedTheKey(t *testing.T) {
	one, _ := open(t, t.TempDir()+"/one")
	other, _ := open(t, t.TempDir()+"/other")
	base := program(t)
	for name, command := range map[string]Command{
		"argument":   {Executable: base.Executable, Argv: []string{"--password=a"}},
		"configured": {Executable: base.Executable, Configured: []string{"SETTING=a"}},
		"inherited":  {Executable: base.Executable, Inherited: []string{"API_KEY=a"}},
	} {
		if storeOf(t, one, command).command == storeOf(t, other, command).command {
			t.Errorf("%s: the name can be computed without the key", name)
		}
	}
}

// SEC-2: of processes that make the key at the same time the first one wins.
func TestSEC2FirstKeyStays(t *testing.T) {
	dir := t.TempDir() + "/cache"
	c, _ := open(t, dir)
	if err := c.writeFirst(keyName, make([]byte, keySize)); err != nil {
		t.Fatal(err)
	}
	again, _ := open(t, dir)
	expect(t, "key", again.key, c.key)
	expect(t, "files", len(tree(t, dir)), 1+1)
}

// SEC-2: a command whose program is gone has no identity.
func TestSEC2NoProgram(t *testing.T) {
	c, _ := open(t, t.TempDir()+"/cache")
	command := program(t)
	command.Executable += "-gone"
	if _, err := c.For(command); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// CAT-3: whatever was saved is found again, byte for byte.
func TestCAT3SavedIsLoaded(t *testing.T) {
	c, _ := open(t, t.TempDir()+"/cache")
	s := storeOf(t, c, program(t))
	object := rapid.Custom(func(t *rapid.T) json.RawMessage {
		raw, err := json.Marshal(rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "members"))
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}).Filter(func(raw json.RawMessage) bool { return !strings.Contains(string(raw), "nextCursor") })
	rapid.Check(t, func(t *rapid.T) {
		e := Entry{
			Initialize: object.Draw(t, "initialize"),
			Discover:   rapid.OneOf(object, rapid.Just(json.RawMessage(nil))).Draw(t, "discover"),
			Lists:      rapid.MapOfN(rapid.String(), object, 1, 4).Draw(t, "lists"),
		}
		if err := s.Save(client, e); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e, s.Entry(client)); diff != "" {
			t.Fatalf("-saved +loaded\n%s", diff)
		}
	})
}
