package proxy

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast-mcp/holdfast/internal/line"
)

func lines(texts ...string) [][]byte {
	out := make([][]byte, 0, len(texts))
	for _, t := range texts {
		out = append(out, []byte(t))
	}
	return out
}

// runOutbox returns what run returns.
func runOutbox(o *outbox) <-chan error {
	done := make(chan error, 1)
	go func() { done <- o.run() }() // ends as the test says
	return done
}

func TestOutboxWritesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var client bytes.Buffer
		o := newOutbox(line.NewWriter(&client), nil)
		o.put(lines("1", "2"))
		done := runOutbox(o)
		synctest.Wait()
		o.put(lines("3"))
		o.put(nil)
		o.close()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if got, want := client.String(), "1\n2\n3\n"; got != want {
			t.Errorf("wrote %q, want %q", got, want)
		}
	})
}

// SUP-20, EDGE-15: whoever asks for room waits until the client has read, and
// no longer.
func TestOutboxAwaitRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		o := newOutbox(line.NewWriter(w), nil)
		done := runOutbox(o)
		o.put(lines(strings.Repeat("a", 10), strings.Repeat("b", 10)))
		room := make(chan struct{})
		go func() { // ends when the client has read
			o.awaitRoom(15)
			close(room)
		}()
		synctest.Wait()
		select {
		case <-room:
			t.Fatal("there is room while nothing is read")
		default:
		}
		if _, err := io.ReadFull(r, make([]byte, 11)); err != nil {
			t.Fatal(err)
		}
		<-room
		o.close()
		if _, err := io.ReadFull(r, make([]byte, 11)); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

// EDGE-9: after the first failure nobody waits, and nothing is kept.
func TestOutboxBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		o := newOutbox(line.NewWriter(w), nil)
		done := runOutbox(o)
		o.put(lines("1", "2"))
		r.CloseWithError(io.ErrClosedPipe)
		if err := <-done; !errors.Is(err, line.ErrBroken) {
			t.Fatalf("run() = %v, want line.ErrBroken", err)
		}
		o.put(lines(strings.Repeat("a", 100)))
		o.awaitRoom(10)
		if len(o.lines) > 0 {
			t.Error("lines are kept for nobody")
		}
	})
}

// A worker that talks on while it is stopped must not wait for a client that
// is done: the end would never come.
func TestOutboxAfterTheEnd(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*outbox, <-chan error)
	}{
		{"closed", func(o *outbox, done <-chan error) { o.close(); <-done }},
		{"abandoned", func(o *outbox, _ <-chan error) { o.abandon() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOutbox(line.NewWriter(io.Discard), nil)
				done := runOutbox(o)
				synctest.Wait()
				tt.end(o, done)
				o.put(lines(strings.Repeat("a", 100)))
				o.awaitRoom(10)
				if len(o.lines) > 0 {
					t.Error("lines are kept for nobody")
				}
				o.close()
			})
		})
	}
}
