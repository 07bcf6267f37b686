package rebuild

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// ignoredDirs are never looked into, unless a pattern leads there by name: they
// are large, or written by tools and not by people.
var ignoredDirs = []string{
	".git", ".hg", ".svn", ".jj", "node_modules", "bower_components", ".venv", "venv", "__pycache__", ".tox", ".nox",
	".mypy_cache", ".pytest_cache", ".ruff_cache", ".gradle", ".idea", ".vs", ".cache",
}

// ignoredFiles match what editors write beside a file that they save.
var ignoredFiles = []string{"*~", ".*.sw?", ".*.swpx", "4913", ".#*", "#*#", "*.tmp", "*.bak", ".DS_Store", "*___jb_*___", "*.pyc"}

// pattern is one path or glob that is watched.
type pattern struct {
	// base is a directory that exists, absolute; all that matches lies in it.
	base string
	// glob is what matches below base, with slashes; "**" for all of it.
	glob string
}

// patterns are all that is watched, and what is left out of it.
type patterns struct {
	in, out []pattern
	ignored []string // absolute paths of files and directories
}

// parsePatterns reads paths and globs, relative to dir. One that starts with !
// leaves out what it matches.
func parsePatterns(dir string, texts, ignored []string) (patterns, error) {
	p := patterns{ignored: ignored}
	for _, text := range texts {
		glob, without := strings.CutPrefix(text, "!")
		one, err := parsePattern(dir, glob, without)
		if err != nil {
			return patterns{}, fmt.Errorf("--watch %s: %w", text, err)
		}
		if without {
			p.out = append(p.out, one)
		} else {
			p.in = append(p.in, one)
		}
	}
	return p, nil
}

func parsePattern(dir, text string, without bool) (pattern, error) {
	if text == "" {
		return pattern{}, errors.New("is empty")
	}
	path := within(dir, text)
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return pattern{path, "**"}, nil
	case err == nil:
		return pattern{filepath.Dir(path), escapeGlob(filepath.Base(path))}, nil
	case !hasMeta(text) && without: // a build may make it yet
		return pattern{filepath.Dir(path), escapeGlob(filepath.Base(path)) + "/**"}, nil
	case !hasMeta(text):
		return pattern{}, err
	}
	base, glob := doublestar.SplitPattern(filepath.ToSlash(text))
	base = within(dir, base)
	if !doublestar.ValidatePattern(glob) {
		return pattern{}, errors.New("is no valid glob")
	}
	if _, err := os.Stat(base); err != nil && !without {
		return pattern{}, err
	}
	return pattern{base, glob}, nil
}

// within returns path as an absolute one, relative to dir.
func within(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, filepath.FromSlash(path))
}

func hasMeta(text string) bool { return strings.ContainsAny(text, `*?[{`) }

// escapeGlob makes a name match itself only.
func escapeGlob(name string) string {
	var b strings.Builder
	for _, r := range name {
		if strings.ContainsRune(`*?[]{}\!^`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// below returns path relative to base, with slashes; false if it is elsewhere.
func below(base, path string) (string, bool) {
	rel, err := filepath.Rel(base, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return "", false
	}
	return filepath.ToSlash(rel), true
}

// isOwn reports whether path is, or lies in, something of ours.
func (p patterns) isOwn(path string) bool {
	return slices.ContainsFunc(p.ignored, func(own string) bool {
		_, ok := below(own, path)
		return ok
	})
}

// match reports whether a change of the file at path counts.
func (p patterns) match(path string) bool {
	if p.isOwn(path) || slices.ContainsFunc(p.out, func(o pattern) bool { return o.match(path) }) {
		return false
	}
	return slices.ContainsFunc(p.in, func(o pattern) bool { return o.match(path) && !o.skips(path) })
}

func (p pattern) match(path string) bool {
	rel, ok := below(p.base, path)
	return ok && doublestar.MatchUnvalidated(p.glob, rel)
}

// skips reports whether path is something that nobody means, unless the pattern
// names it.
func (p pattern) skips(path string) bool {
	rel, _ := below(p.base, path)
	parts := strings.Split(rel, "/")
	dirs, file := parts[:len(parts)-1], parts[len(parts)-1]
	literal := !hasMeta(p.glob)
	return !literal && (slices.ContainsFunc(dirs, func(d string) bool { return slices.Contains(ignoredDirs, d) }) ||
		slices.ContainsFunc(ignoredFiles, func(g string) bool { return doublestar.MatchUnvalidated(g, file) }))
}

// reaches reports whether something in the directory may match.
func (p patterns) reaches(dir string) bool {
	if p.isOwn(dir) || slices.ContainsFunc(p.out, func(o pattern) bool { return o.covers(dir) }) {
		return false
	}
	return slices.ContainsFunc(p.in, func(o pattern) bool { return o.reaches(dir) })
}

// covers reports whether all in the directory matches.
func (p pattern) covers(dir string) bool {
	return (p.glob == "**" || strings.HasSuffix(p.glob, "/**")) && p.match(filepath.Join(dir, "any"))
}

func (p pattern) reaches(dir string) bool {
	rel, ok := below(p.base, dir)
	if !ok {
		return false
	}
	if rel == "." {
		return true
	}
	parts := strings.Split(rel, "/")
	if slices.ContainsFunc(parts, func(d string) bool { return slices.Contains(ignoredDirs, d) }) {
		return false
	}
	if strings.Contains(p.glob, "**") || strings.Contains(p.glob, "{") {
		return true
	}
	return len(parts) < len(strings.Split(p.glob, "/"))
}
