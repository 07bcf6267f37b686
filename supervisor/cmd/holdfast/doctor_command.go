package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/holdfast-mcp/holdfast/internal/proc"
)

// desktopPath is the PATH of programs that are started from a desktop, as far
// as it is everywhere the same. On Windows it is that of the user.
func desktopPath() string {
	switch runtime.GOOS {
	case "windows":
		return os.Getenv("PATH")
	case "darwin":
		return "/usr/bin:/bin:/usr/sbin:/sbin"
	default:
		return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
}

// command looks for the server's program, as this shell and as a desktop
// program would find it. It reports whether it can be started from here.
func (d *doctor) command() bool {
	name := d.config.Worker
	if name == "" {
		name = d.config.Args[0]
	}
	path, err := proc.LookPath(name, d.dir, d.env)
	if err != nil {
		d.fail("command", err.Error(), "install it, or give its path; relative paths count from --cwd")
		return false
	}
	d.ok("command", "%s is %s", name, path)
	short := append(slices.Clip(d.env), "PATH="+desktopPath())
	if _, err := proc.LookPath(name, d.dir, short); err != nil {
		d.warn("command on a desktop", fmt.Sprintf("a client that is started from a desktop may have the PATH %s, and not find %s", desktopPath(), name),
			"give the full path, "+path+", as `holdfast install` does")
		return true
	}
	interpreter := interpreterOf(path)
	if _, err := proc.LookPath(interpreter, d.dir, short); interpreter != "" && err != nil {
		d.warn("command on a desktop", fmt.Sprintf("%s is run by %s, which a client that is started from a desktop may not find: its PATH may be %s",
			path, interpreter, desktopPath()), "give the entry a PATH: `holdfast install CLIENT --env \"PATH=$PATH\"`")
		return true
	}
	return true
}

// interpreterOf returns the program that env looks for on PATH to run a script,
// empty if it is no such script.
func interpreterOf(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := io.ReadFull(f, head) // a shorter file is fine
	line, _, _ := bytes.Cut(head[:n], []byte{'\n'})
	text, ok := strings.CutPrefix(string(line), "#!")
	words := strings.Fields(text)
	if !ok || len(words) < 2 || filepath.Base(words[0]) != "env" {
		return ""
	}
	for _, word := range words[1:] {
		if !strings.HasPrefix(word, "-") && !strings.Contains(word, "=") {
			return word
		}
	}
	return ""
}
