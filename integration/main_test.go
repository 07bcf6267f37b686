package integration

import (
	"os"
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// TestMain turns the test binary into a bad server if its first argument says
// so; it runs the tests otherwise.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == badServerArg {
		os.Exit(runBadServer(os.Args[2], os.Args[3:]))
	}
	os.Exit(harness.Main(m))
}
