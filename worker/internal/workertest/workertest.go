// Package workertest starts real worker processes for tests, in the way a
// supervisor does: with the handshake in the environment, a stdin that stays
// open, and a process group of their own.
//
// It is for tests alone; everything that goes wrong ends the test.
package workertest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
)

// Patience bounds every wait.
const Patience = time.Minute

// Setting is an entry of the environment that looks like holdfast's own and was
// given to the worker by the user: it must stay.
const Setting = protocol.EnvPrefix + "GIVEN_BY_USER=1"

// Worker is a started worker process.
type Worker struct {
	workerv1.WorkerServiceClient

	Cmd   *exec.Cmd
	Stdin io.WriteCloser // closing it is how a supervisor goes away

	t      testing.TB
	exited chan struct{}

	mu     sync.Mutex
	stderr strings.Builder
}

// Environ returns environ as a supervisor passes it on: with the handshake and
// a socket directory of the test's own.
func Environ(t testing.TB, environ []string) []string {
	t.Helper()
	handshake := protocol.Handshake()
	dir, err := os.MkdirTemp("", "hf") // short: a socket path is at most about 100 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return append(protocol.StripHandshake(environ),
		handshake.MagicCookieKey+"="+handshake.MagicCookieValue,
		fmt.Sprintf("PLUGIN_PROTOCOL_VERSIONS=%d", protocol.WireVersion),
		"PLUGIN_UNIX_SOCKET_DIR="+dir,
		Setting,
	)
}

// Start starts cmd as a worker and returns once it can be spoken to. Its
// environment, nil for that of the test, gets the handshake added.
func Start(t testing.TB, cmd *exec.Cmd) *Worker {
	t.Helper()
	w := &Worker{Cmd: cmd, t: t, exited: make(chan struct{})}
	cmd.Env = Environ(t, cmd.Environ())
	cmd.Stderr = w
	ownGroup(cmd)
	var err error
	if w.Stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, stdoutW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = stdoutW
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stdoutW.Close()
	go func() { // ends with the process
		defer close(w.exited)
		_ = cmd.Wait() // the state has it all
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has usually ended
		<-w.exited
		stdout.Close()
		if t.Failed() {
			t.Logf("stderr of the worker:\n%s", w.Stderr())
		}
	})
	w.dial(stdout)
	return w
}

func (w *Worker) dial(stdout io.Reader) {
	w.t.Helper()
	first, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		w.t.Fatalf("no handshake: %v; stderr: %s", err, w.Stderr())
	}
	fields := strings.Split(strings.TrimSpace(first), "|")
	if len(fields) < 5 || fields[4] != "grpc" {
		w.t.Fatalf("handshake %q", first)
	}
	target := fields[3]
	if fields[2] == "unix" {
		target = "unix:" + target
	}
	cc, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { cc.Close() })
	w.WorkerServiceClient = workerv1.NewWorkerServiceClient(cc)
}

// Write collects the worker's stderr.
func (w *Worker) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stderr.Write(p)
}

// Stderr returns what the worker wrote to its stderr.
func (w *Worker) Stderr() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stderr.String()
}

// Wait returns the state of the ended process.
func (w *Worker) Wait() *os.ProcessState {
	w.t.Helper()
	select {
	case <-w.exited:
	case <-time.After(Patience):
		w.t.Fatal("the worker has not ended")
	}
	return w.Cmd.ProcessState
}

// Session is the supervisor's side of a Session stream.
type Session struct {
	Stream workerv1.WorkerService_SessionClient
	// Cancel breaks the stream.
	Cancel context.CancelFunc

	t testing.TB
}

// Open opens a session, on a real worker or any other.
func Open(t testing.TB, client workerv1.WorkerServiceClient) *Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	stream, err := client.Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return &Session{stream, cancel, t}
}

// Send sends a frame.
func (s *Session) Send(kind workerv1.Frame_Kind, n uint64, payload string) {
	s.t.Helper()
	if err := s.Stream.Send(&workerv1.Frame{Kind: kind, Id: n, Payload: []byte(payload)}); err != nil {
		s.t.Fatalf("sending %s: %v", kind, err)
	}
}

// Request sends the request n with the client's own id, a raw token.
func (s *Session) Request(n uint64, token, method, params string) {
	s.t.Helper()
	s.Send(workerv1.Frame_KIND_REQUEST, n, fmt.Sprintf(`{"method":%q,"params":%s,"jsonrpc":"2.0","id":%s}`, method, params, token))
}

// Initialize performs the MCP handshake of the legacy era.
func (s *Session) Initialize() {
	s.t.Helper()
	s.Request(1, `"init"`, "initialize", `{"protocolVersion":"2025-06-18","capabilities":{"sampling":{}},"clientInfo":{"name":"test","version":"1"}}`)
	s.Await(workerv1.Frame_KIND_RESPONSE, 1)
	s.Send(workerv1.Frame_KIND_NOTIFICATION, 0, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// Next receives one frame.
func (s *Session) Next() *workerv1.Frame {
	s.t.Helper()
	frame, err := s.Stream.Recv()
	if err != nil {
		s.t.Fatalf("no frame: %v", err)
	}
	return frame
}

// Await receives frames until one of this kind and number, and returns its
// payload.
func (s *Session) Await(kind workerv1.Frame_Kind, n uint64) string {
	s.t.Helper()
	for {
		if frame := s.Next(); frame.GetKind() == kind && frame.GetId() == n {
			return string(frame.GetPayload())
		}
	}
}

// AwaitEnd receives frames until the end of the stream and returns the exit of
// an EXIT frame, which must be the last, or nil if there was none.
func (s *Session) AwaitEnd() *workerv1.Exit {
	s.t.Helper()
	var exit *workerv1.Exit
	for {
		frame, err := s.Stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return exit
		case err != nil:
			s.t.Fatalf("the stream ended with %v", err)
		case exit != nil:
			s.t.Fatalf("%v after EXIT", frame)
		case frame.GetKind() == workerv1.Frame_KIND_EXIT:
			exit = frame.GetExit()
		}
	}
}
