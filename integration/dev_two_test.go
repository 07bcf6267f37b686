package integration

import (
	"os"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// TestSEC7TwoWindows: SEC-7. Two windows with the same project build one after
// the other, never at once, and both get the new worker: what one has built is
// built for the other as well. The one that waits says so. The first one's end, also in the middle of its build, does not touch the
// second.
func TestSEC7TwoWindows(t *testing.T) {
	requireShell(t)
	harness.RequireLinux(t)
	p := newDevProject(t)
	script := func(version string) {
		// Two at once would fail; the gate holds a build back.
		p.buildScript("mkdir busy || exit 9", "trap 'rmdir busy; exit 1' TERM", "echo >> builds", "while [ -e gate ]; do sleep 0.01; done", p.install(version), "rmdir busy")
	}
	script("1")
	first, second := p.startBuilt(native), p.startBuilt(native)
	for _, h := range []devHeld{first, second} {
		h.Initialize()
		h.awaitVersion("1", "1")
	}
	pids := []string{first.pid(), second.pid()}

	p.write("gate", "")
	script("2")
	states := func() string {
		all := []string{first.build().State, second.build().State}
		if all[0] > all[1] {
			all[0], all[1] = all[1], all[0]
		}
		return strings.Join(all, " ")
	}
	harness.Await(t, "one that builds and one that waits", func() bool { return states() == "building waiting" })
	for i, h := range []devHeld{first, second} {
		if h.pid() != pids[i] {
			t.Errorf("window %d: the worker was replaced before anything was built", i+1)
		}
	}
	open := func() {
		if err := os.Remove(p.path("gate")); err != nil {
			t.Fatal(err)
		}
	}
	open()
	first.awaitVersion("2", "1")
	second.awaitVersion("2", "1")
	if n := p.lines("builds"); n != 3 { // each window for its first call, and one for both
		t.Errorf("%d builds", n)
	}

	p.write("gate", "")
	script("3")
	harness.Await(t, "one that builds and one that waits", func() bool { return states() == "building waiting" })
	builds, waits := first, second
	if second.build().State == "building" {
		builds, waits = second, first
	}
	pid := waits.pid()
	builds.CloseStdin()
	builds.WaitExit()
	waits.awaitBuild("building")
	if now := waits.pid(); now != pid {
		t.Error("the end of the other window has replaced a worker")
	}
	open()
	waits.awaitVersion("3", "2")
}
