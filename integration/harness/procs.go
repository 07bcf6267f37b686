package harness

import (
	"crypto/rand"
	"fmt"
	"os"
	"time"
)

// Proc is a process that descends from one that the harness started.
type Proc struct {
	PID  int
	Args []string
}

func (p Proc) String() string { return fmt.Sprintf("pid %d %q", p.PID, p.Args) }

// Kill ends the process at once.
func (p Proc) Kill() {
	if proc, err := os.FindProcess(p.PID); err == nil {
		_ = proc.Kill() // it may have ended by itself
	}
}

func newMark() string { return rand.Text() }

// Descendants returns the living processes that inherited the mark of the
// started command, without the command itself.
func (c *Client) Descendants() []Proc {
	var out []Proc
	for _, p := range Marked(c.tb, c.mark) {
		if p.PID != c.cmd.Process.Pid {
			out = append(out, p)
		}
	}
	return out
}

// AwaitNoDescendants waits until no descendant lives and returns those that
// still do after patience.
func (c *Client) AwaitNoDescendants(patience time.Duration) []Proc {
	deadline := time.Now().Add(patience)
	for {
		procs := c.Descendants()
		if len(procs) == 0 || time.Now().After(deadline) {
			return procs
		}
		<-time.After(10 * time.Millisecond) // between two looks at the process table
	}
}

// Await waits until condition holds, looking again and again; for what shows
// itself by no event, such as the process table.
func Await(c interface {
	Helper()
	Fatalf(format string, args ...any)
}, what string, condition func() bool,
) {
	c.Helper()
	deadline := time.Now().Add(Patience)
	for !condition() {
		if time.Now().After(deadline) {
			c.Fatalf("%s: out of patience", what)
			return
		}
		<-time.After(2 * time.Millisecond)
	}
}
