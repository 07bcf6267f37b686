package generation

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	hclog "github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin/runner"

	"github.com/holdfast-mcp/holdfast/internal/proc"
	"github.com/holdfast-mcp/holdfast/protocol"
)

// process is the worker's process with its three pipes, as go-plugin's Runner
// sees it. go-plugin gets the handshake line alone: the worker's stdin is not
// the client's, its stderr is not parsed, and what else it prints on stdout
// goes to the log.
type process struct {
	command  Command
	stderr   io.WriteCloser // takes the worker's stderr, and stray stdout
	resolved func()         // called when the executable is known; may be nil

	handshake *io.PipeReader
	toPlugin  *io.PipeWriter
	drained   chan struct{} // closed when the process has ended and its output is read
	draining  sync.WaitGroup

	mu      sync.Mutex
	proc    *proc.Process // nil if it was never started
	stdin   *os.File      // closing it tells the worker to end
	file    File          // what was started: the server
	own     File          // the program of the process, which may be the bridge
	stopped bool          // it must not be started any more
	wire    int           // announced wire version, 0 before
	printed bool          // something else came on stdout
}

// handshakeLine matches what a go-plugin worker prints first: core version,
// wire version, network, address, protocol.
var handshakeLine = regexp.MustCompile(`^\s*\d+\|(\d+)\|(unix|tcp)\|[^|]+\|`)

// maxPrinted bounds a line on a worker's stdout.
const maxPrinted = 64 << 10

// stderrGrace is how long the end of a worker's stderr is waited for after its
// exit; a grandchild may hold it for ever.
const stderrGrace = 50 * time.Millisecond

func newProcess(command Command, stderr io.WriteCloser, resolved func()) *process {
	p := &process{command: command, stderr: stderr, resolved: resolved, drained: make(chan struct{})}
	p.handshake, p.toPlugin = io.Pipe()
	return p
}

// start starts the process. pluginEnv is the handshake that go-plugin wants it
// to have.
func (p *process) start(pluginEnv []string) error {
	what, err := p.command.resolve()
	if err != nil {
		return err
	}
	if p.resolved != nil {
		p.resolved()
	}
	var files pipes
	defer files.closeTheirs()
	if err := files.open(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.file, p.own = what.file, what.own
	if p.stopped {
		files.closeOurs()
		return context.Canceled
	}
	child, err := proc.Start(proc.Spec{
		Path: what.path, Args: what.args, Dir: p.command.Dir,
		Env:   append(slices.Clone(p.command.Env), pluginEnv...),
		Stdin: files.theirs[0], Stdout: files.theirs[1], Stderr: files.theirs[2],
		Group: true, ParentDeath: true,
	})
	if err != nil {
		files.closeOurs()
		return err
	}
	p.proc, p.stdin = child, files.ours[0]
	stdout, stderr := files.ours[1], files.ours[2]
	// Both end when nobody holds the write end any more, or when awaitDrained
	// closes the read end.
	p.draining.Go(func() { p.readStdout(stdout) })
	p.draining.Go(func() { _, _ = io.Copy(p.stderr, stderr) })
	go p.awaitDrained(child, stdout, stderr) // ends with the process
	return nil
}

// started returns the process, nil if there is none.
func (p *process) started() *proc.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.proc
}

// stop ends the process and what is below it, or prevents its start.
func (p *process) stop(grace time.Duration) {
	p.mu.Lock()
	p.stopped = true
	child, stdin := p.proc, p.stdin
	p.mu.Unlock()
	if child == nil {
		p.toPlugin.Close()
		return
	}
	stdin.Close()
	child.Stop(grace)
	<-p.drained
}

// awaitDrained closes drained once the process has ended and its output is
// read, or is not worth waiting for.
func (p *process) awaitDrained(child *proc.Process, stdout, stderr *os.File) {
	<-child.Done()
	p.stdin.Close()
	read := make(chan struct{})
	go func() { // ends when the pipes are closed below
		p.draining.Wait()
		close(read)
	}()
	select {
	case <-read:
	case <-time.After(stderrGrace):
	}
	stdout.Close()
	stderr.Close()
	p.toPlugin.Close()
	<-read
	p.stderr.Close()
	close(p.drained)
}

// readStdout passes the handshake line on and everything else to the log, for
// as long as somebody writes.
func (p *process) readStdout(stdout io.Reader) {
	r := bufio.NewReaderSize(stdout, maxPrinted)
	for {
		line, err := r.ReadSlice('\n')
		if len(line) > 0 {
			p.printedLine(line)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func (p *process) printedLine(line []byte) {
	p.mu.Lock()
	m := handshakeLine.FindSubmatch(line)
	first := m != nil && p.wire == 0
	if first {
		p.wire, _ = strconv.Atoi(string(m[1]))
	} else {
		p.printed = true
	}
	p.mu.Unlock()
	if first {
		_, _ = p.toPlugin.Write(line)
		return
	}
	_, _ = p.stderr.Write(line)
}

// announced returns the wire version that the worker named, 0 if it has not,
// and whether it printed anything else.
func (p *process) announced() (wire int, printed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wire, p.printed
}

// pipes are the three pipes between us and a child.
type pipes struct{ ours, theirs [3]*os.File }

func (f *pipes) open() error {
	for i := range f.ours {
		r, w, err := os.Pipe()
		if err != nil {
			f.closeOurs()
			return err
		}
		if i == 0 {
			r, w = w, r
		}
		f.ours[i], f.theirs[i] = r, w
	}
	return nil
}

func (f *pipes) closeOurs()   { closeAll(f.ours[:]) }
func (f *pipes) closeTheirs() { closeAll(f.theirs[:]) }

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// runnerFunc gives go-plugin the process. Of the environment that go-plugin
// proposes only the handshake is taken.
func (p *process) runnerFunc(_ hclog.Logger, spec *exec.Cmd, _ string) (runner.Runner, error) {
	var env []string
	for _, kv := range spec.Env {
		if name, _, _ := strings.Cut(kv, "="); protocol.IsHandshakeVariable(name) {
			env = append(env, kv)
		}
	}
	return startedLater{p, env}, nil
}

// startedLater is a process with the environment it is to be started with.
type startedLater struct {
	*process
	env []string
}

var _ runner.Runner = startedLater{}

func (s startedLater) Start(context.Context) error { return s.start(s.env) }

func (p *process) Wait(ctx context.Context) error {
	child := p.started()
	if child == nil {
		return nil
	}
	select {
	case <-child.Done():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Kill is called by go-plugin when its part of the start failed.
func (p *process) Kill(context.Context) error {
	p.stop(0)
	return nil
}

func (p *process) ID() string {
	if child := p.started(); child != nil {
		return strconv.Itoa(child.Pid())
	}
	return ""
}

func (p *process) Name() string                    { return p.command.String() }
func (p *process) Stdout() io.ReadCloser           { return p.handshake }
func (p *process) Stderr() io.ReadCloser           { return io.NopCloser(strings.NewReader("")) }
func (p *process) Diagnose(context.Context) string { return "" }

func (p *process) PluginToHost(network, addr string) (string, string, error) {
	return network, addr, nil
}

func (p *process) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}
