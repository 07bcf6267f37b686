package control

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Errors of the choice of an instance.
var (
	// ErrNone is returned when no supervisor of this user runs.
	ErrNone = errors.New("no holdfast is running; an MCP client starts one with `holdfast run`")
	// ErrWhich is returned when several fit.
	ErrWhich = errors.New("several are running, choose one by its name or pid")
	// ErrNoSuch is returned when some run and none fits.
	ErrNoSuch = errors.New("no holdfast that runs has this name, pid or directory")
	// ErrSilent is returned when the one that was chosen does not answer.
	ErrSilent = errors.New("it runs and does not answer")
)

// Matching returns the instances that a person means: those of a name, the one
// with a process id, or those of a directory. An empty text means all.
func Matching(all []Instance, by string) []Instance {
	if by == "" {
		return all
	}
	named := matching(all, func(s Status) bool { return s.Name == by })
	if len(named) > 0 {
		return named
	}
	if pid, err := strconv.Atoi(by); err == nil {
		return matching(all, func(s Status) bool { return s.Pid == pid })
	}
	dir, err := os.Stat(by)
	if err != nil || !dir.IsDir() {
		return nil
	}
	return matching(all, func(s Status) bool { return isDir(dir, s.Dir) || isDir(dir, s.Project) })
}

// Choose returns the one instance that a person means. Without a text that is
// the only one, or the only one of the working directory.
func Choose(all []Instance, by string) (Instance, error) {
	if len(all) == 0 {
		return Instance{}, ErrNone
	}
	fit := Matching(all, by)
	if by == "" && len(fit) > 1 {
		if here, err := os.Getwd(); err == nil {
			if near := matching(all, func(s Status) bool { return belongs(here, s) }); len(near) == 1 {
				fit = near
			}
		}
	}
	switch {
	case len(fit) == 0:
		return Instance{}, fmt.Errorf("%q: %w; running are:%s", by, ErrNoSuch, list(all))
	case len(fit) > 1:
		return Instance{}, fmt.Errorf("%w:%s", ErrWhich, list(fit))
	case fit[0].Status.Silent:
		return Instance{}, fmt.Errorf("pid %d: %w; it may be stopped or overloaded", fit[0].Status.Pid, ErrSilent)
	}
	return fit[0], nil
}

func matching(all []Instance, fits func(Status) bool) []Instance {
	var some []Instance
	for _, i := range all {
		if fits(i.Status) {
			some = append(some, i)
		}
	}
	return some
}

// belongs reports whether a directory is that of a server, or in its project.
func belongs(here string, s Status) bool {
	for dir := here; s.Project != ""; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err == nil && isDir(info, s.Project) {
			return true
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	info, err := os.Stat(here)
	return err == nil && isDir(info, s.Dir)
}

func isDir(dir fs.FileInfo, path string) bool {
	info, err := os.Stat(path)
	return err == nil && os.SameFile(dir, info)
}

// list is a list of instances for people, the longest names decide about its
// columns.
func list(all []Instance) string {
	width := 0
	for _, i := range all {
		width = max(width, len(i.Status.Name))
	}
	sorted := slices.SortedStableFunc(slices.Values(all), func(a, b Instance) int { return strings.Compare(a.Status.Name, b.Status.Name) })
	var b strings.Builder
	for _, i := range sorted {
		fmt.Fprintf(&b, "\n  %-7d %-*s  %s", i.Status.Pid, width, i.Status.Name, i.Status.Command)
	}
	return b.String()
}
