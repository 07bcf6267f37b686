package nbrun

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/ipynb"
	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/jupyter"
)

// ROOM-8: what a run makes of a notebook is what nbclient makes of it, and
// nbformat finds it valid. With HOLDFAST_NOTEBOOKS, so are those of a folder
// that are for Python.
func TestLikeNbclient(t *testing.T) {
	ran := 0
	for _, dir := range []string{"testdata", os.Getenv("HOLDFAST_NOTEBOOKS")} {
		files, _ := filepath.Glob(filepath.Join(dir, "*.ipynb"))
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if dir == "" || !forPython(data) || filepath.Base(file) == "Interrupt.ipynb" { // which takes for ever
				continue
			}
			ran++
			t.Run(filepath.Base(file), func(t *testing.T) {
				dir := t.TempDir()
				in, out := filepath.Join(dir, "in.ipynb"), filepath.Join(dir, "out.ipynb")
				if err := os.WriteFile(in, data, 0o644); err != nil {
					t.Fatal(err)
				}
				env := environ(t)
				report, err := execute(t, Config{File: in, Output: out, Kernel: "python3", AllowErrors: true, Env: env})
				if err != nil || !report.OK() || report.Saved != out {
					t.Fatalf("%+v %v", report, err)
				}
				problems := oracle(t, env, in, out)
				// A kernel on a busy machine drops output of its own, which neither
				// side can help: not each time, though.
				for range 2 {
					if problems == "" {
						break
					}
					t.Logf("once more, since %s", problems[:min(len(problems), 200)])
					os.Remove(out)
					if _, err := execute(t, Config{File: in, Output: out, Kernel: "python3", AllowErrors: true, Env: env}); err != nil {
						t.Fatal(err)
					}
					problems = oracle(t, env, in, out)
				}
				if problems != "" {
					t.Error(problems)
				}
				if now, err := os.ReadFile(in); err != nil || !bytes.Equal(now, data) {
					t.Errorf("the input was changed: %v", err)
				}
			})
		}
	}
	if ran < 3 {
		t.Errorf("%d notebooks", ran)
	}
}

// forPython reports whether a notebook is for Python, or does not say.
func forPython(data []byte) bool {
	n, err := ipynb.Read(data)
	if err != nil {
		return false
	}
	var metadata struct {
		Kernelspec struct{ Name string }
	}
	return json.Unmarshal(n.Metadata(), &metadata) == nil && strings.HasPrefix(metadata.Kernelspec.Name+"python", "python")
}

// A run that fails stops there; what was executed is saved, what was not stays
// byte for byte.
func TestStopsAtError(t *testing.T) {
	file := write(t, "print('a')", "1/0", "print('never')")
	var told []State
	report, err := execute(t, Config{File: file, End: func(c Cell) { told = append(told, c.State) }})
	if err != nil || report.OK() || report.Saved != file || states(report) != "done error:error cancelled" || len(told) != 3 {
		t.Fatalf("%+v %v", report, err)
	}
	if c := report.Cells[1]; c.EName != "ZeroDivisionError" || c.EValue != "division by zero" || *c.Count != 2 {
		t.Errorf("%+v", c)
	}
	cells := read(t, file)
	if !bytes.Contains(cells[0].Outputs, []byte(`a\n`)) || !bytes.Contains(cells[1].Outputs, []byte("ZeroDivisionError")) {
		t.Errorf("outputs %s %s", cells[0].Outputs, cells[1].Outputs)
	}
	if string(cells[2].Outputs) != "[]" || cells[2].ExecutionCount != nil {
		t.Errorf("the cell that was cancelled: %s", cells[2].Outputs)
	}
}

// The tags of cells and blank cells.
func TestTags(t *testing.T) {
	report, err := execute(t, Config{File: "testdata/errors-4.5.ipynb", Output: filepath.Join(t.TempDir(), "out.ipynb")})
	if err != nil || !report.OK() {
		t.Fatalf("%+v %v", report, err)
	}
	if want := "done error:error skipped error:error error:error error:error done done"; states(report) != want {
		t.Errorf("states %s, want %s", states(report), want)
	}
	if c := report.Cells[2]; *c.Count != 9 {
		t.Errorf("the count of a cell that is skipped: %d", *c.Count)
	}
	cells := read(t, report.Saved)
	if !bytes.Contains(cells[2].Outputs, []byte("kept")) || !bytes.Contains(cells[6].Outputs, []byte("StdinNotImplementedError")) {
		t.Errorf("outputs %s %s", cells[2].Outputs, cells[6].Outputs)
	}
}

// ROOM-7: a kernel that dies in a cell is that cell's error; later cells are
// cancelled, and what it had said is saved.
func TestKernelDies(t *testing.T) {
	file := write(t, "print('last words', flush=True)\nimport os, time\ntime.sleep(0.2)\nos.kill(os.getpid(), 9)", "1")
	report, err := execute(t, Config{File: file, AllowErrors: true})
	if err != nil || report.OK() || states(report) != "error:kernel_died cancelled" {
		t.Fatalf("%+v %v", report, err)
	}
	if c := report.Cells[0]; !strings.Contains(c.EValue, "SIGKILL") || !c.Cut || *c.Count != 1 {
		t.Errorf("%+v", c)
	}
	if cells := read(t, file); !bytes.Contains(cells[0].Outputs, []byte("last words")) {
		t.Errorf("outputs %s", cells[0].Outputs)
	}
}

// ROOM-7: a cell that takes too long is interrupted, and killed if it does not
// heed that.
func TestTimeout(t *testing.T) {
	for name, test := range map[string]struct{ code, shows string }{
		"heeds":   {"while True: pass", "KeyboardInterrupt"},
		"ignores": {"import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", "begun"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			file := write(t, "print('begun', flush=True)\n"+test.code, "1")
			report, err := execute(t, Config{File: file, Timeout: time.Second, AllowErrors: true})
			if err != nil || report.OK() || states(report) != "error:timeout cancelled" {
				t.Fatalf("%+v %v", report, err)
			}
			if cells := read(t, file); !bytes.Contains(cells[0].Outputs, []byte(test.shows)) {
				t.Errorf("outputs %s", cells[0].Outputs)
			}
		})
	}
}

// ROOM-7: an interrupt ends cell and run, a second one the kernel; the end of
// the context ends all at once.
func TestInterrupt(t *testing.T) {
	for name, test := range map[string]struct {
		code string
		stop func(interrupt chan<- struct{}, cancel func())
	}{
		"once":    {"while True: pass", func(i chan<- struct{}, _ func()) { i <- struct{}{} }},
		"twice":   {"import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", func(i chan<- struct{}, _ func()) { i <- struct{}{}; i <- struct{}{} }},
		"context": {"while True: pass", func(_ chan<- struct{}, cancel func()) { cancel() }},
	} {
		t.Run(name, func(t *testing.T) {
			marker := filepath.Join(t.TempDir(), "begun")
			file := write(t, "open("+quote(marker)+", 'w').close()\n"+test.code, "1")
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			interrupts := make(chan struct{})
			go func() { // ends with the cell
				for ctx.Err() == nil {
					if _, err := os.Stat(marker); err == nil {
						test.stop(interrupts, cancel)
						return
					}
					<-time.After(10 * time.Millisecond)
				}
			}()
			report, err := Run(ctx, Config{File: file, Interrupt: interrupts, Env: environ(t)})
			if err != nil || report.Saved != file || states(report) != "error:interrupted cancelled" {
				t.Errorf("%+v %v", report, err)
			}
		})
	}
}

func quote(s string) string {
	raw, _ := json.Marshal(s)
	return string(raw)
}

// ROOM-4: a file that somebody changed meanwhile is left, and no result lost.
func TestChangedMeanwhile(t *testing.T) {
	file := write(t, "print('mine')\nwith open('n.ipynb', 'a') as f: f.write('\\n')")
	report, err := execute(t, Config{File: file})
	beside := strings.TrimSuffix(file, ".ipynb") + ".run-1.ipynb"
	if !errors.Is(err, ErrSave) || report.Saved != beside {
		t.Fatalf("%+v %v", report, err)
	}
	if cells := read(t, beside); !bytes.Contains(cells[0].Outputs, []byte("mine")) {
		t.Errorf("outputs %s", cells[0].Outputs)
	}
	if data, _ := os.ReadFile(file); !bytes.HasSuffix(data, []byte("\n\n")) || bytes.Contains(data, []byte(`mine\n`)) {
		t.Error("the file was overwritten")
	}
}

// What cannot be run is said before anything is done.
func TestRefused(t *testing.T) {
	env := environ(t)
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.ipynb")
	if err := os.WriteFile(bad, []byte(`{"cells": [}`), 0o644); err != nil {
		t.Fatal(err)
	}
	file := write(t, "1")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		config Config
		want   error
	}{
		"no file":    {Config{File: filepath.Join(dir, "missing.ipynb")}, os.ErrNotExist},
		"no JSON":    {Config{File: bad}, ErrNotebook},
		"no kernel":  {Config{File: file, Kernel: "no-such"}, jupyter.ErrNoKernel},
		"no folder":  {Config{File: file, Output: filepath.Join(dir, "no", "out.ipynb")}, ErrSave},
		"is no file": {Config{File: file, Output: dir}, ErrSave},
	} {
		t.Run(name, func(t *testing.T) {
			test.config.Env = env
			if report, err := execute(t, test.config); !errors.Is(err, test.want) || report.Saved != "" {
				t.Errorf("%+v %v", report, err)
			}
		})
	}
	if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, before) {
		t.Errorf("the file was changed: %v", err)
	}
}

// Without cells of code no kernel is started, and nothing changes but a copy
// that is asked for.
func TestNothingToRun(t *testing.T) {
	file := write(t, " \n")
	report, err := execute(t, Config{File: file, Kernel: "no-such"})
	if err != nil || !report.OK() || report.Saved != "" || states(report) != "skipped" {
		t.Errorf("%+v %v", report, err)
	}
	out := filepath.Join(t.TempDir(), "out.ipynb")
	if report, err = execute(t, Config{File: file, Output: out}); err != nil || report.Saved != out {
		t.Errorf("%+v %v", report, err)
	}
}

// ROOM-8: an update by a later cell is saved in the earlier one.
func TestUpdatesEarlierCell(t *testing.T) {
	file := write(t, "h = display('old', display_id=True)", "h.update('new')")
	report, err := execute(t, Config{File: file})
	if err != nil || !report.OK() {
		t.Fatalf("%+v %v", report, err)
	}
	cells := read(t, file)
	if !bytes.Contains(cells[0].Outputs, []byte("'new'")) || bytes.Contains(cells[0].Outputs, []byte("transient")) || string(cells[1].Outputs) != "[]" {
		t.Errorf("outputs %s %s", cells[0].Outputs, cells[1].Outputs)
	}
}
