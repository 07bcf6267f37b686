//go:build unix

package rebuild

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/holdfast-mcp/holdfast/internal/ring"
)

// builder runs commands in a directory of the test, with locks of the test's
// own.
type builder struct {
	command

	t *testing.T
}

func newBuilder(t *testing.T, text string, mask ...string) builder {
	t.Helper()
	if os.Getenv("XDG_CACHE_HOME") == "" {
		privateCache(t)
	}
	return builder{command{text: text, dir: t.TempDir(), env: os.Environ(), mask: mask, log: zap.NewNop()}, t}
}

// privateCache gives the test a cache of its own.
func privateCache(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", dir)
	t.Setenv("HOME", dir)
}

func (b builder) run() error {
	return b.command.run(b.t.Context(), told{waiting: func() { b.t.Error("it waits for a lock") }}, nothing)
}

// nothing is what follows a build.
func nothing(context.Context) error { return nil }

// told is who a build reports to.
type told struct {
	waiting, beginning func()
	since              time.Time
}

func (r told) waits() {
	if r.waiting != nil {
		r.waiting()
	}
}

func (r told) begins(context.Context) time.Time {
	if r.beginning != nil {
		r.beginning()
	}
	return r.since
}

func (r told) writes(*ring.Ring) {}

func (b builder) path(name string) string { return filepath.Join(b.dir, name) }

// await returns the content of a file that is about to be written.
func await(t *testing.T, path string) string {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(time.Millisecond) {
		if text, err := os.ReadFile(path); err == nil && strings.HasSuffix(string(text), "\n") {
			return strings.TrimSpace(string(text))
		}
	}
	t.Fatalf("%s was not written", path)
	return ""
}

func TestBuild(t *testing.T) {
	b := newBuilder(t, `echo made > "out put" && pwd > where; cat; exit`)
	if err := b.run(); err != nil {
		t.Fatal(err)
	}
	if got := await(t, b.path("out put")); got != "made" {
		t.Errorf("made %q", got)
	}
	if got := await(t, b.path("where")); resolved(got) != resolved(b.dir) {
		t.Errorf("built in %s, want %s", got, b.dir)
	}
}

// SUP-10: a build that fails tells how it ended and what it said last, without
// secrets; one whose program is missing, too.
func TestBuildFails(t *testing.T) {
	for _, tt := range []struct{ text, what, output string }{
		{"echo working; echo 'a.go:1: syntax \x1b[31merror\x1b[0m' >&2; exit 3", "the build failed with exit code 3", `error`},
		{"no-such-compiler --fast", "the build failed with exit code 127", "no-such-compiler"},
		{"kill -9 $$", "the build failed with exit code 137", ""},
		{"echo token is open-sesame-123; false", "exit code 1", "token is ***"},
		{"seq 1 1000; exit 1", "exit code 1", "1000"},
		{"(((", "exit code 2", "yntax error"},
	} {
		err := newBuilder(t, tt.text, "open-sesame-123").run()
		e, ok := errors.AsType[*Error](err)
		if !ok || !strings.Contains(e.What, tt.what) || !strings.Contains(strings.Join(e.Output, "\n"), tt.output) {
			t.Errorf("%s: %v, want %q and %q", tt.text, err, tt.what, tt.output)
			continue
		}
		if len(e.Output) > 20 || strings.Contains(err.Error(), "open-sesame") || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%s: %d lines of output: %q", tt.text, len(e.Output), e.Output)
		}
	}
}

// A build that prints without end costs bounded memory and fails like any other.
func TestBuildPrintsMuch(t *testing.T) {
	b := newBuilder(t, "yes 'a line of some length, as compilers print them when all goes wrong' | head -c 20000000; exit 1")
	e, ok := errors.AsType[*Error](b.run())
	if !ok || len(e.Output) == 0 || len(e.Output) > 20 {
		t.Errorf("error %v", e)
	}
}

// What a build leaves in the background does not keep it from ending, and is
// ended with it.
func TestBuildLeavesSomething(t *testing.T) {
	b := newBuilder(t, "sleep 1000 & echo $! > pid")
	began := time.Now()
	if err := b.run(); err != nil || time.Since(began) > patience {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	awaitGone(t, await(t, b.path("pid")))
}

// awaitGone waits for the end of a process that is no child of ours.
func awaitGone(t *testing.T, text string) {
	t.Helper()
	pid, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); syscall.Kill(pid, 0) == nil; <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d lives on", pid)
		}
	}
}

// A build that is ended ends as a whole, also where it does not want to.
func TestBuildIsEnded(t *testing.T) {
	b := newBuilder(t, `trap '' TERM; sh -c 'trap "" TERM; echo $$ > pid; while :; do sleep 1000; done'`)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error)
	go func() { // ends by cancel
		done <- b.command.run(ctx, told{}, nothing)
	}()
	pid := await(t, b.path("pid"))
	cancel(errSuperseded)
	if err := <-done; !errors.Is(err, errSuperseded) {
		t.Errorf("run() = %v", err)
	}
	awaitGone(t, pid)
}

// SEC-7: builds of one command in one directory wait for each other, and do not
// fail; others do not wait. One that is ended while it waits begins no more.
func TestSEC7Lock(t *testing.T) {
	// Two at a time would fail.
	b := newBuilder(t, "mkdir busy && sleep 0.05 && rmdir busy")
	var builds, waits sync.WaitGroup
	waits.Add(2)
	for range 3 {
		builds.Go(func() { // ends with its build
			if err := b.command.run(t.Context(), told{waiting: waits.Done}, nothing); err != nil {
				t.Error(err)
			}
		})
	}
	builds.Wait()
	waits.Wait()

	l, err := lockFor(b.text, b.dir)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := l.TryLock(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	defer l.Close()
	other := newBuilder(t, b.text)
	if err := other.run(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	err = b.command.run(ctx, told{
		waiting: func() { cancel(errSuperseded) }, beginning: func() { t.Error("it began") },
	}, nothing)
	if !errors.Is(err, errSuperseded) {
		t.Errorf("run() = %v", err)
	}
	if info, err := os.Stat(filepath.Dir(l.Path())); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("locks lie in %v, %v", info.Mode(), err)
	}
}

// SEC-7: what another window has built since the last change is not built again;
// what it has built before, with another environment, or not to a good end, is.
// What follows a build comes before any other.
func TestSEC7BuiltByAnother(t *testing.T) {
	b := newBuilder(t, "echo >> builds; test ! -e broken")
	builds := func() int { return strings.Count(string(read(t, b.path("builds"))), "\n") }
	run := func(c command, since time.Time, want int) {
		t.Helper()
		looked := 0
		err := c.run(t.Context(), told{since: since}, func(context.Context) error {
			looked++
			if l, err := lockFor(c.text, c.dir); err != nil {
				t.Error(err)
			} else if ok, err := l.TryLock(); ok || err != nil {
				t.Errorf("the lock is free already: %v", err)
			}
			return nil
		})
		if builds() != want || (err == nil) != (looked == 1) {
			t.Errorf("%d builds, want %d; looked %d times; %v", builds(), want, looked, err)
		}
	}
	before := time.Now()
	run(b.command, before, 1)
	run(b.command, before, 1)
	run(b.command, time.Now(), 2)
	run(b.command, time.Time{}, 3)
	other := b.command
	other.mask = []string{"another-secret"}
	run(other, before, 4)
	write(t, b.path("broken"), nil)
	now := time.Now()
	run(b.command, now, 5)
	if err := os.Remove(b.path("broken")); err != nil {
		t.Fatal(err)
	}
	run(b.command, now, 6)
	run(b.command, now, 6)
}

// A build without a cache directory is one without a lock.
func TestNoLock(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "/dev/null/none")
	t.Setenv("HOME", "/dev/null")
	if err := newBuilder(t, "true").run(); err != nil {
		t.Error(err)
	}
}
