// Package proc starts processes so that they can be ended completely: the
// process itself, its children, and what those left behind.
//
//	p, err := proc.Start(proc.Spec{Path: path, Group: true, ParentDeath: true})
//	...
//	<-p.Done()                    // it ended by itself, p.Exit() says how
//	p.Stop(250 * time.Millisecond) // or is ended here; call it in both cases
//
// A process that leads its own group (or job, on Windows) is the life of that
// group: when it has ended, the rest of the group is killed before Done is
// closed. What left the group by setsid is found on Linux alone: a process
// that called [BecomeSubreaper] inherits such strays, and [Process.Stop] and
// [Sweep] kill them. A daemon that is meant to outlive its worker is declared
// with [Spare].
//
// # The stop ladder
//
//	Stop(grace)  TERM to the group ---- group empty -------------> reaped
//	                  |                                              |
//	                  +-- grace over -- KILL to the group -- reaped -+-- strays killed
//
// # No signal goes astray
//
// A group is signalled only while its leader is not reaped: the leader's pid,
// which is the group's id, cannot be used again until then. Everything else is
// signalled through a handle of the process (pidfd) after a check of its start
// time.
//
// # Concurrency
//
// All functions may be called from any goroutine. There is one goroutine per
// process; it starts it, waits for it and reaps it, and stays on one OS thread
// meanwhile if ParentDeath is set, since the kernel sends that signal when the
// thread that forked ends (go.dev/issue/27505).
//
// # Limits
//
// The package reads no output, restarts nothing and logs nothing. macOS has
// neither subreapers nor a parent-death signal: there, what leaves its group
// is lost, and a worker learns of its parent's death from the end of its
// stdin. On Windows all is done by a job object that ends with its last
// handle.
package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// killTimeout bounds how long Stop waits for the end of a process that KILL
// was sent to; only one that hangs in the kernel takes longer.
const killTimeout = time.Second

// groupPoll is how often a group is looked at whose leader has ended within
// the grace of a stop.
const groupPoll = 10 * time.Millisecond

// Spec says what to start and how it is tied to this process.
type Spec struct {
	// Path of the executable, as [LookPath] returns it. It is not looked up.
	Path string
	// Args without the name of the command.
	Args []string
	// Dir is the working directory; empty: that of this process.
	Dir string
	// Env is the whole environment; nil: that of this process. Of several
	// entries with one name the last counts.
	Env []string
	// Stdin, Stdout and Stderr are inherited and stay the caller's; nil: the
	// null device.
	Stdin, Stdout, Stderr *os.File
	// Group starts the process as leader of its own process group, on Windows
	// in its own job. Without it, signals reach the process alone.
	Group bool
	// Session, with Group, starts the process also as leader of its own
	// session, without the terminal of this process: what it starts can neither
	// be stopped by that terminal nor take it. Nothing on Windows.
	Session bool
	// InterruptEnv are names of variables that tell the process, on Windows,
	// the handle of the event by which [Process.Interrupt] reaches it there.
	// Elsewhere they are not set.
	InterruptEnv []string
	// ParentDeath ends the process when this one dies: TERM on Linux, its job
	// on Windows, nothing on macOS.
	ParentDeath bool
}

// Exit tells how a process ended.
type Exit struct {
	// Code is the exit code, -1 if a signal ended the process.
	Code int
	// Signal is the name of that signal, such as "SIGKILL", or empty.
	Signal string
}

func (e Exit) String() string {
	if e.Signal != "" {
		return "killed by " + e.Signal
	}
	return "exit code " + strconv.Itoa(e.Code)
}

// Process is one started process. It is used once.
type Process struct {
	os    *os.Process
	id    Identity
	group bool
	tie   tie // what this system needs to hold on to a process tree
	done  chan struct{}
	exit  Exit // written before done is closed

	mu     sync.Mutex
	reaped bool      // the pid may belong to somebody else
	stopBy time.Time // end of the grace that the group has been given
}

// tree is what this process knows of its own descendants.
var tree = struct {
	sync.Mutex // held while a child is started, so that no sweep takes it for a stray

	live      map[*Process]struct{} // started here and not reaped
	spared    map[Identity]struct{}
	subreaper bool
	ungrouped bool // a child was started in this process's own group
}{
	live:   make(map[*Process]struct{}),
	spared: make(map[Identity]struct{}),
}

// Start starts a process. Its error names the path and the cause.
func Start(spec Spec) (*Process, error) {
	p := &Process{group: spec.Group, done: make(chan struct{})}
	started := make(chan error)
	go p.run(spec, started) // ends when the process has been reaped
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// run is the life of a process, from its start until it is reaped.
func (p *Process) run(spec Spec, started chan<- error) {
	if spec.ParentDeath {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	err := p.start(spec)
	started <- err
	if err != nil {
		return
	}
	p.awaitExit()
	p.awaitGroup()
	p.reap()
	close(p.done)
}

func (p *Process) start(spec Spec) error {
	files := []*os.File{spec.Stdin, spec.Stdout, spec.Stderr}
	var null *os.File
	for i, f := range files {
		if f != nil {
			continue
		}
		if null == nil {
			var err error
			if null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
				return fmt.Errorf("start %s: %w", spec.Path, err)
			}
			defer null.Close()
		}
		files[i] = null
	}
	attr := &os.ProcAttr{Dir: spec.Dir, Env: environ(spec), Files: files, Sys: sysProcAttr(spec)}
	if err := p.tie.prepare(spec, attr); err != nil {
		return fmt.Errorf("start %s: %w", spec.Path, err)
	}

	tree.Lock()
	defer tree.Unlock()
	var err error
	if p.os, err = os.StartProcess(spec.Path, append([]string{spec.Path}, spec.Args...), attr); err != nil {
		p.tie.release()
		return explain(spec, err)
	}
	if err := p.tie.bind(p.os, spec); err != nil {
		p.os.Kill()
		_, _ = p.os.Wait()
		p.tie.release()
		return fmt.Errorf("start %s: %w", spec.Path, err)
	}
	p.id = Identity{Pid: p.os.Pid}
	if id, err := Identify(p.os.Pid); err == nil {
		p.id = id
	}
	tree.live[p] = struct{}{}
	tree.ungrouped = tree.ungrouped || !spec.Group
	return nil
}

// awaitGroup gives what is left of the group the rest of a stop's grace. The
// leader has ended but is not reaped.
func (p *Process) awaitGroup() {
	if !p.group {
		return
	}
	p.mu.Lock()
	left := time.Until(p.stopBy)
	p.mu.Unlock()
	if left <= 0 {
		return
	}
	grace := time.NewTimer(left)
	defer grace.Stop()
	poll := time.NewTicker(groupPoll)
	defer poll.Stop()
	for p.groupAlive() {
		select {
		case <-poll.C:
		case <-grace.C:
			return
		}
	}
}

// reap kills what is left of the group and takes the exit status.
func (p *Process) reap() {
	p.mu.Lock()
	_ = p.killTree()
	state, err := p.os.Wait()
	p.reaped = true
	p.tie.release()
	p.mu.Unlock()

	p.exit = Exit{Code: -1}
	if err == nil {
		p.exit = exitOf(state)
	}
	tree.Lock()
	delete(tree.live, p)
	tree.Unlock()
}

// Pid returns the process id, which is also the id of its group.
func (p *Process) Pid() int { return p.id.Pid }

// Identity returns the pid together with the start time.
func (p *Process) Identity() Identity { return p.id }

// Done is closed when the process has ended and been reaped, and the rest of
// its group has been sent KILL.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit returns how the process ended. It is valid once Done is closed.
func (p *Process) Exit() Exit { return p.exit }

// Terminate asks the group to end: TERM, on Windows CTRL_BREAK (without a group,
// the process is killed there). It returns
// [os.ErrProcessDone] if the process has been reaped.
func (p *Process) Terminate() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return os.ErrProcessDone
	}
	return p.terminateTree()
}

// Interrupt tells the group that whoever is in front of it has pressed Ctrl-C:
// INT, on Windows the event that the process was told by InterruptEnv. It
// returns [os.ErrProcessDone] if the process has been reaped, and
// [errors.ErrUnsupported] on Windows if there is no such event.
func (p *Process) Interrupt() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return os.ErrProcessDone
	}
	return p.interruptTree()
}

// Kill ends the group at once. It returns [os.ErrProcessDone] if the process
// has been reaped; its group is then gone as well.
func (p *Process) Kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return os.ErrProcessDone
	}
	return p.killTree()
}

// Stop ends the whole tree: it asks the group to end, kills what is left of it
// after grace (at once if that is not positive), and then kills the strays, as
// [Sweep] does. It returns when all are gone, or at the latest about two
// seconds after the grace if some hang in the kernel. Call it also after a
// process ended by itself: only then are its strays gone.
func (p *Process) Stop(grace time.Duration) {
	doomed := descendants(p.id)
	if grace > 0 {
		p.mu.Lock()
		p.stopBy = time.Now().Add(grace)
		p.mu.Unlock()
		if p.Terminate() == nil {
			p.wait(grace)
		}
	}
	select {
	case <-p.done:
	default:
		doomed = append(doomed, descendants(p.id)...)
		_ = p.Kill()
		p.wait(killTimeout)
	}
	sweep(doomed)
}

func (p *Process) wait(limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
	}
}

// Spare declares a daemon that outlives the worker which started it: neither
// it nor its descendants are killed by Stop and Sweep. Such a daemon must be
// a subreaper itself, so that its descendants stay below it.
func Spare(id Identity) {
	tree.Lock()
	defer tree.Unlock()
	tree.spared[id] = struct{}{}
}

// Sweep kills and reaps the strays of this process, and returns how many it
// killed: descendants that belong neither to a live [Process] nor to a spared
// daemon. A stray that is younger than some live process may be a descendant
// of that one and is left until that has ended.
//
// It does something on Linux only, and there only in a process that called
// [BecomeSubreaper].
func Sweep() int { return sweep(nil) }

// environ returns the environment of spec with the last value of each name,
// and PWD where a working directory is given.
func environ(spec Spec) []string {
	env := spec.Env
	if env == nil {
		env = os.Environ()
	}
	if spec.Dir != "" && runtime.GOOS != "windows" {
		if pwd, err := filepath.Abs(spec.Dir); err == nil {
			env = append(slices.Clip(env), "PWD="+pwd)
		}
	}
	last := make(map[string]int, len(env))
	for i, kv := range env {
		last[envName(kv)] = i
	}
	out := make([]string, 0, len(last))
	for i, kv := range env {
		if last[envName(kv)] == i {
			out = append(out, kv)
		}
	}
	return completeEnv(out)
}

// lookEnv returns the last value of a variable in env.
func lookEnv(env []string, name string) (string, bool) {
	name = envName(name + "=")
	for _, kv := range slices.Backward(env) {
		if envName(kv) == name {
			_, value, _ := strings.Cut(kv, "=")
			return value, true
		}
	}
	return "", false
}

// explain tells the causes apart that the system reports as "no such file".
func explain(spec Spec, err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	if spec.Dir != "" {
		if info, e := os.Stat(spec.Dir); e != nil {
			return fmt.Errorf("start %s in directory %s: %w", spec.Path, spec.Dir, errors.Unwrap(e))
		} else if !info.IsDir() {
			return fmt.Errorf("start %s: %s is not a directory", spec.Path, spec.Dir)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		if _, e := os.Stat(spec.Path); e == nil {
			return fmt.Errorf("start %s: the file exists but not the interpreter that it names: %w", spec.Path, err)
		}
	}
	return fmt.Errorf("start %s: %w", spec.Path, err)
}
