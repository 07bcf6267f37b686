package check

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// member is a process below a worker.
type member struct{ pid, parent, group int }

// descendants returns the processes below pid that have not ended, parents
// before their children.
func descendants(pid int) ([]member, error) {
	children := make(map[int][]member)
	if err := eachProcess(func(m member) { children[m.parent] = append(children[m.parent], m) }); err != nil {
		return nil, err
	}
	var out []member
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		for _, m := range children[queue[0]] {
			out = append(out, m)
			queue = append(queue, m.pid)
		}
	}
	return out, nil
}

// eachProcess passes all processes that have not ended to f.
func eachProcess(f func(member)) error {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return err
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		if m, ok := parseStat(raw); ok {
			f(m)
		}
	}
	return nil
}

// parseStat reads proc(5) stat, "pid (name) state ppid pgrp ...", where the
// name may hold anything. It reports false for a process that has ended.
func parseStat(raw []byte) (member, bool) {
	end := bytes.LastIndexByte(raw, ')')
	if end < 0 {
		return member{}, false
	}
	head, _, _ := strings.Cut(string(raw), " ")
	fields := strings.Fields(string(raw[end+1:]))
	if len(fields) < 3 || fields[0] == "Z" || fields[0] == "X" {
		return member{}, false
	}
	var m member
	for at, text := range map[*int]string{&m.pid: head, &m.parent: fields[1], &m.group: fields[2]} {
		n, err := strconv.Atoi(text)
		if err != nil {
			return member{}, false
		}
		*at = n
	}
	return m, true
}

// environOf returns the environment that a process was started with.
func environOf(pid int) ([]string, error) {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00"), nil
}

// groupPatience bounds the wait for processes that KILL was sent to.
const groupPatience = time.Second

// awaitGroupGone waits until no process of a killed group is left.
func awaitGroupGone(group int) {
	deadline := time.Now().Add(groupPatience)
	for groupLives(group) && time.Now().Before(deadline) {
		<-time.After(2 * time.Millisecond) // between two looks at the process table
	}
}

func groupLives(group int) bool {
	lives := false
	_ = eachProcess(func(m member) { lives = lives || m.group == group })
	return lives
}
