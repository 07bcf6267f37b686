package supervise

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-mcp/holdfast/protocol"
)

// C15: the new worker is ready before the old one is let go, which answers
// what it has.
func TestOverlap(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		old, oldConn := w.serve(w.awaitStart(1, 0))
		done := w.swap()
		s := w.awaitStart(2, 0)
		if got := w.s.Status(); got.State != "swapping" || got.Generation != 1 {
			t.Errorf("Status() = %+v", got)
		}
		_, c := w.serve(s)
		if o := <-done; o.Generation != 2 || o.Err != nil {
			t.Errorf("outcome %+v", o)
		}
		if got := w.s.Status(); got.Generation != 2 || len(got.Draining) != 1 || got.Draining[0] != 1 || !c.promoted {
			t.Errorf("Status() = %+v", got)
		}
		if old.isGone() {
			t.Fatal("the old worker was not let drain")
		}
		close(oldConn.drained)
		if loss := <-oldConn.losses; loss.Cause != "was replaced" {
			t.Errorf("loss %+v", loss)
		}
		synctest.Wait()
		if got := w.s.Status(); !old.isGone() || len(got.Draining) > 0 || got.Crashes > 0 {
			t.Errorf("gone: %v, Status() = %+v", old.isGone(), got)
		}
	})
}

func TestDrainDeadline(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		old, oldConn := w.serve(w.awaitStart(1, 0))
		w.swap()
		w.serve(w.awaitStart(2, 0))
		began := time.Now()
		loss := <-oldConn.losses
		if d := time.Since(began); d != 10*time.Second || !strings.Contains(loss.Cause, "drain timeout") || !old.isGone() {
			t.Errorf("after %v: loss %+v", d, loss)
		}
	})
}

// TestDrainChain: a chain of requests that the old worker has begun extends its
// drain.
func TestDrainChain(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		_, oldConn := w.serve(w.awaitStart(1, 0))
		w.swap()
		w.serve(w.awaitStart(2, 0))
		began := time.Now()
		oldConn.set(func(c *fakeConn) { c.chain = began.Add(25 * time.Second) })
		<-oldConn.losses
		if d := time.Since(began); d != 25*time.Second {
			t.Errorf("ended after %v, want 25s", d)
		}
	})
}

// TestDrainChainSequential: nothing serves while it drains, so a chain that the
// client may have given up extends nothing.
func TestDrainChainSequential(t *testing.T) {
	inWorld(t, func(c *Config) { c.Mode = Sequential }, func(t *testing.T, w *world) {
		_, conn := w.serve(w.awaitStart(1, 0))
		began := time.Now()
		conn.set(func(c *fakeConn) { c.chain = began.Add(time.Minute) })
		w.swap()
		<-conn.losses
		if d := time.Since(began); d != 10*time.Second {
			t.Errorf("ended after %v, want 10s", d)
		}
		w.serve(w.awaitStart(2, 0))
	})
}

// TestProbeIsNotCharged: EDGE-7. A server that dies of a probe is started again
// at once.
func TestProbeIsNotCharged(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		f, conn := w.serve(w.awaitStart(1, 0))
		conn.set(func(c *fakeConn) { c.state.DiedOfProbe = true })
		f.die(crashed)
		w.serve(w.awaitStart(2, 0))
		if got := w.s.Status(); got.Crashes != 0 || w.downs() > 0 {
			t.Errorf("Status() = %+v, told %q", got, w.told)
		}
	})
}

// TestFreshSession: EDGE-7. A session that asks for another one gets it, as
// often as it likes.
func TestFreshSession(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		f, conn := w.serve(w.awaitStart(1, 0))
		for range 2 * sessionBudget {
			conn.set(func(c *fakeConn) { c.state.Renewed = true })
			conn.end()
			conn = <-f.conns
		}
		if got := w.s.Status(); f.isGone() || got.Generation != 1 || got.Crashes != 0 {
			t.Errorf("Status() = %+v", got)
		}
	})
}

// SUP-6: a worker that is lost before it has answered anything, while its
// replacement starts, answers nobody who waits for that one, and starts no
// other beside it.
func TestLostEarlyDuringSwap(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		f := w.run(w.awaitStart(1, 0))
		(<-f.conns).ready <- struct{}{}
		synctest.Wait()
		first := w.swap()
		s := w.awaitStart(2, 0)
		s.resolved()
		second := w.swap()
		f.die(crashed)
		time.Sleep(time.Second)
		select {
		case o := <-first:
			t.Fatalf("the swap was answered while its worker starts: %+v", o)
		case other := <-w.starts:
			t.Fatalf("%d was started beside 2", other.number)
		default:
		}
		if got := w.s.Status(); got.State != "starting" || got.Crashes != 1 || w.downs() > 0 {
			t.Errorf("Status() = %+v, told %q", got, w.told)
		}
		w.serve(s)
		if o := <-first; o.Generation != 2 || o.Err != nil {
			t.Errorf("outcome %+v", o)
		}
		w.serve(w.awaitStart(3, 0))
		if o := <-second; o.Generation != 3 || o.Err != nil {
			t.Errorf("outcome of the second %+v", o)
		}
	})
}

// SUP-6: a worker that is about to open another session when it has to make
// room does not serve with that one.
func TestSessionOpenedWhileRetired(t *testing.T) {
	inWorld(t, func(c *Config) { c.Mode = Sequential }, func(t *testing.T, w *world) {
		f, c := w.serve(w.awaitStart(1, 0))
		f.attaching = make(chan struct{})
		c.end()
		time.Sleep(exitGrace)
		synctest.Wait()
		done := w.swap()
		close(f.attaching)
		next := <-f.conns
		synctest.Wait()
		next.set(func(c *fakeConn) {
			if !c.retired {
				t.Error("the new session of the old worker serves on")
			}
		})
		close(next.drained)
		w.serve(w.awaitStart(2, 0))
		if o := <-done; o.Generation != 2 || o.Err != nil {
			t.Errorf("outcome %+v", o)
		}
	})
}

// A candidate that fails changes nothing and is charged to nothing.
func TestCandidateFails(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		f, c := w.serve(w.awaitStart(1, 0))
		done := w.swap()
		w.awaitStart(2, 0).fail(errors.New("does not compile"))
		if o := <-done; o.Generation != 1 || o.Err == nil || !strings.Contains(o.Err.Error(), "does not compile") {
			t.Errorf("outcome %+v", o)
		}
		synctest.Wait()
		if got := w.s.Status(); got.State != "serving" || got.Generation != 1 || got.Crashes != 0 || w.downs() > 0 || f.isGone() {
			t.Errorf("Status() = %+v, told %q", got, w.told)
		}
		done = w.swap()
		candidate := w.run(w.awaitStart(3, 0))
		(<-candidate.conns).set(func(c *fakeConn) { c.state.Refused = "version_changed" })
		candidate.die(crashed)
		if o := <-done; o.Generation != 1 || o.Err == nil || !strings.Contains(o.Err.Error(), "version_changed") {
			t.Errorf("outcome %+v", o)
		}
		select {
		case l := <-c.losses:
			t.Errorf("the serving worker was lost: %+v", l)
		default:
		}
	})
}

// SUP-6: a trigger joins a start whose executable is not resolved yet; all that
// come later have one follow-up together.
func TestTriggers(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.serve(w.awaitStart(1, 0))
		first := w.swap()
		s := w.awaitStart(2, 0)
		joined := w.swap()
		s.resolved()
		late, later := w.swap(), w.swap()
		w.serve(s)
		for _, o := range []Outcome{<-first, <-joined} {
			if o.Generation != 2 || o.Err != nil {
				t.Errorf("outcome %+v", o)
			}
		}
		w.serve(w.awaitStart(3, 0))
		for _, o := range []Outcome{<-late, <-later} {
			if o.Generation != 3 || o.Err != nil {
				t.Errorf("outcome %+v", o)
			}
		}
		select {
		case s := <-w.starts:
			t.Errorf("start of %d for nobody", s.number)
		case <-time.After(time.Hour):
		}
	})
}

// The serving worker dies while a candidate starts: the candidate is its
// replacement.
func TestLostDuringSwap(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		f, _ := w.serve(w.awaitStart(1, 0))
		done := w.swap()
		s := w.awaitStart(2, 0)
		f.die(crashed)
		synctest.Wait()
		w.serve(s)
		if o := <-done; o.Generation != 2 || o.Err != nil {
			t.Errorf("outcome %+v", o)
		}
		if got := w.s.Status(); got.State != "serving" || got.Crashes != 1 {
			t.Errorf("Status() = %+v", got)
		}
		select {
		case s := <-w.starts:
			t.Errorf("another start, of %d", s.number)
		case <-time.After(time.Hour):
		}
	})
}

// A candidate that fails after the serving worker has died is a start that
// failed.
func TestLostDuringSwapThatFails(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		f, _ := w.serve(w.awaitStart(1, 0))
		done := w.swap()
		s := w.awaitStart(2, 0)
		f.die(crashed)
		synctest.Wait()
		s.fail(errors.New("no"))
		if o := <-done; o.Generation != 0 || o.Err == nil {
			t.Errorf("outcome %+v", o)
		}
		w.serve(w.awaitStart(3, 100*time.Millisecond))
	})
}

// The loss of a draining worker is its own end and nobody else's.
func TestLostWhileDraining(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		old, oldConn := w.serve(w.awaitStart(1, 0))
		w.swap()
		f, _ := w.serve(w.awaitStart(2, 0))
		old.die(crashed)
		if loss := <-oldConn.losses; loss.Exit == nil || *loss.Exit != crashed {
			t.Errorf("loss %+v", loss)
		}
		synctest.Wait()
		if got := w.s.Status(); got.Crashes != 0 || got.Generation != 2 || f.isGone() {
			t.Errorf("Status() = %+v", got)
		}
	})
}

// Sequential: never two workers at a time.
func TestSequential(t *testing.T) {
	inWorld(t, func(c *Config) { c.Mode = Sequential }, func(t *testing.T, w *world) {
		old, oldConn := w.serve(w.awaitStart(1, 0))
		done := w.swap()
		if !oldConn.retired {
			t.Error("the old worker still serves")
		}
		time.Sleep(time.Second)
		close(oldConn.drained)
		s := w.awaitStart(2, 0)
		if !old.isGone() {
			t.Error("two workers at a time")
		}
		w.serve(s)
		if o := <-done; o.Generation != 2 || o.Err != nil {
			t.Errorf("outcome %+v", o)
		}
	})
}

// A worker that asks for its upgrade is replaced while it still serves.
func TestHandoffWanted(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		old, _ := w.serve(w.awaitStart(1, 0))
		close(old.handoff)
		w.serve(w.awaitStart(2, 0))
		if got := w.s.Status(); got.Generation != 2 || got.Handoffs != 1 || got.Crashes != 0 {
			t.Errorf("Status() = %+v", got)
		}
	})
}

// A swap re-arms an open circuit; one that comes at the end is told so.
func TestSwapRearms(t *testing.T) {
	inWorld(t, func(c *Config) { c.Policy.Crash.Count = 0 }, func(t *testing.T, w *world) {
		w.awaitStart(1, 0).fail(errors.New("no"))
		synctest.Wait()
		if got := w.s.Status(); got.State != "open" {
			t.Errorf("Status() = %+v", got)
		}
		done := w.swap()
		w.serve(w.awaitStart(2, 0))
		if o := <-done; o.Generation != 2 {
			t.Errorf("outcome %+v", o)
		}
		w.cancel()
		<-w.ran
		if _, err := w.s.Swap(t.Context()); !errors.Is(err, ErrEnded) {
			t.Errorf("Swap() at the end = %v", err)
		}
		w.ran <- nil
	})
}

// Sequential: a swap that is asked for while the old worker ends is the same
// one.
func TestSequentialTwice(t *testing.T) {
	inWorld(t, func(c *Config) { c.Mode = Sequential }, func(t *testing.T, w *world) {
		_, oldConn := w.serve(w.awaitStart(1, 0))
		first, second := w.swap(), w.swap()
		select {
		case s := <-w.starts:
			t.Fatalf("start of %d beside the old worker", s.number)
		case <-time.After(time.Second):
		}
		close(oldConn.drained)
		w.serve(w.awaitStart(2, 0))
		for _, o := range []Outcome{<-first, <-second} {
			if o.Generation != 2 || o.Err != nil {
				t.Errorf("outcome %+v", o)
			}
		}
		select {
		case s := <-w.starts:
			t.Errorf("start of %d for nobody", s.number)
		case <-time.After(time.Hour):
		}
	})
}

// A follow-up does not wait for a worker that drains.
func TestFollowUpBesideDraining(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.serve(w.awaitStart(1, 0))
		w.swap()
		f, _ := w.serve(w.awaitStart(2, 0)) // 1 drains for 10 s
		w.swap()
		s := w.awaitStart(3, 0)
		s.resolved()
		late := w.swap()
		f.die(crashed)
		synctest.Wait()
		s.fail(errors.New("no"))
		w.serve(w.awaitStart(4, 0))
		if o := <-late; o.Generation != 4 || o.Err != nil {
			t.Errorf("outcome %+v", o)
		}
	})
}

// SUP-3: beyond the limiter a worker that asks for its upgrade is not replaced,
// and its exit starts nothing at once.
func TestHandoffWantedForEver(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		for n := range uint64(2) {
			f, _ := w.serve(w.awaitStart(n+1, 0))
			close(f.handoff)
			synctest.Wait()
		}
		f, _ := w.serve(w.awaitStart(3, 0))
		close(f.handoff)
		time.Sleep(5 * time.Second)
		if got := w.s.Status(); got.Generation != 3 || got.State != "serving" {
			t.Errorf("Status() = %+v", got)
		}
		f.die(protocol.Exit{Code: protocol.ExitHandoff})
		synctest.Wait()
		if got := w.s.Status(); got.State != "open" || got.Handoffs != 3 || got.Crashes != 0 {
			t.Errorf("Status() = %+v", got)
		}
		w.serve(w.awaitStart(4, 55*time.Second))
	})
}

// C12: a silent kill right after the exec has a usual cause.
func TestKilledAtExec(t *testing.T) {
	killed := protocol.Exit{Code: -1, Signal: "SIGKILL"}
	for _, tt := range []struct {
		name string
		exit protocol.Exit
		tail []string
		late time.Duration
		want bool
	}{
		{"at once", killed, nil, execGrace - 1, true},
		{"later", killed, nil, execGrace, false},
		{"with words", killed, []string{"out of memory"}, 0, false},
		{"another end", crashed, nil, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, nil, func(t *testing.T, w *world) {
				w.serve(w.awaitStart(1, 0))
				done := w.swap()
				s := w.awaitStart(2, 0)
				s.resolved()
				time.Sleep(tt.late)
				s.outcome <- started{err: failure{tt.exit, tt.tail}}
				if o := <-done; o.Err == nil || strings.Contains(o.Err.Error(), killedAtExec) != tt.want {
					t.Errorf("start: outcome %+v", o)
				}
				done = w.swap()
				f := w.run(w.awaitStart(3, 0))
				c := <-f.conns
				time.Sleep(tt.late)
				c.set(func(c *fakeConn) { c.state.Exit, c.state.Tail = &tt.exit, tt.tail })
				f.silent = tt.tail == nil
				c.end()
				if o := <-done; o.Err == nil || strings.Contains(o.Err.Error(), killedAtExec) != tt.want {
					t.Errorf("session: outcome %+v", o)
				}
			})
		})
	}
}

// A candidate that was ready and cannot be promoted, because the client has
// shaken hands meanwhile, is promoted when it is ready again, or is lost.
func TestReadyAgain(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.serve(w.awaitStart(1, 0))
		ready := func(s *starting) (*fakeWorker, *fakeConn) {
			f := w.run(s)
			c := <-f.conns
			c.set(func(c *fakeConn) { c.unready = true })
			c.serve()
			return f, c
		}
		done := w.swap()
		_, c := ready(w.awaitStart(2, 0))
		if got := w.s.Status(); got.Generation != 1 || got.State != "swapping" {
			t.Errorf("Status() = %+v", got)
		}
		c.set(func(c *fakeConn) { c.unready = false })
		c.serve()
		if o := <-done; o.Generation != 2 || o.Err != nil {
			t.Errorf("outcome %+v", o)
		}
		done = w.swap()
		f, _ := ready(w.awaitStart(3, 0))
		f.die(crashed)
		if o := <-done; o.Generation != 2 || o.Err == nil {
			t.Errorf("outcome %+v", o)
		}
		if got := w.s.Status(); got.Generation != 2 || got.State != "serving" || got.Crashes != 0 {
			t.Errorf("Status() = %+v", got)
		}
	})
}
