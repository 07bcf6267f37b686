package generation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-mcp/holdfast/internal/proc"
)

// BridgeName is the executable that turns a stdio MCP server into a worker.
const BridgeName = "holdfast-worker"

// Command says what a worker is. It is resolved anew for each generation, so
// that a replaced file, symlink or PATH entry is picked up (SUP-5).
type Command struct {
	// Worker is the path or name of a native worker; empty for a bridged one.
	Worker string
	// Args are the arguments of the native worker or, bridged, the stdio
	// server's name and arguments.
	Args []string
	// Dir is the absolute working directory of the worker.
	Dir string
	// Env is the environment of the worker, without the handshake.
	Env []string
	// Bridge is the path of holdfast-worker where it is given, else empty.
	Bridge string
	// Stand, if set, returns what to start in place of the server's executable,
	// and the executable as it was when that was made.
	Stand func(path string) (run string, as os.FileInfo, err error)
}

// String returns the command as a person would type it.
func (c Command) String() string {
	words := c.Args
	if c.Worker != "" {
		words = append([]string{c.Worker}, c.Args...)
	}
	return strings.Join(words, " ")
}

// Program returns the command without its arguments, which may be secret, for
// texts that reach the client.
func (c Command) Program() string {
	program, args := c.Worker, c.Args
	if program == "" && len(args) > 0 {
		program, args = args[0], args[1:]
	}
	if len(args) > 0 {
		program += " ..."
	}
	return program
}

// resolved is a Command as it is started once.
type resolved struct {
	path string
	args []string
	file File // of the server: path, or what the bridge runs
	own  File // of the process: path
}

func (c Command) resolve() (resolved, error) {
	if c.Worker != "" {
		path, file, err := c.resolveServer(c.Worker)
		return resolved{path, c.Args, file, file}, err
	}
	server, file, err := c.resolveServer(c.Args[0])
	if err != nil {
		return resolved{}, err
	}
	bridge, err := c.FindBridge()
	if err != nil {
		return resolved{}, err
	}
	return resolved{bridge, append([]string{"bridge", "--", server}, c.Args[1:]...), file, FileNow(bridge)}, nil
}

// resolveServer returns what to start for the server, and its executable as it
// is.
func (c Command) resolveServer(name string) (string, File, error) {
	path, err := proc.LookPath(name, c.Dir, c.Env)
	if err != nil {
		return "", File{}, err
	}
	if c.Stand == nil {
		return path, FileNow(path), nil
	}
	run, as, err := c.Stand(path)
	return run, File{path, as}, err
}

// Place returns the path of the server's executable, whether it exists or not;
// empty if it is searched for by its name.
func (c Command) Place() string {
	name := c.Worker
	if name == "" {
		name = c.Args[0]
	}
	if !strings.ContainsRune(filepath.ToSlash(name), '/') {
		return ""
	}
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(c.Dir, name)
}

// Server returns the file of the server as it is now.
func (c Command) Server() (File, error) {
	name := c.Worker
	if name == "" {
		name = c.Args[0]
	}
	path, err := proc.LookPath(name, c.Dir, c.Env)
	if err != nil {
		return File{}, err
	}
	return FileNow(path), nil
}

// File is an executable as it was at some time.
type File struct {
	path string
	info os.FileInfo
}

// FileNow returns the file at path as it is now.
func FileNow(path string) File {
	info, err := os.Stat(path)
	if err != nil {
		info = nil
	}
	return File{path, info}
}

// Path returns where it is.
func (f File) Path() string { return f.path }

// Identity tells it from another file, or the same one with other content.
func (f File) Identity() string {
	if f.info == nil {
		return f.path
	}
	return fmt.Sprintf("%s %d %d", f.path, f.info.Size(), f.info.ModTime().UnixNano())
}

// Replaced reports whether the file is no longer the same.
func (f File) Replaced() bool {
	now, err := os.Stat(f.path)
	return err != nil || f.info == nil || !os.SameFile(now, f.info) || !now.ModTime().Equal(f.info.ModTime())
}

// FindBridge looks for holdfast-worker beside our own executable, then on our
// own PATH.
func (c Command) FindBridge() (string, error) {
	if c.Bridge != "" {
		return proc.LookPath(c.Bridge, c.Dir, c.Env)
	}
	var beside string
	if self, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(self); err == nil {
			self = real
		}
		beside = filepath.Dir(self)
		if path, err := proc.LookPath("."+string(filepath.Separator)+BridgeName, beside, os.Environ()); err == nil {
			return path, nil
		}
	}
	path, err := proc.LookPath(BridgeName, c.Dir, os.Environ())
	if err != nil {
		return "", fmt.Errorf("%s: not in %s, nor on PATH %s: %w", BridgeName, beside, os.Getenv("PATH"), ErrNoBridge)
	}
	return path, nil
}

// Errors of a start.
var (
	// ErrNoBridge: returned when holdfast-worker is found nowhere.
	ErrNoBridge = errors.New("install it beside holdfast or on PATH")
	// ErrWireVersion: returned when a worker speaks no wire version of ours.
	ErrWireVersion = errors.New("wire version not supported")
	// ErrSilent: returned when a worker lives but does not do its handshake.
	ErrSilent = errors.New("no handshake")
)

// CheckBridge reports whether a bridged command could find holdfast-worker.
func (c Command) CheckBridge() error {
	if c.Worker != "" {
		return nil
	}
	_, err := c.FindBridge()
	return err
}
