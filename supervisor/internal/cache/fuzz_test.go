package cache

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/gowebpki/jcs"
)

// FuzzDecode reads files that anything may have written, with and without the
// checksum that makes them look like ours. Whatever is accepted is answers, one
// line each, that can be saved as they are (SEC-2).
func FuzzDecode(f *testing.F) {
	const name = "name" + entrySuffix
	for _, e := range []Entry{{}, entry, {Discover: json.RawMessage(`{"a":[1,{"b":null}]}`)}} {
		content, err := encode(name, e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
		_, body, _ := bytes.Cut(content, []byte{'\n'})
		f.Add(body)
	}
	f.Add([]byte("{\"initialize\":{\n}}\n"))
	f.Add([]byte(`{"lists":{"tools/list":{"nextCursor":"1"},"":{"nextCursor":1}}}` + "\n"))
	f.Add([]byte(`{"legacy":"yes","modern":"","dies_of_probe":true}` + "\n"))
	f.Add([]byte("holdfast-cache 99999999999999999999 \n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, content := range [][]byte{raw, append(head(name, raw), raw...)} {
			if v, err := decode[Traits](name, content); err == nil && v.check() != nil {
				t.Errorf("%q gives %v", content, v)
			}
			e, err := decode[Entry](name, content)
			if err != nil {
				continue
			}
			results := []json.RawMessage{e.Initialize, e.Discover}
			for _, r := range e.Lists {
				results = append(results, r)
			}
			for _, r := range results {
				var object map[string]json.RawMessage
				if r != nil && (json.Unmarshal(r, &object) != nil || object == nil || bytes.ContainsAny(r, "\n") || !utf8.Valid(r)) {
					t.Errorf("%q gives %q", content, r)
				}
			}
			again, err := encode(name, e)
			if err != nil {
				t.Fatalf("%q cannot be saved: %v", content, err)
			}
			if _, err := decode[Entry](name, again); err != nil {
				t.Errorf("%q cannot be loaded: %v", again, err)
			}
		}
	})
}

// FuzzCapabilities: whatever a client says of itself has a key, which is the same
// in other words (SEC-2).
func FuzzCapabilities(f *testing.F) {
	f.Add([]byte(`{"roots":{"listChanged":true},"a":[1.0,"\u00e4",null]}`))
	f.Add([]byte(`{"a":1e400}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		key := Client{Capabilities: raw}.sum([32]byte{})
		var spaced bytes.Buffer
		if _, err := jcs.Transform(raw); err != nil || json.Indent(&spaced, raw, "", " ") != nil || spaced.Len() > maxCanonical {
			return
		}
		if (Client{Capabilities: spaced.Bytes()}).sum([32]byte{}) != key {
			t.Errorf("%q and %q have two keys", raw, spaced.Bytes())
		}
	})
}
