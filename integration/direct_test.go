package integration

import (
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// TestServerAlone: a server built with the SDK serves plain stdio when no
// supervisor starts it.
func TestServerAlone(t *testing.T) {
	c := harness.Start(t, harness.Config{Command: harness.Direct(harness.TestServer(t))})
	c.Initialize()
	if got := c.CallTool("echo", map[string]any{"text": "hi"}).Text(t); got != "hi" {
		t.Errorf("echo says %q", got)
	}
}
