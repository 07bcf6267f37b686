package zmtp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
)

// Flags of a frame.
const (
	flagMore    = 1 << 0
	flagLong    = 1 << 1
	flagCommand = 1 << 2
)

const (
	greetingSize  = 64
	signatureSize = 10
	mechanismSize = 20
	// maxCommand bounds commands, which carry a few names and values.
	maxCommand = 64 << 10
	// frameCost is what an empty frame counts for the size of its message.
	frameCost = 32
	// readStep is how much is read at a time, so that a frame which claims to
	// be large takes no more memory than what has arrived of it.
	readStep = 1 << 20
)

// shakeHands is the handshake. Both sides send up to READY without waiting for
// the other, and no message before the other's READY:
//
//	client                                    peer
//	greeting: FF 8*00 7F, 3.0, "NULL"  ------>
//	READY Socket-Type, Identity        ------>
//	                                   <------ greeting
//	                                   <------ READY Socket-Type, or ERROR reason
//	01 (SUB only: subscribe to all)    ------>
func (c *Conn) shakeHands() error {
	hello := greeting()
	hello = append(hello, appendCommand(nil, "READY", c.properties())...)
	if _, err := c.net.Write(hello); err != nil {
		return err
	}
	if err := readGreeting(c.in); err != nil {
		return err
	}
	f, err := readFrame(c.in, maxCommand)
	if err != nil {
		return err
	}
	if f.flags&flagCommand == 0 {
		return fmt.Errorf("%w: a message before READY", ErrProtocol)
	}
	name, data, err := parseCommand(f.body)
	switch {
	case err != nil:
		return err
	case name == "ERROR":
		return refusal(data)
	case name != "READY":
		return fmt.Errorf("%w: command %q before READY", ErrProtocol, name)
	}
	properties, err := parseProperties(data)
	if err != nil {
		return err
	}
	if peer := properties["socket-type"]; !slices.Contains(peers[c.kind], peer) {
		return fmt.Errorf("%w: a %s socket does not go with %s", ErrRefused, peer, c.kind)
	}
	if c.kind == Sub {
		_, err = encode(Message{{1}}).WriteTo(c.net)
	}
	return err
}

func (c *Conn) properties() []byte {
	out := appendProperty(nil, "Socket-Type", []byte(c.kind))
	if c.kind != Sub {
		out = appendProperty(out, "Identity", c.options.Identity)
	}
	return out
}

func greeting() []byte {
	g := make([]byte, greetingSize)
	g[0], g[9] = 0xff, 0x7f
	g[10] = 3 // version 3.0
	copy(g[12:], "NULL")
	return g
}

// readGreeting reads as little as is needed to see that the peer is no ZMTP 3
// peer: others may wait for more.
func readGreeting(r io.Reader) error {
	var g [greetingSize]byte
	if _, err := io.ReadFull(r, g[:1]); err != nil {
		return err
	}
	if g[0] != 0xff {
		return fmt.Errorf("%w: no ZMTP greeting", ErrProtocol)
	}
	if _, err := io.ReadFull(r, g[1:signatureSize+1]); err != nil {
		return unexpected(err)
	}
	if g[9]&1 == 0 || g[10] < 3 {
		return fmt.Errorf("%w: no ZMTP 3 greeting", ErrProtocol)
	}
	if _, err := io.ReadFull(r, g[signatureSize+1:]); err != nil {
		return unexpected(err)
	}
	mechanism := strings.TrimRight(string(g[12:12+mechanismSize]), "\x00")
	if mechanism != "NULL" {
		return fmt.Errorf("%w: mechanism %q", ErrProtocol, mechanism)
	}
	return nil
}

type frame struct {
	flags byte
	body  []byte
}

// readFrame reads one frame of at most limit bytes.
func readFrame(r *bufio.Reader, limit int) (frame, error) {
	flags, err := r.ReadByte()
	if err != nil {
		return frame{}, err
	}
	if flags&^(flagMore|flagLong|flagCommand) != 0 || flags&flagCommand != 0 && flags&flagMore != 0 {
		return frame{}, fmt.Errorf("%w: flags %#x", ErrProtocol, flags)
	}
	var raw [8]byte
	length := raw[7:]
	if flags&flagLong != 0 {
		length = raw[:]
	}
	if _, err := io.ReadFull(r, length); err != nil {
		return frame{}, unexpected(err)
	}
	size := binary.BigEndian.Uint64(raw[:])
	if flags&flagCommand != 0 {
		limit = min(limit, maxCommand)
	}
	if size > uint64(max(limit, 0)) {
		return frame{}, fmt.Errorf("%w: a frame of %d bytes", ErrTooLarge, size)
	}
	body, err := readBody(r, int(size))
	return frame{flags, body}, err
}

func readBody(r io.Reader, size int) ([]byte, error) {
	body := make([]byte, 0, min(size, readStep))
	for len(body) < size {
		step := min(size-len(body), max(readStep, len(body)))
		body = slices.Grow(body, step)
		n, err := io.ReadFull(r, body[len(body):len(body)+step])
		body = body[:len(body)+n]
		if err != nil {
			return nil, unexpected(err)
		}
	}
	return body, nil
}

// readMessage reads the frames of one message, which together count for at
// most limit bytes. Commands are given to command; libzmq sends its PINGs
// between the frames of a message as well.
func readMessage(r *bufio.Reader, limit int, command func(name string, data []byte) error) (Message, error) {
	var m Message
	for left := limit; ; {
		f, err := readFrame(r, left)
		if err != nil {
			if len(m) > 0 {
				err = unexpected(err)
			}
			return nil, err
		}
		if f.flags&flagCommand != 0 {
			name, data, err := parseCommand(f.body)
			if err != nil {
				return nil, err
			}
			if err := command(name, data); err != nil {
				return nil, err
			}
			continue
		}
		m = append(m, f.body)
		if f.flags&flagMore == 0 {
			return m, nil
		}
		if left -= len(f.body) + frameCost; left < 0 {
			return nil, fmt.Errorf("%w: a message of more than %d bytes", ErrTooLarge, limit)
		}
	}
}

// body is a reply without what a REQ socket has around it: an empty frame, and
// before it the addresses that some peers send as well.
func (m Message) body() (Message, error) {
	for i, f := range m {
		if len(f) == 0 && i+1 < len(m) {
			return m[i+1:], nil
		}
	}
	return nil, fmt.Errorf("%w: a reply without delimiter", ErrProtocol)
}

// encode returns the bytes of a message, without copying large frames.
func encode(m Message) *net.Buffers {
	var out net.Buffers
	var head []byte
	for i, body := range m {
		var flags byte
		if i < len(m)-1 {
			flags = flagMore
		}
		if len(body) > 255 {
			head = append(head, flags|flagLong)
			head = binary.BigEndian.AppendUint64(head, uint64(len(body)))
		} else {
			head = append(head, flags, byte(len(body)))
		}
		if len(body) > 4<<10 {
			out = append(out, head, body)
			head = nil
			continue
		}
		head = append(head, body...)
	}
	if len(head) > 0 {
		out = append(out, head)
	}
	return &out
}

func appendCommand(out []byte, name string, data []byte) []byte {
	size := 1 + len(name) + len(data)
	if size > 255 {
		out = append(out, flagCommand|flagLong)
		out = binary.BigEndian.AppendUint64(out, uint64(size))
	} else {
		out = append(out, flagCommand, byte(size))
	}
	out = append(out, byte(len(name)))
	out = append(out, name...)
	return append(out, data...)
}

func parseCommand(body []byte) (name string, data []byte, err error) {
	if len(body) == 0 || len(body) < 1+int(body[0]) || body[0] == 0 {
		return "", nil, fmt.Errorf("%w: malformed command", ErrProtocol)
	}
	end := 1 + int(body[0])
	return string(body[1:end]), body[end:], nil
}

func appendProperty(out []byte, name string, value []byte) []byte {
	out = append(out, byte(len(name)))
	out = append(out, name...)
	out = binary.BigEndian.AppendUint32(out, uint32(len(value)))
	return append(out, value...)
}

// parseProperties returns the metadata of READY, by names in lower case.
func parseProperties(data []byte) (map[string]string, error) {
	out := make(map[string]string)
	for len(data) > 0 {
		n := int(data[0])
		data = data[1:]
		if n == 0 || len(data) < n+4 {
			return nil, fmt.Errorf("%w: malformed properties", ErrProtocol)
		}
		name := strings.ToLower(string(data[:n]))
		size := binary.BigEndian.Uint32(data[n:])
		data = data[n+4:]
		if uint64(size) > uint64(len(data)) {
			return nil, fmt.Errorf("%w: malformed property %q", ErrProtocol, name)
		}
		out[name] = string(data[:size])
		data = data[size:]
	}
	return out, nil
}

func refusal(data []byte) error {
	reason := "no reason given"
	if len(data) > 0 && len(data) >= 1+int(data[0]) {
		reason = string(data[1 : 1+int(data[0])])
	}
	return fmt.Errorf("%w: %q", ErrRefused, reason)
}

// unexpected is the error of a stream that ends in the middle of something.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
