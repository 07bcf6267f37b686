package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

var messages = []string{
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":[1,2.50,"\u00e9"],"b":null}}`,
	`{"method":"tools/call","params":{ "a" : 1 },"jsonrpc":"2.0","id":"x"}`,
	` { "jsonrpc" : "2.0" , "id" : 1 , "method" : "p\u0069ng" } `,
	`{"jsonrpc":"2.0","method":"notifications/x","params":null}`,
	`{"jsonrpc":"2.0","method":"","id":null}`,
	`{"jsonrpc":"2.0","method":null,"id":1}`,
	`{"jsonrpc":"2.0","Method":"upper","id":1}`,
	`{"jsonrpc":"2.0","method":"a","method":"b","params":1,"params":{}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"a":"b"}}`,
	`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no <x>","data":{"a": 1}}}`,
	`{"jsonrpc":"2.0","id":1,"error":null,"result":null}`,
	`{"jsonrpc":"2.0","id":1}`,
	`{"jsonrpc":"2.0","id":{},"method":"x"}`,
	`{"jsonrpc":"1.0","id":1,"method":"x"}`,
	`{"jsonrpc":"2.0","id":1,"method":"x"} trailing`,
	`{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":}}`,
	`[]`, `null`, `1`, `"x"`, ``, `{`, `{"jsonrpc":"2.0","method":"é"}`,
	`{"jsonrpc":"2.0","method":"x","params":` + strings.Repeat(`[`, 2000) + strings.Repeat(`]`, 2000) + `}`,
	`{"jsonrpc":"2.0","method":"x","params":["` + strings.Repeat(`[`, 2000) + `"]}`,
}

// FuzzDecodeCall compares with the SDK's decoder, which differs in the id only.
func FuzzDecodeCall(f *testing.F) {
	for _, m := range messages {
		f.Add([]byte(m))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		got, _, err := decodeCall(bytes.Clone(payload))
		msg, sdkErr := jsonrpc.DecodeMessage(payload)
		want, ok := msg.(*jsonrpc.Request)
		switch {
		case !ok:
			// The SDK refuses ids that are no ids, which do not matter here.
			if err == nil && !bytes.Contains(payload, []byte(`id`)) && !bytes.Contains(payload, []byte(`\u`)) {
				t.Fatalf("%q: taken, but the SDK says %v", payload, sdkErr)
			}
		case err != nil:
			t.Fatalf("%q: %v, but the SDK takes it", payload, err)
		case got.Method != want.Method || !sameJSON(got.Params, want.Params):
			t.Fatalf("%q: got %q %s, want %q %s", payload, got.Method, got.Params, want.Method, want.Params)
		}
	})
}

// sameJSON compares raw values; nil and empty are the same.
func sameJSON(a, b json.RawMessage) bool { return bytes.Equal(a, b) }

// FuzzDecodeResponse compares with the SDK's decoder.
func FuzzDecodeResponse(f *testing.F) {
	for _, m := range messages {
		f.Add([]byte(m))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		got, err := decodeResponse(5, bytes.Clone(payload))
		msg, _ := jsonrpc.DecodeMessage(payload)
		want, ok := msg.(*jsonrpc.Response)
		if !ok {
			return // ids and methods do not matter here
		}
		if err != nil {
			t.Fatalf("%q: %v, but the SDK takes it", payload, err)
		}
		if got.ID.Raw() != int64(5) || !sameJSON(got.Result, want.Result) || !reflect.DeepEqual(got.Error, want.Error) {
			t.Fatalf("%q: got %s %v, want %s %v", payload, got.Result, got.Error, want.Result, want.Error)
		}
	})
}

func TestEncodeResponseIsThatOfTheSDK(t *testing.T) {
	id, err := makeID(12)
	if err != nil {
		t.Fatal(err)
	}
	wire := &jsonrpc.Error{Code: -32602, Message: "<bad> & \u2028", Data: json.RawMessage(`{"a":1}`)}
	for _, resp := range []*jsonrpc.Response{
		{ID: id, Result: json.RawMessage(`{"a":"<b>","n":1.50}`)},
		{ID: id, Result: json.RawMessage(`null`)},
		{ID: id},
		{ID: id, Error: wire},
		{ID: id, Error: fmt.Errorf("wrapped: %w", wire)},
		{ID: id, Error: errors.New("plain \"quoted\" \x01")},
		{ID: id, Error: wire, Result: json.RawMessage(`{}`)},
	} {
		for _, token := range []string{`1`, `"x\"y"`, `9.50`} {
			want, err := jsonrpc.EncodeMessage(resp)
			if err != nil {
				t.Fatal(err)
			}
			want = bytes.Replace(want, []byte(`"id":12`), []byte(`"id":`+token), 1)
			got, err := encodeResponse([]byte(token), resp)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("got  %s, %v\nwant %s", got, err, want)
			}
		}
	}
}

func TestEncodeCallIsThatOfTheSDK(t *testing.T) {
	number, err := makeID(3)
	if err != nil {
		t.Fatal(err)
	}
	name, err := jsonrpc.MakeID("name")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []jsonrpc.ID{{}, number, name} {
		for _, method := range []string{"notifications/message", "", `we"ird`, "é", "<>&"} {
			for _, params := range []string{"", `{}`, `{"a":"<b>"}`} {
				req := &jsonrpc.Request{ID: id, Method: method, Params: json.RawMessage(params)}
				want, err := jsonrpc.EncodeMessage(req)
				if err != nil {
					t.Fatal(err)
				}
				if got, err := encodeCall(req); err != nil || !bytes.Equal(got, want) {
					t.Errorf("got  %s, %v\nwant %s", got, err, want)
				}
			}
		}
	}
}

func TestDecodeCancel(t *testing.T) {
	for params, want := range map[string]string{
		`{"requestId":"a","reason":"r<"}`: `"requestId":9`,
		`{}`:                              `"requestId":9`,
		`null`:                            `"requestId":9`,
		`{"requestId":1,"_meta":{"x":1}}`: `"_meta":{"x":1}`,
	} {
		req, err := decodeCancel(9, []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":`+params+`}`))
		if err != nil || !strings.Contains(string(req.Params), want) || !strings.Contains(string(req.Params), `"requestId":9`) {
			t.Errorf("%s: got %v, %v", params, req, err)
		}
	}
	if _, err := decodeCancel(9, []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}`)); err == nil {
		t.Error("a list as params is taken")
	}
}

func BenchmarkDecodeCall(b *testing.B) {
	for _, size := range []int{64, 4 << 10, 256 << 10} {
		payload := []byte(`{"method":"tools/call","params":{"name":"echo","arguments":{"text":"` + strings.Repeat("x", size) + `"}},"jsonrpc":"2.0","id":7}`)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.SetBytes(int64(len(payload)))
			for b.Loop() {
				if _, _, err := decodeRequest(7, payload); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
