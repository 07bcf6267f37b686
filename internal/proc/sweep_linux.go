package proc

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// sweepTimeout bounds a sweep; only processes that hang in the kernel, or fork
// faster than they can be killed, outlast it.
const sweepTimeout = time.Second

// stat is what is read of one process in /proc.
type stat struct {
	id     Identity
	ppid   int
	pgrp   int
	zombie bool
}

// table is one reading of /proc, by pid.
type table map[int]stat

// snapshot reads all processes that can be seen. It is no atomic picture:
// processes may come and go meanwhile.
func snapshot() table {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	t := make(table, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if s, err := readStat(pid); err == nil {
			t[pid] = s
		}
	}
	return t
}

func readStat(pid int) (stat, error) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, err
	}
	return parseStat(pid, raw)
}

var errStat = errors.New("proc: malformed /proc/pid/stat")

// parseStat reads proc(5) stat: "pid (name) state ppid pgrp ... starttime",
// the start time being field 22. The name may hold spaces and parentheses.
func parseStat(pid int, raw []byte) (stat, error) {
	end := bytes.LastIndexByte(raw, ')')
	if end < 0 {
		return stat{}, errStat
	}
	fields := bytes.Fields(raw[end+1:])
	if len(fields) < 20 {
		return stat{}, errStat
	}
	ppid, err1 := strconv.Atoi(string(fields[1]))
	pgrp, err2 := strconv.Atoi(string(fields[2]))
	start, err3 := strconv.ParseUint(string(fields[19]), 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return stat{}, errors.Join(errStat, err)
	}
	state := fields[0][0]
	return stat{
		id:     Identity{Pid: pid, Start: start},
		ppid:   ppid,
		pgrp:   pgrp,
		zombie: state == 'Z' || state == 'X',
	}, nil
}

// below returns the processes below root, root not included; it leaves out
// those for which skip reports true, with all below them.
func (t table) below(root int, skip func(stat) bool) []stat {
	children := make(map[int][]stat, len(t))
	for _, s := range t {
		children[s.ppid] = append(children[s.ppid], s)
	}
	var out []stat
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		for _, s := range children[queue[0]] {
			if !skip(s) {
				out = append(out, s)
				queue = append(queue, s.id.Pid)
			}
		}
	}
	return out
}

// Identify returns the identity of a process that exists, ended or not.
func Identify(pid int) (Identity, error) {
	s, err := readStat(pid)
	return s.id, err
}

// ended reports whether a process that exists is a zombie.
func ended(pid int) bool {
	s, err := readStat(pid)
	return err != nil || s.zombie
}

// descendants returns what lives below a process.
func descendants(id Identity) []Identity {
	t := snapshot()
	if t[id.Pid].id != id {
		return nil
	}
	var out []Identity
	for _, s := range t.below(id.Pid, func(stat) bool { return false }) {
		out = append(out, s.id)
	}
	return out
}

// strayLocked reports whether a child of this process may be killed, with all
// below it, and reaped: it was not started here, and no live process can have started it. A
// zombie is a stray whoever started it. tree is locked.
func strayLocked(s stat) bool {
	if s.pgrp == unix.Getpgrp() && !tree.ungrouped {
		return false // perhaps started by os/exec
	}
	for p := range tree.live {
		if s.id.Pid == p.id.Pid {
			return false
		}
		if !s.zombie && s.id.Start >= p.id.Start {
			return false
		}
	}
	return true
}

// sweep kills doomed and all strays, and returns how many it killed.
func sweep(doomed []Identity) int {
	killed := make(map[Identity]struct{})
	for deadline := time.Now().Add(sweepTimeout); ; {
		open := sweepOnce(doomed, killed)
		if len(open) == 0 || time.Now().After(deadline) {
			closeAll(open)
			return len(killed)
		}
		awaitAny(open, 50*time.Millisecond)
		closeAll(open)
	}
}

// sweepOnce sends KILL to what is to be swept now, reaps what has ended, and
// returns a pidfd of each that is still ending.
func sweepOnce(doomed []Identity, killed map[Identity]struct{}) (open []int) {
	tree.Lock()
	defer tree.Unlock()
	if !tree.subreaper && len(doomed) == 0 {
		return nil
	}
	t := snapshot()
	spared := t.sparedLocked()
	var victims []stat
	for _, id := range doomed {
		if s, ok := t[id.Pid]; ok && s.id == id && !s.zombie && !spared[id] {
			victims = append(victims, s)
		}
	}
	if tree.subreaper {
		self := os.Getpid()
		skip := func(s stat) bool { return spared[s.id] || s.ppid == self && !strayLocked(s) }
		for _, s := range t.below(self, skip) {
			switch {
			case !s.zombie:
				victims = append(victims, s)
			case s.ppid == self: // those below are for their own parents
				reap(s.id.Pid)
			}
		}
	}
	for _, s := range victims {
		if fd, ok := kill(s.id); ok {
			killed[s.id] = struct{}{}
			open = append(open, fd)
		}
	}
	return open
}

// sparedLocked returns the spared daemons and all below them, and forgets
// those that are gone. tree is locked.
func (t table) sparedLocked() map[Identity]bool {
	spared := make(map[Identity]bool)
	for id := range tree.spared {
		if t[id.Pid].id != id {
			delete(tree.spared, id)
			continue
		}
		spared[id] = true
		for _, s := range t.below(id.Pid, func(stat) bool { return false }) {
			spared[s.id] = true
		}
	}
	return spared
}

// kill sends KILL to exactly this process and returns a pidfd that becomes
// readable at its end; -1 where the kernel or a sandbox has no pidfds.
func kill(id Identity) (pidfd int, ok bool) {
	fd, err := unix.PidfdOpen(id.Pid, 0)
	if err == unix.ENOSYS || err == unix.EPERM {
		now, err := Identify(id.Pid)
		return -1, err == nil && now == id && unix.Kill(id.Pid, unix.SIGKILL) == nil
	}
	if err != nil {
		return -1, false
	}
	// The pidfd holds whoever has the pid now; only then its identity counts.
	if now, err := Identify(id.Pid); err != nil || now != id || unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) != nil {
		unix.Close(fd)
		return -1, false
	}
	return fd, true
}

func awaitAny(pidfds []int, limit time.Duration) {
	poll := make([]unix.PollFd, len(pidfds))
	for i, fd := range pidfds {
		poll[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}
	_, _ = unix.Poll(poll, int(limit.Milliseconds()))
}

func closeAll(fds []int) {
	for _, fd := range fds {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// reapStrays reaps the strays that have ended.
func reapStrays() {
	tree.Lock()
	defer tree.Unlock()
	for _, pid := range children() {
		if s, err := readStat(pid); err == nil && s.zombie && strayLocked(s) {
			reap(pid)
		}
	}
}

// children returns the pids of this process's children, ended ones included.
// Of those that come or go meanwhile, any may be missing.
func children() []int {
	var pids []int
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		raw, _ := os.ReadFile(list)
		for field := range bytes.FieldsSeq(raw) {
			if pid, err := strconv.Atoi(string(field)); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	if len(lists) > 0 {
		return pids
	}
	for pid, s := range snapshot() { // a kernel without these lists
		if s.ppid == os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

func reap(pid int) {
	_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
}

// killDescendants kills all descendants but spared ones, in the last moments
// of this process.
func killDescendants() {
	tree.Lock()
	defer tree.Unlock()
	for range 10 {
		t := snapshot()
		spared := t.sparedLocked()
		n := 0
		for _, s := range t.below(os.Getpid(), func(s stat) bool { return spared[s.id] }) {
			if s.zombie {
				continue
			}
			if fd, ok := kill(s.id); ok {
				closeAll([]int{fd})
				n++
			}
		}
		if n == 0 {
			return
		}
	}
}
