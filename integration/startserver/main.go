// Command startserver is an MCP server on stdio, made for tests of the start
// of a session: how soon it is up, which eras it speaks, how it takes a probe
// and what it offers is decided by the test. It is written without an SDK, so
// that it starts in a few milliseconds and so that what it does is known.
//
//	startserver -era legacy|dual|modern [-probe MANNER] [-offer FILE] [-journal FILE]
//
// How long it waits before it reads anything is not in its arguments but in
// the environment (STARTSERVER_DELAY, a duration or "never"), so that a slow
// start and a fast one are the same command. All that it says of itself names
// its process id: an answer tells which life gave it.
//
// It answers one message after the other.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"
)

// delayVariable says how long to wait before reading.
const delayVariable = "STARTSERVER_DELAY"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "startserver:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	s := server{out: os.Stdout, listens: map[string]json.RawMessage{}}
	flags := flag.NewFlagSet("startserver", flag.ContinueOnError)
	era := flags.String("era", "dual", "legacy: refuses server/discover; modern: refuses initialize; dual: takes what comes first")
	probe := flags.String("probe", "", "how it takes what comes before initialize: "+manners)
	offer := flags.String("offer", "", "JSON file of what it offers, see type offer; read at the start")
	flags.StringVar(&s.journal, "journal", os.DevNull, "file to which the method of each message is appended")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var err error
	if s.era, err = eraOf(*era); err != nil {
		return err
	}
	if s.probe, err = mannerOf(*probe); err != nil {
		return err
	}
	if s.offer, err = readOffer(*offer); err != nil {
		return err
	}
	if err := wait(os.Getenv(delayVariable)); err != nil {
		return err
	}
	return s.serve()
}

// wait returns when the server may read.
func wait(text string) error {
	if text == "" {
		return nil
	}
	delay, err := time.ParseDuration(text)
	if text == "never" {
		delay, err = 1000*time.Hour, nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", delayVariable, err)
	}
	<-time.After(delay)
	return nil
}

func (s *server) serve() error {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var m message
		if json.Unmarshal(in.Bytes(), &m) != nil {
			continue // no message
		}
		if err := s.note(m.Method); err != nil {
			return err
		}
		if err := s.handle(m); err != nil {
			return err
		}
	}
	return in.Err()
}

// note appends a line to the journal by one write, so that those of several
// processes never mix.
func (s *server) note(method string) error {
	if method == "" {
		return nil
	}
	f, err := os.OpenFile(s.journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(f, "%d %s\n", os.Getpid(), method); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
