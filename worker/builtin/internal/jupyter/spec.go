package jupyter

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Errors of kernelspecs.
var (
	// ErrNoKernel is returned when no kernel of that name is installed.
	ErrNoKernel = errors.New("no such kernel")
	// ErrSpec is returned when a kernel.json cannot be read or used.
	ErrSpec = errors.New("kernelspec cannot be used")
)

// The ways to interrupt a kernel.
const (
	bySignal  = "signal"
	byMessage = "message"
)

// Spec is an installed kernel.
type Spec struct {
	// Name is that of its folder, in lower case.
	Name string `json:"name"`
	// Dir is the folder, and {resource_dir} in Argv.
	Dir           string            `json:"dir"`
	Argv          []string          `json:"argv"`
	DisplayName   string            `json:"display_name"`
	Language      string            `json:"language"`
	InterruptMode string            `json:"interrupt_mode"`
	Env           map[string]string `json:"env,omitempty"`
}

// Installed is what a search for kernels finds.
type Installed struct {
	// Specs are the kernels by name, each the first of its name.
	Specs []*Spec
	// Shadowed are the folders of kernels whose name was found before.
	Shadowed []string
	// Broken are the kernels that cannot be used, as errors that are
	// [ErrSpec].
	Broken []error
	// Searched are the folders that were looked into, in order.
	Searched []string
}

// NotFoundError tells that there is no kernel of a name, and what there is.
type NotFoundError struct {
	Name      string
	Installed []string
	Searched  []string
}

func (e *NotFoundError) Error() string {
	have := "none is installed"
	if len(e.Installed) > 0 {
		have = "installed are " + strings.Join(e.Installed, ", ")
	}
	return fmt.Sprintf("no kernel named %q: %s; searched %s", e.Name, have, strings.Join(e.Searched, string(filepath.ListSeparator)))
}

// Is reports whether target is [ErrNoKernel].
func (e *NotFoundError) Is(target error) bool { return target == ErrNoKernel }

// validName is what Jupyter allows as the name of a kernel.
var validName = regexp.MustCompile(`^[a-z0-9._-]+$`)

// List finds all kernels that an environment leads to; nil is that of this
// process.
func List(env []string) Installed {
	found := Installed{Searched: readEnvironment(env).kernelDirs()}
	seen := make(map[string]bool)
	for _, dir := range found.Searched {
		for name, folder := range kernelsIn(dir) {
			if seen[name] {
				found.Shadowed = append(found.Shadowed, folder)
				continue
			}
			seen[name] = true
			spec, err := load(name, folder)
			if err != nil {
				found.Broken = append(found.Broken, err)
				continue
			}
			found.Specs = append(found.Specs, spec)
		}
	}
	slices.SortFunc(found.Specs, func(a, b *Spec) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(found.Shadowed)
	return found
}

// Find finds one kernel, whatever the case of its name. Its error is a
// [*NotFoundError] or an [ErrSpec].
func Find(env []string, name string) (*Spec, error) {
	dirs := readEnvironment(env).kernelDirs()
	key := strings.ToLower(name)
	for _, dir := range dirs {
		if folder, ok := kernelsIn(dir)[key]; ok {
			return load(key, folder)
		}
	}
	missing := &NotFoundError{Name: name, Searched: dirs}
	for _, spec := range List(env).Specs {
		missing.Installed = append(missing.Installed, spec.Name)
	}
	return nil, missing
}

// kernelsIn returns the folders below dir that hold a kernel.json, by name.
func kernelsIn(dir string) map[string]string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	out := make(map[string]string)
	for _, entry := range entries {
		folder := filepath.Join(dir, entry.Name())
		if info, err := os.Stat(filepath.Join(folder, "kernel.json")); err == nil && info.Mode().IsRegular() {
			out[strings.ToLower(entry.Name())] = folder
		}
	}
	return out
}

// maxSpec bounds a kernel.json.
const maxSpec = 1 << 20

func load(name, dir string) (*Spec, error) {
	file := filepath.Join(dir, "kernel.json")
	if !validName.MatchString(name) {
		return nil, fmt.Errorf("%w: %s: the name may have only ASCII letters, digits, - . and _", ErrSpec, dir)
	}
	info, err := os.Stat(file)
	if err == nil && info.Size() > maxSpec {
		err = errors.New("larger than 1 MiB")
	}
	var raw []byte
	if err == nil {
		raw, err = os.ReadFile(file)
	}
	if err != nil {
		if path, ok := errors.AsType[*fs.PathError](err); ok {
			err = path.Err
		}
		return nil, fmt.Errorf("%w: %s: %w", ErrSpec, file, err)
	}
	spec, err := parseSpec(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrSpec, file, err)
	}
	spec.Name, spec.Dir = name, dir
	return spec, nil
}

func parseSpec(raw []byte) (*Spec, error) {
	var file struct {
		Argv          []string          `json:"argv"`
		DisplayName   string            `json:"display_name"`
		Language      string            `json:"language"`
		InterruptMode string            `json:"interrupt_mode"`
		Env           map[string]string `json:"env"`
		Metadata      struct {
			Provisioner struct {
				Name string `json:"provisioner_name"`
			} `json:"kernel_provisioner"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, err
	}
	mode := strings.ToLower(file.InterruptMode)
	switch {
	case len(file.Argv) == 0 || file.Argv[0] == "":
		return nil, errors.New("argv names no command")
	case mode != "" && mode != bySignal && mode != byMessage:
		return nil, fmt.Errorf("interrupt_mode %q is neither signal nor message", file.InterruptMode)
	}
	if name := file.Metadata.Provisioner.Name; name != "" && name != "local-provisioner" {
		return nil, fmt.Errorf("it is started by the provisioner %q, which is not supported", name)
	}
	if mode == "" {
		mode = bySignal
	}
	return &Spec{
		Argv: file.Argv, DisplayName: file.DisplayName, Language: file.Language,
		InterruptMode: mode, Env: file.Env,
	}, nil
}

// program is the name of the command, as far as kernels are known by it.
func (s *Spec) program() string {
	return strings.TrimSuffix(strings.ToLower(filepath.Base(s.Argv[0])), ".exe")
}

// interruptMode is that of the spec, but for kernels which do not say that a
// signal ends them: Deno and xeus-python, as tried out.
func (s *Spec) interruptMode() string {
	if s.program() == "deno" || strings.HasPrefix(s.program(), "xpython") {
		return byMessage
	}
	return s.InterruptMode
}

// speaksIPC reports whether the kernel is one that is known to listen on Unix
// sockets where its connection file says. Others know only tcp, or take another
// name for the socket and are never found.
func (s *Spec) speaksIPC() bool {
	return slices.ContainsFunc(s.Argv, func(arg string) bool {
		return strings.HasPrefix(arg, "ipykernel") || strings.HasPrefix(arg, "IRkernel::")
	})
}

// settleTime is how long output may come after the idle status, which by the
// protocol is the last. Deno sends them by different tasks.
func (s *Spec) settleTime() time.Duration {
	if s.program() == "deno" {
		return 50 * time.Millisecond
	}
	return 0
}

var (
	placeholder = regexp.MustCompile(`\{[A-Za-z0-9_]+\}`)
	pythonName  = regexp.MustCompile(`^python(3(\.\d+)?)?(\.exe)?$`)
	// templateName is what Python's string.Template replaces: $$, $name and
	// ${name}.
	templateName = regexp.MustCompile(`\$(?:\$|([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})`)
)

// command returns the argv with everything put in.
func (s *Spec) command(env environment, connectionFile string) []string {
	prefix := s.pythonPrefix()
	values := map[string]string{
		"{connection_file}": connectionFile,
		"{resource_dir}":    s.Dir,
		"{prefix}":          prefix,
	}
	argv := slices.Clone(s.Argv)
	if pythonName.MatchString(argv[0]) && prefix != "" {
		argv[0] = python(prefix, argv[0])
	}
	for i, arg := range argv {
		argv[i] = placeholder.ReplaceAllStringFunc(arg, func(name string) string {
			if value, ok := values[name]; ok {
				return value
			}
			return name
		})
		if rest, ok := strings.CutPrefix(argv[i], "~"); ok && (rest == "" || os.IsPathSeparator(rest[0])) {
			argv[i] = env.home() + rest
		}
	}
	return argv
}

// pythonPrefix is the environment that the spec is part of, empty if it is in
// a folder of the user.
func (s *Spec) pythonPrefix() string {
	share, kernels := filepath.Split(filepath.Dir(s.Dir))
	share, jupyter := filepath.Split(filepath.Clean(share))
	prefix, last := filepath.Split(filepath.Clean(share))
	if kernels != "kernels" || jupyter != "jupyter" || last != "share" {
		return ""
	}
	return filepath.Clean(prefix)
}

// python is the interpreter of an environment: Jupyter itself takes its own for
// a bare "python", which is that of the environment where the kernel is
// installed and often not the first in PATH.
func python(prefix, name string) string {
	for _, file := range []string{
		filepath.Join(prefix, "bin", name), filepath.Join(prefix, "bin", "python3"), filepath.Join(prefix, "python.exe"),
	} {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			return file
		}
	}
	return name
}

// environ returns the environment of the kernel's process: that of ours, with
// the variables of the spec, in which ${NAME} stands for one of ours.
func (s *Spec) environ(env environment) []string {
	out := maps.Clone(env)
	for _, name := range []string{"PYTHONEXECUTABLE", "JPY_PARENT_PID", "JPY_INTERRUPT_EVENT", "IPY_INTERRUPT_EVENT"} {
		delete(out, variable(name)) // they are about another process
	}
	if _, told := out[variable("PYDEVD_DISABLE_FILE_VALIDATION")]; !told {
		// Else ipykernel warns of frozen modules on each start.
		out[variable("PYDEVD_DISABLE_FILE_VALIDATION")] = "1"
	}
	for name, value := range s.Env {
		out[variable(name)] = templateName.ReplaceAllStringFunc(value, func(found string) string {
			if found == "$$" {
				return "$"
			}
			if value, ok := env[variable(strings.Trim(found, "${}"))]; ok {
				return value
			}
			return found
		})
	}
	list := make([]string, 0, len(out))
	for _, name := range slices.Sorted(maps.Keys(out)) {
		list = append(list, name+"="+out[name])
	}
	return list
}
