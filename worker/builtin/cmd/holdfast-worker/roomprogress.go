package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/term"

	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/nbrun"
)

// progress prints a row for each cell that has ended, and on a terminal a last
// line for the one that runs.
type progress struct {
	out      io.Writer
	file     string
	terminal bool
	colour   bool
	stop     func() // the line that runs

	mu    sync.Mutex // guards what is written
	total int
	begun int
}

func newProgress(out io.Writer, config nbrun.Config) *progress {
	file, ok := out.(*os.File)
	return &progress{
		out: out, file: config.File, colour: coloured(out), stop: func() {},
		terminal: ok && term.IsTerminal(int(file.Fd())),
	}
}

func (p *progress) ready(r nbrun.Report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total = r.Total
	name := r.Kernel
	if r.DisplayName != "" && r.DisplayName != name {
		name += " (" + r.DisplayName + ")"
	}
	fmt.Fprintf(p.out, "%s: %d cells, kernel %s\n", printable(p.file), r.Total, printable(name))
}

// begin shows the cell that runs, with the seconds that it has taken.
func (p *progress) begin(c nbrun.Cell) {
	p.begun++
	if !p.terminal {
		return
	}
	began, stop, stopped := time.Now(), make(chan struct{}), make(chan struct{})
	number := p.begun
	show := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		fmt.Fprintf(p.out, "\r\x1b[K[%d/%d] %s %.0f s", number, p.total, firstLine(c.Source, 50), time.Since(began).Seconds())
	}
	show()
	go func() { // ends when the cell does
		defer close(stopped)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				show()
			case <-stop:
				return
			}
		}
	}()
	p.stop = func() {
		close(stop)
		<-stopped
		p.stop = func() {}
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

func (p *progress) end(c nbrun.Cell) {
	p.stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	count := "   "
	if c.Count != nil && c.State != nbrun.Skipped {
		count = fmt.Sprintf("[%d]", *c.Count)
	}
	took := ""
	if c.Duration > 0 {
		took = fmt.Sprintf("%.1f s", c.Duration.Seconds())
	}
	fmt.Fprintf(p.out, "%4s %s %8s  %s\n", count, p.paint(c), took, firstLine(c.Source, 60))
	if c.Cut {
		fmt.Fprintln(p.out, "     some of its output is missing")
	}
	if c.State != nbrun.Failed {
		return
	}
	fmt.Fprintf(p.out, "     %s\n", firstLine(why(c), 200))
}

// why says in words what made a cell fail.
func why(c nbrun.Cell) string {
	var parts []string
	if c.Reason == nbrun.ReasonTimeout || c.Reason == nbrun.ReasonInterrupted {
		parts = append(parts, c.Reason)
	}
	for _, part := range []string{c.EName, c.EValue} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
}

// paint is the state of a cell, coloured where that is wanted.
func (p *progress) paint(c nbrun.Cell) string {
	text := fmt.Sprintf("%-9s", c.State)
	colour := map[nbrun.State]string{nbrun.Done: "32", nbrun.Failed: "31", nbrun.Cancelled: "33", nbrun.Skipped: "2"}[c.State]
	if !p.colour || colour == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// sum tells what became of all cells and where the results are.
func (p *progress) sum(r nbrun.Report, err error) {
	p.stop()
	if len(r.Cells) == 0 && r.Saved == "" {
		return
	}
	var counts []string
	for _, s := range []nbrun.State{nbrun.Done, nbrun.Failed, nbrun.Cancelled, nbrun.Skipped} {
		if n := r.Count(s); n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, s))
		}
	}
	if len(counts) == 0 {
		counts = []string{"no cells of code"}
	}
	saved := "nothing to save"
	switch {
	case r.Saved != "":
		saved = "saved in " + printable(r.Saved)
	case errors.Is(err, nbrun.ErrSave):
		saved = "not saved"
	}
	fmt.Fprintf(p.out, "%s in %.1f s; %s\n", strings.Join(counts, ", "), r.Seconds, saved)
}

// firstLine is the beginning of a text, fit for a terminal.
func firstLine(text string, limit int) string {
	line, rest, _ := strings.Cut(strings.TrimSpace(text), "\n")
	line = printable(line)
	if runes := []rune(line); len(runes) > limit {
		return string(runes[:limit]) + "…"
	}
	if strings.TrimSpace(rest) != "" {
		return line + " …"
	}
	return line
}

// printable is a text without what controls a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}
