package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// startWatched starts `holdfast dev` for a server that somebody else builds: its
// executable is what is watched.
func (p devProject) startWatched(v variant) devHeld {
	p.t.Helper()
	if v.native {
		return p.start([]string{"--worker", "./bin/testserver" + exe()})
	}
	return p.start(nil, "./bin/testserver"+exe())
}

func (p devProject) server() string { return p.path("bin/testserver" + exe()) }

// versionOf returns a version of the test server.
func versionOf(t *testing.T, version string) []byte {
	t.Helper()
	b, err := os.ReadFile(harness.TestServerVersion(t, version))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestC11NewBuildIsServedInDev: C11, SUP-19. A new executable is served by
// itself, whether it replaced the old one by rename or was written over it in
// place; the client asks for nothing and sees nothing but its answers.
func TestC11NewBuildIsServedInDev(t *testing.T) {
	eachSupervised(t, func(t *testing.T, v variant) {
		p := newDevProject(t)
		p.write("bin/testserver"+exe(), string(versionOf(t, "1")))
		h := p.startWatched(v)
		h.Initialize()
		h.awaitVersion("1", "1")
		copyFile(t, harness.TestServerVersion(t, "2"), p.server())
		h.awaitVersion("2", "1")
		p.write("bin/testserver"+exe(), string(versionOf(t, "3")))
		h.awaitVersion("3", "2")
		if s := h.status(); s.Worker.Generation != 3 || s.Worker.Crashes != 0 || s.Worker.Outdated {
			t.Errorf("%+v", s.Worker)
		}
		for _, f := range h.Frames() {
			if !f.IsResponse() {
				t.Errorf("the client saw more than its answers: %s", f.Raw)
			}
		}
	})
}

// TestC12WrittenInPlace: C12, SUP-10. An executable that is written slowly, over
// the one that runs, is not started before it is whole; until then the old one
// serves, from a file of its own that nobody writes to.
func TestC12WrittenInPlace(t *testing.T) {
	harness.RequireLinux(t)
	eachSupervised(t, func(t *testing.T, v variant) {
		p := newDevProject(t)
		p.write("bin/testserver", string(versionOf(t, "1")))
		h := p.startWatched(v)
		h.Initialize()
		h.awaitVersion("1", "1")
		runs, err := os.Readlink(filepath.Join("/proc", h.pid(), "exe"))
		if err != nil || runs == p.server() || !strings.HasPrefix(runs, p.cache) {
			t.Errorf("the worker runs from %s, %v", runs, err)
		}
		next := versionOf(t, "2")
		p.write("bin/testserver", string(next[:len(next)/2]))
		h.awaitBuild("building") // it looks at the file
		if got := h.version(); got != "1" {
			t.Errorf("version %s answers", got)
		}
		b := h.awaitBuild("failed")
		if !strings.Contains(b.Error, "is not complete") {
			t.Errorf("%+v", b)
		}
		if s := h.status(); s.Worker.Generation != 1 || s.Worker.State != "serving" || h.version() != "1" {
			t.Errorf("%+v", s.Worker)
		}
		p.write("bin/testserver", string(next))
		h.awaitVersion("2", "1")
	})
}

// TestC15CallsOutliveAnEdit: C15. A call that is under way when the source is
// saved ends on the worker that began it; the next one goes to the new worker.
func TestC15CallsOutliveAnEdit(t *testing.T) {
	requireShell(t)
	eachSupervised(t, func(t *testing.T, v variant) {
		p := newDevProject(t)
		p.buildScript(p.install("1"))
		h := p.startBuilt(v)
		h.Initialize()
		old := h.pid()
		long := h.Request("tools/call", harness.Call("append", map[string]any{"key": "long", "ms": 3000}))
		p.buildScript(p.install("2"))
		h.awaitVersion("2", "1")
		if long.Answered() {
			t.Error("the long call did not span the swap")
		}
		if got := strings.TrimSpace(long.Wait().Text(t)); got != "appended long by "+old {
			t.Errorf("the long call says %q", got)
		}
	})
}

// TestSUP22SavedIsServed: SUP-22. From the save to the new version it takes the
// debounce, the build, the server's start and little more, whatever the project
// is built by.
func TestSUP22SavedIsServed(t *testing.T) {
	requireShell(t)
	eachSupervised(t, func(t *testing.T, v variant) {
		p := newDevProject(t)
		p.buildScript(p.install("1"))
		h := p.startBuilt(v)
		h.Initialize()
		h.awaitVersion("1", "1")
		start := startOf(t, harness.TestServerVersion(t, "1"))
		for i := 2; i <= 4; i++ {
			p.buildScript(p.install(fmt.Sprint(i)))
			saved := time.Now()
			h.awaitVersion(fmt.Sprint(i), fmt.Sprint(i-1))
			took := time.Since(saved)
			promised := 300*time.Millisecond + h.build().Took + start + 200*time.Millisecond
			t.Logf("served after %v, promised are %v", took, promised)
			if took > 10*promised {
				t.Errorf("served after %v, promised are %v", took, promised)
			}
		}
		if b := h.build(); b.Builds != 4 {
			t.Errorf("%d builds for four versions", b.Builds)
		}
	})
}

// startOf measures the start of a server without holdfast.
func startOf(t *testing.T, server string) time.Duration {
	t.Helper()
	began := time.Now()
	c := harness.Start(t, harness.Config{Command: harness.Direct(server)})
	c.Initialize()
	return time.Since(began)
}

// TestOutputIsWatched: a build that writes into what is watched is not repeated
// for ever.
func TestOutputIsWatched(t *testing.T) {
	requireShell(t)
	p := newDevProject(t)
	script := func(version string) {
		p.buildScript("echo >> .cache/builds", "echo "+version+" > out/version", p.install(version))
	}
	p.write(".cache/builds", "")
	p.write("out/version", "")
	script("1")
	h := devHeld{startHeldWith(t, p.config(), p.dev([]string{"--watch", ".", "--build", "sh build.sh", "--worker", "./bin/testserver"}))}
	h.Initialize()
	h.awaitVersion("1", "1")
	script("2")
	h.awaitVersion("2", "1")
	harness.Await(t, "the last build", func() bool {
		before := h.build()
		<-time.After(time.Second) // more than the debounce and a build
		return before.State == "ok" && h.build().Builds == before.Builds
	})
	if n := p.lines(".cache/builds"); n > 6 {
		t.Errorf("%d builds for two versions", n)
	}
}

// TestProjectFile: SEC-1. --project names a directory in which a configuration
// is read, and is where the server runs; a directory that nobody named is not.
func TestProjectFile(t *testing.T) {
	requireShell(t)
	p := newDevProject(t)
	p.buildScript(p.install("1"))
	p.write("holdfast.toml", `watch = ["build.sh"]
build = "sh build.sh"
hold-max = 7
`)
	if err := os.Chmod(p.path("holdfast.toml"), 0o600); err != nil {
		t.Fatal(err)
	}
	named := p
	named.dir = t.TempDir()
	h := named.start([]string{"--project", p.dir, "--worker", "./bin/testserver"})
	h.Initialize()
	h.awaitVersion("1", "1")
	if dir := h.CallTool("cwd", nil).Text(t); dir != p.dir {
		t.Errorf("the server runs in %s", dir)
	}
	if set := h.status().Settings["hold-max"]; set.Value != "7" || set.Origin != "file" {
		t.Errorf("%+v", set)
	}
	unnamed := p.start([]string{"--worker", "./bin/testserver"})
	if set := unnamed.status().Settings["hold-max"]; set.Origin != "default" {
		t.Errorf("%+v", set)
	}
}

// TestSUP11HangTimeoutInDev: SUP-11. A native worker that hangs is replaced after
// 30 s in dev, and never in run; behind the bridge neither.
func TestSUP11HangTimeoutInDev(t *testing.T) {
	p := newDevProject(t)
	p.write("bin/testserver"+exe(), string(versionOf(t, "1")))
	for _, v := range supervised() {
		want := "0s"
		if v.native {
			want = "30s"
		}
		if set := p.startWatched(v).status().Settings["hang-timeout"]; set.Value != want || set.Origin != "default" {
			t.Errorf("%s: %+v, want %s", v.name, set, want)
		}
	}
}
