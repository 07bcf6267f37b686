package main

import (
	"bufio"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed passthrough.js
var nodePassThrough string

// Names of targets that bounds and ratios refer to.
const (
	nameDirect  = "direct"
	nameNative  = "native"
	nameBridged = "bridged"
)

// target is a way to reach the server.
type target struct {
	Name string   `json:"name"`
	Note string   `json:"note,omitempty"` // what it is, if that is not plain
	Env  []string `json:"env,omitempty"`
	Argv []string `json:"argv"`
	// mirror: it sends back every line, notifications too.
	mirror bool
}

// tuned are the settings of the garbage collector that holdfast has for its
// own processes.
var tuned = []string{"GOGC=400", "GOMEMLIMIT=64MiB"}

// targets returns the table of targets, and lines about those left out. remote
// is the URL of the server over HTTP, empty if no target needs it.
func targets(o options, remote string) (table []target, missing []string, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	held := func(args ...string) []string {
		return append([]string{o.holdfast, "run", "--log-level", "error"}, args...)
	}
	table = []target{
		{Name: nameDirect, Argv: []string{o.server}},
		{Name: "direct, tuned GC", Env: tuned, Argv: []string{o.server}},
		{Name: nameNative, Argv: held("--worker", o.server)},
		{Name: "native, tuned GC", Note: "the server too", Argv: held("--env", tuned[0], "--env", tuned[1], "--worker", o.server)},
		{Name: nameBridged, Argv: held("--", o.server)},
		{Name: "line pass-through", Note: "in Go; not a supervisor", Argv: []string{self, "-as", "passthrough", o.server}},
		{Name: "echo", Note: "by hand on stdio; no MCP server", Argv: []string{self, "-as", "echo"}},
	}
	optional := func(t target, program string, argv ...string) {
		path, err := findProgram(program, o.npm)
		if err != nil {
			missing = append(missing, t.Name+" left out: "+program+" is not installed")
			return
		}
		t.Argv = append([]string{path}, argv...)
		table = append(table, t)
	}
	optional(target{Name: "cat", Note: "no MCP server", mirror: true}, "cat")
	optional(target{Name: "socat", Note: "bytes; not a supervisor"},
		"socat", "-b1048576", "STDIO", "EXEC:"+o.server)
	optional(target{Name: "Node pass-through", Note: "bytes; not a supervisor"},
		"node", "-e", nodePassThrough, o.server)
	optional(target{Name: "supergateway", Note: httpNote},
		"supergateway", "--streamableHttp", remote, "--logLevel", "none")
	optional(target{Name: "mcp-remote", Note: httpNote},
		"mcp-remote", remote, "--allow-http", "--transport", "http-only")
	if o.only != "" {
		table = only(table, o.only)
	}
	return table, missing, nil
}

// httpNote is for programs that speak HTTP to a server which already runs.
const httpNote = "stdio to HTTP; not a supervisor; its server runs before and is not counted"

// only keeps the targets that are asked for, and the base.
func only(table []target, name string) []target {
	var out []target
	for _, t := range table {
		if t.Name == nameDirect || strings.Contains(t.Name, name) {
			out = append(out, t)
		}
	}
	return out
}

// findProgram looks in PATH, then in the npm folders.
func findProgram(name, npm string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	found, err := filepath.Glob(filepath.Join(npm, "*", "node_modules", ".bin", name))
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", exec.ErrNotFound
	}
	return filepath.Abs(found[0])
}

// startRemote starts the server over HTTP and returns its URL and what ends it.
func startRemote() (url string, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.Command(self, "-as", "http")
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = in.Close()
		_ = cmd.Wait()
	}
	url, err = bufio.NewReader(io.LimitReader(out, 1<<10)).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("server over HTTP: %w", err)
	}
	return strings.TrimSpace(url), stop, nil
}
