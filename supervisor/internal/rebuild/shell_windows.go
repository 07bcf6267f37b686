package rebuild

import (
	"os"
	"path/filepath"
)

// buildVariable carries the command line to cmd.exe, whose rules for quotes in
// arguments are its own.
const buildVariable = "HOLDFAST_BUILD_COMMAND"

// shell returns how to run a command line.
func shell(text string, env []string) (path string, args, environ []string) {
	path = os.Getenv("ComSpec")
	if path == "" {
		path = filepath.Join(os.Getenv("SystemRoot"), "System32", "cmd.exe")
	}
	return path, []string{"/D", "/C", "%" + buildVariable + "%"}, append(env[:len(env):len(env)], buildVariable+"="+text)
}

// shellQuote makes one word of the text, which is a path and has no quotes.
func shellQuote(text string) string { return `"` + text + `"` }
