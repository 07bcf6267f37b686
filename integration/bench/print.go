package main

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"text/tabwriter"
)

// machine is where and with what a run was made.
type machine struct {
	OS         string `json:"os"`
	Cores      int    `json:"cores"`
	Go         string `json:"go"`
	SDK        string `json:"go_sdk"`
	Commit     string `json:"commit"`
	LoadBefore string `json:"load_before"`
	LoadAfter  string `json:"load_after"`
}

func describe(o options) machine {
	m := machine{
		OS: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version(),
		LoadBefore: loadAverage(), SDK: "unknown", Commit: "unknown",
	}
	if info, err := buildinfo.ReadFile(o.server); err == nil {
		for _, dep := range info.Deps {
			if dep.Path == "github.com/modelcontextprotocol/go-sdk" {
				m.SDK = dep.Version
			}
		}
	}
	if out, err := exec.Command("git", "describe", "--always", "--dirty=+").Output(); err == nil {
		m.Commit = strings.TrimSpace(string(out))
	}
	return m
}

func (m machine) String() string {
	return fmt.Sprintf("%s, %d cores, load %s before and %s after, %s, go-sdk %s, commit %s",
		m.OS, m.Cores, m.LoadBefore, m.LoadAfter, m.Go, m.SDK, m.Commit)
}

// print prints the tables, the base and the bounds.
func (r report) print(w io.Writer) error {
	out := &checkedWriter{w: w}
	fmt.Fprintf(out, "Ratio to direct in the same repetition: median [min..max] of %d; ~ the range contains 1.00.\n"+
		"More is worse, but for req/s. RSS in MB as it is.\n\n", len(r.Repetitions))
	r.table(out, metrics[:6])
	r.table(out, metrics[6:12])
	r.table(out, metrics[12:])
	r.printBase(out)
	for _, t := range r.Targets {
		if t.Note != "" {
			fmt.Fprintf(out, "%s: %s\n", t.Name, t.Note)
		}
	}
	fmt.Fprintln(out)
	printBounds(out, r.Bounds)
	fmt.Fprintf(out, "\n%s\n", r.Machine)
	return out.err
}

func (r report) table(w io.Writer, columns []metric) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, m := range columns {
		fmt.Fprintf(tw, "\t%s", m.title)
	}
	fmt.Fprintln(tw)
	for at, t := range r.Targets {
		fmt.Fprint(tw, t.Name)
		for _, m := range columns {
			s, ok := r.figures(at, m)
			switch {
			case !ok:
				fmt.Fprint(tw, "\t-")
			case m.absolute:
				fmt.Fprintf(tw, "\t%.1f [%.1f..%.1f]", s.Median, s.Min, s.Max)
			case at == 0:
				fmt.Fprint(tw, "\t1.00")
			default:
				fmt.Fprintf(tw, "\t%s", s)
			}
		}
		fmt.Fprintln(tw)
	}
	tw.Flush() // its error is that of w, which is checked at the end
	fmt.Fprintln(w)
}

func (s spread) String() string {
	mark := ""
	if s.Min <= 1 && s.Max >= 1 {
		mark = "~"
	}
	return fmt.Sprintf("%s%.2f [%.2f..%.2f]", mark, s.Median, s.Min, s.Max)
}

// printBase prints the medians of direct, which the ratios refer to.
func (r report) printBase(w io.Writer) {
	var parts []string
	for _, m := range metrics[:12] {
		m.absolute = true
		if s, ok := r.figures(0, m); ok {
			parts = append(parts, m.title+" "+fmt.Sprintf(m.format, s.Median))
		}
	}
	fmt.Fprintf(w, "direct: %s\n", strings.Join(parts, ", "))
}

func printBounds(w io.Writer, bounds []bound) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, b := range bounds {
		b.print(tw, metricOf(b.Metric).name())
	}
	tw.Flush()
}

// print prints the cells of a bound on what has that name.
func (b bound) print(w io.Writer, name string) {
	verdict, found := "not measured", "-"
	if b.Found != nil {
		verdict, found = "MISSED", fmt.Sprintf("%.2f [%.2f..%.2f]", b.Found.Median, b.Found.Min, b.Found.Max)
		if b.OK {
			verdict = "ok"
		}
	}
	fmt.Fprintf(w, "%s\t%s\t%s\tat most %g\t%s\n", b.Target, name, found, b.AtMost, verdict)
}

// name is a title that stands alone.
func (m metric) name() string {
	if m.key == "rss_idle_own_mb" {
		return "RSS idle, holdfast's own, MB"
	}
	return m.title
}

// checkedWriter keeps the first error, so that printing needs one check.
type checkedWriter struct {
	w   io.Writer
	err error
}

func (c *checkedWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.err = errors.Join(c.err, err)
	return n, err
}
