package httpbridge

import (
	"bytes"
	"encoding/json"
	"slices"
)

// Keys of _meta that the bridge reads.
const (
	subscriptionKey = "io.modelcontextprotocol/subscriptionId"
	versionKey      = "io.modelcontextprotocol/protocolVersion"
)

// object is a JSON object of which single members are read and replaced; the
// others keep their bytes, but not their order.
type object map[string]json.RawMessage

func parse(b []byte) (object, error) {
	var o object
	err := json.Unmarshal(b, &o)
	return o, err
}

// at returns the object under the keys, nil if there is none.
func (o object) at(keys ...string) object {
	for _, key := range keys {
		next, err := parse(o[key])
		if err != nil {
			return nil
		}
		o = next
	}
	return o
}

// set replaces the member under the path, the last element of which is the
// member's name. The path must exist.
func (o object) set(value json.RawMessage, path ...string) {
	if len(path) == 1 {
		o[path[0]] = value
		return
	}
	inner := o.at(path[0])
	inner.set(value, path[1:]...)
	o[path[0]] = inner.bytes()
}

func (o object) bytes() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(o); err != nil {
		return []byte("null") // cannot be: the members were parsed
	}
	return bytes.TrimSpace(b.Bytes())
}

// text returns a string member, "" if it is none.
func (o object) text(key string) string {
	var s string
	_ = json.Unmarshal(o[key], &s) // what is no string has no text
	return s
}

func (o object) has(key string) bool { return o[key] != nil }

func (o object) isRequest() bool { return o.has("method") && o.has("id") }

// errorCode returns the code of an error response, 0 if it is none.
func (o object) errorCode() int {
	var code int
	_ = json.Unmarshal(o.at("error")["code"], &code) // what is no code is 0
	return code
}

// badRequest are the codes that the 2026-07-28 revision maps to status 400.
func badRequest(code int) bool {
	return slices.Contains([]int{-32600, -32602, -32020, -32021, -32022, -32004, -32003}, code)
}
