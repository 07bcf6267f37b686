//go:build unix

package proc

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

func isPath(name string) bool { return strings.Contains(name, "/") }

// findExecutable returns file, and an error unless it can be executed.
func findExecutable(file string, _ []string) (string, error) {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return file, ErrNotFound
	case err != nil:
		return file, errors.Unwrap(err)
	case info.IsDir():
		return file, ErrIsDirectory
	case info.Mode()&0o111 == 0, errors.Is(unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS), unix.EACCES):
		return file, ErrNotExecutable
	}
	return file, nil
}
