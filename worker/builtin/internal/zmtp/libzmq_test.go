package zmtp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/jupytertest"
)

// peerScript is a process with the sockets of a kernel, by libzmq, which is
// what kernels have. It prints the endpoint that it has bound, then does what
// its kind says until the client is gone.
const peerScript = `
import sys, zmq
kind, endpoint = sys.argv[1], sys.argv[2]
ctx = zmq.Context()
if kind == "publish":
    s = ctx.socket(zmq.XPUB)
    s.sndhwm = 0
    s.bind(endpoint)
    print(s.getsockopt(zmq.LAST_ENDPOINT).decode(), flush=True)
    assert s.recv() == b"\x01"
    for i in range(int(sys.argv[3])):
        s.send_multipart([b"t", str(i).encode(), b"x" * (i % 300)])
    s.send_multipart([b"end"])
    s.recv()  # the end of the subscription
elif kind == "echo":
    s = ctx.socket(zmq.ROUTER)
    s.setsockopt(zmq.HEARTBEAT_IVL, 20)
    s.setsockopt(zmq.HEARTBEAT_TIMEOUT, 5000)
    s.bind(endpoint)
    print(s.getsockopt(zmq.LAST_ENDPOINT).decode(), flush=True)
    while True:
        s.send_multipart(s.recv_multipart())
elif kind == "rep":
    s = ctx.socket(zmq.REP)
    s.bind(endpoint)
    print(s.getsockopt(zmq.LAST_ENDPOINT).decode(), flush=True)
    while True:
        s.send_multipart(s.recv_multipart())
`

func libzmq(t *testing.T, args ...string) (endpoint string) {
	t.Helper()
	cmd := exec.Command(jupytertest.Python(t, "zmq"), append([]string{"-c", peerScript}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// endpoints are one of each transport.
func endpoints(t *testing.T, test func(t *testing.T, bind string)) {
	t.Run("tcp", func(t *testing.T) { test(t, "tcp://127.0.0.1:*") })
	t.Run("ipc", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			t.Skip("no ipc on Windows")
		}
		dir, err := os.MkdirTemp("", "z")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		test(t, "ipc://"+filepath.Join(dir, "s-1"))
	})
}

// ROOM-8: all that libzmq publishes arrives, in order.
func TestLibzmqPublishes(t *testing.T) {
	endpoints(t, func(t *testing.T, bind string) {
		const n = 5000
		c := dial(t, libzmq(t, "publish", bind, fmt.Sprint(n)), Sub, Options{Memory: 64 << 10})
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for i := range n {
			m, err := c.Receive(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if len(m) != 3 || string(m[1]) != fmt.Sprint(i) || len(m[2]) != i%300 {
				t.Fatalf("message %d is %.40q", i, m)
			}
		}
		if m, err := c.Receive(ctx); err != nil || string(m[0]) != "end" {
			t.Errorf("%q %v", m, err)
		}
	})
}

// What is sent to libzmq comes back as it was, in all sizes of frames; meanwhile
// its PINGs are answered, else it would end the connection.
func TestLibzmqEchoes(t *testing.T) {
	endpoints(t, func(t *testing.T, bind string) {
		endpoint := libzmq(t, "echo", bind)
		c := dial(t, endpoint, Dealer, Options{Identity: []byte("identity of the client")})
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for _, size := range []int{0, 1, 255, 256, 4096, 4097, 65_536, 10 << 20} {
			want := Message{[]byte("first"), nil, bytes.Repeat([]byte("ab"), size/2), {}}
			if err := c.Send(ctx, want); err != nil {
				t.Fatal(err)
			}
			got, err := c.Receive(ctx)
			if err != nil || !equal(got, want) {
				t.Fatalf("%d bytes: %d frames, %v", size, len(got), err)
			}
		}
		hold, release := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer release()
		if _, err := c.Receive(hold); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("the connection did not outlive its PINGs: %v", err)
		}
	})
}

func TestLibzmqReplies(t *testing.T) {
	for _, kind := range []string{"rep", "echo"} {
		c := dial(t, libzmq(t, kind, "tcp://127.0.0.1:*"), Req, Options{})
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for i := range 3 {
			want := Message{[]byte("ping"), []byte(fmt.Sprint(i))}
			if err := c.Send(ctx, want); err != nil {
				t.Fatal(err)
			}
			if got, err := c.Receive(ctx); err != nil || !equal(got, want) {
				t.Fatalf("%s: %q %v", kind, got, err)
			}
		}
	}
}

// A peer that is killed is seen at once, unlike with libzmq on this side.
func TestLibzmqDies(t *testing.T) {
	cmd := exec.Command(jupytertest.Python(t, "zmq"), "-c", peerScript, "echo", "tcp://127.0.0.1:*")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, strings.TrimSpace(line), Dealer, Options{})
	cmd.Process.Kill()
	_ = cmd.Wait()
	select {
	case <-c.Done():
	case <-time.After(patience):
		t.Fatal("not seen")
	}
	if _, err := c.Receive(t.Context()); err == nil || errors.Is(err, ErrProtocol) {
		t.Errorf("error %v", err)
	}
	if err := c.Send(t.Context(), Message{[]byte("x")}); err == nil {
		t.Error("a message was sent to nobody")
	}
	if !errors.Is(c.Err(), io.EOF) && c.Err() == nil {
		t.Errorf("error %v", c.Err())
	}
}
