//go:build unix

package rebuild

import "strings"

// guard runs its argument in a shell of its own. When we die, the system tells
// the guard alone: it passes that on to the whole group, which has 200 ms.
const guard = `trap 'trap "" TERM; kill -TERM 0; (sleep 0.2; kill -KILL 0) & wait $b; exit 143' TERM
/bin/sh -c "$1" & b=$!; wait $b`

// shell returns how to run a command line.
func shell(text string, env []string) (path string, args, environ []string) {
	return "/bin/sh", []string{"-c", guard, "sh", text}, env
}

// shellQuote makes one word of the text.
func shellQuote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
