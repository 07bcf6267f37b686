package integration

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// called is what a subcommand did.
type called struct {
	stdout, stderr string
	code           int
}

// holdfastIn runs a subcommand in a directory, with variables added to the
// environment, and a home of its own.
func holdfastIn(t *testing.T, dir string, env []string, args ...string) called {
	t.Helper()
	cmd := exec.Command(harness.Holdfast(t), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	return called{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// ask runs a subcommand where the supervisors of the test are found.
func ask(t *testing.T, args ...string) called {
	t.Helper()
	return holdfastIn(t, "", []string{privateTemp(t)}, args...)
}

// following is a subcommand that goes on, with what it has printed.
type following struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string // closed at the end of its output
}

func follow(t *testing.T, args ...string) following {
	t.Helper()
	cmd := exec.Command(harness.Holdfast(t), args...)
	cmd.Env = append(os.Environ(), privateTemp(t))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f := following{t, cmd, make(chan string)}
	go func() { // ends with the process, which the clean-up kills
		defer close(f.lines)
		in := bufio.NewReader(out)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			f.lines <- line
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		for range f.lines {
		}
		_ = cmd.Wait() // a second time, if it has ended by itself
	})
	return f
}

// until returns the first line for which match holds.
func (f following) until(what string, match func(line string) bool) string {
	f.t.Helper()
	for line := range f.lines {
		if match(line) {
			return line
		}
	}
	f.t.Fatalf("no line: %s", what)
	return ""
}

func containing(text string) func(string) bool {
	return func(line string) bool { return strings.Contains(line, text) }
}

// named starts the test server behind a holdfast with a name, in a directory.
func named(t *testing.T, name, dir string, flags ...string) held {
	t.Helper()
	command := harness.Bridged(t, append([]string{"--name", name, "--cwd", dir}, flags...), harness.TestServer(t))
	h := startHeldWith(t, harness.Config{}, command)
	h.Initialize()
	h.awaitState("serving")
	return h
}

func (h held) id() string { return strconv.Itoa(h.Process().Pid) }

// TestSUP4Chosen: SUP-4, SEC-5. Which supervisor is meant is said by its name,
// its pid or its directory, or by where one is; who means several is told which
// there are, and nothing is done.
func TestSUP4Chosen(t *testing.T) {
	dir := t.TempDir()
	first, second, twin := named(t, "chosen-a", dir), named(t, "chosen-b", t.TempDir()), named(t, "chosen-b", t.TempDir())
	serves := func(h held) uint64 { return h.status().Worker.Generation }
	env := []string{privateTemp(t)}
	for _, tt := range []struct {
		in, by string
		of     held
	}{
		{t.TempDir(), "chosen-a", first},
		{t.TempDir(), first.id(), first},
		{t.TempDir(), dir, first},
		{dir, ".", first},
		{dir, "", first},
		{t.TempDir(), second.id(), second},
	} {
		before := serves(tt.of)
		args := []string{"swap"}
		if tt.by != "" {
			args = append(args, tt.by)
		}
		got := holdfastIn(t, tt.in, env, args...)
		if after := serves(tt.of); got.code != 0 || after != before+1 {
			t.Errorf("swap %q: generation %d after %d, %+v", tt.by, after, before, got)
		}
	}
	got := ask(t, "swap", "chosen-b")
	if got.code != 1 || !strings.Contains(got.stderr, second.id()+" ") || !strings.Contains(got.stderr, twin.id()+" ") || strings.Contains(got.stderr, "chosen-a") {
		t.Errorf("two of one name: %+v", got)
	}
	for _, cmd := range []string{"swap", "stop", "logs", "status"} {
		if got := ask(t, cmd, "chosen-c"); got.code != 1 || got.stdout != "" || !strings.Contains(got.stderr, "chosen-a") {
			t.Errorf("%s of nobody: %+v", cmd, got)
		}
	}
	if serves(twin) != 1 || serves(second) != 2 {
		t.Error("a choice that fails has swapped")
	}
	if got := ask(t, "status"); got.code != 0 || !strings.Contains(got.stdout, "chosen-a ") || !strings.Contains(got.stdout, "chosen-b ") {
		t.Errorf("status of several: %+v", got)
	}
}

// TestSUP4SwapJSON: SUP-4. The answer of a swap for programs: the generation
// that serves, and the reason where it is no new one.
func TestSUP4SwapJSON(t *testing.T) {
	server := filepath.Join(t.TempDir(), "server"+exe())
	copyFile(t, harness.TestServer(t), server)
	h := startHeldWith(t, harness.Config{}, harness.Bridged(t, nil, server))
	h.Initialize()
	h.awaitState("serving")
	type result struct {
		Name       string
		Pid        int
		Generation uint64
		Error      string
	}
	swap := func(code int) (r result) {
		t.Helper()
		got := ask(t, "swap", h.id(), "--json")
		if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || got.code != code || got.stderr != "" {
			t.Fatalf("%v: %+v", err, got)
		}
		return r
	}
	if r := swap(0); r.Generation != 2 || r.Error != "" || r.Name != "server" || r.Pid != h.Process().Pid {
		t.Errorf("%+v", r)
	}
	if err := os.Remove(server); err != nil {
		t.Fatal(err)
	}
	if r := swap(1); r.Generation != 2 || !strings.Contains(r.Error, "does not exist") {
		t.Errorf("%+v", r)
	}
}

// TestSEC5Stop: SEC-5. A person can stop a supervisor: when stop returns its
// server is gone, and the client sees the end of an ordinary session.
func TestSEC5Stop(t *testing.T) {
	eachSupervised(t, func(t *testing.T, v variant) {
		h := startHeldServer(t, v, nil)
		h.Initialize()
		h.pid()
		if got := ask(t, "stop", h.id()); got.code != 0 || !strings.Contains(got.stdout, h.id()+") has ended") {
			t.Errorf("stop: %+v", got)
		}
		if slices.ContainsFunc(h.Descendants(), isServer) {
			t.Errorf("stop returned, and there are %v", h.Descendants())
		}
		if state := h.WaitExit(); state.ExitCode() != 0 {
			t.Errorf("holdfast ended with %v", state)
		}
		if got := ask(t, "stop", h.id()); got.code != 1 {
			t.Errorf("stop of what has ended: %+v", got)
		}
	})
}

// TestLogs: what a supervisor has logged, what its server has printed, and what
// comes until it ends, are shown on request, in both forms.
func TestLogs(t *testing.T) {
	h := named(t, "logs", t.TempDir(), "--log-level", "off")
	h.CallTool("stderr", map[string]any{"bytes": 100})
	json1 := follow(t, "logs", h.id(), "-f", "-n", "-1", "--json")
	text := follow(t, "logs", h.id(), "--follow", "-n", "0")
	type line struct{ Level, Time, Msg, Line string }
	parse := func(text string) (l line) {
		if err := json.Unmarshal([]byte(text), &l); err != nil || l.Level == "" || l.Time == "" {
			t.Errorf("%v: %q", err, text)
		}
		return l
	}
	if first := parse(<-json1.lines); first.Msg != "supervising" {
		t.Errorf("the first line is %+v", first)
	}
	json1.until("what the server printed", func(text string) bool { l := parse(text); return l.Msg == "server" && l.Line != "" })
	// Both follow before something happens.
	h.swapTo(2)
	json1.until("the swap", containing(`"generation":2`))
	line2 := text.until("the swap", containing("generation=2"))
	if strings.Contains(line2, "{") || !strings.Contains(line2, " INFO  ") {
		t.Errorf("for people: %q", line2)
	}
	if got := ask(t, "logs", h.id(), "-n", "2"); got.code != 0 || strings.Count(got.stdout, "\n") != 2 {
		t.Errorf("logs -n 2: %+v", got)
	}
	if got := ask(t, "stop", h.id()); got.code != 0 {
		t.Errorf("stop: %+v", got)
	}
	for name, f := range map[string]following{"json": json1, "text": text} {
		f.until(name+": why it has ended", containing("holdfast stop"))
		for range f.lines { // to its end, by itself
		}
		if err := f.cmd.Wait(); err != nil {
			t.Errorf("%s: logs -f ended with %v", name, err)
		}
	}
	if h.Stderr() != "" {
		t.Errorf("a log at level off prints %q", h.Stderr())
	}
}
