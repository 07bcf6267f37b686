package generation

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/protocol"
)

// EDGE-11, SUP-18: the worker gets the environment, arguments and directory
// that were configured, and the handshake; nothing else of ours.
func TestStart(t *testing.T) {
	h := newHarness(t)
	c := h.config("good")
	c.Command.Args = []string{"--flag", "a b", ""}
	t.Setenv("GENERATION_TEST_INHERITED", "no")
	g := h.start(c)
	p := h.accept()
	info := g.Info()
	if g.Number() != 1 || g.Pid() != p.pid || info.Pid != int64(p.pid) || g.Uptime() <= 0 {
		t.Errorf("number %d, pid %d, described %d, process %d", g.Number(), g.Pid(), info.Pid, p.pid)
	}
	want := append(slices.Clone(c.Command.Args), "v0 1048576")
	if !slices.Equal(info.Features, want) {
		t.Errorf("started with %q, want %q", info.Features, want)
	}
	if dir, err := filepath.EvalSymlinks(h.dir); err != nil || info.Build != dir {
		t.Errorf("started in %s, want %s", info.Build, dir)
	}
	handshake := false
	for kv := range strings.SplitSeq(info.Name, "\n") {
		name, _, _ := strings.Cut(kv, "=")
		handshake = handshake || protocol.IsHandshakeVariable(name)
		if !slices.Contains(c.Command.Env, kv) && !protocol.IsHandshakeVariable(name) && name != "PWD" && runtime.GOOS != "windows" {
			t.Errorf("the worker has got %s", kv)
		}
	}
	if !handshake {
		t.Error("the worker has not got the handshake")
	}
	g.Stop()
	await(t, "the end", g.Done())
	p.awaitGone()
	h.nothingLeft()
	g.Stop() // again, which changes nothing
}

// A temporary directory that was cleaned up is no reason to start no worker any
// more (SEC-4: it is as private as it was).
func TestStartWithoutSocketDir(t *testing.T) {
	h := newHarness(t)
	c := h.config("good")
	if err := os.RemoveAll(c.SocketDir); err != nil {
		t.Fatal(err)
	}
	h.start(c)
	info, err := os.Stat(c.SocketDir)
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
}

// C27: what a worker prints before its handshake is no harm.
func TestBanner(t *testing.T) {
	h := newHarness(t)
	g := h.start(h.config("banner"))
	if tail := strings.Join(g.Tail(), "\n"); !strings.Contains(tail, "Server running on stdio") {
		t.Errorf("the banner is not in the log: %q", tail)
	}
	echo(t, open(t, g), 1, "hello")
}

// SUP-13: stderr is drained, however much comes, and the last of it is kept.
func TestStderrFlood(t *testing.T) {
	h := newHarness(t)
	g := h.start(h.config("flood"))
	echo(t, open(t, g), 1, "hello")
	tail := g.Tail()
	if len(tail) == 0 || tail[len(tail)-1] != "last words" {
		t.Errorf("tail %.100q", tail)
	}
}

// SUP-8, SUP-17: a failed start says what was seen and leaves nothing.
func TestFailedStart(t *testing.T) {
	for _, tt := range []struct {
		role    string
		timeout time.Duration
		is      error
		says    []string
		exit    *protocol.Exit
		tail    string
	}{
		{role: "failing", says: []string{"exited with code 3"}, exit: &protocol.Exit{Code: 3}, tail: "missing API_KEY"},
		{role: "silent", timeout: time.Second, is: ErrSilent, says: []string{"within 1s", "alive but silent", "buffered"}},
		{role: "chatty", timeout: 3 * time.Second, is: ErrSilent, says: []string{"within 3s", "prints other things"}, tail: "listening"},
		{role: "newer", is: ErrWireVersion, says: []string{"speaks 7", "this holdfast 1 to 1"}},
		{role: "bare", timeout: 3 * time.Second},
		{role: "mute", timeout: 3 * time.Second, is: ErrSilent},
		{role: "undescribed", says: []string{"Describe"}},
	} {
		t.Run(tt.role, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			c := h.config(tt.role)
			if tt.timeout > 0 {
				c.StartTimeout = tt.timeout
			}
			began := time.Now()
			g, err := Start(t.Context(), 1, c)
			if err == nil {
				g.Stop()
				t.Fatal("started")
			}
			failure, ok := errors.AsType[*StartError](err)
			if !ok {
				t.Fatalf("%T is no StartError: %v", err, err)
			}
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("%v is not %v", err, tt.is)
			}
			for _, says := range append(tt.says, c.Command.Worker) {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("%v: does not say %q", err, says)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %v", err)
			}
			exit, tail := failure.Exited()
			if (exit == nil) != (tt.exit == nil) || exit != nil && *exit != *tt.exit {
				t.Errorf("exit %v, want %v", exit, tt.exit)
			}
			if !strings.Contains(strings.Join(tail, "\n"), tt.tail) {
				t.Errorf("tail %q, want %q", tail, tt.tail)
			}
			if d := time.Since(began); tt.timeout > 0 && d > tt.timeout+5*time.Second {
				t.Errorf("took %v", d)
			}
			h.accept().awaitGone()
			h.nothingLeft()
		})
	}
}

// A start whose context ends leaves nothing behind, wherever it was.
func TestStartCancelled(t *testing.T) {
	for _, role := range []string{"silent", "mute"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error, 1)
			go func() { // ends by cancel
				_, err := Start(ctx, 1, h.config(role))
				failed <- err
			}()
			p := h.accept()
			cancel()
			select {
			case err := <-failed:
				if !errors.Is(err, context.Canceled) {
					t.Errorf("error %v", err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("the start does not end")
			}
			p.awaitGone()
			h.nothingLeft()
		})
	}
	t.Run("before", func(t *testing.T) {
		h := newHarness(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Start(ctx, 1, h.config("good")); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		h.nothingLeft()
	})
}

// SUP-5, EDGE-11: what is not there is an error with the path, at once.
func TestNotFound(t *testing.T) {
	h := newHarness(t)
	plain := filepath.Join(h.dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		worker string
		says   []string
	}{
		{"./none", []string{filepath.Join(h.dir, "none"), "does not exist"}},
		{"none-at-all", []string{"not found in PATH", h.dir}},
		{"./plain", []string{plain}},
		{"./sockets", []string{"directory"}},
	} {
		c := h.config("good")
		c.Command.Worker = tt.worker
		c.Command.Env = append(c.Command.Env, "PATH="+h.dir)
		began := time.Now()
		_, err := Start(t.Context(), 1, c)
		if _, ok := errors.AsType[*StartError](err); !ok {
			t.Fatalf("%s: %v", tt.worker, err)
		}
		for _, says := range tt.says {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%v: does not say %q", err, says)
			}
		}
		if d := time.Since(began); d > time.Second {
			t.Errorf("%s: took %v", tt.worker, d)
		}
	}
	h.nothingLeft()
}

// SUP-5: a symlink that points elsewhere and a file that was replaced count for
// the next generation.
func TestResolvedAnew(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the versions are shell scripts")
	}
	h := newHarness(t)
	c := h.config("good")
	self, current := c.Command.Worker, filepath.Join(h.dir, "current")
	write := func(name, version string) string {
		t.Helper()
		path := filepath.Join(h.dir, name)
		script := "#!/bin/sh\nWORKER_VERSION=" + version + " exec " + self + "\n"
		if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	point := func(to string) {
		t.Helper()
		_ = os.Remove(current)
		if err := os.Symlink(to, current); err != nil {
			t.Fatal(err)
		}
	}
	c.Command.Worker = "current"
	c.Command.Env = append(c.Command.Env, "PATH="+h.dir)
	expect := func(n uint64, version string) {
		t.Helper()
		g, err := Start(t.Context(), n, c)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Stop()
		if got := g.Info().Version; got != version {
			t.Errorf("generation %d is version %q, want %q", n, got, version)
		}
	}
	point(write("v1", "1"))
	expect(1, "1")
	point(write("v2", "2"))
	expect(2, "2")
	if err := os.Rename(write("v3", "3"), filepath.Join(h.dir, "v2")); err != nil {
		t.Fatal(err)
	}
	expect(3, "3")
	if err := os.Remove(current); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), 4, c); err == nil || !strings.Contains(err.Error(), h.dir) {
		t.Errorf("start of nothing: %v", err)
	}
}

func TestResolveBridged(t *testing.T) {
	h := newHarness(t)
	self := h.config("good").Command.Worker
	c := Command{Args: []string{self, "--", "-x"}, Dir: h.dir, Bridge: self}
	what, err := c.resolve()
	if want := []string{"bridge", "--", self, "--", "-x"}; err != nil || what.path != self || !slices.Equal(what.args, want) {
		t.Errorf("resolve() = %+v, %v", what, err)
	}
	if got, want := c.String(), self+" -- -x"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
	c.Args = []string{"./none"}
	if _, err := c.resolve(); err == nil || !strings.Contains(err.Error(), filepath.Join(h.dir, "none")) {
		t.Errorf("a server that does not exist: %v", err)
	}
}

func TestNoBridge(t *testing.T) {
	empty := t.TempDir()
	t.Setenv("PATH", empty)
	err := Command{Args: []string{"server"}}.CheckBridge()
	if !errors.Is(err, ErrNoBridge) || !strings.Contains(err.Error(), BridgeName) || !strings.Contains(err.Error(), empty) {
		t.Errorf("CheckBridge() = %v", err)
	}
	if err := (Command{Worker: "w"}).CheckBridge(); err != nil {
		t.Errorf("a native worker needs no bridge: %v", err)
	}
	if runtime.GOOS == "windows" {
		return
	}
	bridge := filepath.Join(empty, BridgeName)
	if err := os.WriteFile(bridge, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := (Command{Args: []string{"server"}}).CheckBridge(); err != nil {
		t.Errorf("with a bridge on PATH: %v", err)
	}
}
