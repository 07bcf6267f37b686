//go:build unix

package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	roles["ignore-term"] = func([]string) {
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ready")
		forever()
	}
	// family has a child in its group, and both ignore TERM.
	roles["family"] = func([]string) {
		signal.Ignore(syscall.SIGTERM)
		self, _ := os.Executable()
		child := exec.Command(self)
		child.Env = append(os.Environ(), roleEnv+"=ignore-term")
		child.Stdout = os.Stdout
		if err := child.Start(); err != nil {
			panic(err)
		}
		forever()
	}
}

func forever() {
	for {
		time.Sleep(time.Hour)
	}
}

func shell(script string) Spec {
	return Spec{Path: "/bin/sh", Args: []string{"-c", script}, Group: true}
}

func TestExitSignal(t *testing.T) {
	p, out := start(t, shell("echo ready; exec sleep 1000"))
	expectLine(t, out, "ready")
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if got, want := awaitDone(t, p), (Exit{Code: -1, Signal: "SIGKILL"}); got != want {
		t.Errorf("Exit() = %+v, want %+v", got, want)
	}
}

func TestTerminate(t *testing.T) {
	p, out := start(t, shell("echo ready; exec sleep 1000"))
	expectLine(t, out, "ready")
	if err := p.Terminate(); err != nil {
		t.Fatal(err)
	}
	if got, want := awaitDone(t, p), (Exit{Code: -1, Signal: "SIGTERM"}); got != want {
		t.Errorf("Exit() = %+v, want %+v", got, want)
	}
}

// ROOM-7: an interrupt reaches the whole group, and its leader may go on.
func TestInterrupt(t *testing.T) {
	p, out := start(t, shell(`trap 'echo interrupted' INT; sh -c 'echo ready; exec sleep 1000'; echo after; read never`))
	expectLine(t, out, "ready")
	if err := p.Interrupt(); err != nil {
		t.Fatal(err)
	}
	expectLine(t, out, "interrupted")
	expectLine(t, out, "after")
	awaitDone(t, p)
	if err := p.Interrupt(); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("after the end: %v", err)
	}
}

// A process with a session of its own has no terminal, and is a group as well.
func TestSession(t *testing.T) {
	spec := shell("echo ready; sleep 1000 & exec sleep 1000")
	spec.Session = true
	p, out := start(t, spec)
	expectLine(t, out, "ready")
	if sid, err := unix.Getsid(p.Pid()); err != nil || sid != p.Pid() {
		t.Errorf("session %d, process %d, %v", sid, p.Pid(), err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	awaitDone(t, p)
	if _, err := out.ReadString('\n'); err == nil {
		t.Error("more output")
	} else if !errors.Is(err, io.EOF) {
		t.Errorf("the child lives: %v", err)
	}
}

// A stop ends whoever ignores TERM, once the grace is over and not before.
func TestStop_SUP12_TermIgnored(t *testing.T) {
	const grace = 200 * time.Millisecond
	p, out := start(t, roleSpec("family"))
	expectLine(t, out, "ready")
	begin := time.Now()
	p.Stop(grace)
	took := time.Since(begin)
	if got := awaitDone(t, p); got.Signal != "SIGKILL" {
		t.Errorf("Exit() = %+v, want SIGKILL", got)
	}
	if took < grace || took > grace+2*time.Second {
		t.Errorf("stop took %v, grace %v", took, grace)
	}
	expectEnd(t, out) // returns only if the grandchild is gone as well
}

// A stop of processes that obey is over long before the grace is.
func TestStop_C46_Wrappers(t *testing.T) {
	p, out := start(t, shell(`sh -c 'echo ready; sleep 1000; true'; true`))
	expectLine(t, out, "ready")
	begin := time.Now()
	p.Stop(20 * time.Second)
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("stop took %v", took)
	}
	expectEnd(t, out)
}

// The wrapper ends at TERM at once; the server behind it gets the grace.
func TestStopGivesGroupTheGrace(t *testing.T) {
	done := filepath.Join(t.TempDir(), "done")
	p, out := start(t, shell(`
		sh -c 'trap "sleep 0.2; echo saved >$0; exit" TERM; echo ready; while :; do sleep 0.01; done' "`+done+`" &
		wait`))
	expectLine(t, out, "ready")
	p.Stop(20 * time.Second)
	if got, err := os.ReadFile(done); err != nil || string(got) != "saved\n" {
		t.Errorf("the server behind the wrapper did not end in order: %q, %v", got, err)
	}
}

// The end of a leader is the end of its group, without any stop.
func TestLeaderDeath_SUP12(t *testing.T) {
	p, out := start(t, shell("sleep 1000 & echo ready; exit 7"))
	expectLine(t, out, "ready")
	if got, want := awaitDone(t, p), (Exit{Code: 7}); got != want {
		t.Errorf("Exit() = %+v, want %+v", got, want)
	}
	expectEnd(t, out)
}

func TestStopTwiceAtOnce(t *testing.T) {
	p, out := start(t, roleSpec("family"))
	expectLine(t, out, "ready")
	second := make(chan struct{})
	go func() { // ends with the process
		p.Stop(50 * time.Millisecond)
		close(second)
	}()
	p.Stop(50 * time.Millisecond)
	<-second
	awaitDone(t, p)
	p.Stop(time.Second)
}

// A process without a group is signalled alone.
func TestUngrouped(t *testing.T) {
	spec := shell("echo ready; exec sleep 1000")
	spec.Group = false
	p, out := start(t, spec)
	expectLine(t, out, "ready")
	if pgrp, err := syscall.Getpgid(p.Pid()); err != nil || pgrp != syscall.Getpgrp() {
		t.Errorf("group %d (%v), want that of the test", pgrp, err)
	}
	p.Stop(10 * time.Second)
	if got := awaitDone(t, p); got.Signal != "SIGTERM" {
		t.Errorf("Exit() = %+v, want SIGTERM", got)
	}
}

func TestLookPath_EDGE11(t *testing.T) {
	dir := t.TempDir()
	put := func(name string, mode os.FileMode) string {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
		return file
	}
	tool, second := put("a/tool", 0o700), put("b/tool", 0o700)
	plain := put("a/plain", 0o600)
	hidden := put("b/plain2", 0o700)
	put("a/plain2", 0o600)
	if err := os.MkdirAll(filepath.Join(dir, "a", "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(dir, "b")) // must not matter
	path := "PATH=" + dir + "/a::" + dir + "/b"

	for _, tt := range []struct {
		name, env, want string
	}{
		{"tool", path, tool},
		{"tool", "PATH=b:a", second},
		{"./a/tool", path, tool},
		{"a/../b/tool", "", second},
		{tool, "", tool},
		{"plain2", path, hidden}, // what cannot be executed is passed over
	} {
		got, err := LookPath(tt.name, dir, []string{"PATH=/usr/bin", tt.env})
		if err != nil || got != tt.want {
			t.Errorf("LookPath(%q) with %s = %q, %v; want %q", tt.name, tt.env, got, err, tt.want)
		}
	}

	for _, tt := range []struct {
		name string
		env  []string
		want string
	}{
		{"nope", []string{path}, `command "nope" not found in PATH: searched ` + dir + "/a:" + dir + "/b"},
		{"plain", []string{path}, `command "plain" not found: ` + plain + ": not executable; searched " + dir + "/a:" + dir + "/b"},
		{"folder", []string{"PATH=" + dir + "/a"}, `command "folder" not found: ` + dir + "/a/folder: is a directory; searched " + dir + "/a"},
		{"./nope", []string{path}, `command "./nope": ` + dir + "/nope: does not exist"},
		{"a/tool/x", []string{path}, `command "a/tool/x": ` + dir + "/a/tool/x: does not exist"},
		{plain, []string{path}, `command "` + plain + `": ` + plain + ": not executable"},
		{"tool", nil, `command "tool" not found: PATH is not set`},
		{"tool", []string{"PATH="}, `command "tool" not found: PATH is not set`},
		{"", []string{path}, `command "": no name given`},
		{"a\x00b", []string{path}, `command "a\x00b": the name contains a NUL byte`},
	} {
		_, err := LookPath(tt.name, dir, tt.env)
		if err == nil || err.Error() != tt.want {
			t.Errorf("LookPath(%q): %v\nwant %s", tt.name, err, tt.want)
		}
		if strings.Contains(fmt.Sprint(err), "\n") {
			t.Errorf("LookPath(%q): more than one line", tt.name)
		}
	}
}
