package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-mcp/holdfast/integration/harness"
	"github.com/holdfast-mcp/holdfast/integration/usercache"
)

// editedServer is a project of one language, as it stands in testdata/dev.
type editedServer struct {
	folder, source string
	command        func(t *testing.T) []string
	env            func(t *testing.T) []string
	// from and to break the source; says is what the status tells then.
	from, to, says string
	builds         bool
}

func editedServers() map[string]editedServer {
	return map[string]editedServer{
		"go": {
			folder: "go", source: "main.go", from: "switch m.Method {", to: "switch m.Method", says: "syntax error", builds: true,
			command: func(*testing.T) []string { return []string{"./bin/edited" + exe()} },
		},
		"typescript": {
			folder: "typescript", source: "src/server.ts", from: "switch (method) {", to: "switch (method {", says: "SyntaxError", builds: true,
			command: func(t *testing.T) []string { return []string{harness.RequireNode(t), "dist/server.js"} },
			env: func(t *testing.T) []string { // npm run build needs both
				npm := harness.RequireProgram(t, "npm")
				return []string{"PATH=" + filepath.Dir(harness.RequireNode(t)) + string(filepath.ListSeparator) + filepath.Dir(npm) +
					string(filepath.ListSeparator) + os.Getenv("PATH")}
			},
		},
		"python": {
			folder: "python", source: "server.py", from: "def answer(method):", to: "def answer(method:", says: "SyntaxError",
			command: func(t *testing.T) []string { return []string{harness.RequireProgram(t, "python3"), "server.py"} },
		},
	}
}

// TestEditLoop: SUP-10, SUP-22. A server in Go, in TypeScript and in Python is
// edited again and again while a client of the Go SDK goes on calling: old
// answers until the new server takes over, new ones from then on, no call that
// fails. One edit does not compile: status and the tools of the model tell, the
// old server serves. What to watch and how to build is guessed from the project.
func TestEditLoop(t *testing.T) {
	edits := 3
	if os.Getenv("HOLDFAST_EXTENDED") == "1" {
		edits = 10
	}
	for name, server := range editedServers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newDevProject(t)
			if err := os.CopyFS(p.dir, os.DirFS(filepath.Join("testdata", "dev", server.folder))); err != nil {
				t.Fatal(err)
			}
			l := startEditLoop(t, p, server)
			l.awaitVersion(1)
			for version := 2; version <= edits+1; version++ {
				if version == edits/2+2 {
					l.breakIt(version)
				}
				saved := time.Now()
				l.edit(version)
				l.awaitVersion(version)
				t.Logf("version %d after %v", version, time.Since(saved).Round(time.Millisecond))
			}
			l.end(edits + 1)
		})
	}
}

// editLoop is a client that calls all the time, and somebody who edits.
type editLoop struct {
	devProject

	server  editedServer
	text    string // of the source, with version 1
	client  *exec.Cmd
	session *mcp.ClientSession
	cancel  context.CancelFunc
	answers chan int // the versions that answered, each once
	done    chan error
}

func startEditLoop(t *testing.T, p devProject, server editedServer) *editLoop {
	t.Helper()
	text, err := os.ReadFile(p.path(server.source))
	if err != nil {
		t.Fatal(err)
	}
	command := p.dev(nil, server.command(t)...)
	l := &editLoop{
		devProject: p, server: server, text: string(text), client: exec.Command(command[0], command[1:]...),
		answers: make(chan int, 100), done: make(chan error, 1),
	}
	config := p.config()
	l.client.Dir, l.client.Stderr = p.dir, newStderr(t)
	l.client.Env = append(append(append(os.Environ(), usercache.Env(p.cache)...), config.Env...), privateTemp(t))
	if server.env != nil {
		l.client.Env = append(l.client.Env, server.env(t)...)
	}
	ctx, cancel := context.WithCancel(t.Context())
	l.cancel = cancel
	session, err := mcp.NewClient(&mcp.Implementation{Name: "edit-loop", Version: "1"}, nil).
		Connect(ctx, &mcp.CommandTransport{Command: l.client, TerminateDuration: 10 * time.Second}, nil)
	if err != nil {
		t.Fatal(err)
	}
	l.session = session
	t.Cleanup(func() {
		cancel()
		_ = session.Close()
	})
	go func() { l.done <- l.call(ctx, session) }() // ends by cancel
	return l
}

// call calls until the context ends. Each call has to succeed, and no version may
// be followed by an older one.
func (l *editLoop) call(ctx context.Context, session *mcp.ClientSession) error {
	last := 0
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	for ctx.Err() == nil {
		<-pace.C
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "version"})
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("a call failed after version %d: %w", last, err)
		case result.IsError:
			return fmt.Errorf("a call failed after version %d: %v", last, result.Content[0].(*mcp.TextContent).Text)
		}
		now, err := strconv.Atoi(result.Content[0].(*mcp.TextContent).Text)
		if err != nil || now < last {
			return fmt.Errorf("version %d after %d, %w", now, last, err)
		}
		if now > last {
			l.answers <- now
			last = now
		}
	}
	return nil
}

// awaitVersion waits until that version answers, and no other does before it.
func (l *editLoop) awaitVersion(want int) {
	l.t.Helper()
	select {
	case got := <-l.answers:
		if got != want {
			l.t.Fatalf("version %d answers, want %d", got, want)
		}
	case err := <-l.done:
		l.t.Fatal(err)
	case <-time.After(harness.Patience):
		l.t.Fatalf("version %d does not answer", want)
	}
}

// edit saves another version, in one of the ways in which editors do it.
func (l *editLoop) edit(version int) {
	l.t.Helper()
	text := strings.Replace(l.text, `"1"`, strconv.Quote(strconv.Itoa(version)), 1)
	if version%2 == 0 {
		l.save(l.server.source, text)
	} else {
		l.write(l.server.source, text)
	}
}

// breakIt saves something that does not compile, and waits until the status
// tells.
func (l *editLoop) breakIt(version int) {
	l.t.Helper()
	l.save(l.server.source, strings.Replace(strings.Replace(l.text, `"1"`, strconv.Quote(strconv.Itoa(version)), 1), l.server.from, l.server.to, 1))
	var out string
	harness.Await(l.t, "the broken edit in the status", func() bool {
		out = l.cli("status")
		return strings.Contains(out, l.server.says) && (!l.server.builds || strings.Contains(out, "build       failed"))
	})
	if !strings.Contains(out, "serving, generation") {
		l.t.Errorf("status:\n%s", out)
	}
	if text, failed := l.tool("holdfast_status"); failed || !strings.Contains(text, l.server.says) || !strings.Contains(text, "serving, generation") {
		l.t.Errorf("holdfast_status:\n%s", text)
	}
	if text, failed := l.tool("holdfast_swap"); !failed || !strings.Contains(text, l.server.says) || !strings.Contains(text, "still serves") {
		l.t.Errorf("holdfast_swap:\n%s", text)
	}
	select {
	case got := <-l.answers:
		l.t.Errorf("version %d answers, which does not compile", got)
	case err := <-l.done:
		l.t.Fatal(err)
	default:
	}
}

// tool calls a control tool, beside the calls to the server.
func (l *editLoop) tool(name string) (text string, failed bool) {
	l.t.Helper()
	result, err := l.session.CallTool(l.t.Context(), &mcp.CallToolParams{Name: name})
	if err != nil {
		l.t.Fatal(err)
	}
	return result.Content[0].(*mcp.TextContent).Text, result.IsError
}

// cli runs a subcommand on the supervisor.
func (l *editLoop) cli(args ...string) string {
	l.t.Helper()
	cmd := exec.Command(l.client.Path, append(args, strconv.Itoa(l.client.Process.Pid))...)
	cmd.Env = append(os.Environ(), privateTemp(l.t))
	out, err := cmd.Output()
	if err != nil {
		l.t.Errorf("holdfast %v: %v", args, err)
	}
	return string(out)
}

// end ends the loop: one worker for each version, and none that was charged.
func (l *editLoop) end(versions int) {
	l.t.Helper()
	out := l.cli("status")
	generation := versions
	if !l.server.builds {
		generation += 2 // the broken edit was started, by itself and for the tool
	}
	if !strings.Contains(out, fmt.Sprintf("serving, generation %d,", generation)) || !strings.Contains(out, "0 of 5 crashes") {
		l.t.Errorf("status:\n%s", out)
	}
	l.cancel()
	if err := <-l.done; err != nil {
		l.t.Error(err)
	}
}

// stderr keeps what a process writes to it for a test that fails.
type stderr struct {
	mu   sync.Mutex
	text []byte
}

func newStderr(t *testing.T) *stderr {
	t.Helper()
	w := &stderr{}
	t.Cleanup(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if t.Failed() {
			t.Logf("stderr:\n%s", w.text)
		}
	})
	return w
}

func (w *stderr) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, p...)
	return len(p), nil
}
