//go:build unix

package harness

import (
	"syscall"
	"testing"
)

var signals = map[string]syscall.Signal{
	"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "KILL": syscall.SIGKILL,
	"USR2": syscall.SIGUSR2, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT,
}

// Signal sends a signal, named as in kill -NAME, to the started process alone.
func (c *Client) Signal(tb testing.TB, name string) {
	tb.Helper()
	Proc{PID: c.cmd.Process.Pid}.Signal(tb, name)
}

// Signal sends a signal, named as in kill -NAME.
func (p Proc) Signal(tb testing.TB, name string) {
	tb.Helper()
	signal, ok := signals[name]
	if !ok {
		tb.Fatalf("no signal %s", name)
	}
	if err := syscall.Kill(p.PID, signal); err != nil {
		tb.Errorf("signal %s to %v: %v", name, p, err)
	}
}
