package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// metric is one figure of a target.
type metric struct {
	key, title string
	// absolute figures are printed as they are, others as a ratio to direct.
	absolute bool
	format   string // of the absolute figure
}

// metrics in the order in which they are printed.
var metrics = []metric{
	{key: "p50_64b_us", title: "p50 64 B", format: "%.0f us"},
	{key: "p99_64b_us", title: "p99 64 B", format: "%.0f us"},
	{key: "p50_4k_us", title: "p50 4 KB", format: "%.0f us"},
	{key: "p99_4k_us", title: "p99 4 KB", format: "%.0f us"},
	{key: "p50_256k_us", title: "p50 256 KB", format: "%.0f us"},
	{key: "p50_4m_us", title: "p50 4 MB", format: "%.0f us"},
	{key: "rps_1", title: "req/s 1", format: "%.0f"},
	{key: "rps_16", title: "req/s 16", format: "%.0f"},
	{key: "rps_64", title: "req/s 64", format: "%.0f"},
	{key: "cpu_small_ms", title: "CPU small", format: "%.0f ms"},
	{key: "cpu_ms", title: "CPU", format: "%.0f ms"},
	{key: "start_ms", title: "start", format: "%.1f ms"},
	{key: "rss_idle_mb", title: "RSS idle", absolute: true, format: "%.1f"},
	{key: "rss_idle_own_mb", title: "of it holdfast", absolute: true, format: "%.1f"},
	{key: "rss_calls_mb", title: "RSS after calls", absolute: true, format: "%.1f"},
	{key: "rss_calls_own_mb", title: "of it holdfast", absolute: true, format: "%.1f"},
}

// sample is what one repetition found about one target, by key of metric.
// What cannot be measured here is absent.
type sample map[string]float64

// work says how much is done in a repetition. The small calls are 10,000
// together with the warm-up, before memory is looked at.
type work struct {
	starts, warmUp, small, outstanding1, outstanding16, outstanding64, big, huge int
	settle                                                                       time.Duration
}

func newWork(quick bool) work {
	if quick {
		return work{2, 300, 100, 100, 200, 300, 10, 2, 50 * time.Millisecond}
	}
	return work{5, 300, 2000, 1500, 2000, 2200, 40, 6, 300 * time.Millisecond}
}

// measure starts t and takes one sample of it.
func measure(t target, w work, p payload) (sample, error) {
	s := make(sample)
	c, err := s.start(t, w.starts)
	if err != nil {
		return nil, err
	}
	if err := s.calls(c, t, w, p); err != nil {
		// The failed call is the cause; what closing adds is of no interest.
		_ = c.close()
		return nil, err
	}
	return s, c.close()
}

// start starts t so many times, leaves the last one running and notes the
// median of the times from exec to the answer of initialize.
func (s sample) start(t target, times int) (*client, error) {
	var took []time.Duration
	for {
		began := time.Now()
		c, err := start(t.Argv, t.Env)
		if err != nil {
			return nil, err
		}
		stop := c.watch(patience)
		err = c.initialize()
		took = append(took, time.Since(began))
		stop()
		if err != nil {
			_ = c.close()
			return nil, fmt.Errorf("initialize: %w", err)
		}
		if len(took) == times {
			slices.Sort(took)
			s["start_ms"] = quantile(took, 0.5) / 1e3
			return c, nil
		}
		if err := c.close(); err != nil {
			return nil, err
		}
	}
}

func (s sample) calls(c *client, t target, w work, p payload) error {
	defer c.watch(patience)()
	if err := c.initialized(); err != nil {
		return err
	}
	if t.mirror {
		if _, err := c.readLine(); err != nil {
			return err
		}
	}
	time.Sleep(w.settle) // what is measured next is a server at rest
	s.memory("idle", c)
	if _, err := c.sequential(w.warmUp, 64, p); err != nil {
		return err
	}
	before := cpu(c)
	if err := s.small(c, w, p); err != nil {
		return err
	}
	s.cpu("cpu_small_ms", before, c)
	s.memory("calls", c)
	if err := s.large(c, w, p); err != nil {
		return err
	}
	s.cpu("cpu_ms", before, c)
	return nil
}

func (s sample) small(c *client, w work, p payload) error {
	for _, step := range []struct {
		key  string
		size int
	}{{"64b", 64}, {"4k", 4 << 10}} {
		took, err := c.sequential(w.small, step.size, p)
		if err != nil {
			return err
		}
		s["p50_"+step.key+"_us"], s["p99_"+step.key+"_us"] = quantile(took, 0.5), quantile(took, 0.99)
	}
	for _, step := range []struct {
		key            string
		n, outstanding int
	}{{"rps_1", w.outstanding1, 1}, {"rps_16", w.outstanding16, 16}, {"rps_64", w.outstanding64, 64}} {
		rate, err := c.throughput(step.n, step.outstanding, 64, p)
		if err != nil {
			return err
		}
		s[step.key] = rate
	}
	return nil
}

func (s sample) large(c *client, w work, p payload) error {
	for _, step := range []struct {
		key     string
		n, size int
	}{{"p50_256k_us", w.big, 256 << 10}, {"p50_4m_us", w.huge, 4 << 20}} {
		if _, err := c.sequential(1, step.size, p); err != nil { // buffers grow
			return err
		}
		took, err := c.sequential(step.n, step.size, p)
		if err != nil {
			return err
		}
		s[step.key] = quantile(took, 0.5)
	}
	return nil
}

// cpu returns the CPU time of the target so far, 0 where it cannot be known.
func cpu(c *client) time.Duration {
	var sum time.Duration
	for _, p := range tree(c.cmd.Process.Pid) {
		sum += p.cpu
	}
	return sum
}

func (s sample) cpu(key string, before time.Duration, c *client) {
	if spent := cpu(c) - before; spent > 0 {
		s[key] = float64(spent) / float64(time.Millisecond)
	}
}

// memory notes the resident memory of the target, and of it what belongs to
// holdfast's own programs.
func (s sample) memory(when string, c *client) {
	all, own := 0, 0
	for _, p := range tree(c.cmd.Process.Pid) {
		all += p.RSS
		if i := strings.LastIndexByte(p.Exe, '/'); strings.HasPrefix(p.Exe[i+1:], "holdfast") {
			own += p.RSS
		}
	}
	if all > 0 {
		s["rss_"+when+"_mb"] = float64(all) / 1024
	}
	if own > 0 {
		s["rss_"+when+"_own_mb"] = float64(own) / 1024
	}
}
