package proc

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
)

// Causes in a [LookError].
var (
	// ErrNotFound is returned when no file of that name exists.
	ErrNotFound = fs.ErrNotExist
	// ErrNotExecutable is returned when the file exists but may not be
	// executed.
	ErrNotExecutable = errors.New("not executable")
	// ErrIsDirectory is returned when the name is that of a directory.
	ErrIsDirectory = errors.New("is a directory")
	// ErrNoPath is returned when the environment has no PATH to search.
	ErrNoPath = errors.New("PATH is not set")
)

// LookError tells why a command was not found, in one line (EDGE-11).
type LookError struct {
	// Name as it was given.
	Name string
	// File is the one file that was looked at, if Name is a path; else a file
	// of that name which cannot be executed, if there is one.
	File string
	// Dirs of PATH that were searched, in order; none if Name is a path.
	Dirs []string
	// Err is the cause.
	Err error
}

func (e *LookError) Error() string {
	name := "command " + strconv.Quote(e.Name)
	cause := e.Err.Error()
	if errors.Is(e.Err, ErrNotFound) {
		cause = "does not exist"
	}
	switch {
	case errors.Is(e.Err, ErrNoPath):
		return name + " not found: " + cause
	case len(e.Dirs) == 0 && e.File == "":
		return name + ": " + cause
	case len(e.Dirs) == 0:
		return name + ": " + e.File + ": " + cause
	}
	searched := "searched " + strings.Join(e.Dirs, string(filepath.ListSeparator))
	if e.File != "" {
		return name + " not found: " + e.File + ": " + cause + "; " + searched
	}
	return name + " not found in PATH: " + searched
}

// Unwrap returns the cause.
func (e *LookError) Unwrap() error { return e.Err }

// LookPath finds the executable of a command and returns its absolute path. A
// name with a separator is a path, relative to dir. Any other is searched in
// the PATH of env, of which relative elements count from dir and empty ones
// are skipped. Neither the environment nor the working directory of this
// process matters, provided that dir is absolute. Errors are of type
// [*LookError].
func LookPath(name, dir string, env []string) (string, error) {
	switch {
	case name == "":
		return "", &LookError{Err: errors.New("no name given")}
	case strings.IndexByte(name, 0) >= 0:
		return "", &LookError{Name: name, Err: errors.New("the name contains a NUL byte")}
	case isPath(name):
		file, err := within(dir, name)
		if err == nil {
			file, err = findExecutable(file, env)
		}
		if err != nil {
			return "", &LookError{Name: name, File: file, Err: err}
		}
		return file, nil
	}
	list, ok := lookEnv(env, "PATH")
	if !ok || list == "" {
		return "", &LookError{Name: name, Err: ErrNoPath}
	}
	failed := &LookError{Name: name, Err: ErrNotFound}
	for _, elem := range filepath.SplitList(list) {
		if elem == "" {
			continue
		}
		elem, err := within(dir, elem)
		if err != nil {
			continue
		}
		file, err := findExecutable(filepath.Join(elem, name), env)
		if err == nil {
			return file, nil
		}
		failed.Dirs = append(failed.Dirs, elem)
		if failed.File == "" && !errors.Is(err, ErrNotFound) {
			failed.File, failed.Err = file, err
		}
	}
	return "", failed
}

// within returns path as an absolute one, relative to dir.
func within(dir, path string) (string, error) {
	if filepath.IsAbs(path) {
		return filepath.Clean(path), nil
	}
	return filepath.Abs(filepath.Join(dir, path))
}
