package generation

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-plugin"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-mcp/holdfast/internal/logging"
	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
)

// The test binary plays the worker named by roleEnv instead of running tests.
// Each such process is tethered: it holds a connection to the test, whose end
// tells that it is gone.
const (
	roleEnv   = "GENERATION_TEST_ROLE"
	tetherEnv = "GENERATION_TEST_TETHER"
)

// stderr is that of the process: go-plugin puts its own in place.
var stderr = os.Stderr

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		play, ok := roles[role]
		if !ok {
			panic("no such role: " + role)
		}
		tether(role)
		play()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

var roles = map[string]func(){
	"good": func() { serveWorker(&testWorker{}) },
	"banner": func() {
		fmt.Print("Server running on stdio\n{\n  a: 1\n}\n1|2|three\n" + strings.Repeat("x", 100_000) + "\n")
		serveWorker(&testWorker{})
	},
	"flood": func() {
		for range 10 {
			_, _ = os.Stderr.WriteString(strings.Repeat("x", 1<<20))
		}
		fmt.Fprintln(os.Stderr, "\nlast words")
		serveWorker(&testWorker{})
	},
	"stubborn": func() {
		signal.Ignore(syscall.SIGTERM)
		serveWorker(&testWorker{})
	},
	"deaf":        func() { serveWorker(&testWorker{deaf: true}) },
	"mute":        func() { serveWorker(&testWorker{mute: true}) },
	"undescribed": func() { serveWorker(workerv1.UnimplementedWorkerServiceServer{}) },
	"failing": func() {
		fmt.Fprintln(os.Stderr, "missing API_KEY")
		os.Exit(3)
	},
	"silent":  func() { time.Sleep(time.Hour) },
	"chatty":  func() { fmt.Println("listening"); time.Sleep(time.Hour) },
	"newer":   func() { fmt.Println("1|7|unix|/nowhere|grpc"); time.Sleep(time.Hour) },
	"bare":    func() { fmt.Println("1|1|unix|/nowhere|grpc"); time.Sleep(time.Hour) },
	"orphan":  func() { time.Sleep(time.Hour) },
	"leaving": func() { startOrphan(); os.Exit(4) },
}

// tether connects this process to the test; the connection ends with it.
func tether(role string) {
	conn, err := net.Dial("unix", os.Getenv(tetherEnv))
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(conn, "%s %d\n", role, os.Getpid())
}

// startOrphan starts a process that holds our stdout and stderr, in a session
// of its own, which no signal to our group reaches.
func startOrphan() {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"=orphan")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	ownSession(cmd)
	if err := cmd.Start(); err != nil {
		panic(err)
	}
}

func serveWorker(service workerv1.WorkerServiceServer) {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  protocol.Handshake(),
		VersionedPlugins: protocol.Versions(service),
		Logger:           logging.HclogOff(),
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, protocol.ServerOptions(1<<20)...)...)
		},
	})
}

// testWorker says what it was started with, and does in a session what it is
// told to.
type testWorker struct {
	workerv1.UnimplementedWorkerServiceServer

	deaf bool // reads nothing
	mute bool // never describes itself
}

func (w *testWorker) Describe(ctx context.Context, in *workerv1.DescribeRequest) (*workerv1.DescribeResponse, error) {
	if w.mute {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	dir, _ := os.Getwd()
	return &workerv1.DescribeResponse{
		Name: strings.Join(os.Environ(), "\n"), Version: os.Getenv("WORKER_VERSION"),
		Build: dir, Features: append(os.Args[1:], fmt.Sprint(in.Version, " ", in.MaxFrame)), Pid: int64(os.Getpid()),
	}, nil
}

// Session takes frames whose payload is a command.
func (w *testWorker) Session(stream grpc.BidiStreamingServer[workerv1.Frame, workerv1.Frame]) error {
	if w.deaf {
		<-stream.Context().Done()
		return nil
	}
	for {
		f, err := stream.Recv()
		if err != nil {
			return nil
		}
		command, arg, _ := strings.Cut(string(f.Payload), " ")
		switch command {
		case "echo":
			err = stream.Send(&workerv1.Frame{Kind: workerv1.Frame_KIND_RESPONSE, Id: f.Id, Payload: []byte(arg)})
		case "say":
			fmt.Fprintln(stderr, arg)
		case "poke":
			tether(command)
		case "exit":
			code, _ := strconv.Atoi(arg)
			os.Exit(code)
		case "kill":
			p, _ := os.FindProcess(os.Getpid())
			_ = p.Kill()
			select {}
		case "close":
			return nil
		case "complain":
			exit := &workerv1.Exit{Code: 3, StderrTail: arg + "\nend"}
			_ = stream.Send(&workerv1.Frame{Kind: workerv1.Frame_KIND_EXIT, Exit: exit}) // the status follows in any case
			return status.Error(codes.Internal, arg)
		case "orphan":
			startOrphan()
		}
		if err != nil {
			return err
		}
	}
}

// harness starts generations of the test binary.
type harness struct {
	t      *testing.T
	dir    string
	tether *net.UnixListener
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	dir, err := os.MkdirTemp("", "generation") // short: socket paths have a limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "tether"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if err := os.Mkdir(filepath.Join(dir, "sockets"), 0o700); err != nil {
		t.Fatal(err)
	}
	return &harness{t: t, dir: dir, tether: l}
}

func (h *harness) config(role string) Config {
	h.t.Helper()
	self, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	return Config{
		Command: Command{
			Worker: self, Dir: h.dir,
			// The race detector's pause at exit would be most of the time.
			Env: append(os.Environ(), roleEnv+"="+role, tetherEnv+"="+h.tether.Addr().String(), "GORACE=atexit_sleep_ms=0"),
		},
		StartTimeout: 20 * time.Second, MaxFrame: 1 << 20, SocketDir: filepath.Join(h.dir, "sockets"), Version: "v0",
	}
}

// start starts a worker that is expected to be well, and stops it at the end.
func (h *harness) start(c Config) *Generation {
	h.t.Helper()
	g, err := Start(h.t.Context(), 1, c)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(g.Stop)
	return g
}

// process is a tethered process.
type tethered struct {
	t    *testing.T
	conn net.Conn
	role string
	pid  int
}

// accept waits for the next process that was started.
func (h *harness) accept() *tethered {
	h.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	_ = h.tether.SetDeadline(deadline)
	conn, err := h.tether.Accept()
	if err != nil {
		h.t.Fatalf("no process was started: %v", err)
	}
	h.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(deadline)
	p := &tethered{t: h.t, conn: conn}
	if _, err := fmt.Fscanln(conn, &p.role, &p.pid); err != nil {
		h.t.Fatal(err)
	}
	return p
}

// awaitGone waits for the end of the process.
func (p *tethered) awaitGone() {
	p.t.Helper()
	if n, err := io.Copy(io.Discard, p.conn); err != nil {
		p.t.Fatalf("%s lives on: read %d: %v", p.role, n, err)
	}
}

// kill ends an orphan.
func (p *tethered) kill() {
	if proc, err := os.FindProcess(p.pid); err == nil {
		_ = proc.Kill()
	}
	p.awaitGone()
}

// nothingLeft checks the folder of sockets.
func (h *harness) nothingLeft() {
	h.t.Helper()
	entries, err := os.ReadDir(filepath.Join(h.dir, "sockets"))
	if err != nil || len(entries) > 0 {
		h.t.Errorf("left in the socket directory: %v, %v", entries, err)
	}
}

func await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s does not come", what)
	}
}
