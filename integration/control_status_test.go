package integration

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// TestSUP15Watch: SUP-15. A watched status is printed again when something has
// changed, and not because time passes; it ends with an interrupt.
func TestSUP15Watch(t *testing.T) {
	harness.RequireLinux(t)
	h := named(t, "watched", t.TempDir())
	slow := h.Request("tools/call", harness.Call("sleep", map[string]any{"ms": 600_000}))
	harness.Await(t, "the call", func() bool { return len(h.status().Client.Calls) == 1 })
	w := follow(t, "status", h.id(), "--watch", "--json")
	generations := func(text string) (all []uint64) {
		var statuses []status
		if err := json.Unmarshal([]byte(text), &statuses); err != nil {
			t.Fatalf("%v: %q", err, text)
		}
		for _, s := range statuses {
			all = append(all, s.Worker.Generation)
		}
		return all
	}
	first := generations(<-w.lines)
	h.swapTo(2)
	// The call ages all the time; what is printed next has the swap.
	changes := 0
	w.until("generation 2", func(text string) bool {
		changes++
		g := generations(text)
		return len(g) == 1 && g[0] == 2
	})
	if len(first) != 1 || first[0] != 1 || changes > 5 {
		t.Errorf("first %v, then %d lines for one swap", first, changes)
	}
	if err := w.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for range w.lines {
	}
	if err := w.cmd.Wait(); err != nil {
		t.Errorf("status --watch ended with %v", err)
	}
	h.Notify("notifications/cancelled", map[string]any{"requestId": json.RawMessage(slow.Token)})
}

// TestSUP15Lists: SUP-15. The status has what the client watches and what it has
// seen of each list: the same digest for the same list of another process,
// another one for another.
func TestSUP15Lists(t *testing.T) {
	h := named(t, "lists", t.TempDir())
	type seen struct {
		Kind, Digest string
		Items        int
	}
	lists := func() (all map[string]seen) {
		t.Helper()
		var statuses []struct{ Client struct{ Lists []seen } }
		got := ask(t, "status", h.id(), "--json")
		if err := json.Unmarshal([]byte(got.stdout), &statuses); err != nil || len(statuses) != 1 {
			t.Fatalf("%v: %+v", err, got)
		}
		all = map[string]seen{}
		for _, s := range statuses[0].Client.Lists {
			all[s.Kind] = s
		}
		return all
	}
	if got := lists(); len(got) != 0 {
		t.Errorf("before the client lists: %+v", got)
	}
	h.Request("tools/list", nil).Wait()
	one := lists()["tools"]
	if one.Items < 10 || len(one.Digest) != 64 {
		t.Errorf("%+v", one)
	}
	h.swapTo(2)
	h.Request("tools/list", nil).Wait()
	if two := lists()["tools"]; two != one {
		t.Errorf("the same list is %+v and %+v", one, two)
	}
	h.CallTool("grow", nil)
	h.Request("tools/list", nil).Wait()
	if three := lists()["tools"]; three.Items != one.Items+1 || three.Digest == one.Digest {
		t.Errorf("another list is %+v and %+v", one, three)
	}
	if f := h.Request("resources/subscribe", map[string]any{"uri": "test://watched"}).Wait(); f.Error != nil {
		t.Fatalf("subscribe: %s", f.Raw)
	}
	text := ask(t, "status", h.id()).stdout
	if !strings.Contains(text, strconv.Itoa(one.Items+1)+" tools, digest ") || !strings.Contains(text, "watches 1 of 128 resources") {
		t.Errorf("for people:\n%s", text)
	}
}

// TestSEC4UnusableTemp: SEC-4. A temporary directory that cannot be used ends no
// session: another place is found, by those who look for supervisors too.
func TestSEC4UnusableTemp(t *testing.T) {
	harness.RequireLinux(t)
	place := shortTemp(t)
	c := harness.Start(t, harness.Config{
		Command: harness.Bridged(t, []string{"--name", "elsewhere"}, harness.TestServer(t)),
		Env:     []string{"TMPDIR=/nonexistent", "XDG_RUNTIME_DIR=" + place},
	})
	c.Initialize()
	c.CallTool("pid", nil).Text(t)
	if !strings.Contains(c.Stderr(), "/nonexistent") || !strings.Contains(c.Stderr(), place) {
		t.Errorf("nothing is said of it: %s", c.Stderr())
	}
	got := holdfastIn(t, "", []string{"TMPDIR=" + shortTemp(t), "XDG_RUNTIME_DIR=" + place}, "status", strconv.Itoa(c.Process().Pid))
	if got.code != 0 || !strings.Contains(got.stdout, "elsewhere, pid ") {
		t.Errorf("status: %+v", got)
	}
}

// TestSEC5OtherUser: SEC-5. Another user gets nothing from the control socket,
// whatever the modes of its directory have become.
func TestSEC5OtherUser(t *testing.T) {
	harness.RequireLinux(t)
	curl := harness.RequireProgram(t, "curl")
	if os.Getuid() != 0 {
		t.Skip("skipped: only root can be another user")
	}
	h := named(t, "private", t.TempDir())
	sockets, err := filepath.Glob(filepath.Join(harness.RunDir(t), "holdfast-*", "control"))
	if err != nil || len(sockets) == 0 {
		t.Fatal("no sockets: ", err)
	}
	var socket string
	for _, path := range sockets {
		if b, err := os.ReadFile(filepath.Join(filepath.Dir(path), "pid")); err == nil && string(b) == h.id() {
			socket = path
		}
	}
	open := func(path string, mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	open(harness.RunDir(t), 0o755)
	open(filepath.Dir(socket), 0o755)
	open(socket, 0o777)
	get := func(cmd *exec.Cmd) string {
		out, _ := cmd.CombinedOutput() // that it failed shows in what it got
		return string(out)
	}
	args := []string{"--silent", "--max-time", "10", "--unix-socket", socket, "http://holdfast/status"}
	if got := get(exec.Command(curl, args...)); !strings.Contains(got, `"name":"private"`) {
		t.Fatalf("the same user got %q", got)
	}
	if got := get(asNobody(exec.Command(curl, args...))); strings.Contains(got, "private") {
		t.Errorf("another user got %q", got)
	}
	h.pid()
}
