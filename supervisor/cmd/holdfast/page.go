package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// Colours, as terminals take them.
const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	bold   = "\x1b[1m"
	grey   = "\x1b[2m"
	plain  = "\x1b[m"
)

var levelColours = map[string]string{"debug": grey, "warn": yellow, "error": red}

// painter colours text for terminals, unless NO_COLOR says otherwise.
type painter struct{ on bool }

func newPainter(w io.Writer) painter {
	_, no := os.LookupEnv("NO_COLOR")
	return painter{!no && os.Getenv("TERM") != "dumb" && onTerminal(w)}
}

func (p painter) paint(colour, text string) string {
	if !p.on || colour == "" || text == "" {
		return text
	}
	return colour + text + plain
}

// indent is where the text of a row begins.
const indent = 14

// page is text for a person: rows with a label, wrapped at the width of the
// terminal. What is not written to one is not wrapped, for grep.
type page struct {
	painter
	width int // 0: as wide as it takes
	now   time.Time
	out   strings.Builder
}

func newPage(w io.Writer) *page {
	p := &page{painter: newPainter(w), now: time.Now()}
	if f, ok := w.(*os.File); ok && onTerminal(w) {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 2*indent {
			p.width = width
		}
	}
	return p
}

// title writes a line that is not indented.
func (p *page) title(text, rest string) {
	text, rest = oneLine(text), oneLine(rest)
	lines := wrap(text+rest, p.width, 2)
	if first, ok := strings.CutPrefix(lines[0], text); ok {
		lines[0] = p.paint(bold, text) + first
	}
	fmt.Fprintln(&p.out, strings.Join(lines, "\n  "))
}

// row writes a text behind its label; an empty label continues the row before.
// The first word of the text may have a colour.
func (p *page) row(label, text string) { p.colouredRow(label, "", text) }

func (p *page) colouredRow(label, colour, text string) {
	lines := wrap(oneLine(text), p.width, indent)
	lines[0] = p.firstWord(colour, lines[0])
	fmt.Fprintf(&p.out, "  %-*s%s\n", indent-2, label, strings.Join(lines, "\n"+strings.Repeat(" ", indent)))
}

// firstWord colours the first word of a line, without what punctuates it.
func (p *page) firstWord(colour, line string) string {
	end := strings.IndexAny(line, " ,;")
	if end < 0 {
		end = len(line)
	}
	return p.paint(colour, line[:end]) + line[end:]
}

// quoted writes lines of another program, each cut to the width of the page.
func (p *page) quoted(lines []string) {
	for _, line := range lines {
		line = oneLine(line)
		if room := p.width - indent - 2; p.width > 0 && utf8.RuneCountInString(line) > room {
			line = string([]rune(line)[:room-1]) + "…"
		}
		fmt.Fprintf(&p.out, "%*s%s\n", indent+2, "", p.paint(grey, line))
	}
}

// since tells how long ago a time is, until how far it lies ahead.
func (p *page) since(t time.Time) string { return span(p.now.Sub(t)) }
func (p *page) until(t time.Time) string { return span(t.Sub(p.now)) }

// span is a duration as people say it: two units at most.
func span(d time.Duration) string {
	d = max(0, d)
	switch {
	case d < 10*time.Second:
		if d < time.Second {
			return d.Round(time.Millisecond).String()
		}
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 24*time.Hour:
		d = d.Round(time.Minute)
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	default:
		d = d.Round(time.Hour)
		return fmt.Sprintf("%dd%02dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	}
}

// oneLine is foreign text as a terminal may get it, on one line.
func oneLine(text string) string {
	return readable(strings.NewReplacer("\r\n", " ", "\n", " ", "\t", " ").Replace(text))
}

// wrap breaks a text into lines that end before the width, where all are
// indented by so much. Words that are longer are broken.
func wrap(text string, width, indent int) []string {
	room := width - indent
	if width <= 0 || room < 10 {
		return []string{text}
	}
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= room {
			line += " " + word
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for r := []rune(word); len(r) > room; r = []rune(word) {
			lines = append(lines, string(r[:room]))
			word = string(r[room:])
		}
		line = word
	}
	if line != "" || len(lines) == 0 {
		lines = append(lines, line)
	}
	return lines
}
