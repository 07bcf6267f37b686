//go:build !unix

package harness

import "testing"

// Signal ends the process: Windows has no signals.
func (c *Client) Signal(tb testing.TB, _ string) {
	tb.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		tb.Error(err)
	}
}

// Signal ends the process: Windows has no signals.
func (p Proc) Signal(tb testing.TB, _ string) {
	tb.Helper()
	p.Kill()
}
