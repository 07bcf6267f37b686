// Package zmtp is a client of ZeroMQ sockets: the connect side of ZMTP 3.0
// with the NULL mechanism, as far as Jupyter kernels need it.
//
//	c, err := zmtp.Dial(ctx, "ipc:///run/k/s-2", zmtp.Sub, zmtp.Options{})
//	...
//	for {
//		m, err := c.Receive(ctx) // the next message, in order
//	}
//
// # Nothing is lost at a stalled reader
//
// A ZeroMQ publisher drops what a subscriber does not take in time, and says
// nothing. So each connection has one goroutine that does nothing but take
// messages from the socket and put them aside, in memory up to
// [Options.Memory] and in a temporary file beyond it. [Conn.Receive] takes
// them from there, whenever its caller comes to it (ROOM-8).
//
// # A connection is used once
//
// There is no reconnection: a peer that is gone is told by [Conn.Done], and
// what had arrived until then is still received. What was sent shortly before
// may not have arrived, although Send reported no error; that is for the
// caller to judge by the answer.
//
// # Concurrency
//
// Send may be called from any goroutine, Receive from one at a time.
//
// # Limits
//
// The package binds no socket, speaks neither CURVE nor PLAIN, subscribes to
// everything, and leaves the strict alternation of REQ to its caller. The
// protocol is that of https://rfc.zeromq.org/spec/23/.
package zmtp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var (
	// ErrClosed is returned when this side has closed the connection.
	ErrClosed = errors.New("connection closed")
	// ErrProtocol is returned when the peer does not speak ZMTP 3 with the
	// NULL mechanism, or breaks its rules.
	ErrProtocol = errors.New("zmtp: protocol violation")
	// ErrRefused is returned when the peer refuses the connection with an
	// ERROR command, or its socket type does not go with ours.
	ErrRefused = errors.New("zmtp: refused by the peer")
	// ErrTooLarge is returned when a message is larger than the limit.
	ErrTooLarge = errors.New("zmtp: message too large")
	// ErrSpool is returned when messages could not be put aside; those that had
	// arrived are received first.
	ErrSpool = errors.New("zmtp: put messages aside")
	// ErrEndpoint is returned when an endpoint is neither tcp:// nor ipc://.
	ErrEndpoint = errors.New("zmtp: unknown kind of endpoint")
)

// Kind is the type of this side's socket.
type Kind string

// The kinds of sockets that there are here.
const (
	Dealer Kind = "DEALER"
	Sub    Kind = "SUB"
	Req    Kind = "REQ"
)

// peers are the kinds of sockets that each kind may be connected to.
var peers = map[Kind][]string{
	Dealer: {"ROUTER", "DEALER", "REP"},
	Sub:    {"PUB", "XPUB"},
	Req:    {"REP", "ROUTER"},
}

// Message is a message in its frames, of which there is at least one.
type Message [][]byte

// Options are the settings of a connection. Zero values mean the defaults.
type Options struct {
	// Identity is told to the peer, which routes messages by it; at most 255
	// bytes, of which the first is not zero.
	Identity []byte
	// MaxMessage is the largest message in bytes, 1 GiB by default.
	MaxMessage int
	// Memory is how many bytes of messages are kept in memory for Receive, 8
	// MiB by default. More are kept in a file.
	Memory int
	// Dir is where that file is, the directory for temporary files by default.
	Dir string
}

func (o Options) withDefaults() Options {
	if o.MaxMessage <= 0 {
		o.MaxMessage = 1 << 30
	}
	if o.Memory <= 0 {
		o.Memory = 8 << 20
	}
	return o
}

// Conn is one connection to one peer.
type Conn struct {
	kind    Kind
	options Options
	net     net.Conn
	in      *bufio.Reader
	spool   *spool
	done    chan struct{}
	sending chan struct{} // holds one token while a message is written
	ponging atomic.Bool   // an answer to a PING is under way

	end sync.Once
	err error // why it ended; written before done is closed
}

// Dial connects to an endpoint, tcp://host:port or ipc://path, and shakes
// hands. It does not wait for an endpoint that is not there yet.
func Dial(ctx context.Context, endpoint string, kind Kind, options Options) (*Conn, error) {
	network, address, err := split(endpoint)
	if err != nil {
		return nil, err
	}
	var dialer net.Dialer
	socket, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	options = options.withDefaults()
	c := &Conn{
		kind: kind, options: options, net: socket,
		in:      bufio.NewReaderSize(socket, 64<<10),
		done:    make(chan struct{}),
		sending: make(chan struct{}, 1),
	}
	c.spool = newSpool(options.Dir, options.Memory, c.stop)
	release := context.AfterFunc(ctx, func() { _ = socket.SetDeadline(time.Unix(1, 0)) })
	err = c.shakeHands()
	if !release() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		socket.Close()
		return nil, fmt.Errorf("connect to %s: %w", endpoint, err)
	}
	go c.drain() // ends with the connection
	return c, nil
}

func split(endpoint string) (network, address string, err error) {
	if address, ok := strings.CutPrefix(endpoint, "tcp://"); ok {
		return "tcp", address, nil
	}
	if address, ok := strings.CutPrefix(endpoint, "ipc://"); ok {
		return "unix", address, nil
	}
	return "", "", fmt.Errorf("%w: %q", ErrEndpoint, endpoint)
}

// drain takes messages from the socket and never waits for anything else.
func (c *Conn) drain() {
	for {
		m, err := readMessage(c.in, c.options.MaxMessage, c.command)
		if err == nil && c.kind == Req {
			m, err = m.body()
		}
		if err == nil {
			err = c.spool.put(m)
		}
		if err != nil {
			c.stop(err)
			return
		}
	}
}

// command acts on a command that comes between messages. Those that are
// unknown are skipped, as later versions of the protocol may have more.
func (c *Conn) command(name string, data []byte) error {
	switch name {
	case "ERROR":
		return refusal(data)
	case "PING":
		if len(data) < 2 {
			return fmt.Errorf("%w: PING of %d bytes", ErrProtocol, len(data))
		}
		if c.ponging.CompareAndSwap(false, true) {
			pong := appendCommand(nil, "PONG", data[2:]) // after the time to live
			go c.pong(pong)                              // ends with the write, at the latest with the connection
		}
	}
	return nil
}

func (c *Conn) pong(pong []byte) {
	defer c.ponging.Store(false)
	select {
	case c.sending <- struct{}{}:
		_, err := c.net.Write(pong)
		<-c.sending
		if err != nil {
			c.stop(err)
		}
	case <-c.done:
	}
}

// Send writes a message. It waits while the peer does not read, at most until
// the context ends; a message that is broken off there ends the connection.
func (c *Conn) Send(ctx context.Context, m Message) error {
	if len(m) == 0 {
		return fmt.Errorf("%w: a message without frames", ErrProtocol)
	}
	select {
	case c.sending <- struct{}{}:
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-c.sending }()
	select {
	case <-c.done:
		return c.err
	default:
	}
	if c.kind == Req {
		m = append(Message{nil}, m...)
	}
	expired := make(chan struct{})
	release := context.AfterFunc(ctx, func() {
		_ = c.net.SetWriteDeadline(time.Unix(1, 0))
		close(expired)
	})
	n, err := encode(m).WriteTo(c.net)
	if !release() {
		<-expired
		_ = c.net.SetWriteDeadline(time.Time{})
		if err != nil && n == 0 {
			return context.Cause(ctx)
		}
	}
	if err != nil {
		c.stop(err)
		return fmt.Errorf("send: %w", c.Err())
	}
	return nil
}

// Receive returns the next message. Once the connection has ended and all that
// had arrived is taken, it returns why it ended: [io.EOF] if the peer closed it.
func (c *Conn) Receive(ctx context.Context) (Message, error) { return c.spool.next(ctx) }

// Pending returns how many messages have arrived and are not yet received.
func (c *Conn) Pending() int { return c.spool.len() }

// Done is closed when the connection has ended, for whatever reason.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err returns why the connection ended, nil while it has not.
func (c *Conn) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// Shut ends the connection. What has arrived can still be received.
func (c *Conn) Shut() { c.stop(ErrClosed) }

// Close ends the connection and drops what has not been received.
func (c *Conn) Close() {
	c.stop(ErrClosed)
	c.spool.discard()
}

func (c *Conn) stop(err error) {
	c.end.Do(func() {
		c.err = err
		c.net.Close()
		c.spool.close(err)
		close(c.done)
	})
}
