package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	floodRate  = 10_000 // updates of one resource a second
	floodQuiet = 127    // resources beside it, which change once in a phase
	floodCalls = 2 * time.Millisecond
	// floodSlices of either phase take turns in a repetition, so that what else
	// the machine does meets both.
	floodSlices   = 4
	floodSlice    = 500 * time.Millisecond
	floodPatience = 5 * time.Second // for the last of the updates of a phase
)

// floodForm is a way to reach the server, and to watch its resources.
type floodForm struct {
	Name   string `json:"name"`
	argv   []string
	modern bool // one subscriptions/listen, else a resources/subscribe each
	held   bool // by holdfast, who promises something
}

func floodForms(o options) []floodForm {
	held := func(args ...string) []string {
		return append([]string{o.holdfast, "run", "--log-level", "error"}, args...)
	}
	var forms []floodForm
	for _, f := range []floodForm{
		{Name: nameDirect, argv: []string{o.server}},
		{Name: nameNative, argv: held("--worker", o.server), held: true},
		{Name: nameBridged, argv: held("--", o.server), held: true},
	} {
		for how, modern := range []bool{false, true} {
			f := f
			f.Name += []string{", subscriptions", ", listen"}[how]
			f.modern = modern
			if strings.Contains(f.Name, o.only) {
				forms = append(forms, f)
			}
		}
	}
	return forms
}

// phase is what was seen in a repetition of one of the two: with the flood, or
// without.
type phase struct {
	P50     float64 `json:"p50_us"`
	P99     float64 `json:"p99_us"`
	Lag     float64 `json:"lag_p99_us"` // how late the bench itself was with a call
	Calls   int     `json:"calls"`
	Sent    int     `json:"sent"` // updates of the one resource, by the server
	Told    int     `json:"told"` // of them, to the client
	Quiet   int     `json:"quiet_told"`
	Seconds float64 `json:"seconds"` // until the server had sent all
	CPU     float64 `json:"cores"`   // used by the target, 0 if unknown
	RSS     float64 `json:"rss_mb"`  // of holdfast's programs after it, 0 if unknown

	took, lags []time.Duration
	spent      time.Duration // of CPU
}

// figure sums the slices up.
func (p *phase) figure() {
	slices.Sort(p.took)
	slices.Sort(p.lags)
	p.Calls = len(p.took)
	p.P50, p.P99, p.Lag = quantile(p.took, 0.5), quantile(p.took, 0.99), quantile(p.lags, 0.99)
	p.CPU = p.spent.Seconds() / p.Seconds
}

// flooded is what the repetitions of one form have shown. The first pair of
// phases only warms up.
type flooded struct {
	floodForm

	Start  float64 `json:"rss_start_mb"` // with all subscriptions, before any update
	Calm   []phase `json:"calm"`
	Floods []phase `json:"floods"`
}

// benchFlood lets each form alternate between the phases so many times.
func benchFlood(o options, stdout, stderr io.Writer) error {
	r := floodReport{Machine: describe(o)}
	last := floodSlice
	if o.quick {
		last /= 5
	}
	for _, form := range floodForms(o) {
		row, err := floodOne(form, o.floods, last)
		if err != nil {
			return fmt.Errorf("%s: %w", form.Name, err)
		}
		r.Rows = append(r.Rows, row)
		ratio, _ := spreadOf(row.ratios())
		fmt.Fprintf(stderr, "%s: p99 %s\n", form.Name, ratio)
	}
	r.Machine.LoadAfter = loadAverage()
	return errors.Join(r.write(stdout, o.json), r.verdict())
}

// floodRun is one target with all that is watched there.
type floodRun struct {
	client *client
	modern bool
	read   chan struct{} // closed with the end of the output

	mu     sync.Mutex // guards what follows
	calls  map[int]time.Time
	took   []time.Duration
	flood  int    // id of the call that floods
	told   string // its answer
	noisy  int
	quiet  map[string]int
	broken error
}

func floodOne(form floodForm, times int, last time.Duration) (flooded, error) {
	row := flooded{floodForm: form}
	c, err := start(form.argv, nil)
	if err != nil {
		return row, err
	}
	defer c.watch(10 * time.Minute)()
	r := &floodRun{client: c, modern: form.modern, read: make(chan struct{})}
	if err := r.watch(); err != nil {
		_ = c.close()
		return row, err
	}
	row.Start = ownMemory(c)
	go r.readAll() // ends with the output of the target
	defer func() {
		_ = c.in.Close()
		<-r.read
		_ = c.cmd.Wait()
	}()
	for i := range times + 1 {
		var calm, flood phase
		for range floodSlices {
			if err := errors.Join(r.slice(0, last, &calm), r.slice(floodRate, last, &flood)); err != nil {
				return row, err
			}
		}
		calm.figure()
		flood.figure()
		if i > 0 {
			row.Calm, row.Floods = append(row.Calm, calm), append(row.Floods, flood)
		}
	}
	return row, nil
}

func noisyURI() string      { return "test://noisy" }
func quietURI(n int) string { return "test://quiet/" + strconv.Itoa(n) }
func quietURIs() (u []string) {
	for n := range floodQuiet {
		u = append(u, quietURI(n))
	}
	return u
}

// watch subscribes to everything, and returns when that is acknowledged.
func (r *floodRun) watch() error {
	defer r.client.watch(patience)()
	all := append(quietURIs(), noisyURI())
	if r.modern {
		r.client.ids++
		return r.ask("subscriptions/listen", map[string]any{"notifications": map[string]any{"resourceSubscriptions": all}}, "acknowledged")
	}
	if err := errors.Join(r.client.initialize(), r.client.initialized()); err != nil {
		return err
	}
	for _, uri := range all {
		r.client.ids++
		if err := r.ask("resources/subscribe", map[string]any{"uri": uri}, fmt.Sprintf(`"id":%d,`, r.client.ids)); err != nil {
			return err
		}
	}
	return nil
}

// ask sends a request and reads up to what tells that it is granted.
func (r *floodRun) ask(method string, params map[string]any, granted string) error {
	if err := r.send(method, params); err != nil {
		return err
	}
	for {
		line, err := r.client.readLine()
		if err != nil {
			return err
		}
		if bytes.Contains(line, []byte(`"error"`)) {
			return fmt.Errorf("%s: %w: %s", method, errBadAnswer, shorten(line))
		}
		if bytes.Contains(line, []byte(granted)) {
			return nil
		}
	}
}

// send sends a request with the last id, as its era has it.
func (r *floodRun) send(method string, params map[string]any) error {
	if r.modern {
		params["_meta"] = map[string]any{
			"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
			"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "bench", "version": "1"},
			"io.modelcontextprotocol/clientCapabilities": map[string]any{},
		}
	}
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": r.client.ids, "method": method, "params": params})
	if err != nil {
		return err
	}
	_, err = r.client.in.Write(append(line, '\n'))
	return err
}

// slice floods at a rate, which may be 0, and calls meanwhile. It returns when
// everything is answered and told.
func (r *floodRun) slice(rate int, last time.Duration, p *phase) error {
	r.client.ids++
	r.mu.Lock()
	r.calls, r.took, r.noisy, r.quiet = make(map[int]time.Time), nil, 0, make(map[string]int)
	r.flood, r.told = r.client.ids, ""
	r.mu.Unlock()
	before, began := cpu(r.client), time.Now()
	err := r.send("tools/call", map[string]any{"name": "flood", "arguments": map[string]any{
		"uri": noisyURI(), "per_second": rate, "ms": last.Milliseconds(), "quiet": quietURIs(),
	}})
	if err != nil {
		return err
	}
	lags, err := r.call(int(last / floodCalls))
	if err != nil {
		return err
	}
	if err := r.await(patience, func() bool { return r.told != "" && len(r.calls) == 0 }); err != nil {
		return err
	}
	p.Seconds += time.Since(began).Seconds()
	p.spent += cpu(r.client) - before
	// What is missing then is counted, and fails the run at its end.
	_ = r.await(floodPatience, func() bool { return len(r.quiet) == floodQuiet && (rate == 0 || r.noisy > 0) })
	p.RSS = ownMemory(r.client)
	p.lags = append(p.lags, lags...)
	r.mu.Lock()
	defer r.mu.Unlock()
	p.took = append(p.took, r.took...)
	p.Told += r.noisy
	p.Quiet += len(r.quiet)
	sent, err := strconv.Atoi(r.told)
	p.Sent += sent
	return err
}

// call makes n calls, each when it is due, whether or not others are answered,
// and returns how late it was without a fault of the target. A call counts from
// when it was due if the one before could not be written earlier.
func (r *floodRun) call(n int) (lags []time.Duration, err error) {
	began := time.Now()
	for i := range n {
		from := began.Add(time.Duration(i) * floodCalls)
		lag := time.Duration(0)
		if wait := time.Until(from); wait > 0 {
			time.Sleep(wait)
			lag = time.Since(from)
			from = from.Add(lag)
		}
		lags = append(lags, lag)
		r.client.ids++
		r.mu.Lock()
		r.calls[r.client.ids] = from
		r.mu.Unlock()
		if err := r.send("tools/call", map[string]any{"name": "pid", "arguments": map[string]any{}}); err != nil {
			return nil, err
		}
	}
	return lags, nil
}

// await returns when done, which is asked under the lock, says so.
func (r *floodRun) await(patience time.Duration, done func() bool) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		r.mu.Lock()
		ok, err, open := done(), r.broken, len(r.calls)
		r.mu.Unlock()
		if ok || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w within %v: %d calls are open", errNoAnswer, patience, open)
		}
	}
}

func (r *floodRun) readAll() {
	defer close(r.read)
	for {
		line, err := r.client.readLine()
		at := time.Now()
		r.mu.Lock()
		if err == nil {
			err = r.takeLocked(line, at)
		}
		if r.broken == nil {
			r.broken = err
		}
		r.mu.Unlock()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return
		}
	}
}

// takeLocked takes a line of the target. An update is only looked at for its
// URI, since the bench shares the cores.
func (r *floodRun) takeLocked(line []byte, at time.Time) error {
	if uri, ok := updatedURI(line); ok {
		if uri == noisyURI() {
			r.noisy++
		} else {
			r.quiet[uri]++
		}
		return nil
	}
	a, err := decode(line)
	if err != nil {
		return err
	}
	if a.ID == nil {
		return nil // another notification
	}
	id, err := strconv.Atoi(string(a.ID))
	from, asked := r.calls[id]
	switch {
	case err != nil || a.Error != nil || a.Result.IsError || a.text() == "" || !asked && id != r.flood:
		return fmt.Errorf("%w: %s", errBadAnswer, shorten(line))
	case asked:
		r.took = append(r.took, at.Sub(from))
		delete(r.calls, id)
	default:
		r.told = a.text()
	}
	return nil
}

// updatedURI returns the URI of a resources/updated.
func updatedURI(line []byte) (string, bool) {
	if !bytes.Contains(line, []byte(`"notifications/resources/updated"`)) {
		return "", false
	}
	_, rest, ok := bytes.Cut(line, []byte(`"uri":"`))
	if !ok {
		return "", false
	}
	uri, _, ok := bytes.Cut(rest, []byte(`"`))
	return string(uri), ok
}

// ownMemory returns the resident memory of holdfast's programs in MB, 0 if
// there are none or it cannot be known.
func ownMemory(c *client) float64 {
	s := make(sample)
	s.memory("now", c)
	return s["rss_now_own_mb"]
}
