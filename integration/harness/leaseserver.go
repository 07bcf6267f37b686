package harness

import "testing"

// LeaseServer returns package leaseserver as a program.
func LeaseServer(tb testing.TB) string {
	tb.Helper()
	return build(tb, "leaseserver", root+"integration/leaseserver")
}
