package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// processTests are the tests of the Go SDK that start a server process.
const processTests = "TestServerRunContextCancel|TestServerInterrupt|TestStdioContextCancellation|TestCmdTransport|TestCommandTransportTerminateDuration"

// TestGoSDKProcessTests: signals, EOF and cancellation are as the Go SDK's own
// tests want them, with its server behind holdfast.
func TestGoSDKProcessTests(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "go-sdk")
	if err := os.CopyFS(dir, os.DirFS(harness.Go(t, "", "list", "-m", "-f", "{{.Dir}}", "github.com/modelcontextprotocol/go-sdk"))); err != nil {
		t.Fatal(err)
	}
	wrapServerCommand(t, filepath.Join(dir, "mcp", "cmd_test.go"))
	binary := filepath.Join(dir, "mcp.test")
	env := []string{"GOWORK=off", "GOFLAGS=-mod=mod"}
	harness.GoEnv(t, dir, env, "test", "-c", "-o", binary, "./mcp")
	for name, wrap := range map[string][]string{"direct": nil, "bridged": harness.Bridged(t, nil)} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(binary, "-test.v", "-test.timeout=120s", "-test.run=^("+processTests+")$")
			cmd.Dir = filepath.Join(dir, "mcp")
			cmd.Env = append(append(os.Environ(), "MCP_WRAP="+strings.Join(wrap, " ")), harness.ColdCache(t)...)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			for test := range strings.SplitSeq(processTests, "|") {
				if !slices.ContainsFunc(strings.Split(string(out), "\n"), func(line string) bool {
					return strings.HasPrefix(line, "--- PASS: "+test+" ")
				}) {
					t.Errorf("%s did not pass", test)
				}
			}
		})
	}
}

// wrapServerCommand makes the SDK's tests start their server through
// MCP_WRAP.
func wrapServerCommand(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const start = "cmd := exec.Command(exe)"
	source := string(b)
	if strings.Count(source, start) != 1 || strings.Contains(source, `"strings"`) {
		t.Fatal("the SDK's tests are not as known")
	}
	source = strings.Replace(source, start, `argv := append(strings.Fields(os.Getenv("MCP_WRAP")), exe)
	cmd := exec.Command(argv[0], argv[1:]...)`, 1)
	source = strings.Replace(source, "import (\n", "import (\n\t\"strings\"\n", 1)
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
}
