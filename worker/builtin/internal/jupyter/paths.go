package jupyter

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Where Jupyter looks, after jupyter_core 5: what JUPYTER_PATH names, then the
// folders of the user and those of the active Python environment, then the
// system's. Those of the environment come before the user's if
// JUPYTER_PREFER_ENV_PATH says so, and without it if an environment is active
// that is the user's own. A Python has its sys.prefix for that; here the
// environment is what VIRTUAL_ENV or CONDA_PREFIX names.

// environment is a set of variables, of which the last counts.
type environment map[string]string

func readEnvironment(env []string) environment {
	if env == nil {
		env = os.Environ()
	}
	out := make(environment, len(env))
	for _, kv := range env {
		if name, value, ok := strings.Cut(kv, "="); ok {
			out[variable(name)] = value
		}
	}
	return out
}

func (e environment) get(name string) string { return e[variable(name)] }

// variable is the name of a variable as names are compared.
func variable(name string) string {
	if runtime.GOOS == "windows" {
		return strings.ToUpper(name)
	}
	return name
}

// set reports whether a switch is on, as jupyter_core has it.
func (e environment) set(name string) bool {
	value, ok := e[variable(name)]
	return ok && !slices.Contains([]string{"", "no", "n", "false", "off", "0", "0.0"}, strings.ToLower(value))
}

func (e environment) home() string {
	home := e.get("HOME")
	if runtime.GOOS == "windows" {
		home = e.get("USERPROFILE")
	}
	if home == "" {
		home, _ = os.UserHomeDir()
	}
	if resolved, err := filepath.EvalSymlinks(home); err == nil {
		return resolved
	}
	return home
}

// dataDir is the user's own folder.
func (e environment) dataDir() string {
	if dir := e.get("JUPYTER_DATA_DIR"); dir != "" {
		return dir
	}
	switch runtime.GOOS {
	case "darwin":
		return filepath.Join(e.home(), "Library", "Jupyter")
	case "windows":
		if dir := e.get("APPDATA"); dir != "" {
			return filepath.Join(dir, "jupyter")
		}
		return filepath.Join(cmp.Or(e.get("JUPYTER_CONFIG_DIR"), filepath.Join(e.home(), ".jupyter")), "data")
	default:
		return filepath.Join(cmp.Or(e.get("XDG_DATA_HOME"), filepath.Join(e.home(), ".local", "share")), "jupyter")
	}
}

// runtimeDir is where connection files are.
func (e environment) runtimeDir() string {
	return cmp.Or(e.get("JUPYTER_RUNTIME_DIR"), filepath.Join(e.dataDir(), "runtime"))
}

// userDirs are the user's folders: Jupyter's, and that of a Python's user base.
func (e environment) userDirs() []string {
	base := e.get("PYTHONUSERBASE")
	if base == "" && runtime.GOOS == "windows" && e.get("APPDATA") != "" {
		base = filepath.Join(e.get("APPDATA"), "Python")
	}
	if base == "" {
		base = filepath.Join(e.home(), ".local")
	}
	dirs := []string{e.dataDir()}
	if dir := filepath.Join(base, "share", "jupyter"); dir != dirs[0] {
		dirs = append(dirs, dir)
	}
	return dirs
}

// prefix is the active Python environment, empty if there is none; own tells
// whether it comes before the user's folders.
func (e environment) prefix() (prefix string, own bool) {
	if prefix = e.get("VIRTUAL_ENV"); prefix != "" {
		return prefix, owned(prefix)
	}
	if prefix = e.get("CONDA_PREFIX"); prefix != "" {
		return prefix, e.get("CONDA_DEFAULT_ENV") != "base" && owned(prefix)
	}
	return "", false
}

func (e environment) systemDirs() []string {
	if runtime.GOOS != "windows" {
		return []string{"/usr/local/share/jupyter", "/usr/share/jupyter"}
	}
	if dir := e.get("PROGRAMDATA"); dir != "" {
		return []string{filepath.Join(dir, "jupyter")}
	}
	return nil
}

// kernelDirs are the folders that may hold kernels, in the order of the search.
func (e environment) kernelDirs() []string {
	var dirs []string
	if list := e.get("JUPYTER_PATH"); list != "" {
		for dir := range strings.SplitSeq(list, string(filepath.ListSeparator)) {
			if dir != "" {
				dirs = append(dirs, dir)
			}
		}
	}
	user, system := e.userDirs(), e.systemDirs()
	var env []string
	prefix, own := e.prefix()
	if prefix != "" {
		if dir := filepath.Join(prefix, "share", "jupyter"); !slices.Contains(system, dir) {
			env = []string{dir}
		}
	}
	if _, told := e[variable("JUPYTER_PREFER_ENV_PATH")]; told {
		own = e.set("JUPYTER_PREFER_ENV_PATH")
	}
	if own {
		user, env = env, user
	}
	dirs = slices.Concat(dirs, user, env, system)
	dirs = append(dirs, cmp.Or(e.get("IPYTHONDIR"), filepath.Join(e.home(), ".ipython")))
	var out []string
	for _, dir := range dirs {
		if dir = filepath.Join(dir, "kernels"); !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	return out
}
