package jupyter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/holdfast-mcp/holdfast/internal/proc"
	"github.com/holdfast-mcp/holdfast/internal/ring"
	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/zmtp"
)

const (
	// dialPause is how often a socket is looked for that is not there yet.
	dialPause = 5 * time.Millisecond
	// dialTime bounds one try: who accepts and says nothing is no kernel.
	dialTime = 2 * time.Second
	// bindTime is how long after the first of its sockets the others may come. A
	// kernel that does not get a port may live on without it.
	bindTime = 5 * time.Second
	// probePause is when a kernel that has not answered is asked again.
	probePause = 500 * time.Millisecond
	// hearTime is how long, after its first answer, a kernel's status is waited
	// for on its output channel; it is asked again after each hearPause, since
	// what a kernel says before it knows of a listener is lost.
	hearTime  = 3 * time.Second
	hearPause = 50 * time.Millisecond
	// portTries is how often a kernel is started whose ports were taken.
	portTries = 4
)

// kinds are what this side has for each of a kernel's sockets.
var kinds = [sockets]zmtp.Kind{shell: zmtp.Dealer, iopub: zmtp.Sub, stdin: zmtp.Dealer, control: zmtp.Dealer, heartbeat: zmtp.Req}

// Start starts a kernel and waits until it is ready: until it has answered on
// its channels and its output is heard. Its error is a [*StartError].
//
// A kernel that ends before it is ready is started again where it could be the
// fault of the transport: by tcp instead of ipc, and with other ports if one was
// taken.
func Start(ctx context.Context, config Config) (*Kernel, error) {
	config = config.withDefaults()
	ctx, cancel := context.WithTimeoutCause(ctx, config.StartTimeout, ErrNotReady)
	defer cancel()
	for try, ipc := 1, config.IPC && config.Spec.speaksIPC(); ; try++ {
		k, where, err := start(ctx, config, ipc)
		switch {
		case err == nil || try == portTries:
			return k, err
		case errors.Is(err, ErrPort):
		case !errors.Is(err, ErrDied):
			return nil, err
		case where.transport == "ipc":
			ipc = false
		case !where.taken():
			return nil, err
		}
	}
}

// taken reports whether somebody listens on one of the ports that a kernel was
// to have which has ended.
func (c *connection) taken() bool {
	for _, port := range c.ports {
		l, err := net.Listen("tcp", net.JoinHostPort(c.ip, strconv.Itoa(port)))
		if err != nil {
			return true
		}
		l.Close()
	}
	return false
}

func start(ctx context.Context, config Config, ipc bool) (*Kernel, *connection, error) {
	failed := &StartError{Kernel: config.Spec.Name}
	k, err := launch(config, ipc, failed)
	if err != nil {
		failed.Err = err
		return nil, nil, failed
	}
	err = k.connect(ctx)
	if err == nil {
		k.listen()
		if err = k.ready(ctx); err == nil {
			return k, k.connection, nil
		}
		k.end(ErrEnded)
		<-k.done
		failed.Output = k.err.Output
		if end := k.err; end.Cause == nil { // it ended by itself, which is why
			err = end
		}
		k.Close(0)
	} else {
		exit := k.stop()
		failed.Output = k.abort()
		if _, ended := errors.AsType[*EndError](err); ended {
			err = &EndError{Exit: exit, Output: failed.Output}
		}
	}
	failed.Err = err
	return nil, k.connection, failed
}

// launch writes the connection file and starts the process.
func launch(config Config, ipc bool, failed *StartError) (*Kernel, error) {
	env := readEnvironment(config.Env)
	dir, err := filepath.Abs(config.Dir)
	if err != nil {
		return nil, err
	}
	parents := []string{env.runtimeDir()}
	if dir := env.get("XDG_RUNTIME_DIR"); dir != "" {
		parents = append(parents, dir)
	}
	parents = append(parents, os.TempDir())
	c, err := newConnection(parents, ipc, config.ports)
	if err != nil {
		return nil, fmt.Errorf("make the connection file: %w", err)
	}
	k := &Kernel{
		config: config, session: newSession(), connection: c,
		output: ring.New(ring.Options{}), outputRead: make(chan struct{}),
		ending: make(chan error, 1), done: make(chan struct{}), spent: make(chan struct{}), dropped: make(chan struct{}),
		runs: make(map[string]*Execution), replies: make(map[string]chan Message),
		probes: make(map[string]bool), heard: make(chan struct{}),
		beating: make(chan struct{}), computing: make(chan struct{}, 1), open: make(map[string]bool),
	}
	if err := c.write(k.session.key, config.Spec.Name); err != nil {
		c.remove()
		return nil, fmt.Errorf("write the connection file: %w", err)
	}
	if err := k.spawn(env, dir, failed); err != nil {
		c.remove()
		return nil, err
	}
	return k, nil
}

// spawn starts the process and a reader of its output.
func (k *Kernel) spawn(env environment, dir string, failed *StartError) error {
	spec := k.config.Spec
	argv, kernelEnv := spec.command(env, k.connection.file), spec.environ(env)
	failed.Command = argv
	path, err := proc.LookPath(argv[0], dir, kernelEnv)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrSpec, filepath.Join(spec.Dir, "kernel.json"), err)
	}
	if k.config.ParentDeath && runtime.GOOS != "windows" {
		kernelEnv = append(kernelEnv, "JPY_PARENT_PID="+strconv.Itoa(os.Getpid()))
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer w.Close()
	k.process, err = proc.Start(proc.Spec{
		Path: path, Args: argv[1:], Dir: k.config.Dir, Env: kernelEnv, Stdout: w, Stderr: w,
		Group: true, Session: true, ParentDeath: k.config.ParentDeath,
		InterruptEnv: []string{"JPY_INTERRUPT_EVENT", "IPY_INTERRUPT_EVENT"},
	})
	if err != nil {
		r.Close()
		return err
	}
	k.outputPipe = r
	go func() { // ends with the output, at the latest when finish or abort closes it
		defer close(k.outputRead)
		_, _ = io.Copy(k.output, r)
	}()
	return nil
}

// abort drops what was not connected yet, and returns its last lines. The
// process has ended.
func (k *Kernel) abort() []string {
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	select {
	case <-k.outputRead:
	case <-timer.C:
	}
	k.outputPipe.Close()
	<-k.outputRead
	_ = k.output.Close()
	for _, c := range k.conns {
		if c != nil {
			c.Close()
		}
	}
	k.connection.remove()
	return k.output.Tail()
}

// connect connects to all sockets, output first, so that nothing is missed.
func (k *Kernel) connect(ctx context.Context) error {
	var first time.Time // when the first one was there
	for _, socket := range []int{iopub, shell, control, stdin, heartbeat} {
		for k.conns[socket] == nil {
			try, cancel := context.WithTimeout(ctx, dialTime)
			c, err := zmtp.Dial(try, k.connection.endpoint(socket), kinds[socket], k.socketOptions(socket))
			cancel()
			if err == nil {
				if k.conns[socket] = c; socket == iopub {
					first = time.Now()
				}
				break
			}
			if k.connection.transport == "tcp" && ctx.Err() == nil && (foreign(err) || socket != iopub && time.Since(first) > bindTime) {
				return fmt.Errorf("%w: %w", ErrPort, err)
			}
			timer := time.NewTimer(dialPause)
			select {
			case <-k.process.Done():
				timer.Stop()
				return &EndError{Exit: k.process.Exit()}
			case <-ctx.Done():
				timer.Stop()
				return context.Cause(ctx)
			case <-timer.C:
			}
		}
	}
	return nil
}

// foreign reports whether somebody was there who is no kernel: one that does
// not get its port may live on without it.
func foreign(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, zmtp.ErrProtocol) || errors.Is(err, zmtp.ErrRefused)
}

func (k *Kernel) socketOptions(socket int) zmtp.Options {
	o := zmtp.Options{Memory: k.config.Memory}
	if kinds[socket] == zmtp.Dealer {
		// One identity for all of them: a kernel asks for input on stdin who
		// has sent the request on shell.
		o.Identity = []byte(k.session.id)
	}
	return o
}

// ready asks for kernel_info until the kernel has answered and its output has
// been heard, and then waits for the first heartbeat.
func (k *Kernel) ready(ctx context.Context) error {
	if err := k.ask(ctx, probePause); err != nil {
		return err
	}
	for limit := time.Now().Add(hearTime); time.Now().Before(limit) && !k.awaitHeard(hearPause); {
		if err := k.ask(ctx, probePause); err != nil {
			return err
		}
	}
	select {
	case <-k.beating:
	case <-k.done:
		return k.err
	case <-ctx.Done():
		return fmt.Errorf("%w: no heartbeat", context.Cause(ctx))
	}
	k.mu.Lock()
	k.probes = nil
	k.mu.Unlock()
	return nil
}

// ask asks for kernel_info, again after each pause, until there is an answer.
func (k *Kernel) ask(ctx context.Context, pause time.Duration) error {
	for {
		try, cancel := context.WithTimeout(ctx, pause)
		err := k.request(try, shell, "kernel_info_request", struct{}{})
		cancel()
		switch {
		case err == nil || k.Err() != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !errors.Is(err, context.DeadlineExceeded):
			return err
		}
	}
}

func (k *Kernel) awaitHeard(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-k.heard:
		return true
	case <-timer.C:
		return false
	}
}
