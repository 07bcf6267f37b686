package zmtp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

const patience = 30 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// listen accepts one connection and gives it to serve. It is closed when all
// that the client sent has been read: else its end would take with it what the
// client has not read.
func listen(t *testing.T, serve func(net.Conn)) (endpoint string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { // ends with the listener
		defer close(served)
		if c, err := l.Accept(); err == nil {
			serve(c)
			_ = c.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, c)
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-served })
	return "tcp://" + l.Addr().String()
}

func dial(t *testing.T, endpoint string, kind Kind, o Options) *Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := Dial(ctx, endpoint, kind, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// numbers are messages of the bytes of their number.
func number(n int) []byte {
	var body [1000]byte
	binary.BigEndian.PutUint32(body[:], uint32(n))
	var wire bytes.Buffer
	_, _ = encode(Message{[]byte("topic"), body[:]}).WriteTo(&wire)
	return wire.Bytes()
}

// ROOM-8: a reader that stalls loses nothing, and memory is bounded while it
// does: what is beyond that is in a file.
func TestStalledReader(t *testing.T) {
	const n = 20_000
	endpoint := listen(t, func(c net.Conn) {
		_, _ = c.Write(ready("PUB"))
		for i := range n {
			if _, err := c.Write(number(i)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	dir := t.TempDir()
	c := dial(t, endpoint, Sub, Options{Memory: 1 << 20, Dir: dir})
	select { // nothing is received while all arrives
	case <-c.Done():
	case <-time.After(patience):
		t.Fatal("the connection is not drained")
	}
	c.spool.spills.Wait()
	if c.Pending() != n {
		t.Fatalf("%d messages pending, want %d", c.Pending(), n)
	}
	if bytes := c.spool.headBytes + c.spool.tailBytes; bytes > 1<<20 {
		t.Errorf("%d bytes in memory", bytes)
	}
	for i := range n {
		m, err := c.Receive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := binary.BigEndian.Uint32(m[1]); got != uint32(i) {
			t.Fatalf("message %d where %d should be", got, i)
		}
	}
	if _, err := c.Receive(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("after the last: %v", err)
	}
	if c.Close(); len(entries(t, dir)) != 0 {
		t.Errorf("left behind: %v", entries(t, dir))
	}
}

func entries(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Order holds while the queue goes from memory to the file and back.
func TestSpoolOrder(t *testing.T) {
	s := newSpool(t.TempDir(), 300, func(err error) { t.Error(err) })
	defer s.discard()
	next, want := 0, 0
	for _, step := range []struct{ put, take int }{{1, 1}, {10, 4}, {3, 9}, {20, 10}, {1, 11}, {2, 0}, {0, 2}} {
		for range step.put {
			if err := s.put(Message{[]byte(fmt.Sprint(next))}); err != nil {
				t.Fatal(err)
			}
			next++
		}
		for range step.take {
			m, err := s.next(t.Context())
			if err != nil || string(m[0]) != fmt.Sprint(want) {
				t.Fatalf("%q %v, want %d", m, err, want)
			}
			want++
		}
	}
	if s.spills.Wait(); s.len() != 0 || s.stored != 0 || s.headBytes != 0 {
		t.Errorf("%d messages, %d bytes are left", s.len(), s.headBytes)
	}
}

// A file that cannot be written ends the connection; what had arrived is
// received.
func TestSpoolFails(t *testing.T) {
	endpoint := listen(t, func(c net.Conn) {
		_, _ = c.Write(append(ready("PUB"), number(0)...))
		_, _ = c.Write(number(1))
		_, _ = io.Copy(io.Discard, c)
	})
	c := dial(t, endpoint, Sub, Options{Memory: 1500, Dir: "/does/not/exist"})
	select { // message 1 does not fit beside message 0
	case <-c.Done():
	case <-time.After(patience):
		t.Fatal("the connection lives on")
	}
	for i := range uint32(2) {
		if m, err := c.Receive(t.Context()); err != nil || binary.BigEndian.Uint32(m[1]) != i {
			t.Errorf("message %d: %v", i, err)
		}
	}
	if _, err := c.Receive(t.Context()); !errors.Is(err, ErrSpool) {
		t.Errorf("error %v", err)
	}
}

func TestReceiveContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpool("", 1<<20, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if err := s.put(Message{[]byte("x")}); err != nil {
			t.Fatal(err)
		}
		if m, err := s.next(ctx); err != nil || string(m[0]) != "x" {
			t.Errorf("with an ended context: %q %v", m, err)
		}
	})
}

// What is not a peer for us is told as such, at once where possible.
func TestForeignPeers(t *testing.T) {
	withMechanism := greeting()
	copy(withMechanism[12:], "CURVE")
	old := greeting()
	old[10] = 1
	for name, test := range map[string]struct {
		says []byte
		want error
	}{
		"HTTP":           {[]byte("HTTP/1.1 400 Bad Request\r\n"), ErrProtocol},
		"ZMTP 1":         {old, ErrProtocol},
		"CURVE":          {withMechanism, ErrProtocol},
		"ERROR":          {appendCommand(greeting(), "ERROR", []byte("\x0cInvalid user")), ErrRefused},
		"other kind":     {ready("PULL"), ErrRefused},
		"no kind":        {appendCommand(greeting(), "READY", nil), ErrRefused},
		"message":        {append(greeting(), 0, 1, 'x'), ErrProtocol},
		"reserved flags": {append(greeting(), 8, 1, 'x'), ErrProtocol},
		"huge command":   {append(greeting(), 6, 0, 0, 0, 1, 0, 0, 0, 0), ErrTooLarge},
		"bad property":   {appendCommand(greeting(), "READY", []byte("\x04name\x00\x00\x00\x09x")), ErrProtocol},
		"end":            {greeting()[:20], io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			endpoint := listen(t, func(c net.Conn) {
				_, _ = c.Write(test.says)
				if test.want != io.ErrUnexpectedEOF {
					_, _ = io.Copy(io.Discard, c) // as long as the client is there
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if _, err := Dial(ctx, endpoint, Sub, Options{}); !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
		})
	}
}

func TestDialSilentPeer(t *testing.T) {
	endpoint := listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, endpoint, Sub, Options{}); err == nil {
		t.Error("connected to a peer that says nothing")
	}
	if _, err := Dial(t.Context(), "inproc://x", Sub, Options{}); !errors.Is(err, ErrEndpoint) {
		t.Errorf("error %v", err)
	}
}

// A peer that does not read holds no sender for longer than its context, and a
// message broken off ends the connection.
func TestSendToStalledPeer(t *testing.T) {
	left := make(chan struct{})
	endpoint := listen(t, func(c net.Conn) {
		_, _ = c.Write(ready("ROUTER"))
		<-left
	})
	defer close(left)
	c := dial(t, endpoint, Dealer, Options{Identity: []byte("me")})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := c.Send(ctx, Message{make([]byte, 64<<20)}); err == nil {
		t.Fatal("64 MiB were sent to a peer that does not read")
	}
	select {
	case <-c.Done():
	case <-time.After(patience):
		t.Fatal("the connection lives on in the middle of a message")
	}
	if err := c.Send(t.Context(), Message{[]byte("x")}); err == nil {
		t.Error("sent on a connection that has ended")
	}
}

func TestShutKeepsWhatArrived(t *testing.T) {
	endpoint := listen(t, func(c net.Conn) {
		_, _ = c.Write(append(ready("PUB"), number(7)...))
		_, _ = io.Copy(io.Discard, c)
	})
	c := dial(t, endpoint, Sub, Options{})
	for deadline := time.Now().Add(patience); c.Pending() == 0; {
		if time.Now().After(deadline) {
			t.Fatal("nothing arrived")
		}
		select {
		case <-c.spool.ready:
		case <-time.After(10 * time.Millisecond):
		}
	}
	c.Shut()
	if m, err := c.Receive(t.Context()); err != nil || binary.BigEndian.Uint32(m[1]) != 7 {
		t.Errorf("%v", err)
	}
	if _, err := c.Receive(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("error %v", err)
	}
}
