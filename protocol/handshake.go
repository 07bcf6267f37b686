package protocol

import (
	"slices"
	"strings"

	"github.com/hashicorp/go-plugin"
)

// Wire versions that this build can speak, as negotiated by go-plugin's
// VersionedPlugins. WireVersion is the newest of them.
const (
	WireVersionMin = 1
	WireVersion    = 1
)

// EnvPrefix starts the name of every environment variable by which holdfast
// itself is configured. Supervisors do not pass them on (SUP-18).
const EnvPrefix = "HOLDFAST_"

const (
	cookieKey   = "HOLDFAST_WORKER_COOKIE"
	cookieValue = "0c9d6a5e8a3f4f0fb2f57c1e6d7f4f9a"
)

// Handshake returns the go-plugin handshake of all holdfast workers. The
// cookie tells a worker that it was started by a supervisor; it is no secret.
func Handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{
		ProtocolVersion:  WireVersion,
		MagicCookieKey:   cookieKey,
		MagicCookieValue: cookieValue,
	}
}

// StartedBySupervisor reports whether environ, in the form of [os.Environ],
// carries the handshake: the process was started as a worker.
func StartedBySupervisor(environ []string) bool {
	return slices.Contains(environ, cookieKey+"="+cookieValue)
}

// StripHandshake returns environ, in the form of [os.Environ], without the
// handshake. Workers remove it before user code or children can see it
// (SUP-18). The argument is left as it is.
func StripHandshake(environ []string) []string { return without(environ, IsHandshakeVariable) }

// StripSettings returns environ without the settings of holdfast itself, which
// a supervisor keeps from its workers; what is configured for a worker is
// added afterwards and stays, so that holdfast can be run under holdfast.
func StripSettings(environ []string) []string {
	return without(environ, func(name string) bool { return strings.HasPrefix(name, EnvPrefix) })
}

func without(environ []string, drop func(name string) bool) []string {
	out := make([]string, 0, len(environ))
	for _, kv := range environ {
		if name, _, _ := strings.Cut(kv, "="); !drop(name) {
			out = append(out, kv)
		}
	}
	return out
}

// IsHandshakeVariable reports whether the environment variable of this name is
// part of the handshake.
func IsHandshakeVariable(name string) bool {
	switch name {
	case cookieKey, "PLUGIN_MIN_PORT", "PLUGIN_MAX_PORT", "PLUGIN_PROTOCOL_VERSIONS", "PLUGIN_CLIENT_CERT",
		"PLUGIN_UNIX_SOCKET_DIR", "PLUGIN_UNIX_SOCKET_GROUP", "PLUGIN_MULTIPLEX_GRPC":
		return true
	}
	return false
}
