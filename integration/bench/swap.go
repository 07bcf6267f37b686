package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// callPeriod is the pause between calls while workers are replaced. The loop is
// open: a call is due when it is due, whether or not others are answered, and
// its latency counts from then.
const callPeriod = time.Millisecond

// settleTime passes between the first answer of a new worker and the next
// replacement, so that the old one has ended.
const settleTime = 300 * time.Millisecond

// replacement is a way to lose a worker to its successor.
type replacement struct {
	name  string
	flags []string
	// do replaces the worker whose process id it is given.
	do func(r *swapRun, pid int) error
	// share of the swaps of -swap that are done.
	share int
	limit float64 // of the longest gap in ms, 0 for none
}

var replacements = []replacement{
	{"none", nil, func(*swapRun, int) error { return nil }, 5, 0},
	{"ready first (overlap)", nil, (*swapRun).swap, 1, 100},
	{"sequential", []string{"--swap", "sequential"}, (*swapRun).swap, 5, 0},
	{"SIGKILL", nil, func(_ *swapRun, pid int) error { return killPID(pid) }, 1, 0},
	{"hung, --hang-timeout 1s", []string{"--hang-timeout", "1s"}, func(_ *swapRun, pid int) error { return stopPID(pid) }, 5, 0},
}

var workerStarts = []time.Duration{0, 800 * time.Millisecond, 3 * time.Second}

// swapped is what the replacements of one kind have shown.
type swapped struct {
	Name       string        `json:"name"`
	Start      time.Duration `json:"worker_start_ns"`
	Next       []float64     `json:"next_ms"`           // from each replacement to the first answer of the new worker
	Gaps       []float64     `json:"longest_gap_ms"`    // between answers, one for each replacement
	GapAt      []float64     `json:"longest_gap_at_ms"` // when that ended, from the replacement on
	Lags       []float64     `json:"sender_lag_ms"`     // how late the bench itself was in that time
	P50        float64       `json:"p50_ms"`
	P99        float64       `json:"p99_ms"`
	Asked      int           `json:"asked"`
	Unknown    int           `json:"outcome_unknown"`
	Refused    int           `json:"refused"`
	Lost       int           `json:"lost"`       // no answer at all
	Duplicated int           `json:"duplicated"` // more than one answer
	Replayed   int           `json:"replayed"`   // more than once in the journal
	limit      float64
}

// swapReport is what a run of replacements has found.
type swapReport struct {
	Machine machine   `json:"machine"`
	Rows    []swapped `json:"rows"`
}

// benchSwap replaces workers in each way, with each start time, behind a
// supervisor of its own.
func benchSwap(o options, stdout, stderr io.Writer) error {
	r := swapReport{Machine: describe(o)}
	for _, start := range workerStarts {
		for _, how := range replacements {
			if how.name == "none" && start > 0 || !strings.Contains(how.name, o.only) {
				continue
			}
			row, err := replaceAll(o, how, start)
			if err != nil {
				return fmt.Errorf("%s, start %v: %w", how.name, start, err)
			}
			r.Rows = append(r.Rows, row)
			fmt.Fprintf(stderr, "%s, worker start %v: longest gap %.0f ms\n", how.name, start, slices.Max(row.Gaps))
		}
	}
	r.Machine.LoadAfter = loadAverage()
	return errors.Join(r.write(stdout, o.json), r.verdict())
}

// swapRun is one supervisor under load.
type swapRun struct {
	client   *client
	holdfast string
	env      []string
	began    time.Time
	stop     chan struct{} // closed to end the sender
	senders  sync.WaitGroup
	fresh    chan fresh // each new worker
	read     chan struct{}

	mu      sync.Mutex // guards what follows
	sent    []time.Duration
	answers []timed
}

// fresh is a new worker and when its first answer came.
type fresh struct {
	pid int
	at  time.Duration
}

// timed is an answer and when it came.
type timed struct {
	id   int
	at   time.Duration
	kind string
}

// replaceAll replaces the workers of one supervisor, one after the other.
func replaceAll(o options, how replacement, delay time.Duration) (swapped, error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return swapped{}, err
	}
	defer os.RemoveAll(dir)
	journal := filepath.Join(dir, "journal")
	argv := append([]string{
		o.holdfast, "run", "--log-level", "off", "--crash-budget", "1000/30s", "--backoff", "0s..0s",
		"--hold-max", "1000000", "--hold-timeout", "1m", // what waits is to be seen, not refused
	}, how.flags...)
	argv = append(argv, "--worker", o.server, "--", "-journal", journal, "-start-delay", delay.String())
	r := &swapRun{
		holdfast: o.holdfast, env: []string{"TMPDIR=" + dir},
		stop: make(chan struct{}), fresh: make(chan fresh, 1000), read: make(chan struct{}),
	}
	if r.client, err = start(argv, r.env); err != nil {
		return swapped{}, err
	}
	defer r.client.watch(10 * time.Minute)()
	if err := errors.Join(r.client.initialize(), r.client.initialized()); err != nil {
		_ = r.client.close()
		return swapped{}, err
	}
	r.began = time.Now()
	go r.readAll()          // ends with the output of the target
	r.senders.Go(r.sendAll) // ends with stop
	row := swapped{Name: how.name, Start: delay, limit: how.limit}
	times, err := r.replace(how, max(1, o.swaps/how.share), &row)
	close(r.stop)
	r.senders.Wait()
	_ = r.client.in.Close()
	<-r.read
	_ = r.client.cmd.Wait()
	if err != nil {
		return swapped{}, err
	}
	return r.sum(row, times, journal)
}

// replace replaces the worker n times and returns when.
func (r *swapRun) replace(how replacement, n int, row *swapped) ([]time.Duration, error) {
	worker, err := r.next()
	if err != nil {
		return nil, err
	}
	time.Sleep(settleTime)
	var times []time.Duration
	for range n {
		from := time.Since(r.began)
		times = append(times, from)
		if err := how.do(r, worker.pid); err != nil {
			return nil, err
		}
		if how.name == "none" {
			time.Sleep(settleTime)
		} else if worker, err = r.next(); err != nil {
			return nil, err
		}
		row.Next = append(row.Next, max(0, millis(worker.at-from)))
		time.Sleep(settleTime)
		if err := r.awaitBacklog(); err != nil {
			return nil, err
		}
	}
	return times, nil
}

// next waits for the first answer of the next worker.
func (r *swapRun) next() (fresh, error) {
	select {
	case worker := <-r.fresh:
		return worker, nil
	case <-r.read:
		return fresh{}, fmt.Errorf("the target ended: %w", io.ErrUnexpectedEOF)
	case <-time.After(patience):
		return fresh{}, fmt.Errorf("%w from a new worker within %v", errNoAnswer, patience)
	}
}

// awaitBacklog waits until what was held is worked off, so that the next
// replacement meets the load and not the last one.
func (r *swapRun) awaitBacklog() error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		r.mu.Lock()
		open := len(r.sent) - len(r.answers)
		r.mu.Unlock()
		if open <= usualBacklog {
			return nil
		}
	}
	return fmt.Errorf("%w to some calls within %v", errNoAnswer, patience)
}

// usualBacklog is how many calls may be under way without any replacement.
const usualBacklog = 20

var errNoAnswer = errors.New("no answer")

// swap asks for a swap as a user does.
func (r *swapRun) swap(int) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.holdfast, "swap", strconv.Itoa(r.client.cmd.Process.Pid))
	cmd.Env = append(os.Environ(), r.env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("swap: %w: %s", err, out)
	}
	return nil
}

// sendAll sends each call when it is due, or as soon after as it can.
func (r *swapRun) sendAll() {
	first := r.client.ids + 1
	for n := 0; ; n++ {
		due := time.Duration(n) * callPeriod
		if wait := due - time.Since(r.began); wait > 0 {
			time.Sleep(wait)
		}
		select {
		case <-r.stop:
			return
		default:
		}
		r.mu.Lock()
		r.sent = append(r.sent, time.Since(r.began))
		r.mu.Unlock()
		if _, err := fmt.Fprintf(r.client.in, `{"method":"tools/call","params":{"name":"append","arguments":{"key":"%d"}},"jsonrpc":"2.0","id":%d}`+"\n",
			n, first+n); err != nil {
			return
		}
	}
}

func (r *swapRun) readAll() {
	defer close(r.read)
	first := r.client.ids + 1
	seen := make(map[string]bool)
	for {
		line, err := r.client.readLine()
		if err != nil {
			return
		}
		a := timed{at: time.Since(r.began), kind: "answer"}
		msg, err := decode(line)
		if err != nil {
			continue // a notification, or what the count of the lost will show
		}
		if a.id, err = strconv.Atoi(string(msg.ID)); err != nil {
			continue
		}
		a.id -= first
		switch {
		case strings.Contains(string(line), `"outcome_unknown"`):
			a.kind = "unknown"
		case msg.Error != nil || msg.Result.IsError:
			a.kind = "refused"
		default:
			_, by, _ := strings.Cut(msg.text(), " by ")
			if by = strings.TrimSpace(by); !seen[by] {
				seen[by] = true
				pid, _ := strconv.Atoi(by)
				r.fresh <- fresh{pid, a.at}
			}
		}
		r.mu.Lock()
		r.answers = append(r.answers, a)
		r.mu.Unlock()
	}
}

// sum fills in the row.
func (r *swapRun) sum(row swapped, times []time.Duration, journal string) (swapped, error) {
	ran, err := countLines(journal)
	if err != nil {
		return row, err
	}
	row.Asked = len(r.sent)
	count := make([]int, len(r.sent))
	var took []time.Duration
	for _, a := range r.answers {
		if a.id < 0 || a.id >= len(count) {
			return row, fmt.Errorf("%w: id %d was not asked", errBadAnswer, a.id)
		}
		count[a.id]++
		switch a.kind {
		case "unknown":
			row.Unknown++
		case "refused":
			row.Refused++
		default:
			took = append(took, a.at-time.Duration(a.id)*callPeriod)
		}
	}
	for id, n := range count {
		switch {
		case n == 0:
			row.Lost++
		case n > 1:
			row.Duplicated += n - 1
		}
		row.Replayed += max(0, ran[strconv.Itoa(id)]-1)
	}
	slices.Sort(took)
	row.P50, row.P99 = quantile(took, 0.5)/1e3, quantile(took, 0.99)/1e3
	for i, from := range times {
		to := time.Since(r.began)
		if i+1 < len(times) {
			to = times[i+1]
		}
		gap, at := r.gap(from, to)
		row.Gaps = append(row.Gaps, millis(gap))
		row.GapAt = append(row.GapAt, millis(at-from))
		row.Lags = append(row.Lags, millis(r.lag(from, to)))
	}
	return row, nil
}

// gap returns the longest time between two answers, of which the second came in
// the given time, and when that was.
func (r *swapRun) gap(from, to time.Duration) (longest, at time.Duration) {
	for i, a := range r.answers {
		if i == 0 || a.at < from || a.at >= to {
			continue
		}
		if gap := a.at - r.answers[i-1].at; gap > longest {
			longest, at = gap, a.at
		}
	}
	return longest, at
}

// lag returns by how much the bench was late with a call in the given time.
func (r *swapRun) lag(from, to time.Duration) (longest time.Duration) {
	for n, at := range r.sent {
		if at >= from && at < to {
			longest = max(longest, at-time.Duration(n)*callPeriod)
		}
	}
	return longest
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func countLines(path string) (map[string]int, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	lines := make(map[string]int)
	for line := range strings.Lines(string(b)) {
		lines[strings.TrimSuffix(line, "\n")]++
	}
	return lines, nil
}
