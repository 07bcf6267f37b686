package control

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-mcp/holdfast/supervisor/internal/rundir"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/supervise"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a supervisor with answers that a test chose.
type fake struct {
	status Status
	swap   func(context.Context) (supervise.Outcome, error)
}

func (f fake) Status() Status { return f.status }

func (f fake) Swap(ctx context.Context) (supervise.Outcome, error) { return f.swap(ctx) }

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

// SUP-15, SUP-4: running supervisors are found and tell their status; a swap
// names the generation, or the reason and what serves all the same.
func TestInstances(t *testing.T) {
	inTemp(t)
	outcome := supervise.Outcome{Generation: 8}
	var failure error
	target := fake{
		Status{Pid: 41, Command: "server one", Worker: supervise.Status{State: "serving", Generation: 7}},
		func(context.Context) (supervise.Outcome, error) { return outcome, failure },
	}
	dir, stop := serve(t, target)
	defer stop()
	dead, err := rundir.New() // one that has no socket
	if err != nil {
		t.Fatal(err)
	}
	defer dead.Remove()
	if info, err := os.Stat(rundir.Control(dir.Path)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	found := Instances(t.Context())
	if len(found) != 1 || found[0].Status.Pid != 41 || found[0].Status.Worker.Generation != 7 {
		t.Fatalf("Instances() = %+v", found)
	}
	for _, tt := range []struct {
		outcome supervise.Outcome
		err     error
		want    SwapResult
	}{
		{supervise.Outcome{Generation: 8}, nil, SwapResult{8, ""}},
		{supervise.Outcome{Generation: 7, Err: errors.New("no such file")}, nil, SwapResult{7, "no such file"}},
		{supervise.Outcome{}, supervise.ErrEnded, SwapResult{0, supervise.ErrEnded.Error()}},
	} {
		outcome, failure = tt.outcome, tt.err
		if got, err := found[0].Swap(t.Context()); err != nil || got != tt.want {
			t.Errorf("Swap() = %+v, %v, want %+v", got, err, tt.want)
		}
	}
}

func TestChoose(t *testing.T) {
	one, two := Instance{Status: Status{Pid: 41, Command: "server one"}}, Instance{Status: Status{Pid: 42, Command: "server two"}}
	for _, tt := range []struct {
		all  []Instance
		pid  int
		want int    // pid
		says string // of the error
	}{
		{nil, 0, 0, ErrNone.Error()},
		{nil, 41, 0, ErrNone.Error()},
		{[]Instance{one}, 0, 41, ""},
		{[]Instance{one, two}, 42, 42, ""},
		{[]Instance{one, two}, 0, 0, "--pid"},
		{[]Instance{one}, 43, 0, "41  server one"},
	} {
		got, err := Choose(tt.all, tt.pid)
		if got.Status.Pid != tt.want || (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("Choose(%d of them, %d) = %d, %v", len(tt.all), tt.pid, got.Status.Pid, err)
		}
	}
}

// A caller that gives up ends its own wait; a server that ends, all of them.
func TestSwapEnds(t *testing.T) {
	inTemp(t)
	asked := make(chan context.Context)
	_, stop := serve(t, fake{swap: func(ctx context.Context) (supervise.Outcome, error) {
		asked <- ctx
		<-ctx.Done()
		return supervise.Outcome{}, ctx.Err()
	}})
	one := Instances(t.Context())[0]
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan error, 1)
	swap := func(ctx context.Context) { // ends with ctx or the server
		_, err := one.Swap(ctx)
		got <- err
	}
	go swap(ctx)
	inside := <-asked
	cancel()
	if err := <-got; !errors.Is(err, context.Canceled) {
		t.Errorf("Swap() = %v", err)
	}
	<-inside.Done()
	go swap(t.Context())
	<-asked
	stop()
	if err := <-got; err == nil {
		t.Error("Swap() of a server that ended succeeded")
	}
}

// SEC-5: a control socket takes no parameters, and answers nothing else.
func TestSEC5Routes(t *testing.T) {
	inTemp(t)
	swaps := 0
	dir, stop := serve(t, fake{swap: func(context.Context) (supervise.Outcome, error) {
		swaps++
		return supervise.Outcome{Generation: 1}, nil
	}})
	defer stop()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", rundir.Control(dir.Path))
		},
	}}
	for _, tt := range []struct {
		method, path string
		want         int
	}{
		{http.MethodGet, "/status", http.StatusOK},
		{http.MethodPost, "/swap", http.StatusOK},
		{http.MethodGet, "/swap", http.StatusMethodNotAllowed},
		{http.MethodPost, "/status", http.StatusMethodNotAllowed},
		{http.MethodPost, "/run", http.StatusNotFound},
		{http.MethodGet, "/", http.StatusNotFound},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, "http://holdfast"+tt.path, strings.NewReader(`{"command":"/bin/false"}`))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != tt.want {
			t.Errorf("%s %s: %s %s", tt.method, tt.path, resp.Status, body)
		}
	}
	if swaps != 1 {
		t.Errorf("%d swaps", swaps)
	}
}
