package nbrun

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/ipynb"
	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/jupytertest"
)

const patience = 2 * time.Minute

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// environ is an environment with the kernel python3 and no profile of whoever
// runs the tests. What kernels leave in it is an error.
func environ(t *testing.T) []string {
	t.Helper()
	interpreter := jupytertest.Python(t, "ipykernel", "nbclient")
	home, err := os.MkdirTemp("", "n") // sockets want short paths
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left, _ := filepath.Glob(filepath.Join(home, "run", "*")); len(left) > 0 {
			t.Errorf("files are left: %v", left)
		}
		os.RemoveAll(home)
	})
	spec, _ := json.Marshal(map[string]any{
		"argv":         []string{interpreter, "-m", "ipykernel_launcher", "-f", "{connection_file}"},
		"display_name": "Python 3", "language": "python",
	})
	dir := filepath.Join(home, "kernels", "python3")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kernel.json"), spec, 0o644); err != nil {
		t.Fatal(err)
	}
	return append(os.Environ(), "HOME="+home, "IPYTHONDIR="+home, "JUPYTER_PATH="+home, "JUPYTER_RUNTIME_DIR="+filepath.Join(home, "run"))
}

func execute(t *testing.T, config Config) (Report, error) {
	t.Helper()
	if config.Env == nil {
		config.Env = environ(t)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return Run(ctx, config)
}

// oracle runs a program of testdata.
func oracle(t *testing.T, env []string, args ...string) string {
	t.Helper()
	script, err := filepath.Abs("testdata/oracle.py")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(jupytertest.Python(t, "ipykernel", "nbclient"), append([]string{script}, args...)...)
	cmd.Env, cmd.Dir = env, filepath.Dir(args[0])
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	return string(out)
}

// notebook writes a notebook of cells of code.
func write(t *testing.T, cells ...string) (file string) {
	t.Helper()
	type cell struct {
		Kind     string         `json:"cell_type"`
		Count    *int           `json:"execution_count"`
		ID       string         `json:"id"`
		Metadata map[string]any `json:"metadata"`
		Outputs  []any          `json:"outputs"`
		Source   string         `json:"source"`
	}
	var list []cell
	for i, source := range cells {
		list = append(list, cell{"code", nil, string(rune('a' + i)), map[string]any{}, []any{}, source})
	}
	raw, err := json.MarshalIndent(map[string]any{"cells": list, "metadata": map[string]any{}, "nbformat": 4, "nbformat_minor": 5}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "n.ipynb")
	if err := os.WriteFile(file, append(raw, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func read(t *testing.T, file string) []ipynb.Cell {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	n, err := ipynb.Read(data)
	if err != nil {
		t.Fatal(err)
	}
	var cells []ipynb.Cell
	for c := range n.Cells() {
		cells = append(cells, c)
	}
	return cells
}

// states are those of the cells, with the reasons of failures.
func states(r Report) string {
	var out []string
	for _, c := range r.Cells {
		s := string(c.State)
		if c.Reason != "" {
			s += ":" + c.Reason
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}
