package supervise

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-mcp/holdfast/protocol"
)

var crashed = protocol.Exit{Code: 3}

// SUP-1: a worker that is lost is replaced, at once and then with growing
// pauses; the client is told nothing but what becomes of its requests.
func TestReplacedAfterLoss(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		for n, pause := range []time.Duration{0, 0, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond} {
			f, c := w.serve(w.awaitStart(uint64(n+1), pause))
			if got := w.s.Status(); got.State != "serving" || got.Generation != f.number || got.Pid != f.Pid() || got.Crashes != n {
				t.Errorf("Status() = %+v", got)
			}
			f.die(crashed)
			loss := <-c.losses
			if loss.Generation != f.number || loss.Exit == nil || *loss.Exit != crashed || loss.Cause != "exited with code 3" || len(loss.StderrTail) != 1 {
				t.Errorf("loss %+v", loss)
			}
		}
		if n := w.downs(); n > 0 {
			t.Errorf("told %q", w.told)
		}
	})
}

// A sustained uptime makes the next restart an immediate one again.
func TestSustainedUptime(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		for n, pause := range []time.Duration{0, 0, 100 * time.Millisecond} {
			f, _ := w.serve(w.awaitStart(uint64(n+1), pause))
			f.die(crashed)
		}
		f, _ := w.serve(w.awaitStart(4, 200*time.Millisecond))
		time.Sleep(31 * time.Second)
		f.die(crashed)
		w.awaitStart(5, 0)
	})
}

// SUP-8: a start that fails is told at once with what was seen, and tried
// again.
func TestFailedStart(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		for n, pause := range []time.Duration{0, 0, 100 * time.Millisecond} {
			w.awaitStart(uint64(n+1), pause).fail(failure{crashed, []string{"last words"}})
			synctest.Wait()
			e := w.lastDown()
			if w.downs() != n+1 || e == nil {
				t.Fatalf("told %q", w.told)
			}
			if e.Kind != protocol.WorkerUnavailable || !e.Retryable || e.Generation != uint64(n+1) || e.Exit == nil || *e.Exit != crashed ||
				len(e.StderrTail) != 1 || e.Message != "the server cannot be started: no such luck" {
				t.Errorf("told %+v", e)
			}
		}
		w.serve(w.awaitStart(4, 200*time.Millisecond))
		if got, want := strings.Count(strings.Join(w.told, ";"), "starting"), 4; got != want {
			t.Errorf("told of %d starts, want %d: %q", got, want, w.told)
		}
	})
}

// After a worker that was well, one more start is tried before the client is
// told.
func TestFailedStartAfterService(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		f, _ := w.serve(w.awaitStart(1, 0))
		f.die(crashed)
		w.awaitStart(2, 0).fail(errors.New("text file busy"))
		synctest.Wait()
		if n := w.downs(); n != 0 {
			t.Errorf("told %q", w.told)
		}
		w.awaitStart(3, 100*time.Millisecond).fail(errors.New("text file busy"))
		synctest.Wait()
		if n := w.downs(); n != 1 {
			t.Errorf("told %q", w.told)
		}
	})
}

// A worker that dies before it has answered anything was never started.
func TestLostEarly(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		f := w.run(w.awaitStart(1, 0))
		c := <-f.conns
		c.ready <- struct{}{} // there was no handshake to tell it again
		synctest.Wait()
		f.die(crashed)
		synctest.Wait()
		if e := w.lastDown(); e == nil || e.Message != "the server exited with code 3 before it answered anything" {
			t.Errorf("told %+v", e)
		}
	})
}

func TestAttachFails(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		s := w.awaitStart(1, 0)
		f := &fakeWorker{world: w, number: 1, done: make(chan struct{}), refuse: errors.New("no session")}
		w.workers = append(w.workers, f)
		s.outcome <- started{worker: f}
		w.awaitStart(2, exitGrace)
		if e := w.lastDown(); e == nil || !strings.Contains(e.Message, "no session") || !f.isGone() {
			t.Errorf("told %+v", e)
		}
	})
}

// A worker that the client's session cannot use is a failed start.
func TestRefused(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		f := w.run(w.awaitStart(1, 0))
		c := <-f.conns
		c.set(func(c *fakeConn) { c.state = ConnState{Proven: true, Refused: "version_changed: it speaks 1"} })
		c.end()
		w.awaitStart(2, exitGrace)
		if e := w.lastDown(); e == nil || e.Message != "the server cannot be started: version_changed: it speaks 1" {
			t.Errorf("told %+v", e)
		}
		if !f.isGone() {
			t.Error("the worker lives on")
		}
	})
}

// SUP-8: a worker that never becomes ready is ended, and the client is told
// what to look for.
func TestNeverReady(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		f := w.run(w.awaitStart(1, 0))
		w.awaitStart(2, time.Minute)
		if e := w.lastDown(); e == nil || !strings.Contains(e.Message, "within 1m0s") || !strings.Contains(e.Message, "buffered?") {
			t.Errorf("told %+v", e)
		}
		if !f.isGone() {
			t.Error("the worker lives on")
		}
	})
}

// SUP-21: a session that its worker closes is opened anew, at no charge; the
// sixth within 30 s is one too many.
func TestSessionClosed(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		f, c := w.serve(w.awaitStart(1, 0))
		for i := range 5 {
			c.end()
			if loss := <-c.losses; loss.Exit != nil || loss.Cause != "closed its session" {
				t.Errorf("loss %+v", loss)
			}
			c = <-f.conns
			c.serve()
			if got := w.s.Status(); got.Generation != 1 || got.Crashes != 0 {
				t.Errorf("after %d: Status() = %+v", i+1, got)
			}
		}
		c.end()
		<-c.losses
		w.awaitStart(2, 0)
		if !f.isGone() || w.downs() > 0 {
			t.Errorf("the worker is gone: %v; told %q", f.isGone(), w.told)
		}
		if got := w.s.Status(); got.Crashes != 1 {
			t.Errorf("Status() = %+v", got)
		}
	})
}

func TestSessionClosedNowAndThen(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		f, c := w.serve(w.awaitStart(1, 0))
		for range 30 {
			time.Sleep(7 * time.Second)
			c.end()
			c = <-f.conns
			c.serve()
		}
		if f.isGone() {
			t.Error("the worker was replaced")
		}
	})
}

// A session that ends because its worker does is no closed session, even if
// the exit is seen a little later.
func TestExitAfterSession(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		f, c := w.serve(w.awaitStart(1, 0))
		c.end()
		time.Sleep(exitGrace / 2)
		f.die(crashed)
		if loss := <-c.losses; loss.Exit == nil || *loss.Exit != crashed {
			t.Errorf("loss %+v", loss)
		}
		w.awaitStart(2, 0)
	})
}

// SUP-3: a worker that takes no other session since it is about to exit with 75
// wants its upgrade.
func TestHandoffBetweenSessions(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		f, c := w.serve(w.awaitStart(1, 0))
		f.refuse = errors.New("stopping")
		c.end()
		time.Sleep(exitGrace + exitGrace/2)
		f.die(protocol.Exit{Code: protocol.ExitHandoff})
		w.serve(w.awaitStart(2, 0))
		if got := w.s.Status(); got.Crashes != 0 || got.Handoffs != 1 {
			t.Errorf("Status() = %+v", got)
		}
	})
}

// What a bridge says of its server counts, not what became of the bridge.
func TestExitFrame(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		f, c := w.serve(w.awaitStart(1, 0))
		killed := protocol.Exit{Code: -1, Signal: "SIGSEGV"}
		c.set(func(c *fakeConn) { c.state.Exit, c.state.Tail = &killed, []string{"of the server"} })
		f.die(protocol.Exit{})
		if loss := <-c.losses; *loss.Exit != killed || loss.StderrTail[0] != "of the server" {
			t.Errorf("loss %+v", loss)
		}
	})
}

// Whatever the phase, the end of the context ends the worker and Run; inWorld
// looks after both.
func TestEnd(t *testing.T) {
	for name, f := range map[string]func(*testing.T, *world){
		"before the start": func(*testing.T, *world) {},
		"starting":         func(_ *testing.T, w *world) { w.awaitStart(1, 0) },
		"not ready":        func(_ *testing.T, w *world) { w.run(w.awaitStart(1, 0)) },
		"serving":          func(_ *testing.T, w *world) { w.serve(w.awaitStart(1, 0)) },
		"session closed": func(_ *testing.T, w *world) {
			_, c := w.serve(w.awaitStart(1, 0))
			c.end()
			time.Sleep(exitGrace / 2)
		},
		"backoff": func(_ *testing.T, w *world) {
			w.awaitStart(1, 0).fail(errors.New("no"))
			w.awaitStart(2, 0).fail(errors.New("no"))
			time.Sleep(50 * time.Millisecond)
		},
		"candidate starting": func(_ *testing.T, w *world) {
			w.serve(w.awaitStart(1, 0))
			w.swap()
			w.awaitStart(2, 0)
		},
		"candidate not ready": func(_ *testing.T, w *world) {
			w.serve(w.awaitStart(1, 0))
			w.swap()
			w.run(w.awaitStart(2, 0))
		},
		"draining": func(_ *testing.T, w *world) {
			w.serve(w.awaitStart(1, 0))
			w.swap()
			w.serve(w.awaitStart(2, 0))
		},
	} {
		t.Run(name, func(t *testing.T) { inWorld(t, nil, f) })
	}
	t.Run("the loss", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world) {
			_, c := w.serve(w.awaitStart(1, 0))
			w.cancel()
			if loss := <-c.losses; loss.Exit != nil || loss.Cause != "was stopped at the end of the session" {
				t.Errorf("loss %+v", loss)
			}
		})
	})
}

// SUP-2, C06: beyond the budget nothing is started until the cooldown is over,
// and the client is told why.
func TestCircuit(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		pauses := []time.Duration{0, 0, 100, 200, 400, 800}
		for n, pause := range pauses {
			f, _ := w.serve(w.awaitStart(uint64(n+1), pause*time.Millisecond))
			f.die(crashed)
		}
		synctest.Wait()
		e := w.lastDown()
		if e == nil || !strings.Contains(e.Message, "--crash-budget") || *e.Exit != crashed {
			t.Fatalf("told %+v", e)
		}
		if got := w.s.Status(); got.State != "open" || got.Crashes != 6 || got.Reason == "" || len(got.Exits) != keptExits {
			t.Errorf("Status() = %+v", got)
		}
		w.s.Demand() // too early
		f, _ := w.serve(w.awaitStart(7, time.Minute))
		f.die(crashed)
		synctest.Wait()
		time.Sleep(11 * time.Second)
		w.s.Demand()
		w.serve(w.awaitStart(8, 0))
	})
}

// SUP-3, C16: exit code 75 is an upgrade: at once, and no crash.
func TestHandoff(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		for n := range uint64(3) {
			f, _ := w.serve(w.awaitStart(n+1, 0))
			f.die(protocol.Exit{Code: protocol.ExitHandoff})
		}
		synctest.Wait()
		if got := w.s.Status(); got.Crashes != 0 || got.Handoffs != 3 || got.State != "open" {
			t.Errorf("Status() = %+v", got)
		}
		if e := w.lastDown(); e == nil || !strings.Contains(e.Message, "--handoff-budget") {
			t.Errorf("told %+v", e)
		}
	})
}

// SUP-11: a worker that hangs is ended and replaced.
func TestHang(t *testing.T) {
	inWorld(t, func(c *Config) { c.HangTimeout = 8 * time.Second }, func(t *testing.T, w *world) {
		f, c := w.serve(w.awaitStart(1, 0))
		time.Sleep(time.Minute)
		if f.isGone() {
			t.Fatal("replaced for nothing")
		}
		c.set(func(c *fakeConn) { c.hung = true })
		loss := <-c.losses
		if !strings.Contains(loss.Cause, "hung") || !f.isGone() {
			t.Errorf("loss %+v", loss)
		}
		w.awaitStart(2, 0)
	})
}

func TestHideStderr(t *testing.T) {
	inWorld(t, func(c *Config) { c.HideStderr = true }, func(t *testing.T, w *world) {
		w.awaitStart(1, 0).fail(failure{crashed, []string{"last words"}})
		synctest.Wait()
		if e := w.lastDown(); e == nil || e.StderrTail != nil || e.Exit == nil {
			t.Errorf("told %+v", e)
		}
		f, c := w.serve(w.awaitStart(2, 0))
		f.die(crashed)
		if loss := <-c.losses; loss.StderrTail != nil || loss.Exit == nil {
			t.Errorf("loss %+v", loss)
		}
	})
}
