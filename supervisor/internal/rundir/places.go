package rundir

import (
	"os"
	"path/filepath"
	"slices"
)

// maxPlace keeps socket paths under the 100 bytes or so that systems allow:
// go-plugin adds two names of its own.
const maxPlace = 48

// places returns where directories may be, the one to be used first.
func places() []string {
	var all []string
	add := func(dir string) {
		// Absolute, since workers have a working directory of their own. One
		// directory may have two names, such as /tmp on macOS.
		dir, err := filepath.Abs(dir)
		if err != nil || slices.ContainsFunc(all, func(other string) bool { return same(dir, other) }) {
			return
		}
		all = append(all, dir)
	}
	add(os.TempDir())
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		add(dir)
	}
	if dir, err := os.UserCacheDir(); err == nil {
		add(dir)
	}
	add("/tmp")
	return all
}

func same(a, b string) bool {
	one, err1 := os.Stat(a)
	two, err2 := os.Stat(b)
	return a == b || err1 == nil && err2 == nil && os.SameFile(one, two)
}
