package rebuild

import (
	"sync"
	"time"

	"github.com/holdfast-mcp/holdfast/internal/ring"
)

// State is what a Rebuilder does, or did last.
type State string

// States.
const (
	// Idle: nothing has been asked for yet.
	Idle State = "idle"
	// Settling: files have changed, and may go on to.
	Settling State = "settling"
	// Waiting: another process builds the same.
	Waiting State = "waiting"
	// Building: the command runs, or what it made is looked at.
	Building State = "building"
	// OK: the last build, or look at the executable, ended well.
	OK State = "ok"
	// Failed: it did not, and what was started before goes on.
	Failed State = "failed"
)

// Status is a snapshot of a Rebuilder.
type Status struct {
	State State `json:"state"`
	// Since is when the state began.
	Since time.Time `json:"since"`
	// Command is the build, empty if there is none; Watch what is watched.
	Command string   `json:"command,omitempty"`
	Watch   []string `json:"watch,omitempty"`
	// Took is how long the last build ran that ended by itself.
	Took time.Duration `json:"took_ns,omitempty"`
	// Builds is how many have ended by themselves, Failures how many of them
	// in a row have failed until now.
	Builds   int `json:"builds"`
	Failures int `json:"failures,omitempty"`
	// Error is why the last one failed, Output what it wrote last; while one
	// runs, Output is its.
	Error  string   `json:"error,omitempty"`
	Output []string `json:"output,omitempty"`
}

// board is the status that Run writes and others read.
type board struct {
	mu     sync.Mutex
	status Status
	live   *ring.Ring // output of the build that runs, nil if none does
}

// Status returns a snapshot.
func (b *Rebuilder) Status() Status {
	b.board.mu.Lock()
	defer b.board.mu.Unlock()
	s := b.board.status
	if b.board.live != nil {
		s.Output = b.board.live.Tail()
	}
	return s
}

func (b *board) enter(state State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.status.State != state {
		b.status.State, b.status.Since = state, time.Now()
	}
	b.live = nil
}

func (b *board) writes(output *ring.Ring) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live = output
}

// ended notes the end of a build that was not ended by us.
func (b *board) ended(err error, took time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live = nil
	s := &b.status
	s.Builds, s.Took, s.Since = s.Builds+1, took, time.Now()
	if err == nil {
		s.State, s.Failures, s.Error, s.Output = OK, 0, "", nil
		return
	}
	s.State, s.Failures = Failed, s.Failures+1
	s.Error, s.Output = describe(err)
}
