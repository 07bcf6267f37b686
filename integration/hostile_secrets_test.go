package integration

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// secret has what quoting and cutting could break: a quote, a backslash, and
// more than ASCII.
const secret = `hunter2"\é-0123456789abcdef`

// TestSEC3Secrets: SEC-3, C29. Values given by --env and --env-file show
// nowhere that text of the server gets to, whole or in part, and neither do
// escapes and bytes that are not UTF-8: in errors and results of lost calls,
// on stderr, in the log file, in status and in logs.
func TestSEC3Secrets(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "log")
	envFile := filepath.Join(dir, "env")
	const other = "zwoelf-boxkaempfer"
	if err := os.WriteFile(envFile, []byte("OTHER="+other+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	temp := shortTemp(t)
	flags := []string{"--env", "API_KEY=" + secret, "--env-file", envFile, "--log-file", file, "--log-level", "debug"}
	c := harness.Start(t, harness.Config{
		Command: harness.Bridged(t, flags, badServer(t, "hostile")...), Env: []string{"TMPDIR=" + temp},
	})
	c.Initialize()
	nasty := "key " + secret + " and " + other + " \x1b[31mred\x07 \xff\xfe \u009b2J\n"
	send(c, order{Stderr: []byte(nasty)}).Wait()
	// Junk on stdout is quoted by the bridge, ten lines of a kind; the quote is
	// cut inside a secret.
	for _, n := range []int{116, 114, 112, 108, 100} {
		send(c, order{Stdout: []byte(
			strings.Repeat("j", n) + secret + " tail\n" + strings.Repeat("k", n) + other + strings.Repeat("z", 200) + "\n" +
				`{"n":"` + strings.Repeat("o", n-6) + other + `","more":"` + strings.Repeat("m", 200) + `"}` + "\n",
		)}).Wait()
	}
	cli := func(args ...string) string {
		cmd := exec.Command(harness.Holdfast(t), append(args, strconv.Itoa(c.Process().Pid))...)
		cmd.Env = append(os.Environ(), "TMPDIR="+temp)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	texts := map[string]string{"status before the crash": cli("status", "--json")}
	lost := send(c, order{Stderr: []byte(nasty), Instead: "die"}).Wait()
	if e := lost.Typed(); e == nil || !strings.Contains(strings.Join(e.StderrTail, "\n"), `key *** and *** \x1b[31mred\x07 \xff\xfe \u009b2J`) {
		t.Errorf("the lost call says %+v", e)
	}
	if text := lost.Tool(t).Content[0].Text; !strings.Contains(text, "\nLast output of the server on stderr:\n  ") {
		t.Errorf("what the server said is not told as such: %q", text)
	}
	c.CallTool("pid", nil).Text(t)
	texts["status after the crash"], texts["status for people"] = cli("status", "--json"), cli("status", "--all")
	texts["logs"], texts["logs in JSON"] = cli("logs", "-n", "-1"), cli("logs", "-n", "-1", "--json")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	texts["the log file"], texts["stderr"] = string(b), c.Stderr()
	for _, f := range c.Frames() {
		texts["stdout"] += string(f.Raw) + "\n"
	}
	for where, text := range texts {
		// Inside JSON strings, a backslash and a quote stand escaped.
		quoted, _ := json.Marshal(secret) // a string always marshals
		for _, part := range []string{secret, strings.Trim(string(quoted), `"`), secret[:4], other, other[:4], "\x1b", "\x07", "\xff", "\u009b"} {
			if i := strings.Index(text, part); i >= 0 {
				t.Errorf("%s shows %q: %q", where, part, text[max(0, i-60):min(len(text), i+60)])
			}
		}
		if !strings.Contains(text, "***") && !strings.HasPrefix(where, "status") {
			t.Errorf("%s has nothing that is masked", where)
		}
	}
}

// shortTemp is a temporary folder whose path leaves room for those of sockets.
func shortTemp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "hf")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestSEC3NoStderrInErrors: SEC-3. With --no-stderr-in-errors the client gets
// none of it, in no kind of answer; the log still has it.
func TestSEC3NoStderrInErrors(t *testing.T) {
	const words = "confidential last words"
	check := func(t *testing.T, c *harness.Client) {
		t.Helper()
		for _, f := range c.Frames() {
			if strings.Contains(string(f.Raw), words) || strings.Contains(string(f.Raw), "API_KEY") {
				t.Errorf("the client got %.400s", f.Raw)
			}
		}
		harness.Await(t, "the log", func() bool { return strings.Contains(c.Stderr(), words) || strings.Contains(c.Stderr(), "API_KEY") })
	}
	flags := []string{"--no-stderr-in-errors"}
	t.Run("lost calls", func(t *testing.T) {
		c := startHostile(t, flags)
		c.Initialize()
		if f := send(c, order{Stderr: []byte(words + "\n"), Instead: "die"}).Wait(); outcomeOf(f) != unknown {
			t.Errorf("the lost call got %.300s", f.Raw)
		}
		c.RequestID(`"x"`, "x/unknown", do(order{})).Wait()
		check(t, c)
	})
	t.Run("failed starts", func(t *testing.T) {
		c := harness.Start(t, harness.Config{Command: harness.Bridged(t, flags, badServer(t, "early-exit")...)})
		c.CallTool("x", nil)
		check(t, c)
	})
	t.Run("no worker", func(t *testing.T) {
		c := harness.Start(t, harness.Config{Command: harness.Native(t, flags, badServer(t, "early-exit")...)})
		c.CallTool("x", nil)
		check(t, c)
	})
}

// TestSEC4PrivateDirectory: SEC-4, SEC-5. Sockets lie in a directory of mode
// 0700 with short paths, also where TMPDIR is long; nothing of it is left at
// the end; what a killed supervisor left is removed by a later one, and a
// directory that is not one of ours never.
func TestSEC4PrivateDirectory(t *testing.T) {
	harness.RequireLinux(t)
	temp := shortTemp(t)
	foreign := filepath.Join(temp, "holdfast-foreign")
	if err := os.MkdirAll(filepath.Join(foreign, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	victim := filepath.Join(temp, "victim")
	if err := os.WriteFile(victim, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(temp, filepath.Join(temp, "holdfast-link")); err != nil {
		t.Fatal(err)
	}
	dirs := func() []string {
		found, err := filepath.Glob(filepath.Join(temp, "holdfast-*", "lock"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	c := harness.Start(t, harness.Config{Command: harness.Native(t, nil, harness.TestServer(t)), Env: []string{"TMPDIR=" + temp}})
	c.Initialize()
	if len(dirs()) != 1 {
		t.Fatalf("directories: %v", dirs())
	}
	sockets := 0
	err := filepath.WalkDir(filepath.Dir(dirs()[0]), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		switch {
		case err != nil:
			return err
		case d.IsDir() && info.Mode().Perm() != 0o700:
			t.Errorf("%s has mode %v", path, info.Mode())
		case info.Mode().Type() == fs.ModeSocket:
			sockets++
			if len(path) > 100 {
				t.Errorf("%s is too long", path)
			}
		}
		return nil
	})
	if err != nil || sockets < 2 {
		t.Errorf("%d sockets, want that of the worker and the control socket (%v)", sockets, err)
	}
	c.CloseStdin()
	c.WaitExit()
	if left := dirs(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	for _, path := range []string{foreign, victim} {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
	long := filepath.Join(temp, strings.Repeat("long", 30))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	c = harness.Start(t, harness.Config{Command: harness.Native(t, nil, harness.TestServer(t)), Env: []string{"TMPDIR=" + long}})
	c.Initialize()
	c.CallTool("pid", nil).Text(t)
}
