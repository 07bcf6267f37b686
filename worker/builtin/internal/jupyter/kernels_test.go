package jupyter

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/jupytertest"
)

// dialect is what a kernel is told to do, in its language.
type dialect struct {
	spec  func(t *testing.T) *Spec
	value string // an expression that is 42
	count string // prints 0 to n-1, each on its own; %d is n
	fails string // raises an error
	loops string // never ends
	set   string // keeps a value
	get   string // fails without that
	// ignores tells that the kernel cannot be interrupted in a loop.
	ignores bool
}

// dialects are the kernels, of implementations that have nothing in common.
var dialects = map[string]dialect{
	"ipykernel": {
		spec: func(t *testing.T) *Spec { return pythonSpec(t) }, value: "6 * 7",
		count: "for i in range(%d): print(i, flush=True)", fails: "1/0", loops: "while True: pass",
		set: "x = 1", get: "x",
	},
	"deno": {
		spec: denoSpec, value: "6 * 7",
		count: "for (let i = 0; i < %d; i++) console.log(i)", fails: "throw new Error('x')",
		loops: "while (true) {}", set: "const x = 1", get: "x",
	},
	"xpython": {
		spec: installed("xpython-raw"), value: "6 * 7",
		count: "for i in range(%d): print(i)", fails: "1/0", loops: "while True: pass",
		set: "x = 1", get: "x", ignores: true,
	},
	"R": {
		spec: installed("ir"), value: "6 * 7",
		count: "for (i in seq_len(%d) - 1) { cat(i, '\\n', sep = ''); flush(stdout()) }", fails: "stop('x')",
		loops: "while (TRUE) {}", set: "x <- 1", get: "x",
	},
}

// denoSpec is the kernel of the npm package, of which the tests that take
// longer have one.
func denoSpec(t *testing.T) *Spec {
	t.Helper()
	found, _ := filepath.Glob("../../../../.cache/npm/extended-deno/node_modules/@deno/*/deno*")
	if len(found) == 0 {
		jupytertest.Missing(t, "npm package deno is not installed, run: make deps-extended")
	}
	program, err := filepath.Abs(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return &Spec{
		Name: "deno", Dir: t.TempDir(), Language: "typescript", InterruptMode: bySignal,
		Argv: []string{program, "jupyter", "--kernel", "--conn", "{connection_file}"},
	}
}

func installed(name string) func(t *testing.T) *Spec {
	return func(t *testing.T) *Spec {
		t.Helper()
		spec, err := Find(nil, name)
		if err != nil {
			jupytertest.Missing(t, "kernel "+name+" is not installed, run: make deps-extended")
		}
		return spec
	}
}

// ROOM-7, ROOM-8: kernels of independent implementations. Those beside
// ipykernel are for test-extended.
func TestKernels(t *testing.T) {
	for name, d := range dialects {
		t.Run(name, func(t *testing.T) {
			if name != "ipykernel" && os.Getenv("HOLDFAST_EXTENDED") == "" {
				t.Skip("only with HOLDFAST_EXTENDED=1")
			}
			d.test(t)
		})
	}
}

func (d dialect) test(t *testing.T) {
	k := startKernel(t, Config{Spec: d.spec(t)})
	t.Logf("by %s", k.connection.transport)
	said, r := finish(t, execute(t, k, d.value))
	wantOutcome(t, r, OK)
	if shown := strings.Join(append(said["execute_result"], said["display_data"]...), ""); !strings.Contains(shown, "42") {
		t.Errorf("said %v", said)
	}
	_, r = finish(t, request(t, k, Request{Code: d.fails, GoOn: true}))
	wantOutcome(t, r, Failed)

	const n = 3000
	e := execute(t, k, fmt.Sprintf(d.count, n))
	<-time.After(500 * time.Millisecond) // the reader stalls
	var text strings.Builder
	for {
		m, ok := next(t, e)
		if !ok {
			break
		}
		text.WriteString(printed(t, m))
	}
	wantOutcome(t, e.Result(), OK)
	if lines := strings.Fields(text.String()); len(lines) != n || lines[n-1] != fmt.Sprint(n-1) || e.Result().Cut {
		t.Errorf("%d lines, %+v", len(lines), e.Result())
	}

	_, r = finish(t, execute(t, k, d.set))
	wantOutcome(t, r, OK)
	e = executeLoop(t, k, d.loops)
	if err := k.Interrupt(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !d.ignores {
		_, r = finish(t, e)
		wantOutcome(t, r, Failed)
		wantOutcome(t, afterAborts(t, k, d.get), OK)
		e = executeLoop(t, k, d.loops)
	}
	killHard(t, k)
	_, r = finish(t, e)
	wantOutcome(t, r, Died)

	again, err := k.Restart(t.Context(), politeness)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close(politeness)
	_, r = finish(t, execute(t, again, d.get))
	wantOutcome(t, r, Failed)
	again.Close(politeness)
	if end := awaitEnd(t, again); !errors.Is(end, ErrEnded) {
		t.Error(end)
	}
}

// afterAborts executes code behind one that has failed: ipykernel aborts what
// comes for a moment more.
func afterAborts(t *testing.T, k *Kernel, code string) Result {
	t.Helper()
	for {
		if _, r := finish(t, execute(t, k, code)); r.Outcome != Aborted {
			return r
		}
	}
}

// executeLoop returns when the loop runs.
func executeLoop(t *testing.T, k *Kernel, code string) *Execution {
	t.Helper()
	e := execute(t, k, code)
	for {
		m, ok := next(t, e)
		if !ok {
			t.Fatalf("%q has ended: %+v", code, e.Result())
		}
		if m.Type == "execute_input" {
			<-time.After(300 * time.Millisecond) // it is told before the code is compiled
			return e
		}
	}
}
