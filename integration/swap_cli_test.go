package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/integration/harness"
	"github.com/holdfast-mcp/holdfast/protocol"
)

// status is what `holdfast status --json` prints of a supervisor.
type status struct {
	Pid      int       `json:"pid"`
	Version  string    `json:"version"`
	Started  time.Time `json:"started"`
	Outdated bool      `json:"outdated"`
	Command  string    `json:"command"`
	Dir      string    `json:"dir"`
	Settings map[string]struct {
		Value  string `json:"value"`
		Origin string `json:"origin"`
	} `json:"settings"`
	Worker struct {
		State      string    `json:"state"`
		Generation uint64    `json:"generation"`
		Pid        int       `json:"pid"`
		Since      time.Time `json:"since"`
		Outdated   bool      `json:"outdated"`
		Draining   []uint64  `json:"draining"`
		Crashes    int       `json:"crashes"`
		Handoffs   int       `json:"handoffs"`
		Reason     string    `json:"reason"`
		RetryAt    time.Time `json:"retry_at"`
		Exits      []struct {
			Generation uint64          `json:"generation"`
			Uptime     time.Duration   `json:"uptime_ns"`
			Cause      *protocol.Error `json:"cause"`
		} `json:"exits"`
	} `json:"worker"`
	Client struct {
		Protocol string `json:"protocol"`
		Calls    []struct {
			ID         string        `json:"id"`
			Method     string        `json:"method"`
			Generation uint64        `json:"generation"`
			Age        time.Duration `json:"age_ns"`
		} `json:"calls"`
	} `json:"client"`
}

// held is a started supervisor that can be asked for its status and for swaps.
type held struct {
	*harness.Client

	t    *testing.T
	path string // of its executable
}

// startHeld starts a server behind holdfast, with holdfast's flags.
func startHeld(t *testing.T, v variant, flags []string, server ...string) held {
	t.Helper()
	return startHeldWith(t, harness.Config{}, v.command(t, flags, server...))
}

// startHeldWith is startHeld with a configuration and a whole command.
func startHeldWith(t *testing.T, config harness.Config, command []string) held {
	t.Helper()
	config.Command, config.Env = command, append(config.Env, privateTemp(t))
	return held{harness.Start(t, config), t, command[0]}
}

// startHeldServer starts the test server behind holdfast.
func startHeldServer(t *testing.T, v variant, flags []string, args ...string) held {
	t.Helper()
	return startHeld(t, v, flags, append([]string{harness.TestServer(t)}, args...)...)
}

// privateTemp keeps the supervisors of this run from those of others.
func privateTemp(t *testing.T) string { return "TMPDIR=" + harness.RunDir(t) }

// cli runs a subcommand on the supervisor.
func (h held) cli(args ...string) (stdout, stderr string) {
	cmd := exec.Command(h.path, append(args, strconv.Itoa(h.Process().Pid))...)
	cmd.Env = append(os.Environ(), privateTemp(h.t))
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil && errs.Len() == 0 {
		h.t.Errorf("holdfast %v: %v", args, err)
	}
	return string(out), strings.TrimSpace(errs.String())
}

// status returns the status, once there is one: the socket comes a moment after
// the process.
func (h held) status() status {
	h.t.Helper()
	var all []status
	harness.Await(h.t, "the control socket", func() bool {
		out, errs := h.cli("status", "--json")
		err := json.Unmarshal([]byte(out), &all)
		if out != "" && (err != nil || len(all) != 1) {
			h.t.Fatalf("status: %v in %q", err, out)
		}
		return err == nil || !strings.Contains(errs, "no holdfast")
	})
	if len(all) != 1 {
		h.t.Fatal("no status")
	}
	return all[0]
}

// awaitState waits until the status says so, and returns it.
func (h held) awaitState(state string) status {
	h.t.Helper()
	var s status
	harness.Await(h.t, "state "+state, func() bool {
		s = h.status()
		return s.Worker.State == state
	})
	return s
}

// awaitGeneration waits until that generation serves.
func (h held) awaitGeneration(n uint64) {
	h.t.Helper()
	harness.Await(h.t, fmt.Sprint("generation ", n), func() bool { return h.status().Worker.Generation == n })
}

// swap asks for a swap and returns the generation that serves then, or the
// reason why none or an old one does.
func (h held) swap() (generation uint64, reason string) {
	out, errs := h.cli("swap")
	if m := regexp.MustCompile(`^generation (\d+) serves\n$`).FindStringSubmatch(out); m != nil {
		n, err := strconv.ParseUint(m[1], 10, 64)
		if err != nil {
			h.t.Error(err)
		}
		return n, ""
	}
	if errs == "" {
		h.t.Errorf("swap says %q", out)
	}
	return 0, errs
}

// swapTo asks for a swap that must end with that generation.
func (h held) swapTo(n uint64) {
	h.t.Helper()
	if got, reason := h.swap(); got != n {
		h.t.Fatalf("swap: generation %d serves, want %d: %s", got, n, reason)
	}
}

func (h held) pid() string {
	h.t.Helper()
	return h.CallTool("pid", nil).Text(h.t)
}

// gate is a file that holds back each start of a server that was given it.
type gate string

func newGate(t *testing.T) gate { return gate(filepath.Join(t.TempDir(), "gate")) }

func (g gate) shut(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(string(g), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (g gate) open(t *testing.T) {
	t.Helper()
	if err := os.Remove(string(g)); err != nil {
		t.Fatal(err)
	}
}

// link is a path whose file is replaced by rename.
type link string

func newLink(t *testing.T, to string) link {
	t.Helper()
	l := link(filepath.Join(t.TempDir(), "server"+exe()))
	l.point(t, to)
	return l
}

func (l link) point(t *testing.T, to string) {
	t.Helper()
	if err := os.Symlink(to, string(l)+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(string(l)+".new", string(l)); err != nil {
		t.Fatal(err)
	}
}

// copyFile copies a program to a path of its own, as a build would: beside it,
// then by rename.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to+".new", b, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(to+".new", to); err != nil {
		t.Fatal(err)
	}
}

// awaitTwoServers waits until a candidate runs beside the serving worker.
func (h held) awaitTwoServers() {
	h.t.Helper()
	harness.Await(h.t, "a second server process", func() bool {
		n := 0
		for _, p := range h.Descendants() {
			if isServer(p) {
				n++
			}
		}
		return n == 2
	})
}

// TestSUP4SwapInEveryState: SUP-4. A swap works while the worker serves, hangs,
// starts, waits for its backoff or is given up; it replaces the worker alone,
// costs nothing of the budget, and its answer names the generation, or the
// reason why none serves.
func TestSUP4SwapInEveryState(t *testing.T) {
	harness.RequireLinux(t)
	eachSupervised(t, func(t *testing.T, v variant) {
		t.Run("serving", func(t *testing.T) {
			h := startHeldServer(t, v, nil)
			h.Initialize()
			before := h.pid()
			h.swapTo(2)
			if after := h.pid(); after == before {
				t.Error("the old process answers")
			}
			h.Signal(t, "USR2")
			h.awaitGeneration(3)
			s := h.status()
			if s.Worker.Crashes+s.Worker.Handoffs != 0 || s.Pid != h.Process().Pid {
				t.Errorf("a swap was charged, or took more than the worker: %+v", s)
			}
		})
		t.Run("hung", func(t *testing.T) {
			h := startHeldServer(t, v, []string{"--drain-timeout", "300ms"})
			h.Initialize()
			serverProc(t, h.Client, h.pid()).Signal(t, "STOP")
			stuck := h.Request("tools/call", harness.Call("pid", nil))
			h.swapTo(2)
			h.pid()
			if got := stuck.Wait(); outcomeOf(got) != unknown {
				t.Errorf("the call on the hung worker: %.500s", got.Raw)
			}
		})
		t.Run("circuit open", func(t *testing.T) {
			server := newLink(t, badServer(t, "early-exit")[0])
			h := startHeld(t, v, []string{"--crash-budget", "0/30s"}, append([]string{string(server)}, badServer(t, "early-exit")[1:]...)...)
			h.awaitState("open")
			h.Initialize() // without a handshake to repeat, nothing is known of a server before its first call
			if n, reason := h.swap(); n != 0 || !strings.Contains(reason, "exited with code 1") {
				t.Errorf("swap: generation %d, reason %q", n, reason)
			}
			h.awaitState("open")
		})
		t.Run("backoff", func(t *testing.T) {
			dir := t.TempDir()
			h := startHeldServer(t, v, []string{"--backoff", "10m..10m"}, "-starts", filepath.Join(dir, "starts"), "-ends", "1,1,-")
			h.awaitState("backoff")
			h.swapTo(3)
			h.Initialize()
			h.pid()
		})
		t.Run("starting", func(t *testing.T) {
			g := newGate(t)
			g.shut(t)
			h := startHeldServer(t, v, nil, "-gate", string(g))
			if v.native { // a bridge is ready before its server is
				h.awaitState("starting")
			}
			harness.Await(t, "the first process", func() bool { return slices.ContainsFunc(h.Descendants(), isServer) })
			done := make(chan uint64, 1)
			go func() { // ends with the swap
				n, _ := h.swap()
				done <- n
			}()
			g.open(t)
			// It is a start of its own: the first one had its executable.
			if n := <-done; n != 2 {
				t.Errorf("generation %d", n)
			}
			h.Initialize()
			h.pid()
		})
	})
}

// TestSUP15Status: SUP-15. The status tells generation, pid, uptime, state,
// budget, last exits with their stderr, and calls with their ages.
func TestSUP15Status(t *testing.T) {
	harness.RequireLinux(t)
	eachSupervised(t, func(t *testing.T, v variant) {
		h := startHeldServer(t, v, nil)
		h.Initialize()
		h.CallTool("exit", map[string]any{"code": 7})
		pid := h.pid()
		h.RequestID(`"slow"`, "tools/call", harness.Call("sleep", map[string]any{"ms": 600_000}))
		h.pid()
		s := h.status()
		w := s.Worker
		if s.Pid != h.Process().Pid || s.Version == "" || s.Started.IsZero() || s.Dir == "" || !strings.Contains(s.Command, "testserver") {
			t.Errorf("supervisor: %+v", s)
		}
		if w.State != "serving" || w.Generation != 2 || w.Since.IsZero() || w.Crashes != 1 || w.Handoffs != 0 {
			t.Errorf("worker: %+v", w)
		}
		if v.native && strconv.Itoa(w.Pid) != pid {
			t.Errorf("pid %d, the worker says %s", w.Pid, pid)
		}
		if len(w.Exits) != 1 || w.Exits[0].Generation != 1 || w.Exits[0].Uptime <= 0 || w.Exits[0].Cause.Exit.Code != 7 ||
			!slices.Contains(w.Exits[0].Cause.StderrTail, "asked to exit") {
			t.Errorf("exits: %+v", w.Exits)
		}
		c := s.Client
		if c.Protocol != "2025-11-25" || len(c.Calls) != 1 || c.Calls[0].ID != `"slow"` || c.Calls[0].Method != "tools/call" ||
			c.Calls[0].Generation != 2 || c.Calls[0].Age <= 0 {
			t.Errorf("client: %+v", c)
		}
		if set := s.Settings["crash-budget"]; set.Value != "5/30s" || set.Origin != "default" {
			t.Errorf("setting crash-budget: %+v", set)
		}
		if text, _ := h.cli("status"); !strings.Contains(text, "exited with code 7") || !strings.Contains(text, "generation 2") {
			t.Errorf("for people:\n%s", text)
		}
		h.Notify("notifications/cancelled", map[string]any{"requestId": "slow"})
	})
}

// TestSUP19Outdated: SUP-19. The status says when the file of the worker, or
// that of the supervisor, is another one than what runs.
func TestSUP19Outdated(t *testing.T) {
	eachSupervised(t, func(t *testing.T, v variant) {
		dir := t.TempDir()
		holdfast, server := filepath.Join(dir, "holdfast"+exe()), filepath.Join(dir, "server"+exe())
		copyFile(t, harness.Holdfast(t), holdfast)
		copyFile(t, harness.HoldfastWorker(t), filepath.Join(dir, "holdfast-worker"+exe()))
		copyFile(t, harness.TestServer(t), server)
		command := v.command(t, nil, server)
		command[0] = holdfast
		h := startHeldWith(t, harness.Config{}, command)
		h.Initialize()
		if s := h.awaitState("serving"); s.Outdated || s.Worker.Outdated {
			t.Errorf("outdated from the start: %+v", s)
		}
		copyFile(t, harness.TestServer(t), server)
		if s := h.status(); s.Outdated || !s.Worker.Outdated {
			t.Errorf("the server's file is new: %+v", s)
		}
		h.swapTo(2)
		if s := h.status(); s.Outdated || s.Worker.Outdated {
			t.Errorf("the new server runs: %+v", s)
		}
		copyFile(t, harness.HoldfastWorker(t), filepath.Join(dir, "holdfast-worker"+exe()))
		if s := h.status(); s.Outdated || s.Worker.Outdated == v.native {
			t.Errorf("holdfast-worker's file is new: %+v", s)
		}
		h.swapTo(3)
		copyFile(t, harness.Holdfast(t), holdfast)
		if s := h.status(); !s.Outdated || s.Worker.Outdated {
			t.Errorf("holdfast's file is new: %+v", s)
		}
	})
}
