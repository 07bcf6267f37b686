package jupyter

import (
	"os"
	"path/filepath"
	"strings"
)

// owned reports whether a folder is this user's: whether it is below the
// user's profile, as jupyter_core takes it where owners cannot be compared.
func owned(dir string) bool {
	home, err := os.UserHomeDir()
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(home, dir)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, `..\`)
}
