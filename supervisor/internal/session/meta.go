package session

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/holdfast-mcp/holdfast/internal/envelope"
)

// What a request of the 2026-07-28 revision says of its client, in _meta.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaClientInfo   = "io.modelcontextprotocol/clientInfo"
	metaServerInfo   = "io.modelcontextprotocol/serverInfo"
)

// versions are those of the protocol that are known here, newest first.
var versions = []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// metaError is the error for a request with an invalid _meta.
type metaError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

// refusesMeta answers a request with an invalid _meta where no worker serves:
// nothing is started or kept waiting for it (EDGE-13). A worker that serves
// decides by itself.
func (s *Session) refusesMeta(id, params []byte, out *Output) bool {
	if s.serving != 0 {
		return false
	}
	fault := metaFault(params)
	if fault == nil {
		return false
	}
	out.line(errorLine(id, fault))
	return true
}

// metaFault returns the raw error for a request whose modern _meta is invalid,
// else nil.
func metaFault(params []byte) []byte {
	version, ok := envelope.Find(params, "_meta", metaVersion)
	if !ok {
		return nil
	}
	var fault metaError
	var asked string
	switch err := json.Unmarshal(version.Of(params), &asked); {
	case err != nil:
		fault = wrongType(metaVersion, "a string")
	case asked < "2026-":
		return nil // the legacy era, in which _meta decides nothing
	case asked != versions[0]:
		fault = metaError{-32022, "Unsupported protocol version", map[string]any{"supported": versions, "requested": asked}}
	case !isObject(params, metaCapabilities):
		fault = wrongType(metaCapabilities, "an object")
	case isPresent(params, metaClientInfo) && !isObject(params, metaClientInfo):
		fault = wrongType(metaClientInfo, "an object")
	default:
		return nil
	}
	b, err := json.Marshal(fault)
	if err != nil { // strings can always be marshalled
		panic(err)
	}
	return b
}

// plainMeta returns the _meta of a request of our own on behalf of a client:
// what it says of itself, without what belongs to one request.
func plainMeta(params []byte) []byte {
	b := []byte{'{'}
	for _, key := range []string{metaVersion, metaCapabilities, metaClientInfo} {
		span, ok := envelope.Find(params, "_meta", key)
		if !ok {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(strconv.AppendQuote(b, key), ':'), span.Of(params)...)
	}
	return append(b, '}')
}

func wrongType(key, want string) metaError {
	return metaError{Code: -32602, Message: "Invalid params: _meta " + key + " must be " + want}
}

func isPresent(params []byte, key string) bool {
	_, ok := envelope.Find(params, "_meta", key)
	return ok
}

func isObject(params []byte, key string) bool {
	span, ok := envelope.Find(params, "_meta", key)
	return ok && bytes.HasPrefix(span.Of(params), []byte{'{'})
}
