//go:build unix

package proc

import (
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lastSweep bounds what comes between KillOwnGroupAfter and the end.
const lastSweep = 100 * time.Millisecond

// tie is empty: a group needs nothing but its id.
type tie struct{}

func (tie) prepare(Spec, *os.ProcAttr) error { return nil }

func (tie) bind(*os.Process, Spec) error { return nil }

func (tie) release() {}

func (p *Process) terminateTree() error { return p.signal(unix.SIGTERM) }

func (p *Process) interruptTree() error { return p.signal(unix.SIGINT) }

func (p *Process) killTree() error { return p.signal(unix.SIGKILL) }

// signal sends to the group, or to a process without one. The leader is not
// reaped: the group's id is still its own.
func (p *Process) signal(sig syscall.Signal) error {
	if !p.group {
		return p.os.Signal(sig)
	}
	return os.NewSyscallError("kill", unix.Kill(-p.id.Pid, sig))
}

func exitOf(state *os.ProcessState) Exit {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return Exit{Code: -1, Signal: unix.SignalName(ws.Signal())}
	}
	return Exit{Code: state.ExitCode()}
}

// KillOwnGroupAfter kills, after d, the descendants that left the group, the
// process group of this process, and this process; where it does not lead its
// group, the group is left alone. It returns at once. It is what a worker does
// when its parent has died: what is still to be said in that time is said,
// then nothing stays behind.
func KillOwnGroupAfter(d time.Duration) {
	time.AfterFunc(d, func() {
		swept := make(chan struct{})
		go func() { // ends with this process at the latest
			killDescendants()
			close(swept)
		}()
		select {
		case <-swept:
		case <-time.After(lastSweep):
		}
		pid := unix.Getpid()
		if unix.Getpgrp() == pid {
			unix.Kill(-pid, unix.SIGKILL)
		}
		unix.Kill(pid, unix.SIGKILL)
	})
}

// envName returns the name of an environment entry, as names are compared.
func envName(kv string) string {
	name, _, _ := strings.Cut(kv, "=")
	return name
}

// completeEnv adds what no process can do without: nothing here.
func completeEnv(env []string) []string { return env }
