//go:build unix

package harness

import (
	"syscall"
	"testing"
)

// Signal sends a signal, named as in kill -NAME, to the started process alone.
func (c *Client) Signal(tb testing.TB, name string) {
	tb.Helper()
	signal, ok := map[string]syscall.Signal{
		"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "KILL": syscall.SIGKILL,
	}[name]
	if !ok {
		tb.Fatalf("no signal %s", name)
	}
	if err := c.cmd.Process.Signal(signal); err != nil {
		tb.Error(err)
	}
}
