package envelope_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/holdfast-mcp/holdfast/internal/envelope"
)

// seeds are the messages of C26, C29, C33, C35, C37 and C43, and what is near.
var seeds = []string{
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":0}}}`,
	`{"method":"x","params":[],"jsonrpc":"2.0","id":"a\"b"}`,
	`{"jsonrpc":"2.0","id":2,"result":{"n":[9007199254740993,1e400,0.10,-0,1E+2],"s":"\ud800\u00e9\/"}}`,
	`{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"é"}}`,
	"{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":\"\xC3\x28\"}",
	`{"jsonrpc":"2.0","id":2,"resu`,
	`{"jsonrpc":"2.0","id":null,"method":"tools/list"}`,
	`{"jsonrpc":"2.0","i\u0064":1,"ID":2,"method":"m"}`,
	`{"jsonrpc":"2.0","id":1,"method":"m","paramſ":true,"x":[null,false]}`,
	`{}`, `[]`, `[1]`, `{broken`, "\xFF\xFE", `"x"`, ` 1 `, `01`, `-`, `1.`, `1e`, `"` + "\t" + `"`, `"\x"`, `"\u12G4"`,
}

var names = []string{"id", "method", "params", "jsonrpc", "result", "error"}

// model does with encoding/json what Peek promises.
func model(line []byte) (map[string]json.RawMessage, error) {
	if !json.Valid(line) || !utf8.Valid(line) {
		return nil, envelope.ErrParse
	}
	switch bytes.TrimLeft(line, " \t\r\n")[0] {
	case '{':
	case '[':
		return nil, envelope.ErrBatch
	default:
		return nil, envelope.ErrNotObject
	}
	got := map[string]json.RawMessage{}
	d := json.NewDecoder(bytes.NewReader(line))
	d.Token()
	ambiguous := false
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		name := key.(string)
		for _, n := range names {
			if strings.EqualFold(n, name) {
				_, twice := got[n]
				ambiguous = ambiguous || twice || name != n
				got[n] = value
			}
		}
	}
	var version, method string
	var fault any
	has := func(n string) bool { _, ok := got[n]; return ok }
	idOK := has("id") && strings.IndexByte(`"-0123456789`, got["id"][0]) >= 0
	switch {
	case ambiguous:
		return nil, envelope.ErrAmbiguous
	case json.Unmarshal(got["jsonrpc"], &version) != nil || version != "2.0",
		has("id") && !idOK,
		has("method") == (has("result") || has("error")),
		has("result") && has("error"),
		!has("method") && !idOK:
		return nil, envelope.ErrInvalid
	}
	if has("error") {
		json.Unmarshal(got["error"], &fault)
		if _, ok := fault.(map[string]any); !ok {
			return nil, envelope.ErrInvalid
		}
	}
	if has("method") {
		if got["method"][0] != '"' || json.Unmarshal(got["method"], &method) != nil {
			return nil, envelope.ErrInvalid
		}
		if has("params") && !strings.ContainsRune("{[", rune(got["params"][0])) {
			return nil, envelope.ErrInvalid
		}
	}
	return got, nil
}

func FuzzPeek(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		env, err := envelope.Peek(line)
		if errors.Is(err, envelope.ErrDepth) {
			t.Skip("the model knows no depth of its own")
		}
		want, wantErr := model(line)
		if !errors.Is(err, wantErr) || err != nil && wantErr == nil {
			t.Fatalf("error %v, want %v", err, wantErr)
		}
		if err != nil {
			return
		}
		spans := map[string]envelope.Span{
			"id": env.ID, "method": env.MethodSpan, "params": env.Params, "result": env.Result, "error": env.Error,
		}
		for name, span := range spans {
			if name == "params" && env.Kind.IsAnswer() {
				continue
			}
			if got := span.Of(line); !bytes.Equal(got, want[name]) {
				t.Errorf("%s is %q, want %q", name, got, want[name])
			}
		}
		var method string
		if raw, ok := want["method"]; ok {
			if err := json.Unmarshal(raw, &method); err != nil {
				t.Fatal(err)
			}
		}
		if env.Method != method {
			t.Errorf("method %q, want %q", env.Method, method)
		}
	})
}

func FuzzFind(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s), "params", "_meta")
	}
	f.Add([]byte(`{"a":{"b":1,"b":2},"a":3}`), "a", "b")
	f.Fuzz(func(t *testing.T, raw []byte, outer, inner string) {
		span, ok := envelope.Find(raw, outer, inner)
		if ok && (span.Start < 0 || span.End > len(raw) || !json.Valid(span.Of(raw))) {
			t.Fatalf("found %v in %q", span, raw)
		}
		if !json.Valid(raw) || !utf8.Valid(raw) || !utf8.ValidString(outer) || !utf8.ValidString(inner) {
			return
		}
		want, wantOK := member(raw, outer)
		if wantOK {
			want, wantOK = member(want, inner)
		}
		if ok != wantOK || ok && !bytes.Equal(span.Of(raw), want) {
			t.Errorf("found %q, %v; want %q, %v", span.Of(raw), ok, want, wantOK)
		}
		for name, s := range envelope.Members(raw) {
			first, _ := member(raw, name)
			if found, ok := envelope.Find(raw, name); !ok || !bytes.Equal(found.Of(raw), first) || s.Start < found.Start {
				t.Errorf("member %q at %v, found at %v", name, s, found)
			}
		}
	})
}

// member returns the value of the first member of that name.
func member(raw []byte, name string) ([]byte, bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, false
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, false
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, false
		}
		if key == name {
			return value, true
		}
	}
	return nil, false
}

func FuzzSplice(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s), []byte(`17`))
	}
	f.Fuzz(func(t *testing.T, line, repl []byte) {
		env, err := envelope.Peek(line)
		if err != nil || env.ID.IsZero() {
			return
		}
		before := bytes.Clone(line)
		out := envelope.Splice(line, env.ID, repl)
		if !bytes.Equal(line, before) {
			t.Fatal("line changed")
		}
		if cap(out) <= len(out) {
			t.Error("no room for a line end")
		}
		back := envelope.Splice(out, envelope.Span{Start: env.ID.Start, End: env.ID.Start + len(repl)}, env.ID.Of(line))
		if !bytes.Equal(back, line) {
			t.Errorf("spliced back: %q, want %q", back, line)
		}
		if json.Valid(repl) && !json.Valid(out) {
			t.Errorf("%q with %q is %q", line, repl, out)
		}
	})
}

func FuzzSplit(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte("[" + s + ", " + s + "]"))
	}
	f.Fuzz(func(t *testing.T, batch []byte) {
		spans, err := envelope.Split(batch)
		var want []json.RawMessage
		valid := utf8.Valid(batch) && json.Unmarshal(batch, &want) == nil && bytes.TrimLeft(batch, " \t\r\n")[0] == '['
		if errors.Is(err, envelope.ErrDepth) || len(want) > envelope.MaxBatch {
			return
		}
		if valid != (err == nil) || len(spans) != len(want) {
			t.Fatalf("%d spans, %v; want %d, %v", len(spans), err, len(want), valid)
		}
		for i, s := range spans {
			if !bytes.Equal(s.Of(batch), want[i]) {
				t.Errorf("element %d is %q, want %q", i, s.Of(batch), want[i])
			}
		}
	})
}
