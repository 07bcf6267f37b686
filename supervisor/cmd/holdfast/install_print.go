package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/holdfast-mcp/holdfast/supervisor/internal/editor"
)

func (n *notes) print(w io.Writer) {
	for _, note := range *n {
		fmt.Fprintln(w, "note:", readable(note))
	}
}

// readable is text from a foreign file without what a terminal would act on.
func readable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// colours of a diff, by the first byte of a line.
var colours = map[byte]string{'+': "\x1b[32m", '-': "\x1b[31m", '@': "\x1b[36m"}

// printDiff shows a change: in colours on a terminal, else as it is, for patch.
func printDiff(w io.Writer, diff []byte) error {
	if onTerminal(w) {
		_, plain := os.LookupEnv("NO_COLOR")
		diff = forTerminal(diff, !plain)
	}
	_, err := w.Write(diff)
	return err
}

func forTerminal(diff []byte, coloured bool) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(diff) {
		text := readable(strings.TrimRight(string(line), "\r\n"))
		if colour := colours[line[0]]; colour != "" && coloured {
			text = colour + text + "\x1b[m"
		}
		out.WriteString(text + "\n")
	}
	return out.Bytes()
}

func onTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// listedPlace is one place of a client as --list --json tells it.
type listedPlace struct {
	Client string         `json:"client"`
	Title  string         `json:"title"`
	Scope  editor.Scope   `json:"scope"`
	File   string         `json:"file"`
	Exists bool           `json:"exists"`
	Error  string         `json:"error,omitempty"`
	Has    []listedServer `json:"servers"`
}

// listedServer is one entry. Its env is left out, which may be secret.
type listedServer struct {
	Name     string   `json:"name"`
	Command  string   `json:"command,omitempty"`
	Args     []string `json:"args,omitempty"`
	Holdfast bool     `json:"holdfast"`
}

func (in *installation) printList(cmd *cobra.Command, e editor.Editor, args []string) error {
	if len(args) > 1 || in.name != "" || in.wrap != "" {
		return usageError{fmt.Errorf("--list takes at most one CLIENT; see `holdfast install --help`")}
	}
	clients := editor.Clients()
	if len(args) == 1 {
		one, err := clientNamed(args[0])
		if err != nil {
			return err
		}
		clients = []editor.Client{one}
	}
	places := []listedPlace{}
	for _, l := range e.List(clients) {
		p := listedPlace{
			Client: l.Place.Client.Name, Title: l.Place.Client.Title, Scope: l.Place.Scope, File: l.Place.File, Exists: l.Exists,
			Has: []listedServer{},
		}
		if l.Err != nil {
			p.Error = l.Err.Error()
		}
		for _, s := range l.Servers {
			p.Has = append(p.Has, listedServer{s.Name, s.Command, s.Args, s.Supervised()})
		}
		places = append(places, p)
	}
	if in.json {
		enc := json.NewEncoder(cmd.OutOrStdout())
		enc.SetIndent("", "  ")
		return enc.Encode(places)
	}
	printPlaces(cmd.OutOrStdout(), places)
	return nil
}

func printPlaces(w io.Writer, places []listedPlace) {
	for _, p := range places {
		state := ""
		switch {
		case p.Error != "":
			state = "  cannot be read"
		case !p.Exists:
			state = "  not there"
		}
		fmt.Fprintf(w, "%-14s  %-7s  %s%s\n", p.Client, p.Scope, readable(p.File), state)
		if p.Error != "" {
			fmt.Fprintf(w, "    %s\n", readable(p.Error))
		}
		for _, s := range p.Has {
			how := "direct"
			switch {
			case s.Holdfast:
				how = "holdfast"
			case s.Command == "":
				how = "remote"
			}
			line := fmt.Sprintf("    %-20s  %-8s  %s", s.Name, how, strings.Join(append([]string{s.Command}, s.Args...), " "))
			fmt.Fprintln(w, readable(strings.TrimRight(line, " ")))
		}
	}
}
