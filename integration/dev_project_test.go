package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// devProject is a directory in which `holdfast dev` runs.
type devProject struct {
	t     *testing.T
	dir   string
	cache string
}

func newDevProject(t *testing.T) devProject {
	t.Helper()
	return devProject{t, t.TempDir(), t.TempDir()}
}

func (p devProject) path(name string) string { return filepath.Join(p.dir, filepath.FromSlash(name)) }

// write writes a file in place.
func (p devProject) write(name, text string) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Dir(p.path(name)), 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(p.path(name), []byte(text), 0o700); err != nil {
		p.t.Fatal(err)
	}
}

// save writes a file as many editors do it: beside it, then by rename.
func (p devProject) save(name, text string) {
	p.t.Helper()
	p.write(name+".new", text)
	if err := os.Rename(p.path(name+".new"), p.path(name)); err != nil {
		p.t.Fatal(err)
	}
}

// lines returns how many lines a file has, 0 if there is none.
func (p devProject) lines(name string) int {
	text, err := os.ReadFile(p.path(name))
	if err != nil {
		return 0
	}
	return strings.Count(string(text), "\n")
}

// dev returns the command of `holdfast dev`.
func (p devProject) dev(flags []string, server ...string) []string {
	command := append([]string{harness.Holdfast(p.t), "dev"}, flags...)
	return append(append(command, "--"), server...)
}

// config is the environment of a session: the project's cache, and Go's own,
// which would lie in it.
func (p devProject) config() harness.Config {
	return harness.Config{Dir: p.dir, Cache: p.cache, Env: []string{"GOCACHE=" + harness.Go(p.t, "", "env", "GOCACHE")}}
}

// start starts `holdfast dev`.
func (p devProject) start(flags []string, server ...string) devHeld {
	p.t.Helper()
	return devHeld{startHeldWith(p.t, p.config(), p.dev(flags, server...))}
}

// buildScript lets the project be built by a script of these lines, in a shell.
// It is what is edited, and quick.
func (p devProject) buildScript(lines ...string) {
	p.t.Helper()
	p.save("build.sh", strings.Join(lines, "\n")+"\n")
}

// buildFlags are those for a project with a build script.
var buildFlags = []string{"--watch", "build.sh", "--build", "sh build.sh"}

// install is the line of a build script that puts a version of the test server
// in its place, writing over the file that may be there.
func (p devProject) install(version string) string {
	return fmt.Sprintf("mkdir -p bin && cat '%s' > bin/testserver && chmod 700 bin/testserver", harness.TestServerVersion(p.t, version))
}

// startBuilt starts `holdfast dev` for a project with a build script, as a worker
// or behind the bridge.
func (p devProject) startBuilt(v variant, flags ...string) devHeld {
	p.t.Helper()
	flags = append(append([]string(nil), buildFlags...), flags...)
	server := "./bin/testserver"
	if v.native {
		return p.start(append(flags, "--worker", server))
	}
	return p.start(flags, server)
}

// devHeld is a running `holdfast dev`.
type devHeld struct{ held }

// buildStatus is what `holdfast status --json` tells of the build.
type buildStatus struct {
	State    string        `json:"state"`
	Since    time.Time     `json:"since"`
	Command  string        `json:"command"`
	Watch    []string      `json:"watch"`
	Took     time.Duration `json:"took_ns"`
	Builds   int           `json:"builds"`
	Failures int           `json:"failures"`
	Error    string        `json:"error"`
	Output   []string      `json:"output"`
}

func (h devHeld) build() buildStatus {
	h.t.Helper()
	h.status() // waits for the socket
	out, errs := h.cli("status", "--json")
	var all []struct {
		Build *buildStatus `json:"build"`
	}
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) != 1 || all[0].Build == nil {
		h.t.Fatalf("no status of a build: %v in %q, %q", err, out, errs)
	}
	return *all[0].Build
}

// awaitBuild waits until the build is in that state, and returns it.
func (h devHeld) awaitBuild(state string) buildStatus {
	h.t.Helper()
	var s buildStatus
	harness.Await(h.t, "build "+state, func() bool {
		s = h.build()
		return s.State == state
	})
	return s
}

func (h devHeld) version() string {
	h.t.Helper()
	return h.CallTool("version", nil).Text(h.t)
}

// awaitVersion calls until that version answers. Every call has an answer, of a
// version before it.
func (h devHeld) awaitVersion(want, before string) {
	h.t.Helper()
	harness.Await(h.t, "version "+want, func() bool {
		got := h.version()
		if got != want && got != before {
			h.t.Fatalf("version %q answers, want %q or %q", got, before, want)
		}
		return got == want
	})
}
