package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// patience is how long one step with a target may take before its processes
// are killed and the step fails.
const patience = 2 * time.Minute

// inPipe is the size up to which a message certainly fits into an empty pipe,
// so that writing it before reading the answer cannot block both sides.
const inPipe = 32 << 10

// client is one started target and the two pipes to it.
type client struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	buf []byte // last line
	ids int    // last id used
}

// start runs argv with env added to the environment, without the settings of
// the garbage collector that a target is to have its own of.
func start(argv, env []string) (*client, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "GOGC=") || strings.HasPrefix(kv, "GOMEMLIMIT=")
	}), env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &client{cmd: cmd, in: in, out: bufio.NewReaderSize(out, 256<<10)}, nil
}

// initialize is the first part of the handshake, whose answer ends the start.
func (c *client) initialize() error {
	c.ids++
	line := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"initialize","params":{"protocolVersion":"2025-06-18",`+
		`"capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`+"\n", c.ids)
	answer, err := c.roundTrip(line)
	if err != nil {
		return err
	}
	return checkID(answer, c.ids)
}

// initialized is the second part.
func (c *client) initialized() error {
	_, err := c.in.Write([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"))
	return err
}

// roundTrip writes a line and reads the next one, which is valid until the
// next call.
func (c *client) roundTrip(line []byte) ([]byte, error) {
	if len(line) <= inPipe {
		if _, err := c.in.Write(line); err != nil {
			return nil, err
		}
		return c.readLine()
	}
	written := make(chan error, 1)
	go func() { // ends with the write, at the latest when the target is gone
		_, err := c.in.Write(line)
		written <- err
	}()
	answer, err := c.readLine()
	return answer, errors.Join(err, <-written)
}

func (c *client) readLine() ([]byte, error) {
	c.buf = c.buf[:0]
	for {
		part, err := c.out.ReadSlice('\n')
		c.buf = append(c.buf, part...)
		if err == nil {
			return c.buf, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, fmt.Errorf("answer lost: %w", err)
		}
	}
}

// close ends the target as a client does, and returns when it is gone.
func (c *client) close() error {
	_ = c.in.Close()
	defer c.watch(10 * time.Second)()
	// Reading on lets a target end that still has something to say.
	if n, err := io.Copy(io.Discard, c.out); n > 0 || err != nil {
		_ = c.cmd.Wait()
		return fmt.Errorf("%d bytes after the last answer: %w", n, errors.Join(err, errBadAnswer))
	}
	_ = c.cmd.Wait() // how a target takes the end of its input is its own affair
	return nil
}

// watch kills the target and what descends from it unless the returned
// function is called within d.
func (c *client) watch(d time.Duration) (stop func() bool) {
	return time.AfterFunc(d, func() {
		for _, p := range tree(c.cmd.Process.Pid) {
			_ = killPID(p.PID) // it may have ended meanwhile
		}
		_ = c.cmd.Process.Kill()
	}).Stop
}

// killPID ends a process at once.
func killPID(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}
