package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// callEvery is the pause between calls while a worker is killed, whether or
// not the calls before are answered.
const callEvery = 5 * time.Millisecond

// callsBefore and callsAfter the death are answered, so that a late or second
// answer has time to show itself.
const (
	callsBefore = 20
	callsAfter  = 20
)

// victim is a way to lose the server.
type victim struct {
	Name string `json:"name"`
	argv []string
	// pid of what is killed, given that of the server.
	pid func(server int) int
}

// killing is what one kill has shown.
type killing struct {
	Millis     float64 `json:"ms"` // from the kill to the first answer of another process
	Asked      int     `json:"asked"`
	Unknown    int     `json:"outcome_unknown"` // the truth about calls under way
	Refused    int     `json:"refused"`         // other errors
	Lost       int     `json:"lost"`
	Duplicated int     `json:"duplicated"`
}

// benchKill kills each kind of worker so many times, each time behind a new
// supervisor: what the crash budget makes of many deaths is not the question.
func benchKill(o options, stdout, stderr io.Writer) error {
	self := func(pid int) int { return pid }
	held := func(args ...string) []string {
		return append([]string{o.holdfast, "run", "--log-level", "off"}, args...)
	}
	victims := []victim{
		{"native worker", held("--worker", o.server), self},
		{"bridged server", held("--", o.server), self},
		{"bridge", held("--", o.server), parentOf},
	}
	r := killReport{Machine: describe(o), Victims: victims, Kills: make([][]killing, len(victims))}
	for i := range o.kills {
		bare := make(sample)
		c, err := bare.start(target{Argv: []string{o.server}}, 1)
		if err != nil {
			return fmt.Errorf("bare start: %w", err)
		}
		if err := c.close(); err != nil {
			return fmt.Errorf("bare start: %w", err)
		}
		r.Bare = append(r.Bare, bare["start_ms"])
		for j := range victims {
			at := (i + j) % len(victims)
			k, err := kill(victims[at])
			if err != nil {
				return fmt.Errorf("%s: %w", victims[at].Name, err)
			}
			r.Kills[at] = append(r.Kills[at], k)
		}
		if (i+1)%10 == 0 {
			fmt.Fprintf(stderr, "%d of %d kills\n", i+1, o.kills)
		}
	}
	r.Machine.LoadAfter = loadAverage()
	return errors.Join(r.write(stdout, o.json), r.verdict())
}

// kill kills one worker under load.
func kill(v victim) (killing, error) {
	c, err := start(v.argv, nil)
	if err != nil {
		return killing{}, err
	}
	defer c.watch(patience)()
	if err := errors.Join(c.initialize(), c.initialized()); err != nil {
		_ = c.close()
		return killing{}, err
	}
	l := &killLoad{client: c, arrived: make(chan arrival), answers: make(map[int]int)}
	go l.read() // ends with the output of the target
	if err := l.run(v); err != nil {
		_ = c.in.Close()
		for range l.arrived { // lets read end
		}
		_ = c.cmd.Wait()
		return killing{}, err
	}
	return l.found, nil
}

// killLoad is a load of calls and what became of them.
type killLoad struct {
	client  *client
	arrived chan arrival
	answers map[int]int // by id
	first   int         // id of the first call
	before  int         // pid of the first server
	killed  time.Time
	after   int // answers of the second server
	found   killing
}

type arrival struct {
	line []byte
	at   time.Time
}

func (l *killLoad) read() {
	defer close(l.arrived)
	for {
		line, err := l.client.readLine()
		if err != nil {
			return
		}
		l.arrived <- arrival{append([]byte(nil), line...), time.Now()}
	}
}

// run calls on until the server has been killed and its successor has answered
// often enough, then ends the input and takes what still comes.
func (l *killLoad) run(v victim) error {
	l.first = l.client.ids + 1
	clock := time.NewTicker(callEvery)
	defer clock.Stop()
	for l.after < callsAfter {
		select {
		case <-clock.C:
			if err := l.call(); err != nil {
				return err
			}
			// With a call on its way, so that some kills hit one.
			if l.killed.IsZero() && l.before > 0 && len(l.answers) >= callsBefore {
				l.killed = time.Now()
				if err := killPID(v.pid(l.before)); err != nil {
					return err
				}
			}
		case a, ok := <-l.arrived:
			if !ok {
				return fmt.Errorf("the target ended: %w", io.ErrUnexpectedEOF)
			}
			if err := l.answer(a); err != nil {
				return err
			}
		}
	}
	_ = l.client.in.Close()
	for a := range l.arrived {
		if err := l.answer(a); err != nil {
			return err
		}
	}
	_ = l.client.cmd.Wait()
	l.count()
	return nil
}

// call asks for the process id of the server.
func (l *killLoad) call() error {
	l.client.ids++
	_, err := fmt.Fprintf(l.client.in, `{"method":"tools/call","params":{"name":"pid","arguments":{}},"jsonrpc":"2.0","id":%d}`+"\n", l.client.ids)
	return err
}

func (l *killLoad) answer(a arrival) error {
	msg, err := decode(a.line)
	if err != nil {
		return err
	}
	id, err := strconv.Atoi(string(msg.ID))
	if err != nil || id < l.first || id > l.client.ids {
		return fmt.Errorf("%w: %s", errBadAnswer, shorten(a.line))
	}
	l.answers[id]++
	if msg.Error != nil || msg.Result.IsError {
		if strings.Contains(string(a.line), `"outcome_unknown"`) {
			l.found.Unknown++
		} else {
			l.found.Refused++
		}
		return nil
	}
	pid, err := strconv.Atoi(msg.text())
	switch {
	case err != nil:
		return fmt.Errorf("%w: %s", errBadAnswer, shorten(a.line))
	case l.before == 0:
		l.before = pid
	case pid != l.before:
		if l.after == 0 {
			l.found.Millis = float64(a.at.Sub(l.killed)) / float64(time.Millisecond)
		}
		l.after++
	}
	return nil
}

func (l *killLoad) count() {
	l.found.Asked = l.client.ids - l.first + 1
	for id := l.first; id <= l.client.ids; id++ {
		switch n := l.answers[id]; {
		case n == 0:
			l.found.Lost++
		case n > 1:
			l.found.Duplicated += n - 1
		}
	}
}

// killReport is what a run of kills has found.
type killReport struct {
	Machine machine     `json:"machine"`
	Bare    []float64   `json:"bare_start_ms"`
	Victims []victim    `json:"victims"`
	Kills   [][]killing `json:"kills"` // by victim
}

// sums returns the times of the kills of a victim and the sums of the rest.
func (r killReport) sums(at int) (times []float64, sum killing) {
	for _, k := range r.Kills[at] {
		times = append(times, k.Millis)
		sum.Asked += k.Asked
		sum.Unknown += k.Unknown
		sum.Refused += k.Refused
		sum.Lost += k.Lost
		sum.Duplicated += k.Duplicated
	}
	return times, sum
}

func (r killReport) write(w io.Writer, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	out := &checkedWriter{w: w}
	fmt.Fprintf(out, "SIGKILL under a call each %s, %d times each; ms from the kill to the first answer of another process.\n\n",
		callEvery, len(r.Bare))
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "killed\tto next answer\tcalls\toutcome_unknown\trefused\tlost\tduplicated")
	for at, v := range r.Victims {
		times, sum := r.sums(at)
		s, _ := spreadOf(times)
		fmt.Fprintf(tw, "%s\t%.1f [%.1f..%.1f]\t%d\t%d\t%d\t%d\t%d\n",
			v.Name, s.Median, s.Min, s.Max, sum.Asked, sum.Unknown, sum.Refused, sum.Lost, sum.Duplicated)
	}
	tw.Flush()
	bare, _ := spreadOf(append([]float64(nil), r.Bare...))
	fmt.Fprintf(out, "\nthe server's own start, exec to initialize: %.1f [%.1f..%.1f] ms\n%s\n", bare.Median, bare.Min, bare.Max, r.Machine)
	return out.err
}

// verdict is an error if an answer was lost or came twice.
func (r killReport) verdict() error {
	for at, v := range r.Victims {
		if _, sum := r.sums(at); sum.Lost+sum.Duplicated > 0 {
			return fmt.Errorf("%s: %w: %d lost, %d duplicated", v.Name, errBadAnswer, sum.Lost, sum.Duplicated)
		}
	}
	return nil
}
