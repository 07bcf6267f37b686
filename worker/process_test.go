package worker

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
	"github.com/holdfast-mcp/holdfast/worker/internal/workertest"
)

func process(mode string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	// The race detector would let every exit take a second.
	cmd.Env = append(os.Environ(), processVariable+"="+mode, "GORACE=atexit_sleep_ms=0")
	return cmd
}

func callTool(s *workertest.Session, n uint64, name, text string) {
	s.Request(n, fmt.Sprint(n), "tools/call", fmt.Sprintf(`{"name":%q,"arguments":{"text":%q}}`, name, text))
}

func contains(t *testing.T, got, want string) {
	t.Helper()
	if !strings.Contains(got, want) {
		t.Errorf("got %s, want %q in it", got, want)
	}
}

func TestDescribe(t *testing.T) {
	w := workertest.Start(t, process("serve"))
	got, err := w.Describe(t.Context(), &workerv1.DescribeRequest{Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	if got.GetName() != "test" || got.GetPid() != int64(w.Cmd.Process.Pid) || time.Since(time.UnixMilli(got.GetStartTimeUnixMs())) > workertest.Patience {
		t.Errorf("got %v", got)
	}
	want := []string{protocol.FeatureDrain, protocol.FeatureExit, protocol.FeatureMultiSession}
	if strings.Join(got.GetFeatures(), " ") != strings.Join(want, " ") {
		t.Errorf("features %q, want %q", got.GetFeatures(), want)
	}
}

// ServeFunc gives each session a server of its own, and does not declare that
// sessions share one.
func TestServeFunc(t *testing.T) {
	w := workertest.Start(t, process("serve each"))
	got, err := w.Describe(t.Context(), &workerv1.DescribeRequest{Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(got.GetFeatures(), protocol.FeatureMultiSession) {
		t.Errorf("features %q", got.GetFeatures())
	}
	for _, want := range []string{"server 1", "server 2"} {
		s := workertest.Open(t, w)
		s.Initialize()
		callTool(s, 2, "number", "")
		contains(t, s.Await(workerv1.Frame_KIND_RESPONSE, 2), want)
	}
}

// SUP-18: neither a handler nor its children see the handshake.
func TestSUP18EnvironmentIsStripped(t *testing.T) {
	w := workertest.Start(t, process("serve"))
	s := workertest.Open(t, w)
	s.Initialize()
	callTool(s, 2, "child_env", "")
	got := s.Await(workerv1.Frame_KIND_RESPONSE, 2)
	contains(t, got, processVariable+"=children")
	contains(t, got, workertest.Setting) // given by the user, not part of the handshake
	for _, name := range []string{"PLUGIN_", protocol.Handshake().MagicCookieKey} {
		if strings.Contains(got, `\n`+name) {
			t.Errorf("%s* reached a child: %s", name, got)
		}
	}
}

// What handlers print goes to the real stderr, where it survives a crash.
func TestPrintsReachStderr(t *testing.T) {
	w := workertest.Start(t, process("serve"))
	s := workertest.Open(t, w)
	s.Initialize()
	callTool(s, 2, "print", "something")
	contains(t, s.Await(workerv1.Frame_KIND_RESPONSE, 2), "printed")
	callTool(s, 3, "exit", "")
	if code := w.Wait().ExitCode(); code != 3 {
		t.Errorf("exit code %d", code)
	}
	contains(t, w.Stderr(), "out something\nerr something\n")
}

// The end of stdin means that the supervisor is gone.
func TestStdinEndsServe(t *testing.T) {
	w := workertest.Start(t, process("serve"))
	s := workertest.Open(t, w)
	s.Initialize()
	callTool(s, 2, "until_cancelled", "")
	w.Stdin.Close()
	if code := w.Wait().ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// SUP-12: a program that does not end when Serve does is ended, where no
// supervisor is left to do so.
func TestStdinEndsStubborn(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("it ends without a signal on Windows")
	}
	w := workertest.Start(t, process("stubborn"))
	s := workertest.Open(t, w)
	s.Initialize()
	w.Stdin.Close()
	if got := w.Wait().String(); got != "signal: killed" {
		t.Errorf("ended with %q", got)
	}
}

func TestTermEndsServe(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no SIGTERM on Windows")
	}
	for mode, want := range map[string]string{"serve": "exit status 0", "stubborn": "signal: killed"} {
		t.Run(mode, func(t *testing.T) {
			w := workertest.Start(t, process(mode))
			s := workertest.Open(t, w)
			s.Initialize()
			if err := w.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if got := w.Wait().String(); got != want {
				t.Errorf("ended with %q, want %q", got, want)
			}
		})
	}
}

// SIGINT, as from Ctrl-C in a terminal, is the supervisor's business.
func TestInterruptIsIgnored(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no SIGINT on Windows")
	}
	w := workertest.Start(t, process("serve"))
	s := workertest.Open(t, w)
	s.Initialize()
	if err := w.Cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	callTool(s, 2, "echo", "alive")
	contains(t, s.Await(workerv1.Frame_KIND_RESPONSE, 2), "alive")
}

// SUP-3: a handoff is reported, calls under way end, the last frame and the
// process say 75.
func TestSUP3Handoff(t *testing.T) {
	w := workertest.Start(t, process("serve"))
	ctx, cancel := context.WithTimeout(t.Context(), workertest.Patience)
	defer cancel()
	events, err := w.Lifecycle(ctx, &workerv1.LifecycleRequest{})
	if err != nil {
		t.Fatal(err)
	}
	s := workertest.Open(t, w)
	s.Initialize()
	callTool(s, 2, "until_draining", "")
	callTool(s, 3, "handoff", "new build")
	contains(t, s.Await(workerv1.Frame_KIND_RESPONSE, 2), "draining")
	event, err := events.Recv()
	if err != nil || event.GetHandoffWanted().GetReason() != "new build" {
		t.Errorf("event %v, %v", event, err)
	}
	if exit := s.AwaitEnd(); exit.GetCode() != ExitHandoff {
		t.Errorf("EXIT %v, want %d", exit, ExitHandoff)
	}
	if code := w.Wait().ExitCode(); code != ExitHandoff {
		t.Errorf("exit code %d", code)
	}
	if _, err := events.Recv(); err != io.EOF {
		t.Errorf("lifecycle ended with %v", err)
	}
}

// A supervisor's own shutdown, as go-plugin does it, ends Serve.
func TestSessionEndByClient(t *testing.T) {
	w := workertest.Start(t, process("serve"))
	s := workertest.Open(t, w)
	s.Initialize()
	callTool(s, 2, "until_cancelled", "")
	if err := s.Stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if exit := s.AwaitEnd(); exit != nil {
		t.Errorf("EXIT %v for a session that the supervisor closed", exit)
	}
	s = workertest.Open(t, w) // the worker lives
	s.Initialize()
}

// Without the handshake the same program is a plain stdio server.
func TestPlainStdio(t *testing.T) {
	for _, handoff := range []bool{false, true} {
		t.Run(fmt.Sprintf("handoff=%v", handoff), func(t *testing.T) {
			cmd := process("serve")
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(stdout)
			ask := func(line string) string {
				t.Helper()
				fmt.Fprintln(stdin, line)
				if !strings.Contains(line, `"id"`) {
					return ""
				}
				if !lines.Scan() {
					t.Fatalf("no answer to %s: %v", line, lines.Err())
				}
				return lines.Text()
			}
			ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
			ask(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			contains(t, ask(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"plain"}}}`), "plain")
			want := 0
			if handoff {
				want = ExitHandoff
				contains(t, ask(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"handoff","arguments":{}}}`), "wanted")
			} else {
				stdin.Close()
			}
			_, _ = io.Copy(io.Discard, stdout)
			_ = cmd.Wait() // the state has it
			if code := cmd.ProcessState.ExitCode(); code != want {
				t.Errorf("exit code %d, want %d", code, want)
			}
		})
	}
}
