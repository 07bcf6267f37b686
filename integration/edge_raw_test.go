package integration

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// rawClient is a client that reads when it is told to, for tests in which it
// does not, and whose pipes end when the test says so.
type rawClient struct {
	t      *testing.T
	cmd    *exec.Cmd
	mark   string
	in     *os.File
	out    *os.File
	err    *os.File // read end of stderr; nobody reads it
	lines  *bufio.Reader
	exited chan struct{} // closed once the process was waited for
}

func startRaw(t *testing.T, command []string, env ...string) *rawClient {
	t.Helper()
	c := &rawClient{t: t, mark: rand.Text(), exited: make(chan struct{})}
	c.cmd = exec.Command(command[0], command[1:]...)
	c.cmd.Env = slices.Concat(os.Environ(), harness.ColdCache(t), []string{harness.MarkVariable + "=" + c.mark}, env)
	var theirs [3]*os.File
	for i, ours := range []**os.File{&c.in, &c.out, &c.err} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			r, w = w, r
		}
		*ours, theirs[i] = r, w
	}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = theirs[0], theirs[1], theirs[2]
	c.lines = bufio.NewReaderSize(c.out, 1<<16)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range theirs {
		f.Close()
	}
	go func() { // ends with the process, which clean-up kills at the latest
		_ = c.cmd.Wait() // the state says how it ended
		close(c.exited)
	}()
	t.Cleanup(func() {
		c.in.Close()
		c.out.Close()
		c.err.Close()
		select {
		case <-c.exited:
		case <-time.After(10 * time.Second):
			t.Error("the command does not end")
			_ = c.cmd.Process.Kill()
			<-c.exited
		}
		c.expectNothingLeft()
	})
	return c
}

// expectNothingLeft fails the test for each process that is left, and ends it.
func (c *rawClient) expectNothingLeft() {
	c.t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	left := harness.Marked(c.t, c.mark)
	for len(left) > 0 && time.Now().Before(deadline) {
		<-time.After(5 * time.Millisecond) // between two looks at the process table
		left = harness.Marked(c.t, c.mark)
	}
	for _, p := range left {
		c.t.Errorf("left behind: %v", p)
		p.Kill()
	}
}

// send writes one line and reports whether the process took it in time.
func (c *rawClient) send(line string, patience time.Duration) bool {
	c.t.Helper()
	if err := c.in.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		c.t.Fatal(err)
	}
	_, err := io.WriteString(c.in, line+"\n")
	return err == nil
}

// must writes one line.
func (c *rawClient) must(line string) {
	c.t.Helper()
	if !c.send(line, harness.Patience) {
		c.t.Fatalf("holdfast does not take %.100s", line)
	}
}

// until reads lines up to the first that contains text, and returns it and how
// many came before.
func (c *rawClient) until(text string) (line string, before int) {
	c.t.Helper()
	if err := c.out.SetReadDeadline(time.Now().Add(harness.Patience)); err != nil {
		c.t.Fatal(err)
	}
	for ; ; before++ {
		line, err := c.lines.ReadString('\n')
		if err != nil {
			c.t.Fatalf("waiting for %s: %v", text, err)
		}
		if strings.Contains(line, text) {
			return line, before
		}
	}
}

func (c *rawClient) initialize() {
	c.t.Helper()
	c.must(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`)
	c.until(`"id":0`)
	c.must(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// wait returns how the process ended.
func (c *rawClient) wait() *os.ProcessState {
	c.t.Helper()
	select {
	case <-c.exited:
		return c.cmd.ProcessState
	case <-time.After(harness.Patience):
		c.t.Fatal("the command does not end")
		return nil
	}
}

// peak calls f and returns the largest resident set, in KiB, that the process
// was seen with meanwhile.
func (c *rawClient) peak(f func()) int { return peakOf(c.t, c.cmd.Process.Pid, f) }

func peakOf(t *testing.T, pid int, f func()) int {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	seen := make(chan int)
	go func() { // ends by cancel
		most := 0
		for ctx.Err() == nil {
			if kb, err := rss(pid); err == nil {
				most = max(most, kb)
			}
			<-time.After(5 * time.Millisecond) // between two looks
		}
		seen <- most
	}()
	f()
	cancel()
	return <-seen
}

func rss(pid int) (int, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmRSS:" {
			return strconv.Atoi(fields[1])
		}
	}
	return 0, errors.New("no VmRSS")
}
