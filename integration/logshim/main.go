// Command logshim stands between an MCP client and its server and records what
// passes:
//
//	logshim LOG -- COMMAND ARGS...
//
// It adds one JSON object a line to LOG: each start of the command, each line
// in either direction, the end of the client's output, each signal, and how
// the command ended. Bytes, signals and the exit code pass unchanged. It says
// nothing itself, keeps no state besides the log, and does not outlive the
// command.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
)

func main() {
	if len(os.Args) < 4 || os.Args[2] != "--" {
		fmt.Fprintln(os.Stderr, "usage: logshim LOG -- COMMAND ARGS...")
		os.Exit(2)
	}
	code, err := run(os.Args[1], os.Args[3:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "logshim:", err)
	}
	os.Exit(code)
}

// run starts the command, and returns the exit code once it has ended.
func run(path string, command []string) (int, error) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 1, err
	}
	l := &log{file: file}
	// Before the start, so that no signal ends logshim alone.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)

	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return 1, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return 1, err
	}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	l.write("start", "")
	go func() { // ends with the client's output, or with the process
		l.pass(stdin, os.Stdin, "client")
		l.write("eof", "")
		_ = stdin.Close()
	}()
	go func() { // ends with the process
		for s := range signals {
			l.write("signal", s.String())
			_ = cmd.Process.Signal(s) // it may have ended
		}
	}()
	l.pass(os.Stdout, stdout, "server")
	_ = cmd.Wait() // the state says how it ended
	l.write("exit", cmd.ProcessState.String())
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		return code, nil
	}
	return 1, nil // it was killed
}

// log is the file; it is safe for concurrent use.
type log struct {
	mu   sync.Mutex // one entry at a time
	file io.Writer
}

func (l *log) write(what, text string) {
	b, err := json.Marshal(map[string]string{"what": what, "text": text})
	if err != nil {
		return // cannot be: strings marshal
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.file.Write(append(b, '\n')) // a log that cannot be written fails the test that reads it
}

// pass copies from one end to the other, and logs the lines.
func (l *log) pass(to io.Writer, from io.Reader, who string) {
	lines := &lineWriter{line: func(text string) { l.write(who, text) }}
	// A reader that is gone must not keep the rest from being read.
	_, err := io.Copy(to, io.TeeReader(from, lines))
	if err != nil {
		_, _ = io.Copy(lines, from)
	}
	if len(lines.rest) > 0 {
		lines.line(string(lines.rest))
	}
}

// lineWriter calls line for each whole line.
type lineWriter struct {
	line func(string)
	rest []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		line, rest, found := bytes.Cut(w.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		w.line(string(line))
		w.rest = rest
	}
}
