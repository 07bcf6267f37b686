package harness

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/holdfast-mcp/holdfast/protocol"
)

// Frame is one line that a server wrote.
type Frame struct {
	// Raw is the line as it came, without its line feed.
	Raw json.RawMessage `json:"-"`
	// ID is the id token as it came, nil if there is none.
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *Error          `json:"error"`
}

// Error is the error member of a response.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

// ToolResult is what tests look at in the result of a tools/call.
type ToolResult struct {
	Content []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
	IsError    bool                       `json:"isError"`
	ResultType string                     `json:"resultType"`
	Meta       map[string]json.RawMessage `json:"_meta"`
}

// Call returns the params of a tools/call.
func Call(tool string, args map[string]any) map[string]any {
	if args == nil {
		args = map[string]any{}
	}
	return map[string]any{"name": tool, "arguments": args}
}

func parseFrame(line []byte) (Frame, error) {
	f := Frame{Raw: bytes.Clone(line)}
	err := json.Unmarshal(line, &f)
	return f, err
}

// IsResponse reports whether the frame answers a request.
func (f Frame) IsResponse() bool { return f.Method == "" && (f.Result != nil || f.Error != nil) }

// Tool returns the result of a tools/call. A JSON-RPC error ends the test.
func (f Frame) Tool(tb testing.TB) ToolResult {
	tb.Helper()
	var r ToolResult
	if f.Error != nil || json.Unmarshal(f.Result, &r) != nil {
		tb.Fatalf("no tool result: %.2000s", f.Raw)
	}
	return r
}

// Text returns the first text of a tools/call that succeeded; anything else
// ends the test.
func (f Frame) Text(tb testing.TB) string {
	tb.Helper()
	r := f.Tool(tb)
	if r.IsError || len(r.Content) == 0 {
		tb.Fatalf("no text of a successful call: %.2000s", f.Raw)
	}
	return r.Content[0].Text
}

// Typed returns holdfast's typed error in the answer, wherever the kind of
// request puts it, or nil if the answer carries none.
func (f Frame) Typed() *protocol.Error {
	var raw json.RawMessage
	if f.Error != nil {
		raw = f.Error.Data
	} else {
		var r ToolResult
		_ = json.Unmarshal(f.Result, &r) // another kind of result has no typed error
		if r.IsError {
			raw = r.Meta[protocol.MetaError]
		}
	}
	var e protocol.Error
	_ = json.Unmarshal(raw, &e) // what is no typed error has no kind
	if e.Kind == "" {
		return nil
	}
	return &e
}
