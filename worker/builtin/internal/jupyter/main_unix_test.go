//go:build unix

package jupyter

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// groupLives reports whether a group has a member that has not ended; one that
// has may wait for a distant parent to take notice.
func groupLives(pgid int) bool {
	if runtime.GOOS != "linux" {
		return unix.Kill(-pgid, 0) == nil
	}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		raw, _ := os.ReadFile(file)
		fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:])) // state, parent, group
		if len(fields) > 2 && fields[0] != "Z" && fields[2] == strconv.Itoa(pgid) {
			return true
		}
	}
	return false
}

// stop stops a kernel, so that it lives and does nothing.
func stop(t *testing.T, k *Kernel) {
	t.Helper()
	if err := unix.Kill(-k.Identity().Pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}

func killHard(t *testing.T, k *Kernel) {
	t.Helper()
	if err := unix.Kill(k.Identity().Pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
}
