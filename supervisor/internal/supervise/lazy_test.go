package supervise

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-mcp/holdfast/protocol"
)

// errNoBuild is the error of a start that has nothing to start.
var errNoBuild = fmt.Errorf("%w: the build failed", ErrNotBuilt)

func notBuiltCause() *protocol.Error {
	return protocol.NewError(protocol.WorkerUnavailable, "the build failed with exit code 1")
}

// demand is a request that wants a worker.
func (w *world) demand() {
	w.s.Demand()
	synctest.Wait()
}

// nothing fails if something is started within d.
func (w *world) nothing(d time.Duration) {
	w.t.Helper()
	select {
	case s := <-w.starts:
		w.t.Fatalf("%d was started", s.number)
	case <-time.After(d):
	}
}

func lazy(c *Config) { c.Lazy = true }

// SEC-7: nothing is started before a request demands it; once it has, all is as
// ever.
func TestSEC7Lazy(t *testing.T) {
	inWorld(t, lazy, func(t *testing.T, w *world) {
		w.nothing(time.Hour)
		if s := w.s.Status(); s.State != "resting" {
			t.Errorf("Status() = %+v", s)
		}
		w.demand()
		w.demand()
		f, _ := w.serve(w.awaitStart(1, 0))
		w.nothing(time.Hour)
		f.die(crashed)
		f, _ = w.serve(w.awaitStart(2, 0))
		f.die(crashed)
		w.demand() // it does not shorten the pause
		w.serve(w.awaitStart(3, testPolicy.Backoff.Min))
	})
}

// SUP-4: a swap starts what no request has demanded yet.
func TestSwapWhileResting(t *testing.T) {
	inWorld(t, lazy, func(t *testing.T, w *world) {
		synctest.Wait()
		done := w.swap()
		w.serve(w.awaitStart(1, 0))
		if o := <-done; o.Generation != 1 || o.Err != nil {
			t.Errorf("outcome %+v", o)
		}
	})
}

// SUP-10: a start that has nothing to start is told to the client, is charged to
// nothing, and is not repeated until a swap, or a request that comes when the
// client may try again.
func TestNothingToStart(t *testing.T) {
	inWorld(t, lazy, func(t *testing.T, w *world) {
		synctest.Wait()
		w.demand()
		w.awaitStart(1, 0).fail(errNoBuild)
		w.nothing(time.Hour)
		if s := w.s.Status(); s.State != "resting" || s.Crashes != 0 || !strings.Contains(w.lastDown().Message, "the build failed") {
			t.Errorf("Status() = %+v, told %q", s, w.told)
		}
		w.demand()
		w.awaitStart(2, 0).fail(errNoBuild)
		synctest.Wait()
		done := w.swap()
		w.serve(w.awaitStart(3, 0))
		if o := <-done; o.Generation != 3 || o.Err != nil {
			t.Errorf("outcome %+v", o)
		}
	})
}

// SUP-10: a replacement that cannot be built changes nothing where something
// serves, in either mode, and is the cause that the client is told where
// nothing does.
func TestNotBuilt(t *testing.T) {
	for _, mode := range []Mode{Overlap, Sequential} {
		inWorld(t, func(c *Config) { c.Lazy, c.Mode = true, mode }, func(t *testing.T, w *world) {
			synctest.Wait()
			o, err := w.s.NotBuilt(t.Context(), notBuiltCause())
			if err != nil || o.Generation != 0 || o.Err == nil || w.downs() != 1 {
				t.Errorf("%s: outcome %+v, %v, told %q", mode, o, err, w.told)
			}
			w.demand()
			f, c := w.serve(w.awaitStart(1, 0))
			o, err = w.s.NotBuilt(t.Context(), notBuiltCause())
			if err != nil || o.Generation != 1 || o.Err == nil || w.downs() != 1 {
				t.Errorf("%s: outcome %+v, %v, told %q", mode, o, err, w.told)
			}
			c.set(func(c *fakeConn) {
				if c.retired || f.isGone() {
					t.Errorf("%s: the worker was replaced by nothing", mode)
				}
			})
			if told := w.announced(); len(told) != 1 || !strings.Contains(told[0], "the build failed with exit code 1") {
				t.Errorf("%s: announced %q", mode, told)
			}
			f.die(crashed)
			s := w.awaitStart(2, 0)
			if o, err = w.s.NotBuilt(t.Context(), notBuiltCause()); err != nil || o.Generation != 0 || w.downs() != 1 {
				t.Errorf("%s: outcome %+v, %v, told %q", mode, o, err, w.told)
			}
			w.serve(s)
		})
	}
}
