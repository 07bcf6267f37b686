package jupyter

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/zmtp"
)

// learnTime is how long after a heartbeat an execution must still go on to
// prove that the kernel has answered while it computed.
const learnTime = 500 * time.Millisecond

// heartbeats ends the kernel when, once it is ready, it has missed too many in
// a row.
//
// Most kernels answer in a thread of their own, and their silence means that
// they are stuck, whatever they compute. Others, such as that of R, answer
// between executions only. Which kind it is shows the first heartbeat that is
// sent while the kernel computes; until it has answered one in the middle of
// that, its silence counts only while it has nothing to do.
func (k *Kernel) heartbeats() {
	pause := time.NewTicker(k.config.Heartbeat)
	defer pause.Stop()
	var p pulse
	for n := 0; ; n++ {
		running := k.executing()
		echo := k.try(n)
		if echo == ended {
			return // and the kernel's life knows
		}
		first := !p.beating
		p.note(echo, k.resting())
		if first && p.beating {
			close(k.beating)
		}
		p.threaded = p.threaded || echo == answered && running != "" && k.stillExecutes(running)
		if p.missed == maxMisses {
			k.end(ErrStuck)
			return
		}
		computing := k.computing
		if p.threaded {
			computing = nil // known
		}
		select {
		case <-k.done:
			return
		case <-pause.C:
		case <-computing:
		}
	}
}

// pulse is what heartbeats have told of a kernel.
type pulse struct {
	beating  bool // it has answered one
	threaded bool // it answers while it computes
	missed   int  // in a row, and without an excuse
}

func (p *pulse) note(e echo, resting bool) {
	switch {
	case e == answered:
		p.beating, p.missed = true, 0
	case e == silent && p.beating && (p.threaded || resting):
		p.missed++
	case e == silent:
		p.missed = 0
	}
}

// echo is what came of one heartbeat.
type echo int

const (
	unsure echo = iota // this process, or the machine, has stood still
	answered
	silent
	ended
)

func (k *Kernel) try(n int) echo {
	ctx, cancel := context.WithTimeout(context.Background(), k.config.Heartbeat)
	defer cancel()
	began := time.Now()
	err := k.beat(ctx, n)
	switch {
	case err == nil:
		return answered
	case !errors.Is(err, context.DeadlineExceeded):
		return ended
	case time.Since(began) > 2*k.config.Heartbeat:
		return unsure
	}
	return silent
}

// executing returns the request that the kernel computes, empty if none is
// known.
func (k *Kernel) executing() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, begun := range k.open {
		if begun {
			return id
		}
	}
	return ""
}

// stillExecutes reports whether a request is still computed after a moment.
func (k *Kernel) stillExecutes(id string) bool {
	if k.awaitDone(learnTime) {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.open[id]
}

// resting reports whether the kernel is known to have nothing to do.
func (k *Kernel) resting() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.open) == 0 && !k.busy && !k.handing.Load()
}

// beat sends heartbeat n and waits for its echo.
func (k *Kernel) beat(ctx context.Context, n int) error {
	ping := strconv.Itoa(n)
	if err := k.conns[heartbeat].Send(ctx, zmtp.Message{[]byte(ping)}); err != nil {
		return err
	}
	for {
		m, err := k.conns[heartbeat].Receive(ctx)
		if err != nil {
			return err
		}
		if string(m[len(m)-1]) == ping {
			return nil
		}
	}
}
