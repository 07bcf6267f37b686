package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/jupytertest"
	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/nbrun"
	"github.com/holdfast-mcp/holdfast/worker/internal/workertest"
)

// kernelHome is an environment with one kernel, python3, whose files are in
// run below the home.
func kernelHome(t *testing.T) (home string, env []string) {
	t.Helper()
	interpreter := jupytertest.Python(t, "ipykernel")
	home, err := os.MkdirTemp("", "w") // sockets want short paths
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	kernel := filepath.Join(home, "kernels", "python3")
	if err := os.MkdirAll(kernel, 0o755); err != nil {
		t.Fatal(err)
	}
	spec := fmt.Sprintf(`{"argv":[%q,"-m","ipykernel_launcher","-f","{connection_file}"],"display_name":"Python","language":"python"}`, interpreter)
	if err := os.WriteFile(filepath.Join(kernel, "kernel.json"), []byte(spec), 0o644); err != nil {
		t.Fatal(err)
	}
	return home, append(os.Environ(), processVariable+"=worker", "GORACE=atexit_sleep_ms=0",
		"HOME="+home, "IPYTHONDIR="+home, "JUPYTER_PATH="+home, "JUPYTER_RUNTIME_DIR="+filepath.Join(home, "run"))
}

// codeNotebook writes a notebook of cells of code.
func codeNotebook(t *testing.T, dir string, cells ...string) (file string) {
	t.Helper()
	var list []string
	for i, source := range cells {
		raw, _ := json.Marshal(source)
		list = append(list, fmt.Sprintf(`{"cell_type":"code","execution_count":null,"id":"c%d","metadata":{},"outputs":[],"source":%s}`, i, raw))
	}
	file = filepath.Join(dir, "n.ipynb")
	text := `{"cells":[` + strings.Join(list, ",") + `],"metadata":{},"nbformat":4,"nbformat_minor":5}`
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// roomRun runs holdfast-worker room run to its end.
func roomRun(t *testing.T, env []string, stdin io.Reader, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"room", "run"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, stdin, &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// ROOM-7, ROOM-8: what room run prints, saves and exits with.
func TestRoomRun(t *testing.T) {
	home, env := kernelHome(t)
	for name, test := range map[string]struct {
		cells  []string
		args   []string
		code   int
		out    []string // in the output, in order
		inErr  string
		inFile string
	}{
		"done":        {[]string{"print(6 * 7)", " "}, nil, 0, []string{"1 cells, kernel python3 (Python)", "[1] done", "print(6 * 7)", "skipped", "1 done, 1 skipped", "saved in"}, "", `42\n`},
		"error":       {[]string{"1/0", "2"}, nil, 1, []string{"error", "ZeroDivisionError: division by zero", "cancelled", "1 error, 1 cancelled"}, "", "ZeroDivisionError"},
		"allowed":     {[]string{"1/0", "2"}, []string{"--allow-errors"}, 0, []string{"error", "done"}, "", `"2"`},
		"timeout":     {[]string{"import time; time.sleep(100)"}, []string{"--timeout", "1s"}, 1, []string{"error", "timeout: KeyboardInterrupt"}, "", "KeyboardInterrupt"},
		"died":        {[]string{"import os; os._exit(3)"}, []string{"--ipc"}, 1, []string{"error", "some of its output is missing", "     kernel died: exit code 3"}, "", ""},
		"no kernel":   {[]string{"1"}, []string{"--kernel", "cobol"}, 2, []string{"1 cancelled"}, `no kernel named "cobol": installed are`, ""},
		"two places":  {[]string{"1"}, []string{"--inplace", "--output", "x"}, 2, nil, "inplace", ""},
		"bad timeout": {[]string{"1"}, []string{"--timeout", "-1s"}, 2, nil, "negative", ""},
		"bad error":   {[]string{`raise ValueError("\x1b[2J \x9b31m\x07")`}, nil, 1, []string{"     ValueError:  [2J  31m "}, "", "ValueError"},
		"escapes":     {[]string{"print('\x1b]0;title\x07')"}, nil, 0, []string{"print(' ]0;title ')"}, "", "title"},
	} {
		t.Run(name, func(t *testing.T) {
			file := codeNotebook(t, t.TempDir(), test.cells...)
			code, stdout, stderr := roomRun(t, env, nil, append(test.args, file)...)
			if code != test.code || !strings.Contains(stderr, test.inErr) || test.inErr == "" && stderr != "" {
				t.Errorf("code %d, stderr %q", code, stderr)
			}
			rest := stdout
			for _, want := range test.out {
				_, after, found := strings.Cut(rest, want)
				if !found {
					t.Fatalf("no %q in\n%s", want, stdout)
				}
				rest = after
			}
			if strings.Contains(stdout, "\x1b") || strings.Contains(stdout, "\r") {
				t.Errorf("not for a pipe: %q", stdout)
			}
			if data, err := os.ReadFile(file); err != nil || !strings.Contains(string(data), test.inFile) {
				t.Errorf("%v %s", err, data)
			}
		})
	}
	if left, _ := filepath.Glob(filepath.Join(home, "run", "*")); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
}

// SEC-3: what could not be saved is told as such, and whatever a kernel prints
// before it ends is harmless.
func TestRoomRunFails(t *testing.T) {
	home, env := kernelHome(t)
	dir := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := codeNotebook(t, dir, "import os, shutil; shutil.rmtree(os.getcwd())")
	code, stdout, stderr := roomRun(t, env, nil, file)
	if code != 1 || !strings.Contains(stdout, "; not saved\n") || !strings.Contains(stderr, "save the results: ") {
		t.Errorf("code %d, %q, %q", code, stdout, stderr)
	}

	jupytertest.Python(t, "ipykernel")
	kernel := filepath.Join(home, "kernels", "hostile")
	if err := os.MkdirAll(kernel, 0o755); err != nil {
		t.Fatal(err)
	}
	spec := `{"argv":["python3","-c","import os; os.write(2, b'\\x1b[2J \\xff \\xc2\\x9b31m last words'); os._exit(3)"],"display_name":"\u001b[2J","language":"x"}`
	if err := os.WriteFile(filepath.Join(kernel, "kernel.json"), []byte(spec), 0o644); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr = roomRun(t, env, nil, "--kernel", "hostile", codeNotebook(t, t.TempDir(), "1"))
	if code != 2 || !strings.Contains(stderr, "last words") {
		t.Errorf("code %d, %q", code, stderr)
	}
	for _, bad := range []string{"\x1b", "\xff", "\u009b"} {
		if strings.Contains(stdout+stderr, bad) {
			t.Errorf("%q in %q, %q", bad, stdout, stderr)
		}
	}
}

func TestRoomRunJSON(t *testing.T) {
	_, env := kernelHome(t)
	file := codeNotebook(t, t.TempDir(), "1", "raise ValueError('x')", "2")
	output := filepath.Join(t.TempDir(), "out.ipynb")
	code, stdout, stderr := roomRun(t, env, nil, "--json", "--output", output, file)
	var report struct {
		OK     bool
		File   string
		Saved  string
		Kernel string
		Cells  []struct {
			Index  int
			ID     string
			State  string
			Reason string
			EName  string
			Count  *int `json:"execution_count"`
		}
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != 1 || stderr != "" {
		t.Fatalf("code %d, %v, stdout %s, stderr %s", code, err, stdout, stderr)
	}
	if report.OK || report.File != file || report.Saved != output || report.Kernel != "python3" || len(report.Cells) != 3 {
		t.Fatalf("%+v", report)
	}
	if c := report.Cells[1]; c.Index != 1 || c.ID != "c1" || c.State != "error" || c.Reason != "error" || c.EName != "ValueError" || *c.Count != 2 {
		t.Errorf("%+v", c)
	}
	if c := report.Cells[2]; c.State != "cancelled" || c.Count != nil {
		t.Errorf("%+v", c)
	}
}

// ROOM-7: cells get their input from stdin if they may, also its end.
func TestRoomRunInput(t *testing.T) {
	_, env := kernelHome(t)
	file := codeNotebook(t, t.TempDir(), "print(input('name? '), input())", "input()")
	code, stdout, stderr := roomRun(t, env, strings.NewReader("Ada\nLovelace\n"), "--allow-input", file)
	if code != 1 || !strings.Contains(stderr, "name? ") || !strings.Contains(stdout, "EOFError") {
		t.Errorf("code %d, stdout %s, stderr %s", code, stdout, stderr)
	}
	if data, _ := os.ReadFile(file); !strings.Contains(string(data), `Ada Lovelace\n`) {
		t.Errorf("%s", data)
	}
	if code, stdout, _ := roomRun(t, env, strings.NewReader("Ada\n"), file); code != 1 || !strings.Contains(stdout, "StdinNotImplementedError") {
		t.Errorf("without being allowed: code %d, %s", code, stdout)
	}
}

// ROOM-7: a signal ends the run and saves what there is; no process and no file
// stays.
func TestRoomRunSignals(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no signals on Windows")
	}
	stubborn := "import signal\nfor s in (signal.SIGINT, signal.SIGTERM): signal.signal(s, signal.SIG_IGN)\n"
	for name, test := range map[string]struct {
		before  string
		signals []syscall.Signal
		code    int
		shows   string
	}{
		"Ctrl-C":                 {"", []syscall.Signal{syscall.SIGINT}, 130, "KeyboardInterrupt"},
		"Ctrl-C twice, stubborn": {stubborn, []syscall.Signal{syscall.SIGINT, syscall.SIGINT}, 130, "begun"},
		"TERM":                   {stubborn, []syscall.Signal{syscall.SIGTERM}, 143, "begun"},
	} {
		t.Run(name, func(t *testing.T) {
			home, env := kernelHome(t)
			dir := t.TempDir()
			file := codeNotebook(t, dir, test.before+"import os, subprocess, time\nchild = subprocess.Popen(['sleep', '1000'])\n"+
				"print('begun', flush=True)\nopen('pids.new', 'w').write('%d %d' % (os.getpid(), child.pid))\nos.rename('pids.new', 'pids')\nwhile True: time.sleep(0.01)", "1")
			cmd := exec.Command(os.Args[0], "room", "run", file)
			var out bytes.Buffer
			cmd.Env, cmd.Stdout, cmd.Stderr = env, &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			kernel, child := awaitPids(t, filepath.Join(dir, "pids"))
			for i, s := range test.signals {
				if i > 0 {
					<-time.After(300 * time.Millisecond) // two signals at once are one
				}
				if err := cmd.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
			}
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != test.code {
				t.Errorf("code %d: %s", code, out.String())
			}
			if alive(kernel) || alive(child) {
				t.Error("the kernel or its child lives")
			}
			if left, _ := filepath.Glob(filepath.Join(home, "run", "*")); len(left) > 0 {
				t.Errorf("files are left: %v", left)
			}
			if data, _ := os.ReadFile(file); !strings.Contains(string(data), test.shows) {
				t.Errorf("saved: %s", data)
			}
		})
	}
}

// ROOM-7: a run that is killed takes its kernel with it.
func TestRoomRunKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere the kernel itself sees that its parent is gone, if it can")
	}
	_, env := kernelHome(t)
	dir := t.TempDir()
	file := codeNotebook(t, dir, "import os, time\nopen('pids.new', 'w').write('%d %d' % (os.getpid(), os.getpid()))\nos.rename('pids.new', 'pids')\nwhile True: time.sleep(0.01)")
	cmd := exec.Command(os.Args[0], "room", "run", file)
	cmd.Env = env
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kernel, _ := awaitPids(t, filepath.Join(dir, "pids"))
	cmd.Process.Kill()
	_ = cmd.Wait()
	awaitDeath(t, kernel)
}

// awaitPids waits for a file that a cell writes.
func awaitPids(t *testing.T, file string) (a, b int) {
	t.Helper()
	for deadline := time.Now().Add(workertest.Patience); ; {
		raw, err := os.ReadFile(file)
		if err == nil {
			first, second, _ := strings.Cut(string(raw), " ")
			a, _ = strconv.Atoi(first)
			b, _ = strconv.Atoi(second)
			return a, b
		}
		if time.Now().After(deadline) {
			t.Fatal("the cell does not run")
		}
		<-time.After(10 * time.Millisecond)
	}
}

// On a terminal there are colours and a line for the cell that runs.
func TestRoomRunOnTerminal(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pseudo terminal: ", err)
	}
	defer terminal.Close()
	t.Setenv("NO_COLOR", "")
	p := newProgress(terminal, nbrun.Config{File: "a.ipynb"})
	if !p.terminal || !p.colour {
		t.Errorf("%+v", p)
	}
	t.Setenv("NO_COLOR", "1")
	if p := newProgress(terminal, nbrun.Config{File: "a.ipynb"}); !p.terminal || p.colour {
		t.Errorf("%+v", p)
	}
	var out bytes.Buffer
	p = newProgress(&out, nbrun.Config{File: "a.ipynb"})
	p.terminal, p.colour = true, true
	p.begin(nbrun.Cell{State: nbrun.Done, Source: "x = 1\ny = 2"})
	p.end(nbrun.Cell{State: nbrun.Done, Source: "x = 1\ny = 2"})
	if got := out.String(); !strings.Contains(got, "\r\x1b[K[1/0] x = 1 … 0 s") || !strings.Contains(got, "\x1b[32mdone     \x1b[0m") {
		t.Errorf("%q", got)
	}
}

func TestRoomKernels(t *testing.T) {
	home, env := kernelHome(t)
	broken := filepath.Join(home, "kernels", "broken")
	if err := os.MkdirAll(broken, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(broken, "kernel.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if code := run(t.Context(), []string{"room", "kernels"}, env, &out, os.Stderr); code != 0 {
		t.Errorf("code %d", code)
	}
	if text := out.String(); !strings.Contains(text, "python3") || !strings.Contains(text, filepath.Join(broken, "kernel.json")) {
		t.Errorf("%s", text)
	}
	out.Reset()
	if code := run(t.Context(), []string{"room", "kernels", "--json"}, env, &out, os.Stderr); code != 0 {
		t.Errorf("code %d", code)
	}
	var list struct {
		Kernels []struct {
			Name string
			Dir  string
			Argv []string
		}
		Broken, Searched []string
	}
	if err := json.Unmarshal(out.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, k := range list.Kernels {
		found = found || k.Name == "python3" && k.Dir == filepath.Join(home, "kernels", "python3") && len(k.Argv) == 5
	}
	if !found || len(list.Broken) != 1 || len(list.Searched) < 2 {
		t.Errorf("%+v", list)
	}
}
