package harness

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/integration/usercache"
)

// Patience is how long anything that must happen may take. It is far above
// what is promised, so that a loaded machine fails no test.
const Patience = 60 * time.Second

// MarkVariable is set in the environment of each started process, and so of
// its descendants, to a value of its own (see [Marked]).
const MarkVariable = "INTEGRATION_MARK"

// Handler answers a request of the server with a result or an error.
type Handler func(params json.RawMessage) (any, *Error)

// Config says what to start.
type Config struct {
	// Command is the program and its arguments.
	Command []string
	// Dir is the working directory, that of the test if empty.
	Dir string
	// Env is added to the test's own environment.
	Env []string
	// Cache is the user's cache directory for the process. Empty means one of
	// its own (see [ColdCache]); starts that share one have a warm cache.
	Cache string
	// Handlers answer the server's own requests by method. A request without
	// a handler gets -32601; a nil handler leaves it unanswered.
	Handlers map[string]Handler
	// Capabilities are those of the client, {} if nil.
	Capabilities map[string]any
}

// Client is the editor's side of one started process.
type Client struct {
	tb     testing.TB
	config Config
	mark   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	exited chan struct{} // closed once the process was waited for

	write sync.Mutex // one line at a time on stdin

	mu      sync.Mutex // guards what follows
	frames  []Frame
	news    chan struct{} // closed and replaced with each frame, and at the end
	ended   bool          // stdout has ended
	nextID  int
	answers map[string]answers // by id token
	stderr  bytes.Buffer
}

// answers are what one id token got.
type answers struct {
	first Frame
	n     int
}

// Start starts a process; the test's clean-up ends it.
func Start(tb testing.TB, config Config) *Client {
	tb.Helper()
	c := &Client{
		tb: tb, config: config, mark: newMark(),
		exited: make(chan struct{}), news: make(chan struct{}), answers: map[string]answers{},
	}
	c.cmd = exec.Command(config.Command[0], config.Command[1:]...)
	c.cmd.Dir = config.Dir
	if config.Cache == "" {
		config.Cache = tb.TempDir()
	}
	c.cmd.Env = append(append(os.Environ(), MarkVariable+"="+c.mark), usercache.Env(config.Cache)...)
	c.cmd.Env = append(c.cmd.Env, config.Env...)
	c.cmd.Stderr = stderrOf{c}
	// A descendant that holds stderr must not keep Wait from returning.
	c.cmd.WaitDelay = 5 * time.Second
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	c.stdin = stdin
	// An own pipe: that of exec is closed by Wait, which would lose what the
	// process wrote just before its end.
	stdout, w, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	c.cmd.Stdout = w
	if err := c.cmd.Start(); err != nil {
		tb.Fatalf("start %q: %v", config.Command, err)
	}
	w.Close()
	go c.read(stdout) // ends with the last holder of stdout, all killed in clean-up
	go func() {       // ends with the process, killed in clean-up
		_ = c.cmd.Wait() // the state says how it ended
		close(c.exited)
	}()
	tb.Cleanup(c.cleanup)
	return c
}

type stderrOf struct{ c *Client }

func (s stderrOf) Write(p []byte) (int, error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.c.stderr.Write(p)
}

func (c *Client) read(stdout io.ReadCloser) {
	defer stdout.Close()
	r := bufio.NewReaderSize(stdout, 1<<16)
	for {
		line, err := r.ReadBytes('\n')
		if line = bytes.TrimSuffix(line, []byte("\n")); len(line) > 0 {
			c.take(line)
		}
		if err != nil {
			c.mu.Lock()
			c.ended = true
			close(c.news)
			c.mu.Unlock()
			return
		}
	}
}

func (c *Client) take(line []byte) {
	f, err := parseFrame(line)
	if err != nil {
		c.tb.Errorf("a line that is no frame reached the client: %.300q", line)
	}
	c.mu.Lock()
	c.frames = append(c.frames, f)
	if f.IsResponse() {
		a := c.answers[string(f.ID)]
		if a.n++; a.n == 1 {
			a.first = f
		}
		c.answers[string(f.ID)] = a
	}
	close(c.news)
	c.news = make(chan struct{})
	c.mu.Unlock()
	if f.Method != "" && f.ID != nil {
		c.serve(f)
	}
}

// serve answers a request of the server.
func (c *Client) serve(f Frame) {
	handler, known := c.config.Handlers[f.Method]
	answer := map[string]any{"jsonrpc": "2.0", "id": f.ID}
	switch {
	case !known:
		answer["error"] = map[string]any{"code": -32601, "message": "method not found"}
	case handler == nil:
		return
	default:
		result, rpcErr := handler(f.Params)
		if rpcErr != nil {
			answer["error"] = map[string]any{"code": rpcErr.Code, "message": rpcErr.Message}
		} else {
			answer["result"] = result
		}
	}
	c.SendJSON(answer)
}

// Send writes one line. A process that no longer reads is no error here: the
// test sees it by the answer that does not come.
func (c *Client) Send(line string) { c.Write([]byte(line + "\n")) }

// Write writes bytes as they are.
func (c *Client) Write(p []byte) {
	c.write.Lock()
	defer c.write.Unlock()
	_, _ = c.stdin.Write(p)
}

// SendJSON writes v as one line.
func (c *Client) SendJSON(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		c.tb.Errorf("marshal %v: %v", v, err)
		return
	}
	c.Write(append(b, '\n'))
}

// Notify sends a notification.
func (c *Client) Notify(method string, params any) {
	m := map[string]any{"jsonrpc": "2.0", "method": method}
	if params != nil {
		m["params"] = params
	}
	c.SendJSON(m)
}

// Frames returns all frames so far.
func (c *Client) Frames() []Frame {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.frames)
}

// Answers returns how many answers each id token got.
func (c *Client) Answers() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[string]int, len(c.answers))
	for token, a := range c.answers {
		out[token] = a.n
	}
	return out
}

// Initialize opens the legacy era with the newest of its versions.
func (c *Client) Initialize() Frame { return c.InitializeVersion("2025-11-25") }

// InitializeVersion opens the legacy era.
func (c *Client) InitializeVersion(version string) Frame {
	c.tb.Helper()
	capabilities := c.config.Capabilities
	if capabilities == nil {
		capabilities = map[string]any{}
	}
	f := c.Request("initialize", map[string]any{
		"protocolVersion": version, "capabilities": capabilities,
		"clientInfo": map[string]any{"name": "harness", "version": "1"},
	}).Wait()
	c.Notify("notifications/initialized", nil)
	return f
}

// CallTool calls a tool and waits for the answer.
func (c *Client) CallTool(tool string, args map[string]any) Frame {
	c.tb.Helper()
	return c.Request("tools/call", Call(tool, args)).Wait()
}

// CloseStdin ends what the client says.
func (c *Client) CloseStdin() { _ = c.stdin.Close() }

// Process returns the started process, for signals.
func (c *Client) Process() *os.Process { return c.cmd.Process }

// Exited is closed when the process has ended.
func (c *Client) Exited() <-chan struct{} { return c.exited }

// WaitExit returns how the process ended; one that lives on fails the test.
func (c *Client) WaitExit() *os.ProcessState {
	c.tb.Helper()
	select {
	case <-c.exited:
		return c.cmd.ProcessState
	case <-time.After(Patience):
		c.tb.Fatalf("%s does not end", filepath.Base(c.config.Command[0]))
		return nil
	}
}

// Stderr returns what the process wrote to its standard error so far.
func (c *Client) Stderr() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stderr.String()
}

func (c *Client) cleanup() {
	c.CloseStdin()
	select {
	case <-c.exited:
	case <-time.After(10 * time.Second):
		c.tb.Errorf("%s did not end within 10 s of the end of its stdin", filepath.Base(c.config.Command[0]))
		_ = c.cmd.Process.Kill()
		<-c.exited
	}
	c.endDescendants()
	for token, n := range c.Answers() {
		if n > 1 && token != "" {
			c.tb.Errorf("request %s got %d answers", token, n)
		}
	}
	if c.tb.Failed() {
		c.keepArtefacts()
	}
}

// endDescendants fails the test for each process that outlived the command,
// and ends it.
func (c *Client) endDescendants() {
	for _, p := range c.AwaitNoDescendants(5 * time.Second) {
		c.tb.Errorf("left behind: %v", p)
		p.Kill()
	}
}

func (c *Client) keepArtefacts() {
	dir := c.tb.ArtifactDir()
	var wire strings.Builder
	for _, f := range c.Frames() {
		wire.Write(f.Raw)
		wire.WriteByte('\n')
	}
	for name, text := range map[string]string{"stderr.log": c.Stderr(), "stdout.jsonl": wire.String()} {
		path := filepath.Join(dir, c.mark+"-"+name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			c.tb.Log(err)
		}
	}
	stderr := c.Stderr()
	c.tb.Logf("%q wrote to stderr:\n%s", c.config.Command, stderr[max(0, len(stderr)-4000):])
}
