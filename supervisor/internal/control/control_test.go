package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/supervisor/internal/rundir"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/supervise"
)

// SUP-15, SUP-4: running supervisors are found and tell their status; a swap
// names the generation, or the reason and what serves all the same.
func TestInstances(t *testing.T) {
	inTemp(t)
	outcome := supervise.Outcome{Generation: 8}
	var failure error
	target := fake{
		status: Status{Pid: 1<<30 + 41, Command: "server one", Worker: supervise.Status{State: "serving", Generation: 7}},
		swap:   func(context.Context) (supervise.Outcome, error) { return outcome, failure },
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
	found := found(t, target.status.Pid, os.Getpid())
	if len(found) != 1 || found[0].Status.Pid != target.status.Pid || found[0].Status.Worker.Generation != 7 {
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

// The socket of a dead process is nobody. A supervisor that takes a connection
// and says nothing is told of, with its pid.
func TestInstancesWithoutAnswer(t *testing.T) {
	inTemp(t)
	dead, err := rundir.New()
	if err != nil {
		t.Fatal(err)
	}
	defer dead.Remove()
	gone, err := net.ListenUnix("unix", &net.UnixAddr{Name: rundir.Control(dead.Path), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	gone.SetUnlinkOnClose(false)
	gone.Close()
	if got := found(t, os.Getpid()); len(got) != 0 {
		t.Errorf("the socket of a dead process: %+v", got)
	}
	deaf, err := rundir.New()
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Remove()
	listener, err := net.Listen("unix", rundir.Control(deaf.Path))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	got := found(t, os.Getpid())
	if len(got) != 1 || !got[0].Status.Silent {
		t.Fatalf("one that does not answer: %+v", got)
	}
	if _, err := Choose(got, ""); !errors.Is(err, ErrSilent) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("Choose() = %v", err)
	}
}

func TestChoose(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(dir, "project", "src")
	if err := os.MkdirAll(src, 0o700); err != nil {
		t.Fatal(err)
	}
	i := func(pid int, name, dir, project string) Instance {
		return Instance{Status: Status{Pid: pid, Name: name, Command: "run " + name, Dir: dir, Project: project}}
	}
	one, two := i(41, "notes", "/", ""), i(42, "mail", "/", filepath.Dir(src))
	twin := i(43, "notes", dir, "")
	for _, tt := range []struct {
		name  string
		all   []Instance
		by    string
		here  string
		want  int // pid
		err   error
		lists int // instances that the error names
	}{
		{"none", nil, "", dir, 0, ErrNone, 0},
		{"none of a name", nil, "notes", dir, 0, ErrNone, 0},
		{"the only one", []Instance{one}, "", dir, 41, nil, 0},
		{"by name", []Instance{one, two}, "mail", dir, 42, nil, 0},
		{"by pid", []Instance{one, two}, "41", dir, 41, nil, 0},
		{"two of one name", []Instance{one, two, twin}, "notes", dir, 0, ErrWhich, 2},
		{"one of the name, by pid", []Instance{one, two, twin}, "43", dir, 43, nil, 0},
		{"several", []Instance{one, two}, "", os.TempDir(), 0, ErrWhich, 2},
		{"that of the working directory", []Instance{one, two, twin}, "", dir, 43, nil, 0},
		{"that of the project around it", []Instance{one, two, twin}, "", src, 42, nil, 0},
		{"a server at / is not around everything", []Instance{one, one}, "", src, 0, ErrWhich, 2},
		{"by directory", []Instance{one, two, twin}, dir, "/", 43, nil, 0},
		{"by a relative directory", []Instance{one, two, twin}, "project", dir, 42, nil, 0},
		{"no such name", []Instance{one, two}, "nobody", dir, 0, ErrNoSuch, 2},
		{"no such pid", []Instance{one}, "44", dir, 0, ErrNoSuch, 1},
		{"a directory of nobody", []Instance{two, twin}, "src", filepath.Dir(src), 0, ErrNoSuch, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(tt.here)
			got, err := Choose(tt.all, tt.by)
			if got.Status.Pid != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("pid %d, %v", got.Status.Pid, err)
			}
			if err != nil && strings.Count(err.Error(), "\n") != tt.lists {
				t.Errorf("the error lists others: %v", err)
			}
		})
	}
}

// A caller that gives up ends its own wait; a server that ends, all of them.
func TestSwapEnds(t *testing.T) {
	inTemp(t)
	asked := make(chan context.Context)
	one, stop := serveOne(t, fake{swap: func(ctx context.Context) (supervise.Outcome, error) {
		asked <- ctx
		<-ctx.Done()
		return supervise.Outcome{}, ctx.Err()
	}})
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

// SEC-5: a supervisor can be stopped; who asked for it is told when it has
// ended, and not before.
func TestStop(t *testing.T) {
	inTemp(t)
	asked := make(chan struct{})
	one, stop := serveOne(t, fake{stop: func() { close(asked) }})
	got := make(chan error, 1)
	go func() { got <- one.Stop(t.Context()) }() // ends with the server
	<-asked
	select {
	case err := <-got:
		t.Fatalf("Stop() = %v before the end", err)
	default:
	}
	stop()
	if err := <-got; err != nil {
		t.Errorf("Stop() = %v", err)
	}
	one, stop = serveOne(t, fake{stop: func() {}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := one.Stop(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Stop() = %v", err)
	}
	stop()
}

// SEC-5: a control socket takes no parameters, and answers nothing else.
func TestSEC5Routes(t *testing.T) {
	inTemp(t)
	swaps := 0
	dir, stop := serve(t, fake{
		swap: func(context.Context) (supervise.Outcome, error) {
			swaps++
			return supervise.Outcome{Generation: 1}, nil
		},
		stop: func() { t.Error("stopped") },
	})
	defer stop()
	client := client(dir)
	const body = `{"command":"/bin/false"}`
	for _, tt := range []struct {
		method, path, body string
		want               int
	}{
		{http.MethodGet, "/status", "", http.StatusOK},
		{http.MethodPost, "/swap", "", http.StatusOK},
		{http.MethodPost, "/swap", body, http.StatusBadRequest},
		{http.MethodPost, "/stop", body, http.StatusBadRequest},
		{http.MethodGet, "/status", body, http.StatusBadRequest},
		{http.MethodPost, "/swap?command=/bin/false", "", http.StatusBadRequest},
		{http.MethodPost, "/stop?", "", http.StatusBadRequest},
		{http.MethodGet, "/swap", "", http.StatusMethodNotAllowed},
		{http.MethodGet, "/stop", "", http.StatusMethodNotAllowed},
		{http.MethodPut, "/swap", "", http.StatusMethodNotAllowed},
		{http.MethodPost, "/status", "", http.StatusMethodNotAllowed},
		{http.MethodDelete, "/logs", "", http.StatusMethodNotAllowed},
		{http.MethodPost, "/run", "", http.StatusNotFound},
		{http.MethodPost, "/swap/bin/false", "", http.StatusNotFound},
		{http.MethodGet, "/logs/../../etc/passwd", "", http.StatusNotFound},
		{http.MethodGet, "/", "", http.StatusNotFound},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, "http://holdfast"+tt.path, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != tt.want {
			t.Errorf("%s %s %s: %s", tt.method, tt.path, tt.body, resp.Status)
		}
	}
	if swaps != 1 {
		t.Errorf("%d swaps", swaps)
	}
}
