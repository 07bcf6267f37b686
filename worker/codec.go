package worker

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/segmentio/encoding/json"
)

// The codec turns frames into the SDK's messages and back. It gives the same
// result as jsonrpc.DecodeMessage and EncodeMessage, but for the id, at a
// fraction of their cost: those copy and scan every message several times and
// need a 64 KiB buffer each. What is out of the ordinary is left to them.

const (
	// maxDepth of nested arrays and objects, as in the SDK.
	maxDepth = 1000
	// maxID is the largest number that the SDK's ids, made from float64, hold.
	maxID = 1 << 53
)

var (
	errDepth  = errors.New("message is nested too deeply")
	errNoCall = errors.New("message has no method")
	errID     = errors.New("request number is out of range")
)

// parseFlags are those of the SDK, and no copies: payloads are never reused.
const parseFlags = json.ZeroCopy | json.DontMatchCaseInsensitiveStructFields

// incoming is a request or a notification.
type incoming struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  json.RawMessage `json:"method"`
	Params  json.RawMessage `json:"params"`
}

// makeID returns the SDK's form of a request number.
func makeID(n uint64) (jsonrpc.ID, error) {
	if n > maxID {
		return jsonrpc.ID{}, errID
	}
	return jsonrpc.MakeID(float64(n))
}

// decodeRequest returns the request in payload under the number n, and the raw
// id token that stood in it, nil if none did.
func decodeRequest(n uint64, payload []byte) (req *jsonrpc.Request, token []byte, err error) {
	id, err := makeID(n)
	if err != nil {
		return nil, nil, err
	}
	req, token, err = decodeCall(payload)
	if err != nil {
		return nil, token, err
	}
	req.ID = id
	return req, token, nil
}

// decodeNotification returns the notification in payload.
func decodeNotification(payload []byte) (*jsonrpc.Request, error) {
	req, _, err := decodeCall(payload)
	return req, err
}

// decodeCall returns the request or notification in payload, without its id,
// and the raw id token.
func decodeCall(payload []byte) (*jsonrpc.Request, []byte, error) {
	if err := checkDepth(payload); err != nil {
		return nil, nil, err
	}
	var in incoming
	rest, err := json.Parse(payload, &in, parseFlags)
	method, plain := plainString(in.Method)
	if err != nil || len(rest) > 0 || in.Version != "2.0" || !plain {
		return decodeUnusual(payload, in.ID)
	}
	return &jsonrpc.Request{Method: method, Params: emptyAsNil(in.Params)}, in.ID, nil
}

// decodeUnusual lets the SDK decide.
func decodeUnusual(payload, token []byte) (*jsonrpc.Request, []byte, error) {
	msg, err := jsonrpc.DecodeMessage(payload)
	if err != nil {
		return nil, token, err
	}
	req, ok := msg.(*jsonrpc.Request)
	if !ok {
		return nil, token, errNoCall
	}
	req.ID = jsonrpc.ID{}
	return req, token, nil
}

// decodeCancel returns notifications/cancelled for the request n.
func decodeCancel(n uint64, payload []byte) (*jsonrpc.Request, error) {
	req, err := decodeNotification(payload)
	if err != nil {
		return nil, err
	}
	params := make(map[string]json.RawMessage)
	if len(req.Params) > 0 {
		if err := json.Unmarshal(req.Params, &params); err != nil {
			return nil, fmt.Errorf("params of a cancellation: %w", err)
		}
	}
	if params == nil { // "params": null
		params = make(map[string]json.RawMessage)
	}
	params["requestId"] = strconv.AppendUint(nil, n, 10)
	if req.Params, err = json.Marshal(params); err != nil {
		return nil, fmt.Errorf("params of a cancellation: %w", err)
	}
	return req, nil
}

// decodeResponse returns the response in payload to the request n.
func decodeResponse(n uint64, payload []byte) (*jsonrpc.Response, error) {
	id, err := makeID(n)
	if err != nil {
		return nil, err
	}
	if err := checkDepth(payload); err != nil {
		return nil, err
	}
	var in struct {
		Version string          `json:"jsonrpc"`
		Result  json.RawMessage `json:"result"`
		Error   *jsonrpc.Error  `json:"error"`
	}
	if _, err := json.Parse(payload, &in, parseFlags); err != nil {
		return nil, fmt.Errorf("response: %w", err)
	}
	if in.Version != "2.0" {
		return nil, fmt.Errorf("invalid message version tag %q; expected %q", in.Version, "2.0")
	}
	resp := &jsonrpc.Response{ID: id, Result: emptyAsNil(in.Result)}
	if in.Error != nil { // an error of nil type must not become a non-nil error
		resp.Error = in.Error
	}
	return resp, nil
}

// encodeResponse returns resp with token in the place of its id.
func encodeResponse(token []byte, resp *jsonrpc.Response) ([]byte, error) {
	if resp.Error == nil && len(resp.Result) > 0 {
		b := make([]byte, 0, len(idPrefix)+len(token)+len(`,"result":}`)+len(resp.Result))
		b = append(b, idPrefix...)
		b = append(b, token...)
		b = append(b, `,"result":`...)
		b = append(b, resp.Result...)
		return append(b, '}'), nil
	}
	data, err := jsonrpc.EncodeMessage(resp)
	if err != nil {
		return nil, err
	}
	n, _ := resp.ID.Raw().(int64)
	tail, ok := bytes.CutPrefix(data, strconv.AppendInt([]byte(idPrefix), n, 10))
	if !ok {
		return nil, fmt.Errorf("encoding response: unexpected form %.40q", data)
	}
	b := make([]byte, 0, len(idPrefix)+len(token)+len(tail))
	b = append(b, idPrefix...)
	b = append(b, token...)
	return append(b, tail...), nil
}

// encodeCall returns a request or notification of the server.
func encodeCall(req *jsonrpc.Request) ([]byte, error) {
	n, numbered := req.ID.Raw().(int64)
	if !isPlain(req.Method) || req.Method == "" || (req.IsCall() && !numbered) {
		return jsonrpc.EncodeMessage(req)
	}
	b := make([]byte, 0, 80+len(req.Method)+len(req.Params))
	b = append(b, `{"jsonrpc":"2.0",`...)
	if numbered {
		b = append(b, `"id":`...)
		b = strconv.AppendInt(b, n, 10)
		b = append(b, ',')
	}
	b = append(b, `"method":"`...)
	b = append(b, req.Method...)
	b = append(b, '"')
	if len(req.Params) > 0 {
		b = append(b, `,"params":`...)
		b = append(b, req.Params...)
	}
	return append(b, '}'), nil
}

// cancelledID returns the number of the server's own request that req, a
// notifications/cancelled of the server, cancels.
func cancelledID(req *jsonrpc.Request) (uint64, bool) {
	var params struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if req.IsCall() || req.Method != methodCancelled || json.Unmarshal(req.Params, &params) != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(string(params.RequestID), 10, 64)
	return n, err == nil
}

const (
	idPrefix        = `{"jsonrpc":"2.0","id":`
	methodCancelled = "notifications/cancelled"
)

// checkDepth refuses what nests deeper than the SDK allows. A message with few
// brackets, which is nearly every one, costs two vectorised scans.
func checkDepth(data []byte) error {
	if bytes.Count(data, []byte{'{'})+bytes.Count(data, []byte{'['}) <= maxDepth {
		return nil
	}
	depth, inString, escaped := 0, false, false
	for _, b := range data {
		switch {
		case escaped:
			escaped = false
		case inString:
			escaped = b == '\\'
			inString = b != '"'
		case b == '"':
			inString = true
		case b == '{' || b == '[':
			if depth++; depth > maxDepth {
				return errDepth
			}
		case b == '}' || b == ']':
			depth--
		}
	}
	return nil
}

// plainString returns the value of a JSON string without escapes.
func plainString(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	s := string(raw[1 : len(raw)-1])
	return s, isPlain(s)
}

// isPlain reports whether s is its own JSON form between quotes.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// emptyAsNil keeps absent members nil, as the SDK has them.
func emptyAsNil(raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return nil
	}
	return raw
}
