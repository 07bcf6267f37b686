package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/holdfast-mcp/holdfast/internal/logging"
	"github.com/holdfast-mcp/holdfast/internal/proc"
	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/config"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/editor"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/generation"
)

// serverName is what all clients accept; some make tool names of it.
var serverName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func checkName(name string) error {
	if !serverName.MatchString(name) {
		return usageError{fmt.Errorf("--name %q: must have 1 to 64 letters, digits, - and _", name)}
	}
	return nil
}

// check refuses settings with which the entry would not start.
func (in *installation) check(command []string) error {
	c := in.config
	c.Args = command
	if err := c.Validate(); err != nil {
		return usageError{err}
	}
	if _, err := logging.ParseLevel(c.LogLevel); err != nil {
		return usageError{err}
	}
	if _, err := c.WorkDir(); err != nil {
		return usageError{err}
	}
	return nil
}

// notes are what a person should know of an entry.
type notes []string

func (n *notes) add(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(*n, text) {
		*n = append(*n, text)
	}
}

// writer makes entries that start holdfast.
type writer struct {
	in       *installation
	client   editor.Client
	notes    *notes
	dir      string // where install was called
	holdfast string
}

func newWriter(in *installation, client editor.Client, notes *notes) (*writer, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	w := &writer{in, client, notes, dir, "holdfast"}
	if in.asGiven {
		return w, nil
	}
	if w.holdfast, err = ownPath(); err != nil {
		return nil, err
	}
	if in.config.Worker == "" {
		if err := (generation.Command{Args: []string{"server"}}).CheckBridge(); err != nil {
			notes.add("%v", err)
		}
	}
	return w, nil
}

// ownPath returns the path of this program, that on PATH if it is the same: it
// stays what it is when a new version is installed.
func ownPath() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	found, err := exec.LookPath("holdfast")
	if err == nil {
		found, err = filepath.Abs(found)
	}
	if err == nil && sameFile(found, self) {
		return found, nil
	}
	return self, nil
}

func sameFile(a, b string) bool {
	one, err1 := os.Stat(a)
	two, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(one, two)
}

// entry returns a new entry.
func (w *writer) entry(command []string) editor.Server {
	s := editor.Server{Name: w.in.name, Command: w.holdfast}
	for _, kv := range w.in.config.Env {
		name, value, _ := strings.Cut(kv, "=")
		if w.throughEnv(name) {
			s.Env = slices.DeleteFunc(s.Env, func(v editor.Variable) bool { return v.Name == name })
			s.Env = append(s.Env, editor.Variable{Name: name, Value: value})
		}
	}
	dir := w.dir
	if w.in.config.Dir != "" {
		dir = w.full(w.in.config.Dir)
	}
	s.Args = append(started(s.Name), w.flags(w.throughEnv)...)
	if len(command) > 0 {
		program := w.program(command[0], dir)
		if w.in.config.Worker != "" {
			program = command[0] // an argument of the worker
		}
		s.Args = append(s.Args, "--", program)
		s.Args = append(s.Args, command[1:]...)
		w.relative(command[1:], dir)
	}
	if w.in.project && !w.in.asGiven {
		w.notes.add("the file names paths of this machine; --as-given writes names only")
	}
	return s
}

// started are the first arguments of an entry. A person finds the supervisor by
// the name that it has in the client, if that can be typed.
func started(name string) []string {
	if config.CheckName(name) != nil {
		return []string{"run"}
	}
	return []string{"run", "--name", name}
}

// around returns the arguments in front of those of an entry.
func (w *writer) around(s editor.Server) []string {
	args := append(started(s.Name), w.flags(func(string) bool { return false })...)
	program := s.Command
	ownPath := slices.ContainsFunc(s.Env, func(v editor.Variable) bool { return strings.EqualFold(v.Name, "PATH") })
	switch {
	case filepath.IsAbs(s.Dir):
		program = w.program(program, s.Dir)
	case !ownPath && !strings.ContainsAny(program, `/\`):
		program = w.program(program, w.dir)
	}
	return append(args, "--", program)
}

// throughEnv reports whether a variable of --env reaches the server through
// the client's env, where other users do not see it. holdfast keeps some for
// itself.
func (w *writer) throughEnv(name string) bool {
	return len(protocol.StripHandshake(protocol.StripSettings([]string{name + "="}))) > 0
}

// flags returns the flags of run that were given, without variables that are
// in the entry's env.
func (w *writer) flags(inEnv func(name string) bool) []string {
	var args []string
	w.in.given.Visit(func(f *pflag.Flag) {
		if w.in.run.Lookup(f.Name) == nil {
			return
		}
		switch value := f.Value.String(); {
		case f.Name == "name": // that of the entry
		case f.Name == "env":
			for _, kv := range w.in.config.Env {
				if name, _, _ := strings.Cut(kv, "="); !inEnv(name) {
					args = append(args, "--env", kv)
				}
			}
		case f.Name == "worker":
			dir := w.dir
			if w.in.config.Dir != "" {
				dir = w.full(w.in.config.Dir)
			}
			args = append(args, "--worker", w.program(value, dir))
		case slices.Contains([]string{"cwd", "env-file", "log-file", "config"}, f.Name):
			args = append(args, "--"+f.Name, w.full(value))
		case f.NoOptDefVal != "" && value == f.NoOptDefVal:
			args = append(args, "--"+f.Name)
		case f.NoOptDefVal != "": // what stands alone behind it is no value
			args = append(args, "--"+f.Name+"="+value)
		default:
			args = append(args, "--"+f.Name, value)
		}
	})
	return args
}

// full returns a path in full.
func (w *writer) full(path string) string {
	if w.in.asGiven || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(w.dir, path)
}

// variable begins a part of a value that the client replaces.
const variable = "${"

// program returns the path of an executable.
func (w *writer) program(name, dir string) string {
	if w.in.asGiven || strings.Contains(name, variable) {
		return name
	}
	path, err := proc.LookPath(name, dir, os.Environ())
	if err != nil {
		w.notes.add("%v; the entry has the name as it is", err)
		return name
	}
	hasPath := slices.ContainsFunc(w.in.config.Env, func(kv string) bool { return strings.HasPrefix(kv, "PATH=") })
	if w.client.Desktop && !strings.ContainsAny(name, `/\`) && !onEveryPath(path) && !hasPath {
		w.notes.add("%s is written as %s; %s may start it with a short PATH, so if it needs other programs from yours, add --env \"PATH=$PATH\"",
			name, path, w.client.Title)
	}
	return path
}

// onEveryPath reports whether an executable is where desktop programs look too.
func onEveryPath(path string) bool {
	return runtime.GOOS == "windows" || slices.Contains([]string{"/usr/bin", "/bin", "/usr/sbin", "/sbin"}, filepath.Dir(path))
}

// relative notes arguments that are files of the folder where install is
// called, and would be looked for where the client starts the server.
func (w *writer) relative(args []string, dir string) {
	if w.in.config.Dir != "" {
		return
	}
	for _, arg := range args {
		if arg == "" || arg[0] == '-' || filepath.IsAbs(arg) || strings.Contains(arg, variable) {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, arg)); err == nil {
			w.notes.add("%s is a relative path, and clients start servers in folders of their own; give it in full, or --cwd %s", arg, dir)
			return
		}
	}
}
