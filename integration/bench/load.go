package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// payload makes texts of a given size that differ from call to call.
type payload struct{ unit string }

func newPayload(escaped bool) payload {
	if escaped {
		return payload{`{"path":"src/main.go","line":17,"text":"\tif err != nil {\n"},` + "\n"}
	}
	return payload{"the quick brown fox jumps over the lazy dog, and so it goes on. "}
}

// text returns the text of call id.
func (p payload) text(id, size int) string {
	head := fmt.Sprintf("%d ", id)
	return (head + strings.Repeat(p.unit, size/len(p.unit)+1))[:size]
}

// call returns the line that asks for the echo of text.
func call(id int, text string) []byte {
	var quoted bytes.Buffer
	enc := json.NewEncoder(&quoted)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(text); err != nil { // a string can always be encoded
		panic(err)
	}
	// In the order of the TypeScript SDK, with the id behind everything else.
	return fmt.Appendf(nil, `{"method":"tools/call","params":{"name":"echo","arguments":{"text":%s}},"jsonrpc":"2.0","id":%d}`+"\n",
		bytes.TrimSuffix(quoted.Bytes(), []byte("\n")), id)
}

// sequential makes n calls of size, one after the other, and returns how long
// each took, in order of length.
func (c *client) sequential(n, size int, p payload) ([]time.Duration, error) {
	took := make([]time.Duration, n)
	for i := range took {
		c.ids++
		text := p.text(c.ids, size)
		line := call(c.ids, text)
		began := time.Now()
		answer, err := c.roundTrip(line)
		took[i] = time.Since(began)
		if err != nil {
			return nil, err
		}
		if err := checkEcho(answer, c.ids, text); err != nil {
			return nil, err
		}
	}
	slices.Sort(took)
	return took, nil
}

// throughput makes n calls of size with so many outstanding and returns how
// many were answered in a second.
func (c *client) throughput(n, outstanding, size int, p payload) (float64, error) {
	first := c.ids + 1
	c.ids += n
	lines := make([][]byte, n)
	for i := range lines {
		lines[i] = call(first+i, p.text(first+i, size))
	}
	answers := make([][]byte, 0, n)
	began := time.Now()
	next := 0
	for ; next < min(outstanding, n); next++ {
		if _, err := c.in.Write(lines[next]); err != nil {
			return 0, err
		}
	}
	for len(answers) < n {
		answer, err := c.readLine()
		if err != nil {
			return 0, err
		}
		answers = append(answers, bytes.Clone(answer))
		if next < n {
			if _, err := c.in.Write(lines[next]); err != nil {
				return 0, err
			}
			next++
		}
	}
	took := time.Since(began)
	return float64(n) / took.Seconds(), checkAll(answers, first, func(id int) string { return p.text(id, size) })
}

// quantile returns the q-th part of sorted durations in microseconds.
func quantile(sorted []time.Duration, q float64) float64 {
	i := min(int(q*float64(len(sorted))), len(sorted)-1)
	return float64(sorted[i].Nanoseconds()) / 1e3
}
