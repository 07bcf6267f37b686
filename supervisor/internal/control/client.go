package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-mcp/holdfast/supervisor/internal/rundir"
)

// Errors of the choice of an instance.
var (
	// ErrNone is returned when no supervisor of this user runs.
	ErrNone = errors.New("no holdfast is running")
	// ErrWhich is returned when several run and none is chosen.
	ErrWhich = errors.New("several are running, choose one with --pid")
)

// statusTimeout bounds the answer of a supervisor that is asked for its status.
const statusTimeout = 2 * time.Second

// Instance is a running supervisor.
type Instance struct {
	socket string
	Status Status
}

// Instances returns the running supervisors of this user.
func Instances(ctx context.Context) []Instance {
	var found []Instance
	for _, dir := range rundir.All() {
		i := Instance{socket: rundir.Control(dir)}
		ctx, cancel := context.WithTimeout(ctx, statusTimeout)
		if i.call(ctx, http.MethodGet, "/status", &i.Status) == nil {
			found = append(found, i)
		}
		cancel()
	}
	return found
}

// Choose returns the instance with the pid, or the only one if pid is 0.
func Choose(instances []Instance, pid int) (Instance, error) {
	if len(instances) == 0 {
		return Instance{}, ErrNone
	}
	for _, i := range instances {
		if i.Status.Pid == pid || pid == 0 && len(instances) == 1 {
			return i, nil
		}
	}
	var list strings.Builder
	for _, i := range instances {
		fmt.Fprintf(&list, "\n  %d  %s", i.Status.Pid, i.Status.Command)
	}
	if pid != 0 {
		return Instance{}, fmt.Errorf("no holdfast has pid %d; running are:%s", pid, list.String())
	}
	return Instance{}, fmt.Errorf("%w:%s", ErrWhich, list.String())
}

// Swap asks the instance for a replacement of its worker.
func (i Instance) Swap(ctx context.Context) (SwapResult, error) {
	var result SwapResult
	err := i.call(ctx, http.MethodPost, "/swap", &result)
	return result, err
}

func (i Instance) call(ctx context.Context, method, path string, answer any) error {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", i.socket)
		},
	}}
	req, err := http.NewRequestWithContext(ctx, method, "http://holdfast"+path, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", method, path, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}
