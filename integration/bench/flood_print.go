package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// Bounds of a flood: the p99 of calls beside that without one, and the memory
// after the last flood beside that after the first.
const (
	floodAtMost    = 2.0
	floodRSSAtMost = 1.1
)

// quietUpdates is how many a phase has.
const quietUpdates = floodSlices * floodQuiet

// floodReport is what a run of floods has found.
type floodReport struct {
	Machine machine   `json:"machine"`
	Rows    []flooded `json:"rows"`
}

// ratios returns the p99 of each flood beside that of the calm slices between.
func (f flooded) ratios() (ratios []float64) {
	for i, p := range f.Floods {
		ratios = append(ratios, p.P99/f.Calm[i].P99)
	}
	return ratios
}

// bounds returns what was promised and found of a row.
func (f flooded) bounds() []bound {
	if !f.held || len(f.Floods) == 0 {
		return nil
	}
	ratio, _ := spreadOf(f.ratios())
	all := []bound{{Target: f.Name, Metric: "p99 of calls, flood to calm", AtMost: floodAtMost, Found: &ratio}}
	if first := f.Floods[0].RSS; first > 0 {
		grown := f.Floods[len(f.Floods)-1].RSS / first
		all = append(all, bound{Target: f.Name, Metric: "RSS, last flood to first", AtMost: floodRSSAtMost, Found: &spread{grown, grown, grown}})
	}
	for i := range all {
		all[i].OK = all[i].Found.Median <= all[i].AtMost
	}
	return all
}

// column returns the spread of a figure.
func column(phases []phase, of func(phase) float64) spread {
	var figures []float64
	for _, p := range phases {
		figures = append(figures, of(p))
	}
	s, _ := spreadOf(figures)
	return s
}

func (r floodReport) write(w io.Writer, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	out := &checkedWriter{w: w}
	fmt.Fprintf(out, "A flood of %d updates a second of one resource beside %d others, and a call each %v, beside the same without\n"+
		"the flood. Each repetition has %d slices of both in turn, in each of which all the others change once. Medians of the\n"+
		"repetitions, [min..max] where it says so; times in us. The ratio is that within a repetition. The lag is the p99 of\n"+
		"how late the bench itself woke, which calls do not count: where it is much more than 1000, the machine was busy. RSS\n"+
		"in MB is that of holdfast's programs: before any update, after the first repetition, after the last.\n\n",
		floodRate, floodQuiet, floodCalls, floodSlices)
	r.table(out)
	for _, row := range r.Rows {
		for i := range row.Floods {
			if quiet := min(row.Calm[i].Quiet, row.Floods[i].Quiet); quiet < quietUpdates {
				fmt.Fprintf(out, "%s, repetition %d: %d of %d updates of quiet resources were told\n", row.Name, i+1, quiet, quietUpdates)
			}
		}
	}
	r.printBounds(out)
	fmt.Fprintf(out, "\n%s\n", r.Machine)
	return out.err
}

func (r floodReport) table(w io.Writer) {
	p50, p99 := func(p phase) float64 { return p.P50 }, func(p phase) float64 { return p.P99 }
	lag, cores := func(p phase) float64 { return p.Lag }, func(p phase) float64 { return p.CPU }
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "\tp50 calm\tflood\tp99 calm\tflood\tratio\tlag calm\tflood\tcores calm\tflood\tquiet told\tsent/s\ttold/s\tRSS")
	for _, row := range r.Rows {
		ratio, _ := spreadOf(row.ratios())
		calm, flood := column(row.Calm, p99), column(row.Floods, p99)
		fmt.Fprintf(tw, "%s\t%.0f\t%.0f\t%.0f [%.0f..%.0f]\t%.0f [%.0f..%.0f]\t%s\t%.0f\t%.0f\t%.2f\t%.2f",
			row.Name, column(row.Calm, p50).Median, column(row.Floods, p50).Median, calm.Median, calm.Min, calm.Max,
			flood.Median, flood.Min, flood.Max, ratio, column(row.Calm, lag).Median, column(row.Floods, lag).Median,
			column(row.Calm, cores).Median, column(row.Floods, cores).Median)
		quiet := 0
		for i := range row.Floods {
			quiet += row.Calm[i].Quiet + row.Floods[i].Quiet
		}
		fmt.Fprintf(tw, "\t%d of %d\t%.0f\t%.0f", quiet, 2*len(row.Floods)*quietUpdates,
			column(row.Floods, func(p phase) float64 { return float64(p.Sent) / p.Seconds }).Median,
			column(row.Floods, func(p phase) float64 { return float64(p.Told) / p.Seconds }).Median)
		if n := len(row.Floods); row.Start > 0 && n > 0 {
			fmt.Fprintf(tw, "\t%.1f, %.1f, %.1f\n", row.Start, row.Floods[0].RSS, row.Floods[n-1].RSS)
		} else {
			fmt.Fprintln(tw, "\t-")
		}
	}
	tw.Flush() // its error is that of w, which is checked at the end
	fmt.Fprintln(w)
}

func (r floodReport) printBounds(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range r.Rows {
		for _, b := range row.bounds() {
			b.print(tw, b.Metric)
		}
	}
	tw.Flush()
}

// verdict is an error if an update of a quiet resource was not told, or none of
// the noisy one.
func (r floodReport) verdict() error {
	for _, row := range r.Rows {
		for i, p := range row.Floods {
			if quiet := min(row.Calm[i].Quiet, p.Quiet); quiet < quietUpdates || p.Told == 0 {
				return fmt.Errorf("%s: %w: %d of %d updates of quiet resources were told, and %d of the other one",
					row.Name, errBadAnswer, quiet, quietUpdates, p.Told)
			}
		}
	}
	return nil
}
