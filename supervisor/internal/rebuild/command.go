package rebuild

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/holdfast-mcp/holdfast/internal/logging"
	"github.com/holdfast-mcp/holdfast/internal/proc"
	"github.com/holdfast-mcp/holdfast/internal/ring"
)

// stopGrace is how long a build has between TERM and KILL.
const stopGrace = 250 * time.Millisecond

// outputGrace is how long the end of a build's output is waited for after its
// exit; what it has left behind in the background may hold it for ever.
const outputGrace = 50 * time.Millisecond

// errSuperseded is the cause of the end of a build that another follows.
var errSuperseded = errors.New("superseded by a newer change")

// Error tells why there is nothing new to start. Its text has the last lines of
// the build's output.
type Error struct {
	// What completes the sentence "...", such as "the build failed with exit
	// code 1".
	What string
	// Output has the last lines that the build wrote, sanitised.
	Output []string
}

func (e *Error) Error() string {
	return strings.Join(append([]string{e.What}, e.Output...), "\n")
}

// command is the build, as a person would type it.
type command struct {
	text string
	dir  string
	env  []string
	mask []string
	log  *zap.Logger
}

// run runs the command once it has the lock, and then after, which looks at what
// was made before any other build writes to it. If another process has built
// the same since the last change that matters, that is as good. An error is an
// *Error, or the cause of the end of ctx.
func (c command) run(ctx context.Context, p progress, after func(context.Context) error) error {
	l, err := lockFor(c.text, c.dir)
	if err == nil {
		defer l.Close()
		err = lock(ctx, l, p.waits)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil { // it only keeps builds apart
		c.log.Warn("building without a lock", zap.Error(err))
	}
	built := c.stampOf(l)
	since := p.begins(ctx)
	if built.isSince(since) {
		c.log.Info("another holdfast has built this")
		return after(ctx)
	}
	began := time.Now()
	if err := c.build(ctx, p); err != nil {
		return err
	}
	built.note(began)
	return after(ctx)
}

// build runs the command.
func (c command) build(ctx context.Context, p progress) error {
	tail := ring.New(ring.Options{Mask: c.mask, Sink: func(line string) {
		c.log.Info("build", zap.String(logging.FieldLine, line))
	}})
	p.writes(tail)
	exit, err := c.exec(ctx, tail)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return &Error{What: "the build could not be started: " + err.Error()}
	case exit != proc.Exit{}:
		return &Error{What: "the build failed with " + exit.String(), Output: tail.Tail()}
	}
	return nil
}

// exec runs the command to its end, or until ctx ends. Nothing of its process
// group is left then.
func (c command) exec(ctx context.Context, output io.WriteCloser) (proc.Exit, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return proc.Exit{}, err
	}
	defer r.Close()
	path, args, env := shell(c.text, c.env)
	child, err := proc.Start(proc.Spec{
		Path: path, Args: args, Dir: c.dir, Env: env, Stdout: w, Stderr: w, Group: true, ParentDeath: true,
	})
	w.Close()
	if err != nil {
		return proc.Exit{}, err
	}
	read := make(chan struct{})
	go func() { // ends when nobody holds the pipe, or r is closed
		_, _ = io.Copy(output, r)
		output.Close()
		close(read)
	}()
	select {
	case <-child.Done():
	case <-ctx.Done():
		child.Stop(stopGrace)
		<-child.Done()
	}
	select {
	case <-read:
	case <-time.After(outputGrace):
		r.Close()
		<-read
	}
	return child.Exit(), nil
}

// describe is the error of a build for status and log, without its output.
func describe(err error) (what string, output []string) {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.What, e.Output
	}
	return fmt.Sprint(err), nil
}
