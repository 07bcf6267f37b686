package check

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/holdfast-mcp/holdfast/internal/proc"
	"github.com/holdfast-mcp/holdfast/protocol"
)

// The bounds of a worker's end.
const (
	// killedAfter is when supervisors kill a worker that they have asked to
	// end.
	killedAfter = 250 * time.Millisecond
	// endPatience is how long a worker may take where nobody kills it.
	endPatience = 5 * time.Second
)

// endChecks end the worker.
var endChecks = []check{
	{"interrupt", "The end of the process", "INT is ignored", needSession, checkInterrupt},
	{"process group", "The end of the process; SUP-12", "what the worker starts stays in its process group", needSession, checkGroup},
	{"environment", "Start; SUP-18", "no handshake in the environment of what it starts", needSession, checkEnvironment},
	{"exit", "The end of a session; SUP-1", "EXIT as the last frame when the server behind a session ends", needSession, checkExit},
	{"end of input", "The end of the process; SUP-12", "it ends, with all below it, at the end of its stdin", wantSession, checkEndOfInput},
	{"terminate", "The end of the process; SUP-12", "it ends, with all below it, on TERM", wantSession, checkTerminate},
	{"other wire version", "Start; SUP-17", "a supervisor of a far version is not agreed with", needWorkerLine, checkOtherVersion},
	{"no supervisor", "Start", "without the cookie no handshake", needWorkerLine, checkNoSupervisor},
}

// finalChecks judge what came meanwhile.
var finalChecks = []check{
	{
		"frames", "Session, Cancellation", "payloads of one line, each what its kind says", needNothing,
		func(_ context.Context, c *checker) finding { return c.frames.verdict() },
	},
	{
		"stdout", "Start", "nothing but the handshake line", needNothing,
		func(_ context.Context, c *checker) finding {
			c.endWorker()
			if c.strays > 0 {
				return note("%d other lines, taken for log text: %s", c.strays, joined(c.stray, c.strays))
			}
			return ok("nothing else")
		},
	},
}

func checkInterrupt(ctx context.Context, c *checker) finding {
	p, err := os.FindProcess(c.life.process.Pid())
	if err == nil {
		err = p.Signal(os.Interrupt)
	}
	if err != nil {
		return skip("it cannot be sent here: %v", err)
	}
	select {
	case <-c.life.process.Done():
		return note("it ended (%v); only the supervisor should act on INT", c.life.process.Exit())
	case <-time.After(settle):
	}
	if err := c.serves(ctx, c.session); err != nil {
		return note("after INT: %v", err)
	}
	return ok("ignored")
}

func checkGroup(ctx context.Context, c *checker) finding {
	pid := c.life.process.Pid()
	below, err := descendants(pid)
	if err != nil {
		return skip("%v", err)
	}
	reported := c.reported(ctx)
	outside := 0
	for _, p := range below {
		if p.group == pid {
			continue
		}
		if reported[p.pid] || reported[p.parent] || reported[p.group] {
			reported[p.pid] = true // parents come before their children
			continue
		}
		outside++
	}
	switch {
	case len(below) == 0:
		return skip("it has started no process")
	case outside > 0:
		return fail("%d of %d processes are in other groups, which Lifecycle does not report", outside, len(below))
	}
	return ok("%d processes", len(below))
}

// reported returns the process groups and daemons that the worker reports.
func (c *checker) reported(ctx context.Context) map[int]bool {
	ids := make(map[int]bool)
	events, _ := c.life.events(ctx) // an error is for the check of Lifecycle
	for _, event := range events {
		if group := event.GetChildGroup(); group != nil && !group.GetEnded() {
			ids[int(group.GetPgid())] = true
		}
		if daemon := event.GetDetached(); daemon != nil {
			ids[int(daemon.GetPid())] = true
		}
	}
	return ids
}

func checkEnvironment(_ context.Context, c *checker) finding {
	below, err := descendants(c.life.process.Pid())
	if err != nil {
		return skip("%v", err)
	}
	looked := 0
	for _, p := range below {
		if int64(p.pid) == c.life.info.GetPid() {
			continue // the worker itself, below a wrapper
		}
		environ, err := environOf(p.pid)
		if err != nil {
			continue // it has ended
		}
		looked++
		for _, kv := range environ {
			if name, _, _ := strings.Cut(kv, "="); protocol.IsHandshakeVariable(name) {
				return fail("%s in the environment of process %d", name, p.pid)
			}
		}
	}
	if looked == 0 {
		return skip("it has started no process")
	}
	return ok("%d processes", looked)
}

// checkExit kills the server behind the session, where it is a process.
func checkExit(ctx context.Context, c *checker) finding {
	if !c.life.declares(protocol.FeatureExit) {
		return skip("it does not declare %s", protocol.FeatureExit)
	}
	killed, err := c.killServer()
	if err != nil {
		return skip("%v", err)
	}
	if killed == 0 {
		return skip("the server is the worker itself")
	}
	s := c.session
	if err := s.until(ctx, func() bool { return s.exit != nil }); err != nil {
		return fail("no EXIT after KILL of the server: %v", err)
	}
	// The stream has to end without a further frame; the ledger sees those.
	if err := s.until(ctx, func() bool { return s.ended != nil }); err != nil {
		return fail("the stream stays open after EXIT")
	}
	if !c.life.endsWithin(ctx, endPatience) {
		return fail("the process lives on after EXIT")
	}
	if s.exit.GetSignal() != "SIGKILL" {
		return note("EXIT with code %d and signal %q, while KILL ended the server", s.exit.GetCode(), s.exit.GetSignal())
	}
	return ok("EXIT with SIGKILL, then the process ended: %v", c.life.process.Exit())
}

// killServer kills the children of the worker, which may be below a wrapper,
// and returns how many they were.
func (c *checker) killServer() (int, error) {
	below, err := descendants(c.life.process.Pid())
	if err != nil {
		return 0, err
	}
	worker := c.life.process.Pid()
	for _, p := range below {
		if int64(p.pid) == c.life.info.GetPid() {
			worker = p.pid
		}
	}
	killed := 0
	for _, p := range below {
		if p.parent != worker {
			continue
		}
		if child, err := os.FindProcess(p.pid); err == nil && child.Kill() == nil {
			killed++
		}
	}
	return killed, nil
}

// endsWithin waits for the end of the process.
func (l *life) endsWithin(ctx context.Context, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-l.process.Done():
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

func checkEndOfInput(ctx context.Context, c *checker) finding {
	began := time.Now()
	c.life.closeStdin()
	if !c.life.endsWithin(ctx, endPatience) {
		return fail("it lives on after %d ms", time.Since(began).Milliseconds())
	}
	took := time.Since(began)
	awaitGroupGone(c.life.process.Pid()) // the rest of the group is killed with its leader
	if left := proc.Sweep(); left > 0 {
		return fail("it ended after %d ms, but left %d processes outside its group", took.Milliseconds(), left)
	}
	return ok("%v after %d ms", c.life.process.Exit(), took.Milliseconds())
}

func checkTerminate(ctx context.Context, c *checker) finding {
	began := time.Now()
	limit := endPatience
	if deadline, has := ctx.Deadline(); has {
		limit = min(limit, time.Until(deadline))
	}
	// It returns when the whole group has ended, or was killed.
	c.life.process.Stop(limit)
	took := time.Since(began)
	switch {
	case took >= limit:
		return fail("it, or what it started, had to be killed after %v", limit.Round(time.Millisecond))
	case took > killedAfter:
		return note("%v after %d ms; supervisors kill after %d", c.life.process.Exit(), took.Milliseconds(), killedAfter.Milliseconds())
	}
	return ok("%v after %d ms", c.life.process.Exit(), took.Milliseconds())
}

// farVersion is a wire version that no worker speaks.
const farVersion = 1 << 20

func checkOtherVersion(ctx context.Context, c *checker) finding {
	c.endWorker()
	life, err := start(c.config, startup{cookie: true, versions: fmt.Sprint(farVersion)})
	if err != nil {
		return fail("%v", err)
	}
	c.life = life
	defer c.endWorker()
	line, err := life.announced(ctx)
	switch {
	case line.line == "" && !life.alive():
		return note("%v; the user would like to know what it speaks", err)
	case line.line == "":
		return fail("%v", err)
	case line.wire == farVersion:
		return fail("it claims to speak version %d", farVersion)
	}
	return ok("it names %d", line.wire)
}

func checkNoSupervisor(ctx context.Context, c *checker) finding {
	c.endWorker()
	life, err := start(c.config, startup{})
	if err != nil {
		return fail("%v", err)
	}
	c.life = life
	defer c.endWorker()
	life.closeStdin()
	ended := life.endsWithin(ctx, endPatience)
	select {
	case line := <-life.line:
		return fail("it prints %.80q", strings.TrimSpace(line))
	default:
	}
	life.forgetPrinted() // plain stdio, or a word of explanation
	if !ended {
		return note("it lives on after the end of its stdin")
	}
	return ok("%v", life.process.Exit())
}

// forgetPrinted is for a worker that was not to keep its stdout clean.
func (l *life) forgetPrinted() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stray, l.strays = nil, 0
}
