package config

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// maxName is how many characters the name of a supervisor may have.
const maxName = 64

var (
	// nameForm is what can be typed without quotes, and is no process id.
	nameForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)
	digits   = regexp.MustCompile(`^[0-9]+$`)
	notName  = regexp.MustCompile(`[^A-Za-z0-9._-]+`)
	// runners run what their first argument that is no flag names.
	runners = regexp.MustCompile(`^(node|nodejs|bun|bunx|deno|npx|npm|pnpm|yarn|tsx|ts-node|python[0-9.]*|pypy[0-9.]*|uv|uvx|pipx|ruby|perl|php|java|sh|bash|env)$`)
	// endings are of scripts, and no part of a name.
	endings = regexp.MustCompile(`\.([cm]?[jt]sx?|py|rb|pl|php|jar|sh|exe|cmd|bat)$`)
	// verbs stand between a runner and what it runs.
	verbs = []string{"run", "exec", "tool", "x", "dlx", "start"}
)

// CheckName refuses a name that could not be told from a process id or a
// path.
func CheckName(name string) error {
	if name != "" && (len(name) > maxName || !nameForm.MatchString(name) || digits.MatchString(name)) {
		return fmt.Errorf("--name %q: must have 1 to %d letters, digits, dots, - and _, begin with none of . and -, and have more than digits", name, maxName)
	}
	return nil
}

// Called returns by what name people choose this supervisor: the one that was
// given, else that of the server's program, or of what an interpreter runs.
func (c Config) Called() string {
	if c.Name != "" {
		return c.Name
	}
	words := c.Args
	if c.Worker != "" {
		words = []string{c.Worker}
	}
	if len(words) == 0 {
		return ""
	}
	name := program(words[0])
	if runners.MatchString(name) && c.Worker == "" {
		i := slices.IndexFunc(words[1:], func(w string) bool { return w != "" && w[0] != '-' && !slices.Contains(verbs, w) })
		if i >= 0 && !strings.ContainsAny(words[1+i], " \t\n;") {
			name = program(words[1+i])
		}
	}
	name = strings.Trim(notName.ReplaceAllString(name, "-"), "-.")
	name = name[:min(len(name), maxName)]
	if CheckName(name) != nil || name == "" {
		return "server"
	}
	return name
}

// program is the last part of a path or of a package's name, without what is
// said of its version or kind.
func program(word string) string {
	name := path.Base(strings.ReplaceAll(word, `\`, "/"))
	if i := strings.IndexByte(name, '@'); i > 0 {
		name = name[:i]
	}
	return endings.ReplaceAllString(strings.ToLower(name), "")
}
