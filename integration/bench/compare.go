package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// benchTargets measures all targets in all repetitions and prints what it
// found.
func benchTargets(o options, stdout, stderr io.Writer) error {
	remote, stop, err := startRemote()
	if err != nil {
		return err
	}
	defer stop()
	table, missing, err := targets(o, remote)
	if err != nil {
		return err
	}
	for _, line := range missing {
		fmt.Fprintln(stderr, line)
	}
	reps := o.reps
	if o.quick {
		reps = 2
	}
	r := report{Machine: describe(o), Targets: table}
	w, p := newWork(o.quick), newPayload(o.escaped)
	for i := range reps {
		fmt.Fprintf(stderr, "repetition %d of %d\n", i+1, reps)
		samples := make([]sample, len(table))
		for j := range table {
			at := (i + j) % len(table) // nobody always comes after the same one
			if samples[at], err = measure(table[at], w, p); err != nil {
				return fmt.Errorf("%s: %w", table[at].Name, err)
			}
		}
		r.Repetitions = append(r.Repetitions, samples)
	}
	r.Machine.LoadAfter = loadAverage()
	r.Bounds = r.bounds()
	if o.json {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	return r.print(stdout)
}

// report is everything that a run found.
type report struct {
	Machine     machine    `json:"machine"`
	Targets     []target   `json:"targets"`
	Repetitions [][]sample `json:"repetitions"` // by repetition and target
	Bounds      []bound    `json:"bounds"`
}

// spread is the median of some figures and their range.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func spreadOf(figures []float64) (spread, bool) {
	if len(figures) == 0 {
		return spread{}, false
	}
	slices.Sort(figures)
	n := len(figures)
	return spread{(figures[(n-1)/2] + figures[n/2]) / 2, figures[0], figures[n-1]}, true
}

// figures returns the figures of a target, as they are or as ratios to the
// base in the same repetition.
func (r report) figures(at int, m metric) (spread, bool) {
	var out []float64
	for _, rep := range r.Repetitions {
		v, ok := rep[at][m.key]
		if ok && !m.absolute {
			var base float64
			if base, ok = rep[0][m.key]; ok {
				v /= base
			}
		}
		if ok {
			out = append(out, v)
		}
	}
	return spreadOf(out)
}

// bound is a promise about a target.
type bound struct {
	Target string  `json:"target"`
	Metric string  `json:"metric"`
	AtMost float64 `json:"at_most"`
	Found  *spread `json:"found,omitempty"` // nil: not measured here
	OK     bool    `json:"ok"`
}

// promised are the bounds on medians: ratios to direct, and MB.
var promised = []bound{
	{Target: nameNative, Metric: "p50_64b_us", AtMost: 2.0},
	{Target: nameNative, Metric: "p50_4k_us", AtMost: 1.2},
	{Target: nameNative, Metric: "p50_256k_us", AtMost: 1.0},
	{Target: nameNative, Metric: "p50_4m_us", AtMost: 1.0},
	{Target: nameNative, Metric: "cpu_ms", AtMost: 1.4},
	{Target: nameNative, Metric: "start_ms", AtMost: 4},
	{Target: nameNative, Metric: "rss_idle_own_mb", AtMost: 20},
	{Target: nameBridged, Metric: "p50_64b_us", AtMost: 3.5},
	{Target: nameBridged, Metric: "p50_4k_us", AtMost: 1.9},
	{Target: nameBridged, Metric: "start_ms", AtMost: 6},
	{Target: nameBridged, Metric: "rss_idle_own_mb", AtMost: 40},
}

// bounds compares what was promised with what was found. Targets that were not
// asked for are left out.
func (r report) bounds() []bound {
	var out []bound
	for _, b := range promised {
		at := slices.IndexFunc(r.Targets, func(t target) bool { return t.Name == b.Target })
		if at < 0 {
			continue
		}
		if found, ok := r.figures(at, metricOf(b.Metric)); ok {
			b.Found, b.OK = &found, found.Median <= b.AtMost
		}
		out = append(out, b)
	}
	return out
}

func metricOf(key string) metric {
	return metrics[slices.IndexFunc(metrics, func(m metric) bool { return m.key == key })]
}
