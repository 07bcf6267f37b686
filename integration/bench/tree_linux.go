package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU times in /proc, which is the same on all machines.
const tick = 10 * time.Millisecond

// process is one living process of a target.
type process struct {
	PID int    `json:"pid"`
	Exe string `json:"exe"`
	RSS int    `json:"rss_kb"`
	// cpu is its own time and that of the children that it has waited for.
	cpu    time.Duration
	parent int
}

// tree returns the process and all that descends from it.
func tree(root int) []process {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	all := make(map[int]process)
	for _, dir := range dirs {
		if p, ok := look(dir); ok {
			all[p.PID] = p
		}
	}
	var out []process
	for _, p := range all {
		for pid := p.PID; pid > 1; pid = all[pid].parent {
			if pid == root {
				out = append(out, p)
				break
			}
		}
	}
	return out
}

// look reads one process; it may have ended meanwhile.
func look(dir string) (process, bool) {
	var p process
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return p, false
	}
	p.PID, err = strconv.Atoi(filepath.Base(dir))
	// The name, which may contain anything, is in parentheses.
	i := bytes.LastIndexByte(stat, ')')
	if err != nil || i < 0 {
		return p, false
	}
	fields := strings.Fields(string(stat[i+1:])) // from the third on
	if len(fields) < 15 {
		return p, false
	}
	p.parent, _ = strconv.Atoi(fields[1])
	for _, f := range fields[11:15] { // utime, stime, cutime, cstime
		n, _ := strconv.Atoi(f)
		p.cpu += time.Duration(n) * tick
	}
	p.Exe, _ = os.Readlink(filepath.Join(dir, "exe"))
	status, _ := os.ReadFile(filepath.Join(dir, "status"))
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
			p.RSS, _ = strconv.Atoi(f[1])
		}
	}
	return p, true
}

// parentOf returns the parent of a process, 0 if it is unknown.
func parentOf(pid int) int {
	p, _ := look(filepath.Join("/proc", strconv.Itoa(pid)))
	return p.parent
}

// loadAverage returns the load of the last minute, five and fifteen.
func loadAverage() string {
	b, _ := os.ReadFile("/proc/loadavg")
	return strings.Join(strings.Fields(string(b))[:3], " ")
}
