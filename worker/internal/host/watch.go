package host

import (
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Watch returns a channel that is closed when the supervisor is gone or wants
// this process gone: its end of our stdin was closed, or we got TERM, which is
// also what Linux sends when the supervisor dies. before, if not nil, is called
// before the channel is closed.
//
// From here on, until release, TERM does not end the process by itself. Watch
// reads stdin until its end, so nothing else may.
func Watch(before func()) (gone <-chan struct{}, release func()) {
	input := make(chan struct{})
	stdin := os.Stdin
	go func() { // ends with the input, else with the process
		defer close(input)
		_, _ = io.Copy(io.Discard, stdin)
	}()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	closed := make(chan struct{})
	released := make(chan struct{})
	go func() { // ends with the first event, or when released
		defer close(closed)
		select {
		case <-input:
		case <-signals:
		case <-released:
			return
		}
		if before != nil {
			before()
		}
	}()
	return closed, func() {
		signal.Stop(signals)
		close(released)
	}
}
