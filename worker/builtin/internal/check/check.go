// Package check tests whether a program keeps to the worker protocol
// (docs/protocol.md), as a supervisor would meet it: it starts the program,
// does the handshake, opens sessions, and says of each rule what it saw.
//
//	report := check.Run(ctx, check.Config{Path: path, Args: args, Env: env}, print)
//	if report.Count(check.Failed) > 0 { ... }
//
// # How it goes
//
//	for each check:  worker running? -- no --> start, handshake, dial
//	                       |
//	                 session open? ---- no --> open, initialize
//	                       |
//	                 the check, within its own deadline --> finding
//	                       |
//	                 failed, or it ended the worker --> the next gets a new one
//
// One worker runs at a time, and it is ended with its whole process group
// before the next one starts, and before Run returns. No check can hang: its
// deadline ends the stream that it waits on. What a worker sends beside
// answers is judged all the time and reported by a check of its own.
//
// # What it does by itself
//
// The handshake line is parsed here, and the connection dialled with gRPC.
// go-plugin's client would do both, but it hides what was wrong with a line,
// and it is the supervisor's: a second reader of the same rules finds what the
// first one forgives. The price is that mutual TLS, which supervisors use on
// Windows alone, is not tested.
//
// The package does not test the MCP server behind a worker beyond its
// handshake, and does not decide how findings look.
package check

import (
	"context"
	"fmt"
	"time"
)

// DefaultTimeout bounds one check.
const DefaultTimeout = 10 * time.Second

// Config says what to check.
type Config struct {
	// Path of the executable, absolute, and its arguments.
	Path string
	Args []string
	// Env is the environment of the worker, without the handshake.
	Env []string
	// Timeout bounds each check and each start; 0: [DefaultTimeout].
	Timeout time.Duration
	// Version of this program, told to the worker.
	Version string
}

// Status is the outcome of a check.
type Status string

// Outcomes. A note is something that supervisors put up with.
const (
	OK      Status = "ok"
	Failed  Status = "failed"
	Note    Status = "note"
	Skipped Status = "skipped"
)

// Result is what became of one check.
type Result struct {
	// Name of the check.
	Name string `json:"name"`
	// Rule is the section of docs/protocol.md and the rows of the contract.
	Rule string `json:"rule"`
	// Expected is what the rule asks for, in one line.
	Expected string `json:"expected"`
	Status   Status `json:"status"`
	// Seen is what was seen, or why the check was skipped, in one line.
	Seen string `json:"seen"`
	// Millis is how long the check took, with the start of a worker if it
	// needed one.
	Millis int64 `json:"ms"`
}

// Report has all results, in order.
type Report struct {
	Checks []Result `json:"checks"`
	// Stderr has the last lines that the last failing worker wrote to its
	// stderr, sanitised.
	Stderr []string `json:"stderr_tail,omitempty"`
}

// Count returns how many checks ended so.
func (r Report) Count(status Status) int {
	n := 0
	for _, result := range r.Checks {
		if result.Status == status {
			n++
		}
	}
	return n
}

// need is what a check starts from.
type need int

const (
	needNothing    need = iota
	needWorkerLine      // a worker that has printed its handshake line
	needWorker          // a worker that answered Describe
	wantSession         // the same, with a session if one can be had
	needSession         // a session on it, initialized in the legacy era
)

// check is one rule.
type check struct {
	name, rule, expected string
	need                 need

	run func(ctx context.Context, c *checker) finding
}

// finding is what a check saw.
type finding struct {
	status Status
	seen   string
}

func ok(format string, args ...any) finding   { return finding{OK, fmt.Sprintf(format, args...)} }
func fail(format string, args ...any) finding { return finding{Failed, fmt.Sprintf(format, args...)} }
func note(format string, args ...any) finding { return finding{Note, fmt.Sprintf(format, args...)} }
func skip(format string, args ...any) finding { return finding{Skipped, fmt.Sprintf(format, args...)} }

func all() []check {
	var list []check
	for _, part := range [][]check{startChecks, sessionChecks, endChecks, finalChecks} {
		list = append(list, part...)
	}
	return list
}

// Run checks a worker and passes each result to each, if that is not nil, as
// soon as it is there. When ctx ends the remaining checks are skipped. The
// process should be a subreaper (see package proc), so that what
// workers leave behind is found.
func Run(ctx context.Context, config Config, each func(Result)) Report {
	if config.Timeout <= 0 {
		config.Timeout = DefaultTimeout
	}
	c := &checker{config: config, frames: &ledger{}}
	defer c.endWorker()
	var report Report
	for _, ch := range all() {
		began := time.Now()
		found := c.one(ctx, ch)
		if found.status == Failed {
			if tail := c.stderr(); len(tail) > 0 {
				report.Stderr = tail
			}
			c.endWorker()
		}
		result := Result{
			Name: ch.name, Rule: ch.rule, Expected: ch.expected,
			Status: found.status, Seen: oneLine(found.seen), Millis: time.Since(began).Milliseconds(),
		}
		report.Checks = append(report.Checks, result)
		if each != nil {
			each(result)
		}
	}
	return report
}

// checker is the state of a run.
type checker struct {
	config Config
	frames *ledger // what was wrong with frames, over all sessions

	life    *life    // nil: none runs
	session *session // on life; nil: none is open

	greeting    handshake // of the first worker
	greetingErr error

	unusable string // why no worker can be had; empty: not known to be so
	mute     string // why no MCP session can be had
	era      era
	stray    []string // what workers printed on stdout beside the handshake
	strays   int
	tail     []string // stderr of the worker that was ended last
}

// one runs a check within its deadline.
func (c *checker) one(ctx context.Context, ch check) finding {
	if ctx.Err() != nil {
		return skip("interrupted")
	}
	if ch.need >= needWorkerLine && c.unusable != "" {
		return skip("%s", c.unusable)
	}
	if ch.need >= needSession && c.mute != "" {
		return skip("%s", c.mute)
	}
	if ch.need >= needWorker {
		if err := c.ensureWorker(ctx); err != nil {
			return fail("the worker did not start again: %v", err)
		}
	}
	if ch.need >= wantSession && c.mute == "" {
		if err := c.ensureSession(ctx); err != nil {
			return fail("a session did not open again: %v", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	return ch.run(ctx, c)
}

// ensureWorker starts a worker unless one runs.
func (c *checker) ensureWorker(ctx context.Context) error {
	if c.life != nil && c.life.alive() {
		return nil
	}
	c.endWorker()
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	life, err := start(c.config, supervised())
	if err != nil {
		return err
	}
	c.life = life
	line, err := life.announced(ctx)
	if err != nil {
		return err
	}
	if err := life.dial(line); err != nil {
		return err
	}
	return life.describe(ctx, c.config.Version)
}

// ensureSession opens a session unless one is open.
func (c *checker) ensureSession(ctx context.Context) error {
	if c.session != nil && c.session.alive() {
		return nil
	}
	c.closeSession()
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	s, err := c.open(ctx)
	c.session = s
	return err
}

// open opens a session of the era that the worker speaks.
func (c *checker) open(ctx context.Context) (*session, error) {
	s, err := openSession(c.life, c.frames)
	if err != nil {
		return nil, err
	}
	if c.era != legacy {
		return s, nil
	}
	if _, err := s.initialize(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (c *checker) closeSession() {
	if c.session != nil {
		c.session.close()
		c.session = nil
	}
}

// endWorker ends the worker that runs, if there is one, with all below it.
func (c *checker) endWorker() {
	c.closeSession()
	if c.life == nil {
		return
	}
	c.life.end()
	stray, n := c.life.printed()
	c.stray, c.strays = append(c.stray, stray...), c.strays+n
	c.tail = c.life.tail.Tail()
	c.life = nil
}

// stderr returns the last lines of the current or the last worker.
func (c *checker) stderr() []string {
	if c.life != nil {
		return c.life.tail.Tail()
	}
	return c.tail
}
