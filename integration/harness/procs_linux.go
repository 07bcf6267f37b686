package harness

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Marked returns the living processes that carry the mark in the environment
// they were started with. Zombies carry none and are left out.
func Marked(tb testing.TB, mark string) []Proc {
	tb.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		tb.Fatal(err)
	}
	var out []Proc
	want := []byte(MarkVariable + "=" + mark + "\x00")
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(env, want) {
			continue // ended meanwhile, or not ours
		}
		dir := filepath.Dir(file)
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		args, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || len(args) == 0 {
			continue
		}
		out = append(out, Proc{PID: pid, Args: strings.Split(strings.TrimSuffix(string(args), "\x00"), "\x00")})
	}
	return out
}

// Usage tells what a process holds.
type Usage struct {
	FDs   int
	RSSKB int
}

// UsageOf looks at a living process.
func UsageOf(tb testing.TB, pid int) Usage {
	tb.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	fds, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		tb.Fatal(err)
	}
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		tb.Fatal(err)
	}
	u := Usage{FDs: len(fds)}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmRSS:" {
			u.RSSKB, _ = strconv.Atoi(fields[1])
		}
	}
	return u
}
