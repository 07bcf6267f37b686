package check

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/holdfast-mcp/holdfast/protocol"
)

// handshakeLine is how supervisors tell the handshake from other text.
var handshakeLine = regexp.MustCompile(`^\s*\d+\|\d+\|(unix|tcp)\|[^|]+\|`)

// coreVersion is that of go-plugin's handshake.
const coreVersion = 1

// Errors of a handshake line.
var (
	// errLine: returned when a part of the line is not what it has to be.
	errLine = errors.New("not as the protocol has it")
	// errWire: returned when the line is right but names a wire version that
	// this build does not speak.
	errWire = errors.New("wire version not supported")
)

// handshake is a parsed handshake line.
type handshake struct {
	line    string
	wire    int
	network string
	address string
}

// parseHandshake reads a handshake line. With errWire the rest of the result is
// valid.
func parseHandshake(line string) (handshake, error) {
	h := handshake{line: strings.TrimSpace(line)}
	parts := strings.Split(h.line, "|")
	if len(parts) < 5 {
		return h, fmt.Errorf("%d parts separated by |, want 6: %w", len(parts), errLine)
	}
	if parts[0] != strconv.Itoa(coreVersion) {
		return h, fmt.Errorf("first part %q, want %d: %w", parts[0], coreVersion, errLine)
	}
	h.network, h.address = parts[2], parts[3]
	switch h.network {
	case "unix":
		if !filepath.IsAbs(h.address) {
			return h, fmt.Errorf("address %q is no absolute path: %w", h.address, errLine)
		}
	case "tcp":
		if host, _, err := net.SplitHostPort(h.address); err != nil || !isLoopback(host) {
			return h, fmt.Errorf("address %q is no port on the loopback: %w", h.address, errLine)
		}
	default:
		return h, fmt.Errorf("third part %q, want unix: %w", h.network, errLine)
	}
	if parts[4] != "grpc" {
		return h, fmt.Errorf("fifth part %q, want grpc: %w", parts[4], errLine)
	}
	if len(parts) > 5 && parts[5] != "" {
		return h, fmt.Errorf("a certificate, though none was asked for: %w", errLine)
	}
	var err error
	if h.wire, err = strconv.Atoi(parts[1]); err != nil {
		return h, fmt.Errorf("wire version %q: %w", parts[1], errLine)
	}
	if h.wire < protocol.WireVersionMin || h.wire > protocol.WireVersion {
		return h, fmt.Errorf("it speaks %d, this holdfast %d to %d: %w",
			h.wire, protocol.WireVersionMin, protocol.WireVersion, errWire)
	}
	return h, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// versions returns the wire versions of this build, as a supervisor names them.
func versions() string {
	var all []string
	for v := protocol.WireVersionMin; v <= protocol.WireVersion; v++ {
		all = append(all, strconv.Itoa(v))
	}
	return strings.Join(all, ",")
}
