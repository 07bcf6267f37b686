package proc

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

func isPath(name string) bool { return strings.ContainsAny(name, `:\/`) }

// findExecutable returns file, with one of the extensions of PATHEXT if it has
// none of its own, and an error unless it exists as a file.
func findExecutable(file string, env []string) (string, error) {
	exts := extensions(env)
	ext := strings.ToLower(filepath.Ext(file))
	for _, e := range exts {
		if e == ext {
			return file, check(file)
		}
	}
	for _, e := range exts {
		if check(file+e) == nil {
			return file + e, nil
		}
	}
	if err := check(file); err != nil {
		return file, err
	}
	return file, ErrNotExecutable
}

func check(file string) error {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ErrNotFound
	case err != nil:
		return err
	case info.IsDir():
		return ErrIsDirectory
	}
	return nil
}

func extensions(env []string) []string {
	list, ok := lookEnv(env, "PATHEXT")
	if !ok || list == "" {
		return []string{".com", ".exe", ".bat", ".cmd"}
	}
	var exts []string
	for _, e := range strings.Split(strings.ToLower(list), ";") {
		if e == "" {
			continue
		}
		exts = append(exts, "."+strings.TrimPrefix(e, "."))
	}
	return exts
}
