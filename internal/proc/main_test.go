package proc

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// roleEnv makes the test binary play one of roles instead of running tests.
const roleEnv = "PROC_TEST_ROLE"

// roles are the processes that the tests start. A role says what it has to say
// on stdout.
var roles = map[string]func(args []string){
	"exit": func(args []string) {
		code, _ := strconv.Atoi(args[0])
		os.Exit(code)
	},
	"environ": func([]string) {
		dir, _ := os.Getwd()
		fmt.Printf("%s %s %s\n", dir, os.Getenv("PWD"), os.Getenv("TWICE"))
	},
}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		os.Unsetenv(roleEnv)
		play, ok := roles[role]
		if !ok {
			panic("no such role: " + role)
		}
		play(os.Args[1:])
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// roleSpec returns how to start the test binary in a role.
func roleSpec(role string, args ...string) Spec {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	// The race detector's pause at exit would be most of the tests' time.
	env := append(os.Environ(), roleEnv+"="+role, "GORACE=atexit_sleep_ms=0")
	return Spec{Path: self, Args: args, Env: env, Group: true}
}

// start starts a process that writes to the returned reader, and stops it at
// the end of the test.
func start(t *testing.T, spec Spec) (*Process, *bufio.Reader) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	spec.Stdout = w
	if spec.Stderr == nil {
		spec.Stderr = os.Stderr
	}
	p, err := Start(spec)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(0) })
	r.SetReadDeadline(time.Now().Add(30 * time.Second))
	return p, bufio.NewReader(r)
}

func expectLine(t *testing.T, r *bufio.Reader, want string) {
	t.Helper()
	line, err := r.ReadString('\n')
	if strings.TrimSuffix(line, "\n") != want {
		t.Fatalf("read %q (%v), want %q", line, err, want)
	}
}

func awaitDone(t *testing.T, p *Process) Exit {
	t.Helper()
	select {
	case <-p.Done():
		return p.Exit()
	case <-time.After(30 * time.Second):
		t.Fatal("process does not end")
		panic("unreachable")
	}
}

func TestExitCode(t *testing.T) {
	for _, code := range []int{0, 3, 75} {
		p, _ := start(t, roleSpec("exit", strconv.Itoa(code)))
		if got, want := awaitDone(t, p), (Exit{Code: code}); got != want {
			t.Errorf("Exit() = %+v, want %+v", got, want)
		}
		if err := p.Kill(); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("Kill() after the end = %v, want os.ErrProcessDone", err)
		}
		if err := p.Terminate(); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("Terminate() after the end = %v, want os.ErrProcessDone", err)
		}
	}
}

func TestExitString(t *testing.T) {
	for _, tt := range []struct {
		exit Exit
		want string
	}{
		{Exit{Code: 3}, "exit code 3"},
		{Exit{}, "exit code 0"},
		{Exit{Code: -1, Signal: "SIGKILL"}, "killed by SIGKILL"},
	} {
		if got := tt.exit.String(); got != tt.want {
			t.Errorf("%#v: %q, want %q", tt.exit, got, tt.want)
		}
	}
}

func TestStartInDirWithEnv(t *testing.T) {
	dir := t.TempDir()
	spec := roleSpec("environ")
	spec.Dir = dir
	spec.Env = append(spec.Env, "PWD=/elsewhere", "TWICE=first", "TWICE=last")
	_, out := start(t, spec)
	expectLine(t, out, dir+" "+dir+" last")
}

func TestStartError(t *testing.T) {
	dir := t.TempDir()
	script := dir + "/script"
	if err := os.WriteFile(script, []byte("#!/does/not/exist\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		spec Spec
		want string
	}{
		{Spec{Path: dir + "/none"}, "start " + dir + "/none: no such file or directory"},
		{Spec{Path: script}, "the interpreter that it names"},
		{Spec{Path: "/bin/sh", Dir: dir + "/none"}, "start /bin/sh in directory " + dir + "/none: no such file or directory"},
		{Spec{Path: "/bin/sh", Dir: script}, "is not a directory"},
	} {
		_, err := Start(tt.spec)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Start(%+v) = %v, want one line with %q", tt.spec, err, tt.want)
		}
	}
}

func TestIdentity(t *testing.T) {
	p, _ := start(t, roleSpec("exit", "0"))
	awaitDone(t, p)
	if p.Identity().Alive() {
		t.Error("a reaped process is reported alive")
	}
	self, err := Identify(os.Getpid())
	if err != nil || self.Start == 0 || !self.Alive() {
		t.Errorf("Identify(self) = %+v, %v; alive: %v", self, err, self.Alive())
	}
	if reused := (Identity{Pid: self.Pid, Start: self.Start + 1}); reused.Alive() {
		t.Error("another start time is reported alive")
	}
}

// expectEnd fails unless the output ends: no process holds it any more.
func expectEnd(t *testing.T, r io.Reader) {
	t.Helper()
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Errorf("output goes on: %q, %v", rest, err)
	}
}
