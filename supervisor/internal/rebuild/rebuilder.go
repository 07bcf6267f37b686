package rebuild

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/holdfast-mcp/holdfast/internal/ring"
)

// Debounce is how long nothing must change before a build begins, MaxDebounce
// how long changes can put it off.
const (
	Debounce    = 300 * time.Millisecond
	MaxDebounce = 10 * Debounce
)

// ErrEnded is returned when the Rebuilder ends first.
var ErrEnded = errors.New("the build is over: the supervisor is ending")

// Outcome is what came of a replacement.
type Outcome struct {
	// Generation that serves now, 0 if none does.
	Generation uint64
	// Err is why it is not a new one, nil if it is.
	Err error
}

// Config has what a Rebuilder needs.
type Config struct {
	// Dir is where the build runs, absolute.
	Dir string
	// Command is the build, run by a shell; empty: there is none, and a change
	// is a reason for a replacement at once.
	Command string
	// Env is the whole environment of the build; values in Mask are shown as
	// ***.
	Env  []string
	Mask []string
	// Watch is what is watched, for the status; Changes has the paths that
	// change, nil if nothing is watched.
	Watch   []string
	Changes <-chan string
	// Executable returns the path of what is started, as it is now.
	Executable func() (string, error)
	Shadows    *Shadows
	// Replace replaces the worker after a build, or tells the reason why not,
	// which is nil or an *Error. It runs beside further builds.
	Replace func(ctx context.Context, notBuilt error) Outcome
	Log     *zap.Logger
}

// Rebuilder builds on request and after changes. Run has to be called once.
type Rebuilder struct {
	config  Config
	content digest
	// build makes what is started; see Rebuilder.make.
	build func(context.Context, progress) error

	requests chan request
	ended    chan struct{} // closed when Run returns
	// usable: what is there may be started without a build before.
	usable atomic.Bool
	// settled: no build is under way and the last one did not fail.
	settled atomic.Bool

	// The following belong to Run.
	asked    bool // somebody wanted something built; before that, changes do not count
	changes  changes
	debounce *time.Timer
	dirty    time.Time // first change of those that wait for the debounce; zero if none does
	latest   time.Time // of all changes and requests
	job      *job      // under way, nil if none is
	next     want      // of the build after that
	replaces int       // calls of Replace under way
	replaced chan struct{}

	board board
}

// request asks for a build.
type request struct {
	// swap: the worker is to be replaced after it.
	swap  bool
	reply chan<- Outcome
}

// want is what a build is for.
type want struct {
	requests []request
	// swap: the worker is to be replaced after it.
	swap bool
	// now: somebody waits, and not for further changes.
	now bool
}

func (w *want) add(r request) {
	w.requests = append(w.requests, r)
	w.swap, w.now = w.swap || r.swap, true
}

// progress is how a build tells what it does.
type progress interface {
	// waits: another process builds the same.
	waits()
	// begins is called when the command is about to run. It returns the time
	// of the last change or request that the build has to take in.
	begins(ctx context.Context) time.Time
	// writes has what the command writes.
	writes(output *ring.Ring)
}

// job is one build.
type job struct {
	want

	board      *board
	cancel     context.CancelCauseFunc
	beginning  chan chan<- time.Time
	began      bool // all that comes now is not taken in
	superseded bool // a change has ended it
	start      time.Time
	done       chan error
}

func (j *job) waits()                   { j.board.enter(Waiting) }
func (j *job) writes(output *ring.Ring) { j.board.writes(output) }

// begins has the owner decide what comes before the build, and what after it.
func (j *job) begins(ctx context.Context) time.Time {
	latest := make(chan time.Time, 1)
	select {
	case j.beginning <- latest:
		return <-latest
	case <-ctx.Done():
		return time.Now()
	}
}

// New returns a Rebuilder.
func New(config Config) *Rebuilder {
	b := &Rebuilder{
		config: config, content: contentOf,
		requests: make(chan request), ended: make(chan struct{}), replaced: make(chan struct{}),
	}
	b.build = b.make
	b.usable.Store(config.Command == "")
	b.settled.Store(true)
	b.asked = config.Command == ""
	b.board.status = Status{State: Idle, Since: time.Now(), Command: config.Command, Watch: config.Watch}
	return b
}

// Swap asks for a build that begins after this call, and then for a replacement
// of the worker, whose outcome it returns. A caller that gives up cancels
// nothing (SUP-4, SUP-6).
func (b *Rebuilder) Swap(ctx context.Context) (Outcome, error) { return b.ask(ctx, true) }

// Ready returns when there is something to start, which is at once unless
// nothing has been built yet. Its error is an *Error if the build fails.
func (b *Rebuilder) Ready(ctx context.Context) error {
	if b.usable.Load() {
		return nil
	}
	o, err := b.ask(ctx, false)
	if err != nil {
		return err
	}
	return o.Err
}

// Stand returns what to start in place of the executable; see [Shadows.Stand].
// While a build may be writing to the file, or has failed to, that is the copy
// from before.
func (b *Rebuilder) Stand(path string) (run string, as os.FileInfo, err error) {
	return b.config.Shadows.Stand(context.Background(), path, b.settled.Load()) // it has a timeout of its own
}

func (b *Rebuilder) ask(ctx context.Context, swap bool) (Outcome, error) {
	reply := make(chan Outcome, 1)
	select {
	case b.requests <- request{swap, reply}:
	case <-b.ended:
		return Outcome{}, ErrEnded
	case <-ctx.Done():
		return Outcome{}, ctx.Err()
	}
	select {
	case o := <-reply:
		return o, nil
	case <-b.ended:
		return Outcome{}, ErrEnded
	case <-ctx.Done():
		return Outcome{}, ctx.Err()
	}
}

// Run builds until ctx ends, and leaves no build behind.
func (b *Rebuilder) Run(ctx context.Context) error {
	defer close(b.ended)
	ctx, cancel := context.WithCancel(ctx)
	b.debounce = time.NewTimer(0)
	b.debounce.Stop()
	defer b.debounce.Stop()
	defer b.await()
	defer cancel()
	for {
		var done <-chan error
		var beginning <-chan chan<- time.Time
		if b.job != nil {
			done, beginning = b.job.done, b.job.beginning
		}
		select {
		case <-ctx.Done():
			return nil
		case path := <-b.config.Changes:
			b.changed(path)
		case <-b.debounce.C:
			b.dirty = time.Time{}
			if b.job == nil { // else it has been ended, and this follows it
				b.start(ctx)
			}
		case r := <-b.requests:
			b.requested(ctx, r)
		case latest := <-beginning:
			b.job.began, b.job.start = true, time.Now()
			b.board.enter(Building)
			latest <- b.latest
		case err := <-done:
			b.over(ctx, err)
		case <-b.replaced:
			b.replaces--
		}
	}
}

// await waits for what ends with the context.
func (b *Rebuilder) await() {
	if b.job != nil {
		b.config.Log.Debug("the last build", zap.Error(<-b.job.done))
	}
	for range b.replaces {
		<-b.replaced
	}
}

// changed takes a change of a watched file.
func (b *Rebuilder) changed(path string) {
	if b.job == nil || !b.job.began {
		b.latest = time.Now()
	}
	switch {
	case !b.asked: // the first build takes it in
	case b.job == nil:
		if b.changes.outside(path, b.content) {
			b.next.swap = true
			b.settle(0)
		}
	case !b.job.began: // that build takes it in
	case b.job.superseded:
		b.latest = time.Now()
		b.settle(0)
	case b.config.Command == "" || b.changes.inside(path):
		b.changes.cancelled(b.content)
		b.latest = time.Now()
		b.job.superseded = true
		b.job.cancel(errSuperseded)
		b.settle(0)
	}
}

// settle waits for the end of changes, and at least for the pause.
func (b *Rebuilder) settle(pause time.Duration) {
	now := time.Now()
	if b.dirty.IsZero() {
		b.dirty = now
	}
	b.debounce.Reset(max(pause, min(Debounce, b.dirty.Add(MaxDebounce).Sub(now))))
	if b.job == nil {
		b.board.enter(Settling)
	}
}

// requested takes a request for a build. It joins one that has not begun, and
// waits for the next otherwise: what is being built may be older than it. One
// that needs something to start takes what comes.
func (b *Rebuilder) requested(ctx context.Context, r request) {
	b.asked, b.latest = true, time.Now()
	switch {
	case b.job == nil:
		b.next.add(r)
		b.start(ctx)
	case !b.job.began || !r.swap:
		b.job.add(r)
	default:
		b.next.add(r)
	}
}

// start begins the next build, which takes in all changes until now.
func (b *Rebuilder) start(ctx context.Context) {
	b.debounce.Stop()
	b.dirty = time.Time{}
	b.settled.Store(false)
	ctx, cancel := context.WithCancelCause(ctx)
	j := &job{
		want: b.next, board: &b.board, cancel: cancel, start: time.Now(),
		beginning: make(chan chan<- time.Time), done: make(chan error, 1),
	}
	b.job, b.next = j, want{}
	go func() { j.done <- b.build(ctx, j) }() // ends with the build, at the latest with ctx
}

// over takes the end of a build.
func (b *Rebuilder) over(ctx context.Context, err error) {
	j := b.job
	b.job = nil
	j.cancel(nil)
	if j.superseded {
		later := b.next
		b.next = j.want
		b.next.requests = append(b.next.requests, later.requests...)
		b.next.swap, b.next.now = j.swap || later.swap, later.now
	} else {
		b.finish(ctx, j, err)
	}
	switch {
	case b.next.now || j.superseded && b.dirty.IsZero():
		b.start(ctx)
	case !b.dirty.IsZero():
		b.board.enter(Settling)
	}
}

// finish takes the result of a build that was not ended by a change.
func (b *Rebuilder) finish(ctx context.Context, j *job, err error) {
	if ctx.Err() != nil {
		return
	}
	b.board.ended(err, time.Since(j.start))
	b.settled.Store(err == nil)
	if err == nil {
		b.usable.Store(true)
	} else {
		what, output := describe(err)
		b.config.Log.Error(what, zap.Strings("output", output))
	}
	b.answer(ctx, j, err)
	again, pause := b.changes.ended(b.content)
	if !again {
		return
	}
	if pause > 0 {
		b.config.Log.Warn("each build changes something that is watched: leave it out with --watch '!PATH'", zap.Duration("pause", pause))
	}
	b.next.swap, b.latest = true, time.Now()
	b.settle(pause)
}

// answer tells the result to those who want something to start, and has the
// worker replaced for the others.
func (b *Rebuilder) answer(ctx context.Context, j *job, err error) {
	for _, r := range j.requests {
		if !r.swap {
			r.reply <- Outcome{Err: err} // has room for it
		}
	}
	if !j.swap {
		return
	}
	b.replaces++
	go func() { // ends with the replacement, at the latest with ctx
		o := b.config.Replace(ctx, err)
		for _, r := range j.requests {
			if r.swap {
				r.reply <- o
			}
		}
		b.replaced <- struct{}{}
	}()
}

// make runs the build, if there is one, and looks after what it made.
func (b *Rebuilder) make(ctx context.Context, p progress) error {
	if b.config.Command == "" {
		p.begins(ctx)
		return b.look(ctx)
	}
	c := command{b.config.Command, b.config.Dir, b.config.Env, b.config.Mask, b.config.Log}
	return c.run(ctx, p, b.look)
}

// look waits until the executable is whole, and copies it.
func (b *Rebuilder) look(ctx context.Context) error {
	path, err := b.config.Executable()
	if err != nil {
		return nil //nolint:nilerr // the start says where it was looked for
	}
	err = b.config.Shadows.Refresh(ctx, path)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return &Error{What: "what is to be started cannot be: " + err.Error()}
	}
	return nil
}

// contentOf is the digest of a file.
func contentOf(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return string(h.Sum(nil))
}
