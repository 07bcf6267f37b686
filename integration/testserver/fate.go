package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// fate is how the starts of a server end, so that a test can have the crash
// loop or the handoffs that it wants.
type fate struct {
	starts, ends string
	after        time.Duration
}

// meet counts this start, and ends it if that is its fate: now, or later. A
// line of the file is the time of a start in nanoseconds.
func (f fate) meet() error {
	if f.starts == "" {
		return nil
	}
	s := server{journal: f.starts}
	if err := s.note(strconv.FormatInt(time.Now().UnixNano(), 10)); err != nil {
		return err
	}
	b, err := os.ReadFile(f.starts)
	if err != nil {
		return err
	}
	n := bytes.Count(b, []byte("\n"))
	ends := strings.Split(f.ends, ",")
	code, err := strconv.Atoi(ends[min(n, len(ends))-1])
	if err != nil {
		return nil //nolint:nilerr // no number: this one lives
	}
	end := func() {
		fmt.Fprintf(os.Stderr, "start %d ends with code %d\n", n, code)
		os.Exit(code) //nolint:forbidigo // this is the end that was asked for
	}
	if f.after == 0 {
		end()
	}
	time.AfterFunc(f.after, end)
	return nil
}

// awaitGate waits until there is no such file.
func awaitGate(path string) {
	for path != "" {
		if _, err := os.Stat(path); err != nil {
			return
		}
		<-time.After(2 * time.Millisecond) // between two looks
	}
}
