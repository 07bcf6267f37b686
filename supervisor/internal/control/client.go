package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-mcp/holdfast/supervisor/internal/rundir"
)

// statusTimeout bounds the answer of a supervisor that is asked for its status.
const statusTimeout = 2 * time.Second

// Instance is a running supervisor.
type Instance struct {
	socket string
	Status Status
}

// Instances returns the running supervisors of this user, the oldest first. One
// that does not answer is Silent.
func Instances(ctx context.Context) []Instance {
	dirs := rundir.All()
	asked := make([]Instance, len(dirs))
	var all sync.WaitGroup
	for n, dir := range dirs {
		all.Go(func() { asked[n] = ask(ctx, dir) }) // ends with its answer, or the timeout
	}
	all.Wait()
	found := slices.DeleteFunc(asked, func(i Instance) bool { return i.Status.Pid == 0 })
	slices.SortStableFunc(found, func(a, b Instance) int {
		return cmp.Or(a.Status.Started.Compare(b.Status.Started), cmp.Compare(a.Status.Pid, b.Status.Pid))
	})
	return found
}

// ask asks the supervisor with a directory for its status. The process id is 0
// if there is none.
func ask(ctx context.Context, dir string) Instance {
	i := Instance{socket: rundir.Control(dir)}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	err := i.call(ctx, http.MethodGet, "/status", &i.Status)
	if err == nil {
		return i
	}
	i.Status = Status{}
	// A socket that nobody listens on is that of a dead process, or of one that
	// has just been started.
	if errors.Is(err, context.DeadlineExceeded) {
		i.Status.Pid, i.Status.Silent = rundir.Owner(dir), true
	}
	return i
}

// Swap asks the instance for a replacement of its worker.
func (i Instance) Swap(ctx context.Context) (SwapResult, error) {
	var result SwapResult
	err := i.call(ctx, http.MethodPost, "/swap", &result)
	return result, err
}

// Stop ends the session of the instance, and returns when that has ended.
func (i Instance) Stop(ctx context.Context) error {
	resp, err := i.request(ctx, http.MethodPost, "/stop")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body) // its end, however it comes, is the end
	return ctx.Err()
}

func (i Instance) call(ctx context.Context, method, path string, answer any) error {
	resp, err := i.request(ctx, method, path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(answer)
}

func (i Instance) request(ctx context.Context, method, path string) (*http.Response, error) {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", i.socket)
		},
	}}
	req, err := http.NewRequestWithContext(ctx, method, "http://holdfast"+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("%s %s: %s", method, path, resp.Status)
	}
	return resp, nil
}
