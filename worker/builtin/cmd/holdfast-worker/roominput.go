package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// asker answers questions of code with lines of stdin.
type asker struct {
	in     *os.File
	prompt io.Writer
	lines  *bufio.Reader
	before *term.State // of the terminal, nil if in is none
	// turn holds one token while a line is read; the reader of a question that
	// was given up keeps it until the line comes.
	turn chan struct{}
}

func newAsker(in *os.File, prompt io.Writer) *asker {
	a := &asker{in: in, prompt: prompt, lines: bufio.NewReader(in), turn: make(chan struct{}, 1)}
	if state, err := term.GetState(int(in.Fd())); err == nil {
		a.before = state
	}
	return a
}

// restore shows again what is typed, if a password was asked for at the end.
func (a *asker) restore() {
	if a.before != nil {
		_ = term.Restore(int(a.in.Fd()), a.before)
	}
}

// ask asks one question. Passwords are not shown while they are typed.
func (a *asker) ask(ctx context.Context, prompt string, password bool) (string, error) {
	select {
	case a.turn <- struct{}{}:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	fmt.Fprintf(a.prompt, "\n%s", printable(prompt))
	type answer struct {
		line string
		err  error
	}
	answers := make(chan answer, 1)
	go func() { // ends with the line, at the latest with the process
		line, err := a.read(password)
		<-a.turn
		answers <- answer{line, err}
	}()
	select {
	case got := <-answers:
		return got.line, got.err
	case <-ctx.Done():
		a.restore()
		return "", ctx.Err()
	}
}

func (a *asker) read(password bool) (string, error) {
	if password && a.before != nil {
		line, err := term.ReadPassword(int(a.in.Fd()))
		fmt.Fprintln(a.prompt)
		return string(line), err
	}
	line, err := a.lines.ReadString('\n')
	if errors.Is(err, io.EOF) && line != "" {
		err = nil // the last line has no end
	}
	return strings.TrimRight(line, "\r\n"), err
}
