package proc

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// zombieState is SZOMB of sys/proc.h.
const zombieState = 5

func sysProcAttr(spec Spec) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: spec.Group && !spec.Session, Setsid: spec.Group && spec.Session}
}

// awaitExit blocks until the process has ended, without reaping it; waitid
// with WNOWAIT does not do that on macOS (go.dev/issue/19314).
func (p *Process) awaitExit() {
	kq, err := unix.Kqueue()
	if err != nil {
		for !ended(p.id.Pid) { // no descriptor is left for a queue
			time.Sleep(50 * time.Millisecond)
		}
		return
	}
	defer unix.Close(kq)
	var watch unix.Kevent_t
	unix.SetKevent(&watch, p.id.Pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	watch.Fflags = unix.NOTE_EXIT
	events := make([]unix.Kevent_t, 1)
	changes := []unix.Kevent_t{watch}
	for {
		_, err := unix.Kevent(kq, changes, events, nil)
		if err != unix.EINTR {
			return // an event, or ESRCH: it has ended already
		}
		changes = nil
	}
}

// groupAlive reports whether the group has a member that has not ended.
func (p *Process) groupAlive() bool {
	members, err := unix.SysctlKinfoProcSlice("kern.proc.pgrp", p.id.Pid)
	if err != nil {
		return false
	}
	for _, m := range members {
		if m.Proc.P_stat != zombieState {
			return true
		}
	}
	return false
}

// BecomeSubreaper does nothing on macOS, which has no subreapers.
func BecomeSubreaper() error { return nil }

// Identify returns the identity of a process that exists, ended or not.
func Identify(pid int) (Identity, error) {
	info, err := lookup(pid)
	if err != nil {
		return Identity{}, err
	}
	start := info.Proc.P_starttime
	return Identity{Pid: pid, Start: uint64(start.Sec)*1e6 + uint64(start.Usec)}, nil
}

func lookup(pid int) (*unix.KinfoProc, error) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return nil, err
	}
	if int(info.Proc.P_pid) != pid {
		return nil, errors.New("proc: no such process")
	}
	return info, nil
}

// ended reports whether a process that exists is a zombie.
func ended(pid int) bool {
	info, err := lookup(pid)
	return err != nil || info.Proc.P_stat == zombieState
}

// descendants finds nothing: without subreapers a tree is its group.
func descendants(Identity) []Identity { return nil }

func sweep([]Identity) int { return 0 }

func killDescendants() {}
