package jupyter

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-mcp/holdfast/internal/proc"
	"github.com/holdfast-mcp/holdfast/internal/ring"
	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/zmtp"
)

const (
	defaultStartTimeout = 30 * time.Second
	defaultHeartbeat    = 5 * time.Second
	// maxMisses is how many heartbeats in a row may stay without answer.
	maxMisses = 3
	// exitTime is how long a kernel that has closed a socket may take to end.
	exitTime = time.Second
	// reapTime is how long a process that was killed may take to end.
	reapTime = 10 * time.Second
	// lastWords is how long sockets and output are read after the process has
	// ended: what it left behind may hold them open.
	lastWords = 250 * time.Millisecond
)

// Config says which kernel to start, and how. Spec must be given; other zero
// values mean the defaults.
type Config struct {
	Spec *Spec
	// Dir is the working directory; that of this process by default.
	Dir string
	// Env is the environment that the kernel gets, with the variables of its
	// spec added, and in which Jupyter's folders are found; that of this
	// process by default.
	Env []string
	// ParentDeath ends the kernel when this process dies, where the system or
	// the kernel can do that.
	ParentDeath bool
	// StartTimeout is how long it may take to be ready, 30 s by default.
	StartTimeout time.Duration
	// Heartbeat is the time between two heartbeats, 5 s by default. A kernel
	// that answers none of three is ended.
	Heartbeat time.Duration
	// IPC makes the kernel's sockets files that only this user can reach, if
	// the kernel is known to be able to and the path is short enough. They hold
	// less than those of tcp, where another user of the machine can read the
	// output: a kernel on a machine that is overloaded loses output sooner.
	IPC bool
	// Memory is how many bytes of output are kept in memory for a reader that
	// stalls, 8 MiB by default. More are kept in a temporary file.
	Memory int

	ports func() ([sockets]int, error) // freePorts
}

func (c Config) withDefaults() Config {
	if c.Env == nil {
		c.Env = os.Environ()
	}
	if c.StartTimeout <= 0 {
		c.StartTimeout = defaultStartTimeout
	}
	if c.Heartbeat <= 0 {
		c.Heartbeat = defaultHeartbeat
	}
	if c.ports == nil {
		c.ports = freePorts
	}
	return c
}

// Kernel is one life of one kernel.
type Kernel struct {
	config     Config
	session    *session
	connection *connection
	process    *proc.Process
	output     *ring.Ring
	outputRead chan struct{} // closed when there is no more of it
	outputPipe *os.File
	conns      [sockets]*zmtp.Conn

	ending  chan error    // why it is to be ended; holds the first
	done    chan struct{} // closed when the process is reaped and its files are gone
	err     *EndError     // written before done is closed
	readers sync.WaitGroup
	spent   chan struct{} // closed when also all that it said has been received
	dropped chan struct{} // closed when nobody wants the rest of it
	closing sync.Once
	asked   atomic.Bool // to shut down
	forged  atomic.Int64
	ledger  ledger
	beating chan struct{} // closed when the first heartbeat was answered
	handing atomic.Bool   // the output reader waits for an execution to be read

	computing chan struct{} // holds one token after an execution has begun

	mu      sync.Mutex
	busy    bool                    // as the kernel said last
	open    map[string]bool         // executions without reply; true: it has begun
	runs    map[string]*Execution   // by the id of their request, those that are read
	replies map[string]chan Message // by the id of the request that waits
	probes  map[string]bool         // ids of the requests of the start; nil when it is over
	heard   chan struct{}           // closed when the output channel has been heard
}

// Done is closed when the process has ended and been reaped, with its group,
// and its files are removed.
func (k *Kernel) Done() <-chan struct{} { return k.done }

// Err returns how the kernel ended, nil while it has not.
func (k *Kernel) Err() error {
	select {
	case <-k.done:
		return k.err
	default:
		return nil
	}
}

// Identity names the process of the kernel.
func (k *Kernel) Identity() proc.Identity { return k.process.Identity() }

// Forged returns how many messages were dropped since their signature was
// wrong or they were malformed.
func (k *Kernel) Forged() int64 { return k.forged.Load() }

// Kill ends the kernel at once, with its group. It does not wait for that.
func (k *Kernel) Kill() { k.end(ErrEnded) }

// Close ends the kernel and drops what has not been received from it. The
// kernel is asked to shut down; if it has not after grace, it gets TERM, and
// after as long again KILL. Without grace it is killed at once. Close returns
// when nothing of the kernel is left: no process, no file, no goroutine.
func (k *Kernel) Close(grace time.Duration) { k.close(grace, false) }

// Restart closes the kernel, saying to it that it will be started again, and
// starts another one in the same way.
func (k *Kernel) Restart(ctx context.Context, grace time.Duration) (*Kernel, error) {
	k.close(grace, true)
	return Start(ctx, k.config)
}

func (k *Kernel) close(grace time.Duration, restart bool) {
	if grace > 0 && k.Err() == nil {
		k.asked.Store(true)
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		err := k.request(ctx, control, "shutdown_request", map[string]bool{"restart": restart})
		if err != nil || !k.awaitDone(grace) {
			_ = k.process.Terminate()
			k.awaitDone(grace)
		}
	}
	k.end(ErrEnded)
	<-k.done
	k.closing.Do(func() { close(k.dropped) })
	for _, c := range k.conns {
		c.Close()
	}
	<-k.spent
}

func (k *Kernel) awaitDone(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-k.done:
		return true
	case <-timer.C:
		return false
	}
}

// end asks for the end of the kernel. The first cause counts.
func (k *Kernel) end(cause error) {
	select {
	case k.ending <- cause:
	default:
	}
}

// live is the life of a kernel that is ready, until nothing is left of it.
func (k *Kernel) live() {
	cause := k.awaitEnd()
	exit := k.stop()
	k.finish(cause, exit)
	close(k.done)
	k.readers.Wait()
	close(k.spent)
}

// stop kills what there is of the process's tree, also after it ended by
// itself, for what it left behind. One that hangs in the system is waited for
// no longer than it makes sense; how it ends is then unknown.
func (k *Kernel) stop() proc.Exit {
	k.process.Stop(0)
	timer := time.NewTimer(reapTime)
	defer timer.Stop()
	select {
	case <-k.process.Done():
		return k.process.Exit()
	case <-timer.C:
		return proc.Exit{Code: -1}
	}
}

// awaitEnd returns why the kernel has to be ended, nil if it ended by itself.
func (k *Kernel) awaitEnd() error {
	select {
	case <-k.process.Done():
		return nil
	case cause := <-k.ending:
		return cause
	case <-k.conns[shell].Done():
	case <-k.conns[iopub].Done():
	case <-k.conns[control].Done():
	}
	timer := time.NewTimer(exitTime)
	defer timer.Stop()
	select {
	case <-k.process.Done():
		return nil
	case cause := <-k.ending:
		return cause
	case <-timer.C:
		return ErrDisconnected
	}
}

// finish reads what there is still to be read, ends the connections, which
// keep what has arrived, and removes the files.
func (k *Kernel) finish(cause error, exit proc.Exit) {
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	for _, ended := range []<-chan struct{}{k.outputRead, k.conns[iopub].Done(), k.conns[shell].Done()} {
		select {
		case <-ended:
		case <-timer.C:
			timer.Reset(0)
		}
	}
	for _, c := range k.conns {
		c.Shut()
	}
	k.outputPipe.Close()
	_ = k.output.Close()
	k.connection.remove()
	if cause == nil && k.asked.Load() {
		cause = ErrEnded
	}
	k.err = &EndError{Exit: exit, Cause: cause, Output: k.output.Tail()}
}

// request sends a request and waits until it is answered.
func (k *Kernel) request(ctx context.Context, socket int, kind string, content any) error {
	id, m, err := k.session.encode(kind, nil, content)
	if err != nil {
		return err
	}
	reply := make(chan Message, 1)
	k.mu.Lock()
	k.replies[id] = reply
	if k.probes != nil {
		k.probes[id] = true
	}
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		delete(k.replies, id)
		k.mu.Unlock()
	}()
	if err := k.conns[socket].Send(ctx, m); err != nil {
		return k.explain(ctx, err)
	}
	select {
	case <-reply:
		return nil
	case <-k.done:
		return k.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// explain waits, after a connection has failed, for the end of the kernel,
// which says more.
func (k *Kernel) explain(ctx context.Context, err error) error {
	if ctx.Err() == nil && k.awaitDone(2*exitTime) {
		return k.err
	}
	return err
}

// statusOf is the state in a status message.
func statusOf(content json.RawMessage) string {
	var status struct {
		State string `json:"execution_state"`
	}
	_ = json.Unmarshal(content, &status)
	return status.State
}
