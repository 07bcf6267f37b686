package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// requireShell skips tests whose builds are scripts of a Unix shell.
func requireShell(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("skipped: the builds of this test are shell scripts")
	}
}

// TestSEC7NothingBeforeARequest: SEC-7. Nothing is built for a client that only
// asks what there is and goes, however much is saved; the first call that needs
// the server builds it once.
func TestSEC7NothingBeforeARequest(t *testing.T) {
	requireShell(t)
	for _, end := range []string{"TERM", "EOF"} {
		t.Run("probe and "+end, func(t *testing.T) {
			p := newDevProject(t)
			p.buildScript("echo >> builds", p.install("1"))
			h := p.startBuilt(native)
			probe := h.Request("server/discover", map[string]any{"_meta": modernMeta()})
			if got := probe.Wait(); got.Error == nil {
				t.Errorf("the probe was answered with %s", got.Raw)
			}
			if end == "EOF" {
				h.CloseStdin()
			} else {
				h.Signal(t, "TERM")
			}
			h.WaitExit()
			if n := p.lines("builds"); n != 0 {
				t.Errorf("%d builds for a probe", n)
			}
		})
	}
	eachSupervised(t, func(t *testing.T, v variant) {
		p := newDevProject(t)
		p.buildScript("echo >> builds", p.install("1"))
		h := p.startBuilt(v)
		h.Initialize()
		h.Request("ping", nil).Wait()
		p.buildScript("echo >> builds", p.install("2"))
		if s := h.status(); s.Worker.State != "resting" || s.Worker.Generation != 0 {
			t.Errorf("%+v", s.Worker)
		}
		if b := h.build(); b.State != "idle" || p.lines("builds") != 0 {
			t.Errorf("%+v, %d builds", b, p.lines("builds"))
		}
		if got := h.version(); got != "2" {
			t.Errorf("version %s answers", got)
		}
		if b := h.build(); b.State != "ok" || b.Builds != 1 || p.lines("builds") != 1 || b.Command != "sh build.sh" || !slices.Equal(b.Watch, []string{"build.sh"}) {
			t.Errorf("%+v, %d builds", b, p.lines("builds"))
		}
	})
}

// modernMeta is the _meta of a request of the 2026-07-28 revision.
func modernMeta() map[string]any {
	return map[string]any{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "harness", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": map[string]any{},
	}
}

// TestC13BuildWritesOverTheRunningFile: C13, C12, SEC-7. A build may write to
// the very file that runs: workers run from a private copy, a new inode. Without
// copies such a build fails where the system forbids it, and the worker stays.
func TestC13BuildWritesOverTheRunningFile(t *testing.T) {
	requireShell(t)
	eachSupervised(t, func(t *testing.T, v variant) {
		p := newDevProject(t)
		p.buildScript(p.install("1"))
		h := p.startBuilt(v)
		h.Initialize()
		h.awaitVersion("1", "1")
		inode := inodeOf(t, p.path("bin/testserver"))
		for i := 2; i <= 4; i++ {
			p.buildScript(p.install(fmt.Sprint(i)))
			h.awaitVersion(fmt.Sprint(i), fmt.Sprint(i-1))
		}
		if b := h.build(); b.State != "ok" || b.Builds != 4 {
			t.Errorf("%+v", b)
		}
		if s := h.status(); s.Worker.Generation != 4 || s.Worker.Crashes != 0 || s.Worker.Outdated {
			t.Errorf("%+v", s.Worker)
		}
		if inodeOf(t, p.path("bin/testserver")) != inode {
			t.Error("the build did not write in place")
		}
		shadows, err := filepath.Glob(filepath.Join(p.cache, "holdfast", "shadows", "shadow-*", "*", "testserver"))
		if err != nil || runtime.GOOS == "linux" && len(shadows) != 2 {
			t.Errorf("copies %v, %v", shadows, err)
		}
		h.CloseStdin()
		h.WaitExit()
		if left, _ := filepath.Glob(filepath.Join(p.cache, "holdfast", "shadows", "*")); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
	t.Run("without copies", func(t *testing.T) {
		harness.RequireLinux(t)
		p := newDevProject(t)
		p.buildScript(p.install("1"))
		h := p.startBuilt(native, "--shadow", "off")
		h.Initialize()
		h.awaitVersion("1", "1")
		p.buildScript(p.install("2"))
		if b := h.awaitBuild("failed"); !strings.Contains(strings.Join(b.Output, "\n"), "busy") {
			t.Errorf("%+v", b)
		}
		h.awaitVersion("1", "1")
	})
}

// TestSUP10FailedBuild: SUP-10, SUP-4, SUP-15. A build that fails leaves the
// serving worker in place and costs nothing; status tells its last lines, and a
// client that takes log messages gets one. A swap and SIGUSR2 build first, and a
// swap tells the build's error.
func TestSUP10FailedBuild(t *testing.T) {
	requireShell(t)
	eachSupervised(t, func(t *testing.T, v variant) {
		p := newDevProject(t)
		p.buildScript(p.install("1"))
		h := p.startBuilt(v)
		h.awaitState("resting")
		h.swapTo(1) // so that initialize is answered by the worker, which offers log messages
		h.Initialize()
		h.awaitVersion("1", "1")

		p.buildScript("echo server.go:7: syntax error >&2", "exit 3")
		b := h.awaitBuild("failed")
		if b.Failures != 1 || b.Builds != 2 || !strings.Contains(b.Error, "exit code 3") || !slices.Contains(b.Output, "server.go:7: syntax error") {
			t.Errorf("%+v", b)
		}
		note := h.WaitFor("a log message", func(f harness.Frame) bool { return f.Method == "notifications/message" })
		var told struct{ Data string }
		if err := json.Unmarshal(note.Params, &told); err != nil || !strings.Contains(told.Data, "the old one still serves") ||
			!strings.Contains(told.Data, "server.go:7: syntax error") {
			t.Errorf("%v: %s", err, note.Raw)
		}
		n, reason := h.swap()
		if n != 0 || !strings.Contains(reason, "generation 1 still serves") || !strings.Contains(reason, "server.go:7: syntax error") {
			t.Errorf("swap: generation %d, %q", n, reason)
		}
		if text, _ := h.cli("status"); !strings.Contains(text, "failed") || !strings.Contains(text, "server.go:7: syntax error") {
			t.Errorf("for people:\n%s", text)
		}
		if s := h.status(); s.Worker.Generation != 1 || s.Worker.State != "serving" || s.Worker.Crashes != 0 || h.version() != "1" {
			t.Errorf("%+v", s.Worker)
		}

		p.buildScript(p.install("2"))
		h.awaitVersion("2", "1")
		h.swapTo(3)
		h.Signal(t, "USR2")
		h.awaitGeneration(4)
		if b := h.build(); b.State != "ok" || b.Builds != 6 || b.Failures != 0 || b.Error != "" {
			t.Errorf("%+v", b)
		}
	})
}

// TestSUP10FirstBuildFails: SUP-10. A first build that fails answers what waits
// for it with its error, and is not repeated by itself; what is saved next is
// built and served.
func TestSUP10FirstBuildFails(t *testing.T) {
	requireShell(t)
	eachSupervised(t, func(t *testing.T, v variant) {
		p := newDevProject(t)
		p.buildScript("echo >> builds", "echo no such type >&2", "exit 1")
		h := p.startBuilt(v)
		h.Initialize()
		for range 2 {
			got := h.Request("tools/call", harness.Call("version", nil)).Wait()
			if e := got.Typed(); e == nil || e.Kind != "worker_unavailable" || !strings.Contains(e.Message, "no such type") {
				t.Errorf("answered with %s", got.Raw)
			}
		}
		if n, reason := h.swap(); n != 0 || !strings.Contains(reason, "no such type") {
			t.Errorf("swap: generation %d, %q", n, reason)
		}
		if s := h.status(); s.Worker.State != "resting" || s.Worker.Crashes != 0 || p.lines("builds") != 2 {
			t.Errorf("%d builds, %+v", p.lines("builds"), s.Worker)
		}
		p.buildScript(p.install("1"))
		h.awaitState("serving")
		if got := h.version(); got != "1" {
			t.Errorf("version %s answers", got)
		}
	})
}

// TestNewerChangeEndsABuild: a save while a build runs ends that build, with all
// that it has started, and only the newest is served. A build that never ends is
// ended with the session as well, and leaves nothing behind.
func TestNewerChangeEndsABuild(t *testing.T) {
	requireShell(t)
	harness.RequireLinux(t)
	p := newDevProject(t)
	p.buildScript(p.install("1"))
	h := p.startBuilt(native)
	h.Initialize()
	h.awaitVersion("1", "1")
	p.buildScript("sleep 1000 & echo > began", "sleep 1000", p.install("2"))
	harness.Await(t, "the build that never ends", func() bool { return p.lines("began") == 1 })
	if b := h.build(); b.State != "building" {
		t.Errorf("%+v", b)
	}
	p.buildScript(p.install("3"))
	h.awaitVersion("3", "1")
	harness.Await(t, "the end of what the build has started", func() bool { return len(sleepers(h.Client)) == 0 })
	if err := os.Remove(p.path("began")); err != nil {
		t.Fatal(err)
	}
	p.buildScript("trap '' TERM", "sleep 1000 & echo > began", "sleep 1000")
	harness.Await(t, "another", func() bool { return p.lines("began") == 1 })
	h.CloseStdin()
	h.WaitExit()
}

func sleepers(c *harness.Client) []harness.Proc {
	return slices.DeleteFunc(c.Descendants(), func(p harness.Proc) bool { return filepath.Base(p.Args[0]) != "sleep" })
}

// TestSUP12KilledWhileBuilding: SUP-12. A supervisor that is killed leaves no
// build behind.
func TestSUP12KilledWhileBuilding(t *testing.T) {
	harness.RequireLinux(t)
	p := newDevProject(t)
	p.buildScript("sh -c 'trap \"\" TERM; sleep 1000 & echo > began; wait'", "sleep 1000")
	h := p.startBuilt(native)
	h.Initialize()
	h.Request("tools/list", nil)
	harness.Await(t, "the build", func() bool { return p.lines("began") == 1 })
	h.Signal(t, "KILL")
	h.WaitExit()
	if left := h.AwaitNoDescendants(10 * time.Second); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestDevRefuses: what cannot be watched or run is refused at the start, in one
// line that says what.
func TestDevRefuses(t *testing.T) {
	p := newDevProject(t)
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{"--watch", "none", "--", "server"}, "--watch none: "},
		{[]string{"--watch", "[", "--", "server"}, "--watch [: "},
		{[]string{"--project", "none", "--", "server"}, "--project: "},
		{[]string{"--shadow", "/dev/null/x", "--", "server"}, "--shadow /dev/null/x: "},
		{nil, "no server given"},
	} {
		cmd := exec.Command(harness.Holdfast(t), append([]string{"dev", "--log-level", "off"}, tt.args...)...)
		cmd.Dir = p.dir
		cmd.Env = append(os.Environ(), harness.ColdCache(t)...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 2 || !strings.HasPrefix(string(out), "holdfast: "+tt.says) && !strings.Contains(string(out), tt.says) ||
			strings.Count(string(out), "\n") != 1 {
			t.Errorf("%q: %v, %q, want one line with %q", tt.args, err, out, tt.says)
		}
	}
}

// TestUnreadableDirectory: a directory in the project that its user may not
// read, as the data of a database in a container, is no reason to refuse the
// project.
func TestUnreadableDirectory(t *testing.T) {
	harness.RequireLinux(t)
	if os.Getuid() != 0 {
		t.Skip("skipped: only root can be another user")
	}
	dir := shortTemp(t)
	for path, mode := range map[string]os.FileMode{dir: 0o755, filepath.Join(dir, "data"): 0o700, filepath.Join(dir, "own"): 0o777} {
		if err := errors.Join(os.MkdirAll(path, 0o700), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "holdfast")
	copyFile(t, harness.Holdfast(t), program)
	copyFile(t, harness.HoldfastWorker(t), filepath.Join(dir, "holdfast-worker"))
	for _, path := range []string{program, program + "-worker"} {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for watch, code := range map[string]int{".": 0, "data": 2} {
		cmd := asNobody(exec.Command(program, "dev", "--watch", watch, "--", "true"))
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+filepath.Join(dir, "own"), "XDG_CACHE_HOME="+filepath.Join(dir, "own"), "TMPDIR="+filepath.Join(dir, "own"))
		out, _ := cmd.CombinedOutput() // how it ended shows in the code
		if got := cmd.ProcessState.ExitCode(); got != code || code != 0 && !strings.Contains(string(out), "permission denied") {
			t.Errorf("--watch %s: code %d, %s", watch, got, out)
		}
		if strings.Contains(string(out), "cannot guess what to watch") {
			t.Errorf("--watch was given: %s", out)
		}
	}
}
