package integration

import (
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// variant is one way to put a server before a client.
type variant struct {
	name    string
	native  bool
	command func(tb testing.TB, flags []string, server ...string) []string
}

var (
	bridged = variant{name: "bridged", command: harness.Bridged}
	native  = variant{name: "native", native: true, command: harness.Native}
)

// supervised are the variants with holdfast in front.
func supervised() []variant { return []variant{native, bridged} }

// eachSupervised runs f as a subtest for each of them.
func eachSupervised(t *testing.T, f func(t *testing.T, v variant)) {
	t.Helper()
	for _, v := range supervised() {
		t.Run(v.name, func(t *testing.T) { f(t, v) })
	}
}

// startTestServer starts the test server behind holdfast.
func startTestServer(t *testing.T, v variant, args ...string) *harness.Client {
	t.Helper()
	server := append([]string{harness.TestServer(t)}, args...)
	return harness.Start(t, harness.Config{Command: v.command(t, nil, server...)})
}

// startToBeKilled starts the test server behind holdfast for a test that ends
// it more often than the crash budget allows: the budget is out of reach and
// the pause between restarts stays short.
func startToBeKilled(t *testing.T, v variant, args ...string) *harness.Client {
	t.Helper()
	server := append([]string{harness.TestServer(t)}, args...)
	flags := []string{"--crash-budget", "1000000/30s", "--backoff", "100ms..100ms"}
	return harness.Start(t, harness.Config{Command: v.command(t, flags, server...)})
}
