package outputs

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// JSON returns the outputs as a list in the form of nbformat.
func (c *Cell) JSON() []byte {
	out := []byte{'['}
	for i, o := range c.outputs {
		if i > 0 {
			out = append(out, ',')
		}
		out = o.append(out)
	}
	return append(out, ']')
}

func (o *output) append(out []byte) []byte {
	switch o.kind {
	case stream:
		out = append(out, `{"name":`...)
		out = appendString(out, o.name)
		out = append(out, `,"output_type":"stream","text":`...)
		out = appendString(out, o.text.String())
	case errorOutput:
		out = append(out, `{"ename":`...)
		out = appendString(out, o.failure.EName)
		out = append(out, `,"evalue":`...)
		out = appendString(out, o.failure.EValue)
		out = append(out, `,"output_type":"error","traceback":[`...)
		for i, line := range o.failure.Traceback {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendString(out, line)
		}
		out = append(out, ']')
	default:
		out = append(out, `{"data":{`...)
		for i, mime := range slices.Sorted(maps.Keys(o.data)) {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(appendString(out, mime), ':')
			out = append(out, o.data[mime]...)
		}
		out = append(out, '}')
		if o.kind == executeResult {
			out = append(append(out, `,"execution_count":`...), number(o.count)...)
		}
		out = append(append(out, `,"metadata":`...), o.metadata...)
		out = append(append(out, `,"output_type":"`...), o.kind...)
		out = append(out, '"')
	}
	return append(out, '}')
}

// appendString appends a string without the escapes that HTML needs.
func appendString(out []byte, s string) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s) // a string always has an encoding
	return append(out, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}

func number(n *int) string {
	if n == nil || *n < 0 {
		return "null"
	}
	return strconv.Itoa(*n)
}

// bundle returns data with only what nbformat allows: any value for JSON, a
// text or a list of texts for all else. Another value becomes a text, and null,
// by which some kernels say that there is none, is left out.
func bundle(data map[string]json.RawMessage) map[string]json.RawMessage {
	out := make(map[string]json.RawMessage, len(data))
	for mime, value := range data {
		value = valid(value)
		switch {
		case isJSON(mime) || value[0] == '"' || isTexts(value):
			out[mime] = value
		case string(value) != "null":
			out[mime] = appendString(nil, string(value))
		}
	}
	return out
}

// isJSON follows the schema of nbformat, which knows these two forms alone.
func isJSON(mime string) bool {
	return mime == "application/json" || strings.HasPrefix(mime, "application/") && strings.HasSuffix(mime, "+json")
}

func isTexts(value json.RawMessage) bool {
	var texts []*string
	if value[0] != '[' || json.Unmarshal(value, &texts) != nil {
		return false
	}
	return !slices.Contains(texts, nil)
}

// object returns metadata, which nbformat wants to be an object.
func object(metadata json.RawMessage) json.RawMessage {
	metadata = valid(metadata)
	if len(metadata) == 0 || metadata[0] != '{' {
		return json.RawMessage("{}")
	}
	return metadata
}

// valid returns a value in UTF-8, which kernels may fail to send.
func valid(value json.RawMessage) json.RawMessage {
	return bytes.TrimSpace(bytes.ToValidUTF8(value, []byte("\uFFFD")))
}
