package integration

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
	"github.com/holdfast-mcp/holdfast/integration/modproxy"
)

// outsideServer is what a user writes in a module of their own.
const outsideServer = `package main

import (
	"context"
	"log"

	"github.com/holdfast-mcp/holdfast/worker"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	server := mcp.NewServer(&mcp.Implementation{Name: "outside", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "hello"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello from outside"}}}, nil, nil
	})
	if err := worker.Serve(context.Background(), server, nil); err != nil {
		log.Fatal(err)
	}
}
`

// TestModulesAreFetchable: from an empty module elsewhere, the SDK can be got
// and both commands installed, without the workspace and without a replace;
// what was built that way works together.
func TestModulesAreFetchable(t *testing.T) {
	proxy, err := modproxy.Publish(harness.Workspace(t), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	dir := t.TempDir()
	env := append(proxy.Env(), "GOBIN="+dir)
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(outsideServer), 0o600); err != nil {
		t.Fatal(err)
	}
	harness.GoEnv(t, dir, env, "mod", "init", "outside.example/server")
	harness.GoEnv(t, dir, env, "get", modproxy.Prefix+"worker@"+proxy.Version)
	harness.GoEnv(t, dir, env, "mod", "tidy")
	server := filepath.Join(dir, "server"+exe())
	harness.GoEnv(t, dir, env, "build", "-o", server, ".")
	for _, command := range []string{"supervisor/cmd/holdfast", "worker/builtin/cmd/holdfast-worker"} {
		harness.GoEnv(t, dir, env, "install", modproxy.Prefix+command+"@"+proxy.Version)
	}
	holdfast := filepath.Join(dir, "holdfast"+exe())
	for name, command := range map[string][]string{
		"alone":   {server},
		"native":  {holdfast, "run", "--worker", server},
		"bridged": {holdfast, "run", "--", server},
	} {
		t.Run(name, func(t *testing.T) {
			c := harness.Start(t, harness.Config{Command: command})
			c.Initialize()
			if got := c.CallTool("hello", nil).Text(t); got != "hello from outside" {
				t.Errorf("hello says %q", got)
			}
		})
	}
}

// exe ends the names of programs.
func exe() string {
	if runtime.GOOS == "windows" {
		return ".exe"
	}
	return ""
}
