// Package jupytertest finds what tests with real kernels need: a Python that
// has the modules they use. Tests that find none are skipped and say why; with
// CI=true or HOLDFAST_REQUIRE=1 they fail. It is for tests only.
package jupytertest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Python returns a Python that can import modules. That of the system comes
// first, where packages of the distribution are: one that is earlier in PATH
// may not see them.
func Python(t testing.TB, modules ...string) string {
	t.Helper()
	var last string
	for _, candidate := range []string{"/usr/bin/python3", "python3", "python"} {
		path, err := exec.LookPath(candidate)
		if err != nil {
			continue
		}
		out, err := exec.Command(path, "-c", "import "+strings.Join(modules, ", ")).CombinedOutput()
		if err == nil {
			return path
		}
		last = path + ": " + strings.TrimSpace(string(out))
	}
	Missing(t, "Python with "+strings.Join(modules, ", ")+" is not installed (Debian: python3-ipykernel python3-nbclient) "+last)
	return ""
}

// Missing skips a test for which something is not installed, or fails it.
func Missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" || os.Getenv("HOLDFAST_REQUIRE") == "1" {
		t.Fatal(what)
	}
	t.Skip(what)
}
