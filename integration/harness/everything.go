package harness

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// EverythingWorker returns the conformance server of the Go SDK as a native
// worker. Its source is that of the SDK with one line replaced, as a user of
// the worker SDK would: the build lays the changed file over a package of
// ours that has no file on disk.
func EverythingWorker(tb testing.TB) string {
	tb.Helper()
	const name = "everything-worker"
	dir := filepath.Join(RunDir(tb), name+"-source")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		tb.Fatal(err)
	}
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte(workerSource(tb)), 0o600); err != nil {
		tb.Fatal(err)
	}
	virtual := filepath.Join(Workspace(tb), "integration", name, "main.go")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{virtual: source}})
	if err != nil {
		tb.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		tb.Fatal(err)
	}
	return build(tb, name, root+"integration/"+name, "-overlay="+file)
}

func workerSource(tb testing.TB) string {
	tb.Helper()
	dir := Go(tb, "", "list", "-f", "{{.Dir}}", everythingPkg)
	b, err := os.ReadFile(filepath.Join(dir, "main.go"))
	if err != nil {
		tb.Fatal(err)
	}
	source := string(b)
	for _, change := range [][2]string{
		{"server.Run(ctx, t)", "worker.Serve(ctx, server, nil)"},
		{"\t\tt := &mcp.StdioTransport{}\n", ""},
		{"\nimport (\n", "\nimport (\n\t\"" + root + "worker\"\n"},
	} {
		if strings.Count(source, change[0]) != 1 {
			tb.Fatalf("the SDK's conformance server is not as known: %q", change[0])
		}
		source = strings.Replace(source, change[0], change[1], 1)
	}
	return source
}
