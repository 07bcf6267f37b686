package rebuild

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Defaults are what a project lets one guess.
type Defaults struct {
	// Kind of the project: Go, Node.js, Python, or empty if it is none of
	// them.
	Kind string
	// From is what gave it away, for people.
	From string
	// Watch has paths and globs, Build the build command, empty if none is
	// needed, or none can be guessed.
	Watch []string
	Build string
	// Missing says which setting could not be guessed, and why; or is empty.
	Missing string
}

// Infer guesses what to watch and how to build, from the files of a project
// directory and the command that starts the server; native says that this is
// a worker, built that its build is known. It reads files and runs nothing.
func Infer(dir string, command []string, native, built bool) Defaults {
	p := project{dir: dir, command: command}
	program := p.program()
	for _, try := range []struct {
		applies bool
		infer   func() Defaults
	}{
		{!native && isPython(program), p.python},
		{!native && isNode(program), p.node},
		{p.has("go.mod") && (native || program == "go" || p.inside(command[0])), p.golang},
		{p.has("package.json"), p.node},
		{p.hasAny(pythonFiles) != "", p.python},
		{p.has("go.mod"), p.golang},
	} {
		if try.applies {
			return try.infer()
		}
	}
	switch {
	case built:
		return Defaults{Watch: everything}
	case isPath(command[0]) && p.has(command[0]):
		return Defaults{From: "its executable", Watch: []string{command[0]}}
	}
	return Defaults{Missing: "what to watch: give --watch PATH"}
}

// everything is what is watched of a project of an unknown kind: all but where
// builds usually write to.
var everything = []string{".", "!target", "!build", "!dist", "!out", "!bin", "!obj"}

// isPath reports whether a word names a file by its place.
func isPath(word string) bool { return filepath.IsAbs(word) || strings.ContainsAny(word, `/\`) }

// project is a directory with the sources of a server.
type project struct {
	dir     string
	command []string
}

func (p project) has(name string) bool {
	_, err := os.Stat(within(p.dir, name))
	return err == nil
}

func (p project) hasAny(names []string) string {
	if i := slices.IndexFunc(names, p.has); i >= 0 {
		return names[i]
	}
	return ""
}

// read returns a file of the project, as far as it is of a sensible size.
func (p project) read(name string) []byte {
	path := filepath.Join(p.dir, name)
	if info, err := os.Stat(path); err != nil || info.Size() > 1<<20 {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return text
}

// program returns the name of the program, without directory and extension.
func (p project) program() string {
	name := strings.ToLower(filepath.Base(filepath.FromSlash(strings.ReplaceAll(p.command[0], `\`, "/"))))
	for _, ext := range []string{".exe", ".cmd", ".bat"} {
		name = strings.TrimSuffix(name, ext)
	}
	return name
}

// inside reports whether a word of the command is a path in the project, of
// what exists or may be built.
func (p project) inside(word string) bool {
	_, ok := p.rel(word)
	return ok && isPath(word)
}

// rel returns a path of the project relative to it, with slashes.
func (p project) rel(word string) (string, bool) {
	return below(p.dir, within(p.dir, word))
}

var pythonFiles = []string{"pyproject.toml", "setup.py", "setup.cfg", "requirements.txt"}

func isPython(program string) bool {
	return strings.HasPrefix(program, "python") || slices.Contains([]string{"py", "uv", "uvx", "poetry", "pipenv", "fastmcp"}, program)
}

// python: an interpreter reads the sources at each start.
func (p project) python() Defaults {
	from := p.hasAny(pythonFiles)
	d := Defaults{Kind: "Python", From: from, Watch: []string{"**/*.py"}}
	if from == "" {
		d.From = p.command[0]
	}
	for _, name := range pythonFiles {
		if p.has(name) {
			d.Watch = append(d.Watch, name)
		}
	}
	return d
}

// golang: the executable is built from the package in the project that its name
// or place tells.
func (p project) golang() Defaults {
	d := Defaults{Kind: "Go", From: "go.mod", Watch: []string{"**/*.go", "!**/*_test.go", "go.mod"}}
	if p.has("go.sum") {
		d.Watch = append(d.Watch, "go.sum")
	}
	if p.program() == "go" {
		return d // go run builds at each start
	}
	out, ok := p.rel(p.command[0])
	if !ok || !p.inside(p.command[0]) {
		d.Missing = "how to build " + p.command[0] + ", which lies outside the project: give --build"
		return d
	}
	pkg := p.mainPackage(out)
	if pkg == "" {
		d.Missing = "which package " + out + " is built from: give --build 'go build -o " + quote(out) + " PACKAGE'"
		return d
	}
	d.Build = "go build -o " + quote(out) + " " + quote(pkg)
	return d
}

// mainPackage returns the package that an executable is built from: that of its
// name below cmd, that of the project itself, or the only one below cmd.
func (p project) mainPackage(out string) string {
	name := strings.TrimSuffix(filepath.Base(filepath.FromSlash(out)), ".exe")
	if p.isMain("cmd/" + name) {
		return "./cmd/" + name
	}
	if p.isMain(".") {
		return "."
	}
	var found []string
	entries, err := os.ReadDir(filepath.Join(p.dir, "cmd"))
	for _, e := range entries {
		if e.IsDir() && p.isMain("cmd/"+e.Name()) {
			found = append(found, "./cmd/"+e.Name())
		}
	}
	if err != nil || len(found) != 1 {
		return ""
	}
	return found[0]
}

// isMain reports whether the directory has files of a package main.
func (p project) isMain(dir string) bool {
	entries, err := os.ReadDir(filepath.Join(p.dir, dir))
	if err != nil {
		return false
	}
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		name := e.Name()
		return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && packageOf(p.read(filepath.Join(dir, name))) == "main"
	})
}

// packageOf returns the name in the package clause of a Go file.
func packageOf(source []byte) string {
	for line := range strings.Lines(string(source)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "package "); ok {
			name, _, _ = strings.Cut(name, "//")
			return strings.TrimSpace(name)
		}
	}
	return ""
}

// quote makes a word of a shell command, unless it is one as it stands.
func quote(word string) string {
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./@%+=:,", r)
	}) {
		return word
	}
	return shellQuote(word)
}
