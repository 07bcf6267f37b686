package check

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfast-mcp/holdfast/internal/proc"
	"github.com/holdfast-mcp/holdfast/internal/ring"
	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
)

const (
	// stopGrace is what a worker gets between TERM and KILL when a check is
	// done with it.
	stopGrace = 250 * time.Millisecond
	// maxPrinted bounds a line on a worker's stdout.
	maxPrinted = 64 << 10
	// keptLines is how many stray lines of stdout are kept to be shown.
	keptLines = 3
)

// Errors of a start.
var (
	// errSilent: returned when nothing at all came on stdout in time.
	errSilent = errors.New("it is alive but silent; is its stdout buffered, or is it no holdfast worker?")
	// errPrinting: returned when other things came on stdout.
	errPrinting = errors.New("it is alive and prints other things than the handshake line")
)

// life is one process of the worker. It is used once.
type life struct {
	process *proc.Process
	started time.Time
	dir     string // for its socket
	ours    [3]*os.File
	tail    *ring.Ring
	readers sync.WaitGroup

	cc     *grpc.ClientConn
	worker workerv1.WorkerServiceClient
	info   *workerv1.DescribeResponse

	line chan string // gets the handshake line

	mu     sync.Mutex
	found  bool // the handshake line has come
	stray  []string
	strays int
}

// startup is what the environment tells a worker.
type startup struct {
	cookie   bool
	versions string
}

// supervised is what supervisors of this build tell.
func supervised() startup { return startup{cookie: true, versions: versions()} }

// start starts the worker as a supervisor does: in its own process group, with
// pipes, and with the handshake in its environment.
func start(config Config, as startup) (*life, error) {
	dir, err := os.MkdirTemp("", "holdfast-check-")
	if err != nil {
		return nil, fmt.Errorf("directory for the socket: %w", err)
	}
	l := &life{started: time.Now(), dir: dir, tail: ring.New(ring.Options{}), line: make(chan string, 1)}
	theirs, err := l.pipes()
	if err == nil {
		l.process, err = proc.Start(proc.Spec{
			Path: config.Path, Args: config.Args, Env: as.environ(config.Env, dir),
			Stdin: theirs[0], Stdout: theirs[1], Stderr: theirs[2],
			Group: true, ParentDeath: true,
		})
	}
	closeAll(theirs)
	if err != nil {
		closeAll(l.ours)
		_ = os.RemoveAll(dir)
		return nil, err
	}
	// Both end when the pipes are closed, by all writers or by end.
	l.readers.Go(func() { l.readStdout(l.ours[1]) })
	l.readers.Go(func() { _, _ = io.Copy(l.tail, l.ours[2]) })
	return l, nil
}

func (s startup) environ(env []string, dir string) []string {
	env = protocol.StripHandshake(env)
	if !s.cookie {
		return env
	}
	h := protocol.Handshake()
	return append(env,
		h.MagicCookieKey+"="+h.MagicCookieValue,
		"PLUGIN_PROTOCOL_VERSIONS="+s.versions,
		"PLUGIN_UNIX_SOCKET_DIR="+dir,
		"PLUGIN_MIN_PORT=10000",
		"PLUGIN_MAX_PORT=25000",
	)
}

// pipes opens the pipes to the worker and returns its ends.
func (l *life) pipes() (theirs [3]*os.File, err error) {
	for i := range theirs {
		r, w, err := os.Pipe()
		if err != nil {
			return theirs, fmt.Errorf("pipe to the worker: %w", err)
		}
		if i == 0 {
			r, w = w, r
		}
		l.ours[i], theirs[i] = r, w
	}
	return theirs, nil
}

func closeAll(files [3]*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

func (l *life) readStdout(stdout io.Reader) {
	r := bufio.NewReaderSize(stdout, maxPrinted)
	for {
		line, err := r.ReadSlice('\n')
		if len(line) > 0 {
			l.took(string(line))
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func (l *life) took(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.found && handshakeLine.MatchString(line) {
		l.found = true
		l.line <- line
		return
	}
	if l.strays++; len(l.stray) < keptLines {
		l.stray = append(l.stray, line)
	}
}

// printed returns what came on stdout beside the handshake: the first lines,
// and how many there were.
func (l *life) printed() ([]string, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stray, l.strays
}

// announced waits for the handshake line and parses it.
func (l *life) announced(ctx context.Context) (handshake, error) {
	select {
	case line := <-l.line:
		return parseHandshake(line)
	case <-l.process.Done():
	case <-ctx.Done():
	}
	select {
	case line := <-l.line:
		return parseHandshake(line)
	default:
	}
	stray, n := l.printed()
	switch {
	case !l.alive():
		return handshake{}, fmt.Errorf("it ended before its handshake: %v", l.process.Exit())
	case n > 0:
		return handshake{}, fmt.Errorf("%w: %.100q", errPrinting, stray[0])
	case !errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return handshake{}, context.Cause(ctx)
	}
	return handshake{}, errSilent
}

// dial connects to the worker, which must have been announced.
func (l *life) dial(h handshake) error {
	dialer := func(ctx context.Context, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, h.network, h.address)
	}
	limit := protocol.DefaultMaxFrame + protocol.FrameOverhead
	cc, err := grpc.NewClient("passthrough:worker",
		grpc.WithContextDialer(dialer),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(limit), grpc.MaxCallSendMsgSize(limit)))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", h.address, err)
	}
	l.cc, l.worker = cc, workerv1.NewWorkerServiceClient(cc)
	return nil
}

// describe asks the worker who it is.
func (l *life) describe(ctx context.Context, version string) error {
	info, err := l.worker.Describe(ctx, &workerv1.DescribeRequest{Version: version, MaxFrame: protocol.DefaultMaxFrame})
	if err != nil {
		return fmt.Errorf("answer to Describe: %w", err)
	}
	l.info = info
	return nil
}

// declares reports whether the worker has the feature.
func (l *life) declares(feature string) bool {
	return slices.Contains(l.info.GetFeatures(), feature)
}

func (l *life) alive() bool {
	select {
	case <-l.process.Done():
		return false
	default:
		return true
	}
}

// closeStdin tells the worker that its supervisor is gone.
func (l *life) closeStdin() { _ = l.ours[0].Close() }

// end ends the process and all below it, and returns when nothing is left.
func (l *life) end() {
	if l.cc != nil {
		_ = l.cc.Close()
	}
	l.closeStdin()
	l.process.Stop(stopGrace)
	// What was written before the end can be read without waiting.
	read := make(chan struct{})
	go func() { // ends when the pipes are closed below
		l.readers.Wait()
		close(read)
	}()
	select {
	case <-read:
	case <-time.After(stopGrace):
	}
	closeAll(l.ours)
	<-read
	_ = l.tail.Close()
	_ = os.RemoveAll(l.dir)
}
