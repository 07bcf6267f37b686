package jupyter

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/jupytertest"
)

// patience bounds every wait, politeness every shutdown.
const (
	patience   = time.Minute
	politeness = 10 * time.Second
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// python is the spec of ipykernel.
func pythonSpec(t testing.TB) *Spec {
	t.Helper()
	interpreter := jupytertest.Python(t, "ipykernel")
	return &Spec{
		Name: "python3", Dir: t.TempDir(), Language: "python", InterruptMode: bySignal,
		Argv: []string{interpreter, "-m", "ipykernel_launcher", "-f", "{connection_file}"},
	}
}

// fakeSpec is the spec of a kernel that behaves in a way of its own.
func fakeSpec(t *testing.T, mode string) *Spec {
	t.Helper()
	interpreter := jupytertest.Python(t, "zmq")
	script, err := filepath.Abs("testdata/fakekernel.py")
	if err != nil {
		t.Fatal(err)
	}
	return &Spec{
		Name: "fake", Dir: t.TempDir(), InterruptMode: byMessage,
		Argv: []string{interpreter, script, mode, "{connection_file}"},
	}
}

// runtimeDir is a folder for connection files, short enough for sockets. At
// the end of the test it must be empty.
func runtimeDir(t testing.TB) (dir string, env []string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "k")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		left, _ := filepath.Glob(filepath.Join(dir, "*"))
		if len(left) > 0 {
			t.Errorf("files are left: %v", left)
		}
		os.RemoveAll(dir)
	})
	home := t.TempDir() // no profile of whoever runs the tests
	return dir, append(os.Environ(), "JUPYTER_RUNTIME_DIR="+dir, "HOME="+home, "IPYTHONDIR="+home)
}

// startKernel starts a kernel, and checks at the end that nothing is left of it.
func startKernel(t testing.TB, config Config) *Kernel {
	t.Helper()
	_, env := runtimeDir(t)
	config.Env = append(env, config.Env...)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	k, err := Start(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		k.Close(politeness)
		if runtime.GOOS != "windows" && groupLives(k.Identity().Pid) {
			t.Error("the group of the kernel lives")
		}
	})
	return k
}

func execute(t testing.TB, k *Kernel, code string) *Execution {
	t.Helper()
	return request(t, k, Request{Code: code})
}

func request(t testing.TB, k *Kernel, r Request) *Execution {
	t.Helper()
	e, err := k.Execute(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// finish reads an execution to its end and returns what it said, by types.
func finish(t testing.TB, e *Execution) (said map[string][]string, r Result) {
	t.Helper()
	said = make(map[string][]string)
	for {
		m, ok := next(t, e)
		if !ok {
			return said, e.Result()
		}
		said[m.Type] = append(said[m.Type], string(m.Content))
	}
}

func next(t testing.TB, e *Execution) (Message, bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	m, err := e.Next(ctx)
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatalf("next message: %v", err)
	}
	return m, err == nil
}

// awaitOutput reads until the kernel has printed text.
func awaitOutput(t testing.TB, e *Execution, text string) {
	t.Helper()
	for {
		m, ok := next(t, e)
		if !ok {
			t.Fatalf("it ended without %q: %+v", text, e.Result())
		}
		if m.Type == "stream" && strings.Contains(string(m.Content), text) {
			return
		}
	}
}

func wantOutcome(t testing.TB, r Result, want Outcome) {
	t.Helper()
	if r.Outcome != want {
		t.Errorf("outcome %+v, want %s", r, want)
	}
}

func awaitEnd(t testing.TB, k *Kernel) *EndError {
	t.Helper()
	if !k.awaitDone(patience) {
		t.Fatal("the kernel lives")
	}
	return k.err
}
