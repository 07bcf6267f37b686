package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// Import paths of the programs under test.
const (
	root           = "github.com/holdfast-mcp/holdfast/"
	holdfastPkg    = root + "supervisor/cmd/holdfast"
	workerPkg      = root + "worker/builtin/cmd/holdfast-worker"
	testserverPkg  = root + "integration/testserver"
	startserverPkg = root + "integration/startserver"
	logshimPkg     = root + "integration/logshim"
	everythingPkg  = "github.com/modelcontextprotocol/go-sdk/conformance/everything-server"
)

// runDir is a folder shared by all tests of the run; [Main] removes it.
var runDir = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "integration-") })

// Main runs the tests of a package and removes what they built. TestMain
// passes its result to os.Exit.
func Main(m *testing.M) int {
	code := m.Run()
	if dir, err := runDir(); err == nil {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, "harness: removing", dir, err)
		}
	}
	return code
}

// RunDir returns a folder that lives as long as the test run.
func RunDir(tb testing.TB) string {
	tb.Helper()
	dir, err := runDir()
	if err != nil {
		tb.Fatal(err)
	}
	return dir
}

// Workspace returns the folder of go.work, which holds all modules.
func Workspace(tb testing.TB) string {
	tb.Helper()
	return filepath.Dir(Go(tb, "", "list", "-m", "-f", "{{.Dir}}", root+"integration"))
}

// Go runs the go command in dir and returns what it printed on standard
// output, without the last line end. A failure ends the test.
func Go(tb testing.TB, dir string, args ...string) string {
	tb.Helper()
	return GoEnv(tb, dir, nil, args...)
}

// GoEnv is [Go] with variables added to the environment.
func GoEnv(tb testing.TB, dir string, env []string, args ...string) string {
	tb.Helper()
	out, err := goTool(dir, env, args...)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

func goTool(dir string, env []string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, exit.Stderr)
	}
	return strings.TrimSuffix(string(out), "\n"), err
}

// builds holds one result for each program of the run.
var builds = struct {
	sync.Mutex

	of map[string]func() (string, error)
}{of: map[string]func() (string, error){}}

// build compiles pkg once in a test run as dir/<last element of pkg>.
func build(tb testing.TB, subdir, pkg string, flags ...string) string {
	tb.Helper()
	name := pkg[strings.LastIndexByte(pkg, '/')+1:]
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	path := filepath.Join(RunDir(tb), subdir, name)
	builds.Lock()
	once := builds.of[path]
	if once == nil {
		once = sync.OnceValues(func() (string, error) {
			args := append([]string{"build", "-o", path}, flags...)
			if os.Getenv("HOLDFAST_RACE") != "" {
				args = append(args, "-race")
			}
			_, err := goTool("", nil, append(args, pkg)...)
			return path, err
		})
		builds.of[path] = once
	}
	builds.Unlock()
	path, err := once()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// Holdfast returns the supervisor, with holdfast-worker beside it.
func Holdfast(tb testing.TB) string {
	tb.Helper()
	build(tb, "bin", workerPkg)
	return build(tb, "bin", holdfastPkg)
}

// HoldfastWorker returns the program with the workers in the box.
func HoldfastWorker(tb testing.TB) string {
	tb.Helper()
	return build(tb, "bin", workerPkg)
}

// TestServer returns package testserver as a program.
func TestServer(tb testing.TB) string {
	tb.Helper()
	return build(tb, "server", testserverPkg)
}

// StartServer returns package startserver as a program.
func StartServer(tb testing.TB) string {
	tb.Helper()
	return build(tb, "startserver", startserverPkg)
}

// LogShim returns package logshim as a program.
func LogShim(tb testing.TB) string {
	tb.Helper()
	return build(tb, "logshim", logshimPkg)
}

// TestServerVersion returns a test server whose version tool says version.
func TestServerVersion(tb testing.TB, version string) string {
	tb.Helper()
	return build(tb, "server-"+version, testserverPkg, "-ldflags=-X main.version="+version)
}

// Everything returns the conformance server of the Go SDK, as its authors
// wrote it: on stdio.
func Everything(tb testing.TB) string {
	tb.Helper()
	return build(tb, "everything", everythingPkg)
}

// Direct is the command of a server without holdfast.
func Direct(server ...string) []string { return server }

// Bridged is the command of a server behind holdfast and the bridge.
func Bridged(tb testing.TB, flags []string, server ...string) []string {
	tb.Helper()
	cmd := append([]string{Holdfast(tb), "run"}, flags...)
	return append(append(cmd, "--"), server...)
}

// Native is the command of a worker behind holdfast: server is its path and
// its arguments.
func Native(tb testing.TB, flags []string, server ...string) []string {
	tb.Helper()
	cmd := append([]string{Holdfast(tb), "run"}, flags...)
	cmd = append(cmd, "--worker", server[0])
	return append(append(cmd, "--"), server[1:]...)
}
