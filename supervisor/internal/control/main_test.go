package control

import (
	"context"
	"net"
	"net/http"
	"os"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-mcp/holdfast/internal/logging"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/rundir"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/supervise"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a supervisor with answers that a test chose.
type fake struct {
	status Status
	swap   func(context.Context) (supervise.Outcome, error)
	stop   func()
	log    *logging.Recent
}

func (f fake) Status() Status { return f.status }

func (f fake) Swap(ctx context.Context) (supervise.Outcome, error) { return f.swap(ctx) }

func (f fake) Stop() { f.stop() }

func (f fake) Log() *logging.Recent { return f.log }

// serve serves a supervisor as a running one does, until the test ends.
func serve(t *testing.T, target fake) (dir *rundir.Dir, stop func()) {
	t.Helper()
	dir, err := rundir.New()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, rundir.Control(dir.Path), target) }() // ends with ctx
	stop = func() {
		cancel()
		if err, ok := <-served; ok && err != nil {
			t.Errorf("Serve() = %v", err)
		}
		close(served)
		dir.Remove()
	}
	for { // until it listens
		conn, err := net.Dial("unix", rundir.Control(dir.Path))
		if err == nil {
			conn.Close()
			return dir, stop
		}
	}
}

// serveOne is serve, and the instance that others find.
func serveOne(t *testing.T, target fake) (one Instance, stop func()) {
	t.Helper()
	dir, stop := serve(t, target)
	return Instance{socket: rundir.Control(dir.Path), Status: target.status}, stop
}

// client speaks HTTP on a socket.
func client(dir *rundir.Dir) http.Client {
	return http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", rundir.Control(dir.Path))
		},
	}}
}

// inTemp keeps the supervisors of the test from those of others.
func inTemp(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "c")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv("TMPDIR", dir)
}

// found returns the instances of the test: /tmp may have those of others.
func found(t *testing.T, pids ...int) []Instance {
	t.Helper()
	return slices.DeleteFunc(Instances(t.Context()), func(i Instance) bool { return !slices.Contains(pids, i.Status.Pid) })
}
