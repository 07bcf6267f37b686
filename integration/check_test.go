package integration

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// checked is what holdfast-worker check prints with --json.
type checked struct {
	Checks []struct {
		Name, Rule, Expected, Status, Seen string
	} `json:"checks"`
	Stderr []string `json:"stderr_tail"`
}

// with returns the names of the checks that ended so.
func (c checked) with(status string) []string {
	var names []string
	for _, check := range c.Checks {
		if check.Status == status {
			names = append(names, check.Name)
		}
	}
	return names
}

// seen returns what a check saw.
func (c checked) seen(name string) string {
	for _, check := range c.Checks {
		if check.Name == name {
			return check.Seen
		}
	}
	return ""
}

// runCheck runs holdfast-worker check, which must end in time and leave no
// process, and returns its exit code and what it printed.
func runCheck(t *testing.T, args ...string) (code int, stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*harness.Patience)
	defer cancel()
	mark := rand.Text()
	cmd := exec.CommandContext(ctx, harness.HoldfastWorker(t), append([]string{"check"}, args...)...)
	cmd.Env = append(os.Environ(), harness.MarkVariable+"="+mark)
	cmd.WaitDelay = time.Second
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("check %q: %w\n%s%s", args, err, out.String(), errs.String())
	}
	for _, left := range harness.Marked(t, mark) {
		t.Errorf("check %q left behind: %v", args, left)
		left.Kill()
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String(), err
}

// checkWorker checks a worker and returns what was seen.
func checkWorker(t *testing.T, timeout time.Duration, path string, args ...string) (checked, error) {
	t.Helper()
	code, stdout, stderr, err := runCheck(t, append([]string{"--json", "--timeout", timeout.String(), path, "--"}, args...)...)
	var c checked
	if err == nil {
		err = json.Unmarshal([]byte(stdout), &c)
	}
	if err != nil {
		return c, fmt.Errorf("%w\n%s", err, stderr)
	}
	if failed := len(c.with("failed")) > 0; failed != (code == 1) || code > 1 {
		err = fmt.Errorf("%q: exit code %d with failed checks %q", args, code, c.with("failed"))
	}
	return c, err
}

// foreignWorker returns the command of the worker on Node.js.
func foreignWorker(t *testing.T) []string {
	t.Helper()
	node := harness.RequireNode(t)
	modules := harness.RequireForeignWorker(t)
	script, err := filepath.Abs(filepath.Join("foreignworker", "worker.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	return []string{node, script, modules}
}

// TestCheckPasses: workers that keep to the protocol fail no check: one of the
// SDK, the bridge, and one in another language.
func TestCheckPasses(t *testing.T) {
	workers := map[string]struct {
		command func(*testing.T) []string
		skipped []string // on Linux
	}{
		"sdk": {
			func(t *testing.T) []string { return []string{harness.TestServer(t)} },
			[]string{"process group", "environment", "exit"}, // it has no processes
		},
		"bridge": {
			func(t *testing.T) []string {
				return []string{harness.HoldfastWorker(t), "bridge", "--", harness.TestServer(t)}
			},
			[]string{"second session"},
		},
		"foreign": {foreignWorker, []string{"process group", "environment", "exit"}},
	}
	for name, worker := range workers {
		t.Run(name, func(t *testing.T) {
			harness.RequireLinux(t)
			t.Parallel()
			command := worker.command(t)
			c, err := checkWorker(t, 30*time.Second, command[0], command[1:]...)
			if err != nil {
				t.Fatal(err)
			}
			for _, failed := range c.with("failed") {
				t.Errorf("%s failed: %s", failed, c.seen(failed))
			}
			if skipped := c.with("skipped"); !slices.Equal(skipped, worker.skipped) {
				t.Errorf("skipped %q, want %q", skipped, worker.skipped)
			}
			t.Logf("%d ok, notes: %q", len(c.with("ok")), c.with("note"))
		})
	}
}

// TestCheckFindsFaults: of a worker that breaks one rule, the check of that
// rule fails and says what it saw; the others do not, and none hangs.
func TestCheckFindsFaults(t *testing.T) {
	harness.RequireLinux(t)
	t.Parallel()
	tests := map[string]struct {
		failed []string
		seen   string // by the first of them
	}{
		"silent":           {[]string{"start"}, "alive but silent"},
		"junk":             {[]string{"start"}, "Server running on stdio"},
		"half a line":      {[]string{"start"}, "1|1|unix"},
		"early exit":       {[]string{"start"}, "exit code 3"},
		"net/rpc":          {[]string{"handshake line"}, "want grpc"},
		"other wire":       {[]string{"wire version"}, "it speaks 7, this holdfast 1 to 1"},
		"wrong number":     {[]string{"ids", "frames"}, "an answer under number 1, which is not open"},
		"unknown method":   {[]string{"unknown method"}, "no answer in time"},
		"dies of size":     {[]string{"large request"}, "the worker ended the stream"},
		"default limit":    {[]string{"large request"}, "ResourceExhausted"},
		"never drained":    {[]string{"drain"}, "no DRAINED"},
		"several lines":    {[]string{"frames"}, "more than one line"},
		"one session":      {[]string{"new session"}, "one session is enough"},
		"crossed sessions": {[]string{"second session", "frames"}, "no answer in time"},
		"ignores stdin":    {[]string{"end of input"}, "it lives on"},
		"ignores term":     {[]string{"terminate"}, "had to be killed"},
		"never exit":       {[]string{"exit"}, "no EXIT"},
		"runaway child":    {[]string{"process group", "environment", "end of input"}, "in other groups"},
	}
	results := checkModes(t, slices.Collect(maps.Keys(tests)))
	for mode, want := range tests {
		t.Run(mode, func(t *testing.T) {
			c := results[mode]
			failed := c.with("failed")
			if !slices.Equal(failed, want.failed) {
				for _, name := range failed {
					t.Logf("%s failed: %s", name, c.seen(name))
				}
				t.Fatalf("failed: %q, want %q", failed, want.failed)
			}
			if seen := c.seen(failed[0]); !strings.Contains(seen, want.seen) {
				t.Errorf("%s saw %q, want %q", failed[0], seen, want.seen)
			}
		})
	}
}

// checkModes checks bad workers, several at a time since most of the time is
// spent waiting for what does not come.
func checkModes(t *testing.T, modes []string) map[string]checked {
	t.Helper()
	path, _ := badWorker(t), harness.HoldfastWorker(t) // both are built here, where a failure ends the test
	results := make(map[string]checked)
	var mu sync.Mutex
	var done sync.WaitGroup
	slots := make(chan struct{}, 6)
	for _, mode := range modes {
		done.Go(func() { // ends with the check, which has a deadline
			slots <- struct{}{}
			defer func() { <-slots }()
			c, err := checkWorker(t, 15*time.Second, path, mode)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			results[mode] = c
		})
	}
	done.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return results
}

// TestCheckExitsAndPrints: the exit code tells usage from failure, the table
// is without colour unless it is on a terminal, and a worker's stderr is shown
// with its failure.
func TestCheckExitsAndPrints(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"--no-such-flag"}, {"one", "two"}, {"--"}, {"./no-such-program"}} {
		code, stdout, stderr, err := runCheck(t, args...)
		if err != nil || code != 2 || stderr == "" || stdout != "" {
			t.Errorf("check %q: %v, exit code %d, stdout %q, stderr %q", args, err, code, stdout, stderr)
		}
	}
	code, stdout, _, err := runCheck(t, badWorker(t), "--", "early exit")
	if err != nil || code != 1 {
		t.Errorf("%v, exit code %d, want 1", err, code)
	}
	for _, want := range []string{"FAIL  start", "SUP-8", "expected: a handshake line", "cannot find my database", "1 failed"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in:\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "\x1b") {
		t.Errorf("colour in a pipe: %q", stdout)
	}
}

// badWorker returns testdata/badworker as a program.
func badWorker(t *testing.T) string {
	t.Helper()
	badWorkerBuilt.Lock()
	defer badWorkerBuilt.Unlock()
	if badWorkerBuilt.path == "" {
		path := filepath.Join(harness.RunDir(t), "badworker"+exe())
		harness.Go(t, "", "build", "-o", path, "./testdata/badworker")
		badWorkerBuilt.path = path
	}
	return badWorkerBuilt.path
}

// badWorkerBuilt is testdata/badworker, which is built once.
var badWorkerBuilt struct {
	sync.Mutex

	path string
}

// TestSkewedWorkers: SUP-17. A worker older than this build, without features
// and Lifecycle, and a newer one, with a feature, fields and frames that this
// build does not know, fail no check and serve under a supervisor.
func TestSkewedWorkers(t *testing.T) {
	harness.RequireLinux(t)
	notes := map[string]map[string]string{
		"older":  {"lifecycle": "UNIMPLEMENTED"},
		"newer":  {"features": "time_travel", "lifecycle": "UNIMPLEMENTED"},
		"banner": {"stdout": "Welcome", "lifecycle": "UNIMPLEMENTED"},
	}
	for mode, want := range notes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c, err := checkWorker(t, 30*time.Second, badWorker(t), mode)
			if err != nil {
				t.Fatal(err)
			}
			for _, failed := range c.with("failed") {
				t.Errorf("%s failed: %s", failed, c.seen(failed))
			}
			for check, text := range want {
				if seen := c.seen(check); !strings.Contains(seen, text) || !slices.Contains(c.with("note"), check) {
					t.Errorf("%s saw %q, want a note of %q", check, seen, text)
				}
			}
			client := harness.Start(t, harness.Config{Command: harness.Native(t, nil, badWorker(t), mode)})
			if f := client.Initialize(); f.Error != nil {
				t.Errorf("initialize: %s", f.Raw)
			}
			if f := client.Request("tools/list", nil).Wait(); f.Result == nil {
				t.Errorf("tools/list: %s", f.Raw)
			}
		})
	}
}

// TestForeignWorker: SUP-1, EDGE-1, EDGE-5. A worker in another language serves
// under a supervisor, with cancellation, large messages and any id, and is
// replaced when it dies.
func TestForeignWorker(t *testing.T) {
	harness.RequireLinux(t)
	t.Parallel()
	c := harness.Start(t, harness.Config{Command: harness.Native(t, nil, foreignWorker(t)...)})
	c.Initialize()
	large := strings.Repeat("é", 5<<20)
	if got := c.CallTool("echo", map[string]any{"text": large}).Text(t); got != large {
		t.Errorf("echo of %d bytes returned %d", len(large), len(got))
	}
	for _, token := range []string{`"a\"b"`, `-1`, `9007199254740993`, `9.5`, `""`} {
		if got := c.RequestID(token, "tools/call", harness.Call("echo", map[string]any{"text": token})).Wait().Text(t); got != token {
			t.Errorf("id %s: %q", token, got)
		}
	}
	slow := c.RequestID(`"slow"`, "tools/call", harness.Call("sleep", map[string]any{"ms": 3_600_000}))
	c.Notify("notifications/cancelled", map[string]any{"requestId": "slow"})
	before := c.CallTool("pid", nil).Text(t)
	if slow.Answered() {
		t.Errorf("the cancelled call was answered: %s", slow.Wait().Raw)
	}
	pid, err := strconv.Atoi(before)
	if err != nil {
		t.Fatal(err)
	}
	harness.Proc{PID: pid}.Kill()
	harness.Await(t, "a new worker", func() bool {
		f := c.CallTool("pid", nil)
		return f.Typed() == nil && f.Text(t) != before
	})
}
