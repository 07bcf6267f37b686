package proc

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

func sysProcAttr(spec Spec) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: spec.Group && !spec.Session, Setsid: spec.Group && spec.Session}
	if spec.ParentDeath {
		attr.Pdeathsig = unix.SIGTERM
	}
	return attr
}

// awaitExit blocks until the process has ended, without reaping it.
func (p *Process) awaitExit() {
	for {
		err := unix.Waitid(unix.P_PID, p.id.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return
		}
	}
}

// groupAlive reports whether the group has a member that has not ended.
func (p *Process) groupAlive() bool {
	for _, s := range snapshot() {
		if s.pgrp == p.id.Pid && !s.zombie {
			return true
		}
	}
	return false
}

var startReaper sync.Once

// BecomeSubreaper makes this process the one that inherits descendants whose
// parent has ended, so that [Process.Stop] and [Sweep] can find them, and
// reaps them from then on. Children in another process group than this
// process's own must then be started by this package alone: others would be
// taken for strays. So must all children, once one was started without Group.
//
// It does nothing on systems other than Linux.
func BecomeSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	tree.Lock()
	tree.subreaper = true
	tree.Unlock()
	startReaper.Do(func() {
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, unix.SIGCHLD)
		go func() { // ends with this process
			for range ended {
				reapStrays()
			}
		}()
	})
	return nil
}
