package jupyter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/internal/proc"
	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/jupytertest"
)

// ROOM-7: a kernel has a group of its own, a key and sockets that are guarded,
// its directory and the environment of its spec.
func TestStart(t *testing.T) {
	spec := pythonSpec(t)
	spec.Env = map[string]string{"FROM_SPEC": "<${OUTER}> $$ ${MISSING}"}
	dir := t.TempDir()
	k := startKernel(t, Config{Spec: spec, IPC: true, Dir: dir, Env: []string{"OUTER=value", "PYTHONEXECUTABLE=x"}})

	info, err := os.Stat(k.connection.file)
	if err != nil || info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("connection file: %v %v", info.Mode(), err)
	}
	if info, err := os.Stat(k.connection.dir); err != nil || info.Mode().Perm() != 0o700 && runtime.GOOS != "windows" {
		t.Errorf("its folder: %v %v", info.Mode(), err)
	}
	if runtime.GOOS != "windows" && k.connection.transport != "ipc" {
		t.Errorf("transport %s", k.connection.transport)
	}
	said, r := finish(t, execute(t, k, "import os; print(os.getcwd(), os.environ['FROM_SPEC'], os.environ.get('PYTHONEXECUTABLE'), os.getpgrp() == os.getpid(), os.getsid(0) == os.getpid())"))
	wantOutcome(t, r, OK)
	real, _ := filepath.EvalSymlinks(dir)
	if want := real + " <value> $ ${MISSING} None True True"; !strings.Contains(strings.Join(said["stream"], ""), want) {
		t.Errorf("%s, want %s", said["stream"], want)
	}
	if r.Count == nil || *r.Count != 1 {
		t.Errorf("count %v", r.Count)
	}
	if k.Err() != nil {
		t.Errorf("error %v of a kernel that lives", k.Err())
	}
}

// ROOM-7: an error ends what was queued behind it, unless that is told to go
// on.
func TestQueue(t *testing.T) {
	k := startKernel(t, Config{Spec: pythonSpec(t)})
	for _, test := range []struct {
		goOn bool
		want []Outcome
	}{
		{false, []Outcome{OK, Failed, Aborted, Aborted}},
		{true, []Outcome{OK, Failed, OK, OK}},
	} {
		var runs []*Execution
		for _, code := range []string{"import time; time.sleep(0.3)", "1/0", "2", "3"} {
			runs = append(runs, request(t, k, Request{Code: code, GoOn: test.goOn}))
		}
		for i, e := range runs {
			said, r := finish(t, e)
			wantOutcome(t, r, test.want[i])
			if r.Outcome == Failed && (r.EName != "ZeroDivisionError" || r.EValue != "division by zero" || len(said["error"]) != 1) {
				t.Errorf("%+v %v", r, said["error"])
			}
		}
		wantOutcome(t, afterAborts(t, k, "1"), OK)
	}
}

// ROOM-8: nothing is lost while the reader is stalled, and the end is seen.
func TestStalledReader(t *testing.T) {
	for range 3 {
		if stall(t) {
			return
		}
		t.Log("the kernel itself has dropped output, and it was noticed: once more")
	}
	t.Error("the kernel drops output each time")
}

// stall reports whether the kernel has sent all that it printed.
func stall(t *testing.T) (sent bool) {
	t.Helper()
	const n = 20_000
	k := startKernel(t, Config{Spec: pythonSpec(t), Memory: 256 << 10})
	e := execute(t, k, fmt.Sprintf("for i in range(%d): print(i, flush=True)", n))
	var text strings.Builder
	for text.Len() == 0 { // and no more, until the kernel has sent all
		m, _ := next(t, e)
		text.WriteString(printed(t, m))
	}
	for deadline := time.Now().Add(patience); ; {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err := k.request(ctx, shell, "kernel_info_request", struct{}{}) // behind the execution
		cancel()
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if waiting := k.conns[iopub].Pending(); waiting < 5_000 {
		t.Errorf("only %d messages wait", waiting)
	}
	for {
		m, ok := next(t, e)
		if !ok {
			break
		}
		text.WriteString(printed(t, m))
	}
	r := e.Result()
	wantOutcome(t, r, OK)
	lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	if r.Cut {
		return false
	}
	if len(lines) != n {
		t.Fatalf("%d lines, %+v", len(lines), r)
	}
	for i, line := range lines {
		if line != fmt.Sprint(i) {
			t.Fatalf("line %d is %q", i, line)
		}
	}
	return true
}

// printed is the text of a stream message.
func printed(t *testing.T, m Message) string {
	t.Helper()
	var content struct{ Text string }
	if m.Type != "stream" {
		return ""
	}
	if err := json.Unmarshal(m.Content, &content); err != nil {
		t.Fatal(err)
	}
	return content.Text
}

// ROOM-7: an interrupt ends the execution and what is queued, and the kernel
// lives on.
func TestInterrupt(t *testing.T) {
	k := startKernel(t, Config{Spec: pythonSpec(t)})
	e := execute(t, k, "print('begun', flush=True)\nimport time\nwhile True: time.sleep(0.01)")
	queued := execute(t, k, "1")
	awaitOutput(t, e, "begun")
	if err := k.Interrupt(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, r := finish(t, e)
	wantOutcome(t, r, Failed)
	if r.EName != "KeyboardInterrupt" {
		t.Errorf("%+v", r)
	}
	_, r = finish(t, queued)
	wantOutcome(t, r, Aborted)
	if err := k.Interrupt(t.Context()); err != nil { // of nothing
		t.Fatal(err)
	}
	if k.Err() != nil {
		t.Error(k.Err())
	}
}

// ROOM-7: a kernel that a signal ends is told as dead, not as interrupted.
func TestInterruptThatKills(t *testing.T) {
	k := startKernel(t, Config{Spec: pythonSpec(t)})
	e := execute(t, k, "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\nprint('begun', flush=True)\nwhile True: time.sleep(0.01)")
	awaitOutput(t, e, "begun")
	err := k.Interrupt(t.Context())
	end, ok := errors.AsType[*EndError](err)
	if !ok || !errors.Is(err, ErrDied) || runtime.GOOS != "windows" && end.Exit.Signal != "SIGINT" {
		t.Errorf("error %v", err)
	}
	_, r := finish(t, e)
	wantOutcome(t, r, Died)
	if err := k.Interrupt(t.Context()); !errors.Is(err, ErrDied) {
		t.Errorf("of a dead kernel: %v", err)
	}
}

// ROOM-7: a kernel that ignores interrupts lives and goes on, until it is
// ended.
func TestInterruptIgnored(t *testing.T) {
	k := startKernel(t, Config{Spec: pythonSpec(t)})
	e := execute(t, k, "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('begun', flush=True)\nwhile True: time.sleep(0.01)")
	awaitOutput(t, e, "begun")
	if err := k.Interrupt(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if m, err := e.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v %v after the interrupt", m, err)
	}
	k.Kill()
	_, r := finish(t, e)
	wantOutcome(t, r, Died)
	if !errors.Is(r.Err, ErrEnded) {
		t.Errorf("error %v", r.Err)
	}
}

// ROOM-7: interrupts by message end nothing, and one without answer is told.
func TestInterruptByMessage(t *testing.T) {
	t.Parallel() // it mostly waits
	spec := pythonSpec(t)
	spec.InterruptMode = byMessage
	k := startKernel(t, Config{Spec: spec})
	e := execute(t, k, "import time\nprint('begun', flush=True)\nwhile True: time.sleep(0.01)")
	awaitOutput(t, e, "begun")
	if err := k.Interrupt(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, r := finish(t, e)
	wantOutcome(t, r, Failed)

	deaf := startKernel(t, Config{Spec: fakeSpec(t, "plain")})
	if err := deaf.Interrupt(t.Context()); !errors.Is(err, ErrInterrupt) {
		t.Errorf("error %v", err)
	}
}

// ROOM-7: what a kernel said before its death is received, then its death, for
// what runs and what is queued; its children are gone with it, and its files.
func TestDeath(t *testing.T) {
	dir := t.TempDir()
	k := startKernel(t, Config{Spec: pythonSpec(t), Dir: dir})
	e := execute(t, k, `import os, subprocess, sys, time
child = subprocess.Popen(["sleep", "1000"])
print("child", child.pid, flush=True)
os.write(2, b"last words\n")
time.sleep(0.2)
os.kill(os.getpid(), 9)`)
	queued := execute(t, k, "1")
	said, r := finish(t, e)
	wantOutcome(t, r, Died)
	end, ok := errors.AsType[*EndError](r.Err)
	if !ok || end.Cause != nil || runtime.GOOS != "windows" && end.Exit != (proc.Exit{Code: -1, Signal: "SIGKILL"}) {
		t.Errorf("error %v", r.Err)
	}
	if !r.Cut {
		t.Error("the end of the output was seen")
	}
	var pid int
	var text struct{ Text string }
	if err := json.Unmarshal([]byte(said["stream"][0]), &text); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(text.Text, "child %d", &pid); err != nil {
		t.Fatalf("%v: %q", err, said["stream"])
	}
	_, r = finish(t, queued)
	wantOutcome(t, r, Died)
	if end := awaitEnd(t, k); !strings.Contains(strings.Join(end.Output, "\n")+said["stream"][len(said["stream"])-1], "last words") {
		t.Errorf("output %q", end.Output)
	}
	if id, err := proc.Identify(pid); err == nil && id.Alive() {
		t.Error("the child of the kernel lives")
	}
	if _, err := os.Stat(k.connection.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("files of the kernel: %v", err)
	}
	if _, err := k.Execute(t.Context(), Request{Code: "1"}); !errors.Is(err, ErrDied) {
		t.Errorf("an execution in a dead kernel: %v", err)
	}
}

// ROOM-7: death is seen within a second, whoever kills.
func TestDeathIsSeenAtOnce(t *testing.T) {
	k := startKernel(t, Config{Spec: pythonSpec(t)})
	e := execute(t, k, "import time\nprint('begun', flush=True)\ntime.sleep(1000)")
	awaitOutput(t, e, "begun")
	began := time.Now()
	killHard(t, k)
	_, r := finish(t, e)
	wantOutcome(t, r, Died)
	if took := time.Since(began); took > 5*time.Second { // a second, on a machine that has one
		t.Errorf("seen after %v", took)
	} else {
		t.Logf("seen after %v", took)
	}
}

// ROOM-7: a kernel that stands still is told by its heartbeat, be it idle or
// in an execution.
func TestStuck(t *testing.T) {
	for _, code := range []string{"", "import time\nprint('begun', flush=True)\ntime.sleep(1000)"} {
		k := startKernel(t, Config{Spec: pythonSpec(t), Heartbeat: 300 * time.Millisecond})
		var e *Execution
		if code != "" {
			e = execute(t, k, code)
			awaitOutput(t, e, "begun")
			// It is known to beat while it computes once it has done so.
			if k.awaitDone(3*learnTime + time.Second) {
				t.Fatal(k.Err())
			}
		}
		stop(t, k)
		if end := awaitEnd(t, k); !errors.Is(end, ErrStuck) {
			t.Errorf("error %v", end)
		}
		if e != nil {
			_, r := finish(t, e)
			wantOutcome(t, r, Died)
		}
	}
}

// ROOM-7: a kernel that answers no heartbeat while it computes, as that of R,
// is not stuck.
func TestComputesWithoutHeartbeat(t *testing.T) {
	k := startKernel(t, Config{Spec: fakeSpec(t, "plain"), Heartbeat: 300 * time.Millisecond})
	for range 2 {
		said, r := finish(t, execute(t, k, "2"))
		wantOutcome(t, r, OK)
		if len(said["stream"]) != 1 {
			t.Errorf("said %v", said)
		}
	}
	stop(t, k)
	if end := awaitEnd(t, k); !errors.Is(end, ErrStuck) {
		t.Errorf("error %v", end)
	}
}

// An execution ends although one of its two ends is lost.
func TestLostEnds(t *testing.T) {
	t.Parallel() // it mostly waits
	k := startKernel(t, Config{Spec: fakeSpec(t, "no-idle")})
	_, r := finish(t, execute(t, k, "x"))
	if r.Outcome != OK || !r.Cut {
		t.Errorf("without idle: %+v", r)
	}
	k = startKernel(t, Config{Spec: fakeSpec(t, "no-reply")})
	_, r = finish(t, execute(t, k, "x"))
	if r.Outcome != Unknown || r.Cut {
		t.Errorf("without reply: %+v", r)
	}
}

// ROOM-7: a kernel that closes its sockets and lives on is ended.
func TestDisconnected(t *testing.T) {
	k := startKernel(t, Config{Spec: fakeSpec(t, "closes")})
	_, r := finish(t, execute(t, k, "x"))
	wantOutcome(t, r, Died)
	if !errors.Is(r.Err, ErrDisconnected) {
		t.Errorf("error %v", r.Err)
	}
}

// Messages with a wrong signature are dropped and counted.
func TestForged(t *testing.T) {
	k := startKernel(t, Config{Spec: fakeSpec(t, "forged")})
	said, r := finish(t, execute(t, k, "genuine"))
	wantOutcome(t, r, OK)
	if text := strings.Join(said["stream"], ""); !strings.Contains(text, "genuine") || strings.Contains(text, "forged") {
		t.Errorf("said %s", text)
	}
	if n := k.Forged(); n != 2 {
		t.Errorf("%d messages were dropped", n)
	}
}

// ROOM-7: a kernel that does not speak ipc is reached by tcp, also one of
// which that was expected, and one whose ports were taken gets others.
func TestTransports(t *testing.T) {
	k := startKernel(t, Config{Spec: fakeSpec(t, "plain"), IPC: true})
	if k.connection.transport != "tcp" {
		t.Errorf("transport %s", k.connection.transport)
	}
	spec := fakeSpec(t, "tcp-only")
	spec.Argv = append(spec.Argv, "ipykernel")
	k = startKernel(t, Config{Spec: spec, IPC: true})
	if k.connection.transport != "tcp" {
		t.Errorf("transport %s", k.connection.transport)
	}
	_, r := finish(t, execute(t, k, "x"))
	wantOutcome(t, r, OK)

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().(*net.TCPAddr).Port
	tries := 0
	k = startKernel(t, Config{Spec: pythonSpec(t), ports: func() ([sockets]int, error) {
		ports, err := freePorts()
		if tries++; tries == 1 {
			ports[iopub] = taken
		}
		return ports, err
	}})
	if tries != 2 {
		t.Errorf("%d starts", tries)
	}
	_, r = finish(t, execute(t, k, "1"))
	wantOutcome(t, r, OK)
}

// ROOM-7: a start that fails says why, within a second of the fact.
func TestStartFails(t *testing.T) {
	interpreter := jupytertest.Python(t, "zmq")
	silent := fakeSpec(t, "silent")
	ends := &Spec{Name: "ends", Dir: t.TempDir(), Argv: []string{interpreter, "-c", "import sys; sys.exit('no module named x')"}}
	for name, test := range map[string]struct {
		config Config
		want   error
		says   string
	}{
		"no command":     {Config{Spec: &Spec{Name: "x", Dir: "/specs/x", Argv: []string{"no-such-command"}}}, ErrSpec, "/specs/x"},
		"ends":           {Config{Spec: ends}, ErrDied, "no module named x"},
		"never ready":    {Config{Spec: silent, StartTimeout: time.Second}, ErrNotReady, "fake"},
		"no such folder": {Config{Spec: ends, Dir: "/does/not/exist"}, os.ErrNotExist, "/does/not/exist"},
	} {
		t.Run(name, func(t *testing.T) {
			_, env := runtimeDir(t)
			test.config.Env = env
			k, err := Start(t.Context(), test.config)
			if k != nil {
				k.Close(0)
			}
			if start, ok := errors.AsType[*StartError](err); !ok || !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v %v", err, start)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	_, env := runtimeDir(t)
	if _, err := Start(ctx, Config{Spec: silent, Env: env}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestRestart(t *testing.T) {
	k := startKernel(t, Config{Spec: pythonSpec(t)})
	_, r := finish(t, execute(t, k, "x = 1"))
	wantOutcome(t, r, OK)
	again, err := k.Restart(t.Context(), politeness)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close(politeness)
	if k.Err() == nil || !errors.Is(k.Err(), ErrEnded) || again.Identity() == k.Identity() {
		t.Errorf("the old one: %v", k.Err())
	}
	_, r = finish(t, execute(t, again, "x"))
	if r.EName != "NameError" || *r.Count != 1 {
		t.Errorf("%+v", r)
	}
}

// A kernel that does not shut down is made to.
func TestCloseStubborn(t *testing.T) {
	k := startKernel(t, Config{Spec: pythonSpec(t)})
	e := execute(t, k, "import signal, time\nfor s in (signal.SIGINT, signal.SIGTERM): signal.signal(s, signal.SIG_IGN)\nprint('begun', flush=True)\nwhile True: time.sleep(0.01)")
	awaitOutput(t, e, "begun")
	k.Close(300 * time.Millisecond)
	_, r := finish(t, e)
	wantOutcome(t, r, Died)
	k.Close(0) // again
}

// Executions that are left hold up nothing.
func TestLeave(t *testing.T) {
	k := startKernel(t, Config{Spec: pythonSpec(t)})
	left := execute(t, k, "for i in range(100): print(i, flush=True)")
	e := execute(t, k, "1")
	left.Leave()
	_, r := finish(t, e)
	wantOutcome(t, r, OK)
	if _, ok := next(t, left); ok {
		t.Error("a message for who has left")
	}
}

// Nothing accumulates over many lives; HOLDFAST_RUNS says how many.
func TestManyLives(t *testing.T) {
	runs := 3
	if n := os.Getenv("HOLDFAST_RUNS"); n != "" {
		if _, err := fmt.Sscan(n, &runs); err != nil {
			t.Fatal(err)
		}
	}
	for i := range runs {
		k := startKernel(t, Config{Spec: pythonSpec(t)})
		_, r := finish(t, execute(t, k, "1"))
		wantOutcome(t, r, OK)
		k.Close(time.Duration(i%2) * politeness)
	}
}
