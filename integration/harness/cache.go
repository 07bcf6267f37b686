package harness

import (
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/usercache"
)

// ColdCache is the environment of a process with an empty cache directory of
// its own, which is removed after the test.
func ColdCache(tb testing.TB) []string {
	tb.Helper()
	return usercache.Env(tb.TempDir())
}
