package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

func (r swapReport) write(w io.Writer, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	out := &checkedWriter{w: w}
	fmt.Fprint(out, "Replacements under 1,000 calls a second, each a mutation with a journal; native worker. Times in ms.\n"+
		"Next is the time to the first answer of the new worker, the gap the longest time between two answers of whatever\n"+
		"kind, of each replacement: median [max]. The lag is how late the bench itself was with a call at worst: where it\n"+
		"is as long as the gap, the machine was busy and nobody ran.\n\n")
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "replaced\tstart\ttimes\tnext\tgap\tlag\tp50\tp99\tcalls\tunknown\trefused\tlost\tduplicated\treplayed")
	for _, row := range r.Rows {
		gaps, _ := spreadOf(slices.Clone(row.Gaps))
		next, _ := spreadOf(slices.Clone(row.Next))
		fmt.Fprintf(tw, "%s\t%v\t%d\t%.1f [%.1f]\t%.1f [%.1f]\t%.1f\t%.2f\t%.1f\t%d\t%d\t%d\t%d\t%d\t%d\n",
			row.Name, row.Start, len(row.Gaps), next.Median, next.Max, gaps.Median, gaps.Max, slices.Max(row.Lags), row.P50, row.P99,
			row.Asked, row.Unknown, row.Refused, row.Lost, row.Duplicated, row.Replayed)
	}
	tw.Flush()
	fmt.Fprintln(out)
	for _, row := range r.Rows {
		for i, gap := range row.Gaps {
			if row.limit > 0 && gap > row.limit {
				fmt.Fprintf(out, "outlier: %s, start %v, replacement %d: gap of %.0f ms that ended after %.0f ms, the new worker's first answer "+
					"came after %.0f ms, the bench was late by %.0f ms\n", row.Name, row.Start, i+1, gap, row.GapAt[i], row.Next[i], row.Lags[i])
			}
		}
	}
	fmt.Fprintln(out, r.Machine)
	return out.err
}

// verdict is an error if an answer was lost, came twice, or stands for work that
// was done twice; or, where nothing was lost, if one was not served.
func (r swapReport) verdict() error {
	for _, row := range r.Rows {
		if row.Lost+row.Duplicated+row.Replayed > 0 || row.limit > 0 && row.Unknown+row.Refused > 0 {
			return fmt.Errorf("%s, start %v: %w: %d lost, %d duplicated, %d replayed, %d unknown, %d refused",
				row.Name, row.Start, errBadAnswer, row.Lost, row.Duplicated, row.Replayed, row.Unknown, row.Refused)
		}
	}
	return nil
}
