package rebuild

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

// yard is what a Rebuilder sees: files that change, builds and replacements that
// end when the test says so. Time is that of the bubble.
type yard struct {
	t        *testing.T
	b        *Rebuilder
	changes  chan string
	builds   chan *fakeBuild
	replaces chan *fakeReplace
	contents map[string]string // read by the owner, written while it waits
}

type fakeBuild struct {
	progress

	ctx    context.Context
	result chan<- error
}

type fakeReplace struct {
	err    error
	result chan<- Outcome
}

// inYard runs f in a bubble in which a Rebuilder runs.
func inYard(t *testing.T, command string, f func(*testing.T, *yard)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		y := &yard{
			t: t, changes: make(chan string), builds: make(chan *fakeBuild, 10), replaces: make(chan *fakeReplace, 10),
			contents: make(map[string]string),
		}
		shadows, err := NewShadows("off", t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		y.b = New(Config{Command: command, Changes: y.changes, Shadows: shadows, Replace: y.replace, Log: zap.NewNop()})
		y.b.content = func(path string) string { return y.contents[path] }
		y.b.build = y.build
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ran := make(chan error, 1)
		go func() { ran <- y.b.Run(ctx) }() // ends by cancel
		f(t, y)
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("Run() = %v", err)
		}
		if _, err := y.b.Swap(t.Context()); !errors.Is(err, ErrEnded) {
			t.Errorf("Swap() after the end = %v", err)
		}
	})
}

func (y *yard) build(ctx context.Context, p progress) error {
	result := make(chan error, 1)
	y.builds <- &fakeBuild{p, ctx, result}
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (y *yard) replace(ctx context.Context, err error) Outcome {
	result := make(chan Outcome, 1)
	y.replaces <- &fakeReplace{err, result}
	select {
	case o := <-result:
		return o
	case <-ctx.Done():
		return Outcome{Err: ctx.Err()}
	}
}

// begun waits for a build, which must begin after exactly d.
func (y *yard) begun(d time.Duration) *fakeBuild {
	y.t.Helper()
	at := time.Now()
	f := <-y.builds
	if got := time.Since(at); got != d {
		y.t.Fatalf("a build began after %v, want %v", got, d)
	}
	if latest := f.begins(f.ctx); latest.After(time.Now()) || latest.Before(at.Add(-MaxDebounce)) && y.b.config.Command != "" {
		y.t.Errorf("it has to take in what came until %v before", time.Since(latest))
	}
	synctest.Wait()
	return f
}

func (y *yard) idle(d time.Duration) {
	y.t.Helper()
	select {
	case <-y.builds:
		y.t.Fatal("a build began for nothing")
	case r := <-y.replaces:
		y.t.Fatalf("a worker was replaced for nothing: %v", r.err)
	case <-time.After(d):
	}
}

func (f *fakeBuild) ends(err error) {
	f.result <- err
	synctest.Wait()
}

// replaced takes the replacement that must be under way.
func (y *yard) replaced(generation uint64, want error) {
	y.t.Helper()
	select {
	case r := <-y.replaces:
		if !errors.Is(r.err, want) {
			y.t.Errorf("replacement after %v, want %v", r.err, want)
		}
		r.result <- Outcome{Generation: generation, Err: r.err}
		synctest.Wait()
	default:
		y.t.Fatal("no worker was replaced")
	}
}

func (y *yard) change(path, content string) {
	synctest.Wait()
	y.contents[path] = content
	y.changes <- path
	synctest.Wait()
}

// swap asks for a swap.
func (y *yard) swap() <-chan Outcome { return y.ask(y.b.Swap) }

func (y *yard) ready() <-chan Outcome {
	return y.ask(func(ctx context.Context) (Outcome, error) { return Outcome{}, y.b.Ready(ctx) })
}

func (y *yard) ask(f func(context.Context) (Outcome, error)) <-chan Outcome {
	out := make(chan Outcome, 1)
	ctx := y.t.Context()
	go func() { // ends with the answer, or with the Rebuilder
		o, err := f(ctx)
		if err != nil {
			o.Err = err
		}
		out <- o
	}()
	synctest.Wait()
	return out
}

// wake lets the Rebuilder have built something, as the first request does.
func (y *yard) wake() {
	y.t.Helper()
	r := y.ready()
	y.begun(0).ends(nil)
	if o := <-r; o.Err != nil {
		y.t.Fatal(o.Err)
	}
}

var errSyntax = &Error{What: "the build failed with exit code 1", Output: []string{"syntax error"}}

// SEC-7: nothing is built before the first request that needs a worker, however
// much changes; later requests find what was built.
func TestSEC7FirstBuild(t *testing.T) {
	inYard(t, "make", func(t *testing.T, y *yard) {
		y.change("a.go", "1")
		y.idle(time.Hour)
		if s := y.b.Status(); s.State != Idle || s.Builds != 0 || s.Command != "make" {
			t.Errorf("Status() = %+v", s)
		}
		first := y.ready()
		f := y.begun(0)
		if s := y.b.Status(); s.State != Building {
			t.Errorf("Status() = %+v", s)
		}
		second := y.ready() // it is what that one builds
		f.ends(nil)
		if a, b := <-first, <-second; a.Err != nil || b.Err != nil {
			t.Errorf("Ready() = %v, %v", a, b)
		}
		if o := <-y.ready(); o.Err != nil {
			t.Errorf("Ready() = %v", o)
		}
		y.idle(time.Hour)
	})
}

// A first build that fails is tried again by the next request, and after a
// change; what was built once is started although a later build fails.
func TestFirstBuildFails(t *testing.T) {
	inYard(t, "make", func(t *testing.T, y *yard) {
		r := y.ready()
		y.begun(0).ends(errSyntax)
		if o := <-r; !errors.Is(o.Err, errSyntax) {
			t.Errorf("Ready() = %v", o)
		}
		r = y.ready()
		y.begun(0).ends(errSyntax)
		<-r
		if s := y.b.Status(); s.State != Failed || s.Failures != 2 || s.Builds != 2 || s.Error != errSyntax.What || len(s.Output) != 1 {
			t.Errorf("Status() = %+v", s)
		}
		y.change("a.go", "2")
		y.begun(Debounce).ends(nil)
		y.replaced(1, nil)
		if s := y.b.Status(); s.State != OK || s.Failures != 0 || s.Error != "" || s.Output != nil {
			t.Errorf("Status() = %+v", s)
		}
		y.change("a.go", "3")
		y.begun(Debounce).ends(errSyntax)
		y.replaced(1, errSyntax)
		if o := <-y.ready(); o.Err != nil {
			t.Errorf("Ready() = %v", o)
		}
	})
}

// SUP-22: a build begins when nothing has changed for the debounce, and at the
// latest some time after the first change.
func TestDebounce(t *testing.T) {
	inYard(t, "make", func(t *testing.T, y *yard) {
		y.wake()
		y.change("a.go", "1")
		time.Sleep(Debounce - 1)
		y.change("b.go", "1")
		y.begun(Debounce).ends(nil)
		y.replaced(2, nil)
		began := time.Now()
		for time.Since(began) < MaxDebounce {
			y.change("log.go", time.Now().String())
			time.Sleep(Debounce / 2)
		}
		y.begun(0).ends(nil)
		y.replaced(3, nil)
		y.idle(time.Hour)
	})
}

// A change while a build runs ends it, and one build follows.
func TestNewerChange(t *testing.T) {
	inYard(t, "make", func(t *testing.T, y *yard) {
		y.wake()
		y.change("a.go", "1")
		f := y.begun(Debounce)
		time.Sleep(time.Second)
		y.change("a.go", "2")
		if !errors.Is(context.Cause(f.ctx), errSuperseded) {
			t.Fatal("the build goes on")
		}
		y.change("a.go", "3")
		y.begun(Debounce).ends(nil)
		y.replaced(2, nil)
		y.idle(time.Hour)
	})
}

// A request for a swap waits for a build that begins after it, and goes on
// waiting if a change ends that one.
func TestSwapBuilds(t *testing.T) {
	inYard(t, "make", func(t *testing.T, y *yard) {
		first := y.swap()
		f := y.begun(0)
		second, third := y.swap(), y.swap()
		f.ends(nil)
		y.replaced(1, nil)
		if o := <-first; o.Generation != 1 || o.Err != nil {
			t.Errorf("outcome %+v", o)
		}
		y.begun(0).ends(errSyntax)
		y.replaced(1, errSyntax)
		for _, o := range []Outcome{<-second, <-third} {
			if o.Generation != 1 || !errors.Is(o.Err, errSyntax) {
				t.Errorf("outcome %+v", o)
			}
		}
		y.idle(time.Hour)

		y.change("a.go", "1")
		now := y.swap() // it does not wait for the debounce
		y.begun(0)
		y.change("a.go", "2")
		y.begun(Debounce).ends(nil)
		y.replaced(2, nil)
		if o := <-now; o.Generation != 2 || o.Err != nil {
			t.Errorf("outcome %+v", o)
		}
		y.idle(time.Hour)
	})
}

// SEC-7: a build that waits for the lock takes in what changes meanwhile, and
// serves whoever asks.
func TestWaitsForLock(t *testing.T) {
	inYard(t, "make", func(t *testing.T, y *yard) {
		y.wake()
		y.change("a.go", "1")
		time.Sleep(Debounce)
		f := <-y.builds
		f.waits()
		if s := y.b.Status(); s.State != Waiting {
			t.Errorf("Status() = %+v", s)
		}
		y.change("a.go", "2")
		o := y.swap()
		y.idle(time.Hour)
		if since := time.Since(f.begins(f.ctx)); since != time.Hour {
			t.Errorf("it has to take in what came until %v before, want 1h", since)
		}
		f.ends(nil)
		y.replaced(2, nil)
		if o := <-o; o.Generation != 2 {
			t.Errorf("outcome %+v", o)
		}
		y.idle(time.Hour)
	})
}

// SUP-6: a caller that gives up cancels nothing.
func TestCallerGivesUp(t *testing.T) {
	inYard(t, "make", func(t *testing.T, y *yard) {
		ctx, cancel := context.WithCancel(t.Context())
		given := y.ask(func(context.Context) (Outcome, error) { return y.b.Swap(ctx) })
		f := y.begun(0)
		cancel()
		if o := <-given; !errors.Is(o.Err, context.Canceled) {
			t.Errorf("Swap() = %+v", o)
		}
		f.ends(nil)
		y.replaced(1, nil)
	})
}

// A replacement that takes its time holds back no build.
func TestBuildBesideReplacement(t *testing.T) {
	inYard(t, "make", func(t *testing.T, y *yard) {
		y.wake()
		y.change("a.go", "1")
		y.begun(Debounce).ends(nil)
		slow := <-y.replaces
		y.change("a.go", "2")
		y.begun(Debounce).ends(nil)
		y.replaced(3, nil)
		slow.result <- Outcome{Generation: 2}
	})
}

// Without a build, something may be started at once, and a change is a reason
// for a swap.
func TestNoBuild(t *testing.T) {
	inYard(t, "", func(t *testing.T, y *yard) {
		if o := <-y.ready(); o.Err != nil {
			t.Error(o.Err)
		}
		y.change("server.py", "1")
		f := y.begun(Debounce)
		y.change("server.py", "2")
		if f.ctx.Err() == nil {
			t.Error("what has changed is looked at although it changes again")
		}
		y.begun(Debounce).ends(nil)
		y.replaced(2, nil)
		y.idle(time.Hour)
	})
}

// The end comes while a build runs and another is asked for.
func TestEndWhileBuilding(t *testing.T) {
	inYard(t, "make", func(_ *testing.T, y *yard) {
		y.wake()
		y.swap()
		y.begun(0)
		y.swap()
	})
}

// A build that writes into what is watched is repeated once, and then no more;
// one whose output is different each time, after pauses that grow.
func TestOutputIsWatched(t *testing.T) {
	inYard(t, "make", func(t *testing.T, y *yard) {
		y.wake()
		compile := func(f *fakeBuild, out string) {
			y.change("dist/a.js", out)
			f.ends(nil)
			y.replaced(2, nil)
		}
		y.change("a.ts", "1")
		compile(y.begun(Debounce), "1")
		compile(y.begun(Debounce), "1") // it could have been somebody's edit
		y.idle(time.Hour)
		y.change("a.ts", "2")
		compile(y.begun(Debounce), "2")
		y.idle(time.Hour)
		y.change("dist/a.js", "2") // another window has built the same
		y.idle(time.Hour)

		y.change("a.ts", "3")
		f := y.begun(Debounce)
		for i := range 10 {
			y.change("stamp.js", time.Now().String())
			f.ends(nil)
			y.replaced(2, nil)
			pause := Debounce
			if i > 0 {
				pause = min(time.Second<<(i-1), maxPause)
			}
			f = y.begun(pause)
		}
		f.ends(nil)
		y.replaced(2, nil)
		y.idle(time.Hour)
	})
}
