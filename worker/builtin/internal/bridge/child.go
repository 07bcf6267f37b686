package bridge

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/holdfast-mcp/holdfast/internal/proc"
)

const (
	// eofGrace is how long a server may take to end after the end of its
	// input, and termGrace after TERM, before the next step of the ladder.
	eofGrace  = 500 * time.Millisecond
	termGrace = 500 * time.Millisecond
	// holdTime is how long stdout is read after the child's exit: a process
	// that it left behind may hold it open for ever.
	holdTime = 200 * time.Millisecond
)

// child is one running server with its ends of the pipes.
type child struct {
	*proc.Process

	stdin  *os.File // written by the queue's goroutine
	stdout *os.File // read by session.up

	closeStdin  func() error // once
	closeStdout func() error // once
}

// startChild starts the server of config in the bridge's process group.
func startChild(config Config) (*child, error) {
	dir, err := filepath.Abs(config.Dir)
	if err != nil {
		return nil, fmt.Errorf("working directory: %w", err)
	}
	path, err := proc.LookPath(config.Command, dir, config.Env)
	if err != nil {
		return nil, err
	}
	stdinR, stdinW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("stdin of the server: %w", err)
	}
	defer stdinR.Close()
	stdoutR, stdoutW, err := os.Pipe()
	if err != nil {
		stdinW.Close()
		return nil, fmt.Errorf("stdout of the server: %w", err)
	}
	defer stdoutW.Close()
	p, err := proc.Start(proc.Spec{
		Path:        path,
		Args:        config.Args,
		Dir:         dir,
		Env:         config.Env,
		Stdin:       stdinR,
		Stdout:      stdoutW,
		Stderr:      config.Stderr,
		ParentDeath: true,
	})
	if err != nil {
		stdinW.Close()
		stdoutR.Close()
		return nil, err
	}
	return &child{
		Process:     p,
		stdin:       stdinW,
		stdout:      stdoutR,
		closeStdin:  sync.OnceValue(stdinW.Close),
		closeStdout: sync.OnceValue(stdoutR.Close),
	}, nil
}

// endSoftly is the ladder of the MCP specification: the end of its input, then
// TERM, then KILL. It returns when the child is gone.
func (c *child) endSoftly() {
	_ = c.closeStdin()
	select {
	case <-c.Done():
		c.Stop(0)
	case <-time.After(eofGrace):
		c.Stop(termGrace)
	}
}

// endNow is for a bridge that has to go itself.
func (c *child) endNow() {
	_ = c.closeStdin()
	c.Stop(stopGrace)
}

// stopGrace between TERM and KILL when the bridge is stopped. The supervisor
// allows 250 ms to the whole group.
const stopGrace = 150 * time.Millisecond
