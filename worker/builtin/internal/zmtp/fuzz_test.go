package zmtp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"
)

// peerOf is a socket that says what a peer said, and hears nothing.
type peerOf struct {
	io.Reader
	net.Conn
}

func (p peerOf) Read(b []byte) (int, error)       { return p.Reader.Read(b) }
func (p peerOf) Write(b []byte) (int, error)      { return len(b), nil }
func (p peerOf) Close() error                     { return nil }
func (p peerOf) SetWriteDeadline(time.Time) error { return nil }

func ready(kind string) []byte {
	return appendCommand(greeting(), "READY", appendProperty(nil, "Socket-Type", []byte(kind)))
}

// FuzzPeer: whatever a peer sends, what is taken of it is bounded, and it ends
// with one of the errors that are told.
func FuzzPeer(f *testing.F) {
	f.Add(append(ready("PUB"), 1, 1, 'a', 0, 1, 'b'))
	f.Add(append(ready("PUB"), appendCommand(nil, "PING", []byte("\x00\x01x"))...))
	f.Add(append(ready("XPUB"), 2, 0, 0, 0, 0, 0, 0, 1, 0))
	f.Add(append(ready("PUB"), 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff))
	f.Add(appendCommand(greeting(), "ERROR", []byte("\x02no")))
	f.Add(bytes.Repeat([]byte{1, 0}, 2000))
	f.Add(append(ready("PUB"), bytes.Repeat([]byte{1, 0}, 2000)...))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	const limit = 10_000
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, raw []byte) {
		socket := peerOf{Reader: bytes.NewReader(raw)}
		c := &Conn{
			kind: Sub, options: Options{MaxMessage: limit}, net: socket, in: bufio.NewReader(socket),
			spool: newSpool(dir, 1<<30, nil), done: make(chan struct{}), sending: make(chan struct{}, 1),
		}
		if err := c.shakeHands(); err != nil {
			expected(t, err)
			return
		}
		c.drain()
		expected(t, c.Err())
		for {
			m, err := c.Receive(t.Context())
			if err != nil {
				if !errors.Is(err, c.Err()) {
					t.Fatalf("received %v, ended with %v", err, c.Err())
				}
				return
			}
			if len(m) == 0 || m.size() > limit+frameCost {
				t.Fatalf("a message of %d frames and %d bytes", len(m), m.size())
			}
		}
	})
}

func expected(t *testing.T, err error) {
	t.Helper()
	for _, sentinel := range []error{ErrProtocol, ErrRefused, ErrTooLarge, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, sentinel) {
			return
		}
	}
	t.Fatalf("error %v", err)
}

// FuzzMessage: what is encoded is read again, in memory and through the file.
func FuzzMessage(f *testing.F) {
	f.Add([]byte("one"), 1, 300)
	f.Add([]byte{}, 0, 0)
	f.Add([]byte("x"), 70_000, 4096)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, head []byte, sizes, count int) {
		sizes, count = int(uint(sizes)%10_000), int(uint(count)%50)
		m := Message{head}
		for i := range count {
			m = append(m, bytes.Repeat([]byte{byte(i)}, sizes*i/50))
		}
		var wire bytes.Buffer
		if _, err := encode(m).WriteTo(&wire); err != nil {
			t.Fatal(err)
		}
		got, err := readMessage(bufio.NewReader(&wire), 1<<30, nil)
		if err != nil || !equal(got, m) {
			t.Fatalf("read %d frames, %v", len(got), err)
		}
		s := newSpool(dir, 0, func(err error) { t.Error(err) })
		defer s.discard()
		if err := s.put(m); err != nil {
			t.Fatal(err)
		}
		if got, err := s.next(t.Context()); err != nil || !equal(got, m) {
			t.Fatalf("from the file: %d frames, %v", len(got), err)
		}
	})
}

func equal(a, b Message) bool { return slices.EqualFunc(a, b, bytes.Equal) }
