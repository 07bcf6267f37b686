package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
	"github.com/holdfast-mcp/holdfast/worker/internal/workertest"
)

// The test binary, started with this variable, is holdfast-worker or a server.
const processVariable = "HOLDFAST_WORKER_TEST_PROCESS"

func TestMain(m *testing.M) {
	switch os.Getenv(processVariable) {
	case "":
		os.Exit(m.Run())
	case "worker":
		os.Setenv(processVariable, "server") // for the child
		main()
	case "server":
		serve()
	case "left behind":
		time.Sleep(time.Hour)
	}
}

// serve answers every request with its pid, working directory and environment.
// Then "exit" and "crash" do as they say; "leave" exits as well and has left a
// process behind that holds its stdout, whose pid it answers.
func serve() {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var msg struct {
			ID     json.RawMessage
			Method string
			Params struct{ Code int }
		}
		if json.Unmarshal(in.Bytes(), &msg) != nil || msg.ID == nil {
			continue
		}
		pid := os.Getpid()
		if msg.Method == "leave" {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), processVariable+"=left behind")
			cmd.Stdout = os.Stdout
			if err := cmd.Start(); err != nil {
				os.Exit(9)
			}
			pid = cmd.Process.Pid
		}
		dir, _ := os.Getwd()
		result, _ := json.Marshal(answer{pid, dir, os.Environ()})
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", msg.ID, result)
		switch msg.Method {
		case "exit", "leave":
			os.Exit(msg.Params.Code)
		case "crash":
			p, _ := os.FindProcess(os.Getpid())
			_ = p.Kill()
			time.Sleep(time.Hour)
		}
	}
}

type answer struct {
	Pid int
	Dir string
	Env []string
}

func bridgeProcess(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], append([]string{"bridge"}, args...)...)
	cmd.Env = append(os.Environ(), processVariable+"=worker", "GORACE=atexit_sleep_ms=0")
	return cmd
}

func ask(t *testing.T, s *workertest.Session, n uint64, method, params string) answer {
	t.Helper()
	s.Request(n, fmt.Sprint(n), method, params)
	var msg struct{ Result answer }
	if err := json.Unmarshal([]byte(s.Await(workerv1.Frame_KIND_RESPONSE, n)), &msg); err != nil {
		t.Fatal(err)
	}
	return msg.Result
}

// SUP-1, SUP-3: the bridge ends as its server did.
func TestBridgeEndsLikeItsServer(t *testing.T) {
	for _, test := range []struct {
		method, params string
		code           int
	}{
		{"exit", `{"code":0}`, 0},
		{"exit", `{"code":75}`, 75},
		{"exit", `{"code":3}`, 3},
		{"crash", `{}`, 137},
	} {
		t.Run(fmt.Sprint(test.code), func(t *testing.T) {
			if test.method == "crash" && runtime.GOOS == "windows" {
				t.Skip("no signals on Windows")
			}
			w := workertest.Start(t, bridgeProcess("--", os.Args[0]))
			s := workertest.Open(t, w)
			ask(t, s, 1, test.method, test.params)
			exit := s.AwaitEnd()
			if exit == nil || (exit.GetSignal() == "" && int(exit.GetCode()) != test.code) {
				t.Errorf("EXIT %v", exit)
			}
			if code := w.Wait().ExitCode(); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
		})
	}
}

// SUP-18, EDGE-11: environment and directory reach the server, the handshake
// does not.
func TestBridgeEnvironmentAndDirectory(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := workertest.Start(t, bridgeProcess("--dir", dir, "--", os.Args[0], "--flag-of-the-server"))
	got := ask(t, workertest.Open(t, w), 1, "x", `{}`)
	if got.Dir != dir {
		t.Errorf("directory %s, want %s", got.Dir, dir)
	}
	env := strings.Join(got.Env, "\n")
	if !strings.Contains(env, workertest.Setting) || strings.Contains(env, "PLUGIN_") || strings.Contains(env, "COOKIE") {
		t.Errorf("environment:\n%s", env)
	}
}

// However a supervisor goes away, bridge and server go as well.
func TestBridgeGoesWithItsSupervisor(t *testing.T) {
	for name, leave := range map[string]func(*workertest.Worker) error{
		"end of stdin": func(w *workertest.Worker) error { return w.Stdin.Close() },
		"TERM":         func(w *workertest.Worker) error { return w.Cmd.Process.Signal(syscall.SIGTERM) },
		"KILL":         func(w *workertest.Worker) error { return w.Cmd.Process.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS == "windows" && name == "TERM" {
				t.Skip("no SIGTERM on Windows")
			}
			w := workertest.Start(t, bridgeProcess("--", os.Args[0]))
			server := ask(t, workertest.Open(t, w), 1, "x", `{}`).Pid
			if err := leave(w); err != nil {
				t.Fatal(err)
			}
			w.Wait()
			awaitDeath(t, server)
		})
	}
}

// What a server leaves behind delays nothing and goes with the bridge.
func TestBridgeEndsWhatItsServerLeft(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere it goes with the group, which the supervisor ends")
	}
	w := workertest.Start(t, bridgeProcess("--", os.Args[0]))
	s := workertest.Open(t, w)
	left := ask(t, s, 1, "leave", `{"code":75}`).Pid
	if exit := s.AwaitEnd(); exit.GetCode() != 75 {
		t.Errorf("EXIT %v", exit)
	}
	if code := w.Wait().ExitCode(); code != 75 {
		t.Errorf("exit code %d", code)
	}
	awaitDeath(t, left)
}

func awaitDeath(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(workertest.Patience); alive(pid); {
		if time.Now().After(deadline) {
			t.Fatalf("process %d lives", pid)
		}
		runtime.Gosched()
	}
}

// alive reports whether a process exists and is no zombie.
func alive(pid int) bool {
	if runtime.GOOS == "linux" {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err == nil && !strings.Contains(string(stat), ") Z ")
	}
	p, err := os.FindProcess(pid)
	return err == nil && p.Signal(syscall.Signal(0)) == nil
}

func TestBridgeCommandNotFound(t *testing.T) {
	w := workertest.Start(t, bridgeProcess("--", "no-such-command-of-holdfast"))
	_, err := workertest.Open(t, w).Stream.Recv()
	if status.Code(err) != codes.NotFound {
		t.Errorf("got %v", err)
	}
}

// Bad input: one clear line on stderr and the documented exit code.
func TestCommandLine(t *testing.T) {
	for _, test := range []struct {
		args       string
		code       int
		out, inErr string
	}{
		{"version", 0, "holdfast-worker ", ""},
		{"bridge", 2, "", "no command given"},
		{"bridge --nope -- cat", 2, "", "unknown flag: --nope"},
		{"bridge --max-frame x -- cat", 2, "", "--max-frame"},
		{"bridge -- cat -n", 2, "", "run: holdfast run -- cat -n"},
		{"nope", 2, "", "unknown command"},
		{"version extra", 2, "", "unknown command"},
		{"room nope", 2, "", "unknown command"},
	} {
		t.Run(test.args, func(t *testing.T) {
			stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
			if err != nil {
				t.Fatal(err)
			}
			defer stderr.Close()
			var stdout strings.Builder
			code := run(context.Background(), strings.Fields(test.args), nil, &stdout, stderr)
			text, err := os.ReadFile(stderr.Name())
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Count(string(text), "\n")
			if code != test.code || !strings.Contains(string(text), test.inErr) || !strings.HasPrefix(stdout.String(), test.out) || lines != min(code, 1) {
				t.Errorf("code %d, stdout %q, stderr %q", code, stdout.String(), text)
			}
		})
	}
}
