package envelope_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/internal/envelope"
)

// EDGE-1, EDGE-3, SEC-6; C29, C35, C37, C43.
func TestPeek(t *testing.T) {
	deep := func(n int) string {
		return `{"jsonrpc":"2.0","method":"m","params":{"a":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `},"id":7}`
	}
	tests := []struct {
		name, line string
		kind       envelope.Kind
		method, id string
		err        error
	}{
		{"request", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`, envelope.Request, "tools/call", `1`, nil},
		{"TypeScript order", `{"method":"tools/call","params":{"id":5},"jsonrpc":"2.0","id":1}`, envelope.Request, "tools/call", `1`, nil},
		{"space", " \t{ \"jsonrpc\" : \"2.0\" , \"id\" : 1 , \"method\" : \"ping\" } \r", envelope.Request, "ping", `1`, nil},
		{"params array", `{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`, envelope.Request, "ping", `1`, nil},
		{"own method", `{"jsonrpc":"2.0","id":1,"method":"x\u002fy\ud83d\ude00"}`, envelope.Request, "x/y😀", `1`, nil},
		{"notification", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, envelope.Notification, "notifications/initialized", ``, nil},
		{"response", `{"jsonrpc":"2.0","id":"a","result":{"id":1,"method":"x"}}`, envelope.Response, "", `"a"`, nil},
		{"response, scalar", `{"jsonrpc":"2.0","id":"a","result":null}`, envelope.Response, "", `"a"`, nil},
		{"error", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}`, envelope.ErrorResponse, "", `1`, nil},
		{"C26 unknown members", `{"x":1e400,"jsonrpc":"2.0","id":1,"result":{"n":9007199254740993,"d":0.10}}`, envelope.Response, "", `1`, nil},
		{"C29 lone surrogate", `{"jsonrpc":"2.0","id":1,"result":"\ud800"}`, envelope.Response, "", `1`, nil},
		{"escaped names", `{"jsonrp\u0063":"\u0032.0","i\u0064":1,"method":"ping"}`, envelope.Request, "ping", `1`, nil},

		{"C35 string id", `{"jsonrpc":"2.0","id":"1","method":"ping"}`, envelope.Request, "ping", `"1"`, nil},
		{"C35 empty id", `{"jsonrpc":"2.0","id":"","method":"ping"}`, envelope.Request, "ping", `""`, nil},
		{"C35 escaped id", `{"jsonrpc":"2.0","id":"a\"b","method":"ping"}`, envelope.Request, "ping", `"a\"b"`, nil},
		{"C35 zero id", `{"jsonrpc":"2.0","id":0,"method":"ping"}`, envelope.Request, "ping", `0`, nil},
		{"C35 negative id", `{"jsonrpc":"2.0","id":-1,"method":"ping"}`, envelope.Request, "ping", `-1`, nil},
		{"EDGE-1 fraction id", `{"jsonrpc":"2.0","id":9.5,"method":"ping"}`, envelope.Request, "ping", `9.5`, nil},
		{"EDGE-1 large id", `{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, envelope.Request, "ping", `9007199254740993`, nil},

		{"empty", ``, envelope.Unknown, "", ``, envelope.ErrParse},
		{"junk", `not json`, envelope.Unknown, "", ``, envelope.ErrParse},
		{"C37 broken", `{broken`, envelope.Unknown, "", ``, envelope.ErrParse},
		{"C29 junk bytes", "\xFF\xFE", envelope.Unknown, "", ``, envelope.ErrParse},
		{"byte order mark", "\xEF\xBB\xBF{}", envelope.Unknown, "", ``, envelope.ErrParse},
		{"C33 truncated", `{"jsonrpc":"2.0","id":2,"resu`, envelope.Unknown, "", `2`, envelope.ErrParse},
		{"C33 truncated in result", `{"jsonrpc":"2.0","id":2,"result":{"a`, envelope.Response, "", `2`, envelope.ErrParse},
		{"C33 truncated in id", `{"jsonrpc":"2.0","result":{},"id":12`, envelope.Response, "", ``, envelope.ErrParse},
		{"NaN", `{"jsonrpc":"2.0","id":2,"result":{"a":NaN}}`, envelope.Response, "", `2`, envelope.ErrParse},
		{"two messages", `{"jsonrpc":"2.0","id":2,"method":"ping"}{}`, envelope.Request, "", `2`, envelope.ErrParse},
		{"C29 bad UTF-8, id last", "{\"jsonrpc\":\"2.0\",\"result\":\"\xC3\x28\",\"id\":2}", envelope.Response, "", `2`, envelope.ErrParse},
		{"C29 bad UTF-8 at the end of a word", "{\"jsonrpc\":\"2.0\",\"result\":\"1234567\xC3\",\"id\":2}", envelope.Response, "", `2`, envelope.ErrParse},

		{"string", `"x"`, envelope.Unknown, "", ``, envelope.ErrNotObject},
		{"null", `null`, envelope.Unknown, "", ``, envelope.ErrNotObject},
		{"number", `1`, envelope.Unknown, "", ``, envelope.ErrNotObject},
		{"C43 empty batch", `[]`, envelope.Unknown, "", ``, envelope.ErrBatch},
		{"C43 batch", `[1]`, envelope.Unknown, "", ``, envelope.ErrBatch},
		{"C43 broken batch", `[1`, envelope.Unknown, "", ``, envelope.ErrParse},

		{"C37 empty object", `{}`, envelope.Unknown, "", ``, envelope.ErrInvalid},
		{"C37 null id", `{"jsonrpc":"2.0","id":null,"method":"tools/list"}`, envelope.Request, "", ``, envelope.ErrInvalid},
		{"bool id", `{"jsonrpc":"2.0","id":true,"method":"tools/list"}`, envelope.Request, "", ``, envelope.ErrInvalid},
		{"object id", `{"jsonrpc":"2.0","id":{},"method":"tools/list"}`, envelope.Request, "", ``, envelope.ErrInvalid},
		{"no version", `{"id":9,"method":"ping"}`, envelope.Request, "", `9`, envelope.ErrInvalid},
		{"wrong version", `{"jsonrpc":"1.0","id":9,"method":"ping"}`, envelope.Request, "", `9`, envelope.ErrInvalid},
		{"number as version", `{"jsonrpc":2.0,"id":9,"method":"ping"}`, envelope.Request, "", `9`, envelope.ErrInvalid},
		{"no method", `{"jsonrpc":"2.0","id":9}`, envelope.Unknown, "", `9`, envelope.ErrInvalid},
		{"number as method", `{"jsonrpc":"2.0","id":9,"method":1}`, envelope.Request, "", `9`, envelope.ErrInvalid},
		{"scalar params", `{"jsonrpc":"2.0","id":9,"method":"ping","params":null}`, envelope.Request, "", `9`, envelope.ErrInvalid},
		{"result and error", `{"jsonrpc":"2.0","id":9,"result":{},"error":{}}`, envelope.Response, "", `9`, envelope.ErrInvalid},
		{"method and result", `{"jsonrpc":"2.0","id":9,"method":"ping","result":{}}`, envelope.Unknown, "", ``, envelope.ErrInvalid},
		{"scalar error", `{"jsonrpc":"2.0","id":9,"error":"x"}`, envelope.ErrorResponse, "", `9`, envelope.ErrInvalid},
		{"error of no request", `{"jsonrpc":"2.0","id":null,"error":{}}`, envelope.ErrorResponse, "", ``, envelope.ErrInvalid},
		{"response without id", `{"jsonrpc":"2.0","result":{}}`, envelope.Response, "", ``, envelope.ErrInvalid},

		{"SEC-6 two ids", `{"jsonrpc":"2.0","id":1,"method":"ping","id":2}`, envelope.Request, "", ``, envelope.ErrAmbiguous},
		{"SEC-6 ID", `{"jsonrpc":"2.0","ID":1,"method":"ping"}`, envelope.Request, "", ``, envelope.ErrAmbiguous},
		{"SEC-6 escaped id", `{"jsonrpc":"2.0","id":1,"method":"ping","i\u0064":2}`, envelope.Request, "", ``, envelope.ErrAmbiguous},
		{"SEC-6 two methods", `{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call"}`, envelope.Request, "", `1`, envelope.ErrAmbiguous},
		{"SEC-6 Method", `{"jsonrpc":"2.0","id":1,"method":"tools/list","Method":"tools/call"}`, envelope.Request, "", `1`, envelope.ErrAmbiguous},
		{"SEC-6 long s", `{"jsonrpc":"2.0","id":1,"method":"tools/list","paramſ":{}}`, envelope.Request, "", `1`, envelope.ErrAmbiguous},
		{"SEC-6 escaped long s", `{"jsonrpc":"2.0","id":1,"method":"tools/list","\u0050aram\u017F":{}}`, envelope.Request, "", `1`, envelope.ErrAmbiguous},
		{"SEC-6 two versions", `{"jsonrpc":"2.0","id":1,"method":"ping","jsonrpc":"2.0"}`, envelope.Request, "", `1`, envelope.ErrAmbiguous},
		{"SEC-6 two results", `{"jsonrpc":"2.0","id":1,"result":{},"result":{}}`, envelope.Response, "", `1`, envelope.ErrAmbiguous},

		{"deepest", deep(envelope.MaxDepth - 2), envelope.Request, "m", `7`, nil},
		{"too deep", deep(envelope.MaxDepth - 1), envelope.Request, "", `7`, envelope.ErrDepth},
		{"hopelessly deep", deep(1 << 20), envelope.Notification, "", ``, envelope.ErrDepth},
		{"deep batch", strings.Repeat("[", 1001) + strings.Repeat("]", 1001), envelope.Unknown, "", ``, envelope.ErrDepth},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env, err := envelope.Peek([]byte(tt.line))
			if !errors.Is(err, tt.err) || err != nil && tt.err == nil {
				t.Errorf("error %v, want %v", err, tt.err)
			}
			if env.Kind != tt.kind || env.Method != tt.method {
				t.Errorf("got %v %q, want %v %q", env.Kind, env.Method, tt.kind, tt.method)
			}
			if id := string(env.ID.Of([]byte(tt.line))); id != tt.id {
				t.Errorf("id %s, want %s", id, tt.id)
			}
		})
	}
}

// C26: the parts are the bytes that the line has.
func TestPeekC26Spans(t *testing.T) {
	line := []byte(`{"id":1, "params": {"a":1e400, "b":"\u00e9"} ,"method":"x","jsonrpc":"2.0"}`)
	env, err := envelope.Peek(line)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(env.Params.Of(line)); got != `{"a":1e400, "b":"\u00e9"}` {
		t.Errorf("params %s", got)
	}
	if got := string(env.MethodSpan.Of(line)); got != `"x"` {
		t.Errorf("method %s", got)
	}
	if !env.Result.IsZero() || !env.Error.IsZero() {
		t.Errorf("result %v and error %v in a request", env.Result, env.Error)
	}
}

// C43.
func TestSplitC43(t *testing.T) {
	many := func(n int) string { return "[1" + strings.Repeat(",1", n-1) + "]" }
	tests := []struct {
		name, batch string
		want        []string
		err         error
	}{
		{"empty", ` [ ] `, nil, nil},
		{"mixed", `[ {"id":1} , 2,"x" ,[3]]`, []string{`{"id":1}`, `2`, `"x"`, `[3]`}, nil},
		{"trailing comma", `[1,]`, nil, envelope.ErrParse},
		{"truncated", `[1,2`, nil, envelope.ErrParse},
		{"two", `[1][2]`, nil, envelope.ErrParse},
		{"bad UTF-8", "[\"\xC3\x28\"]", nil, envelope.ErrParse},
		{"object", `{}`, nil, envelope.ErrInvalid},
		{"junk", `x`, nil, envelope.ErrParse},
		{"empty text", ``, nil, envelope.ErrParse},
		{"too many", many(envelope.MaxBatch + 1), nil, envelope.ErrInvalid},
		{"too deep", strings.Repeat("[", 1001) + strings.Repeat("]", 1001), nil, envelope.ErrDepth},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spans, err := envelope.Split([]byte(tt.batch))
			if !errors.Is(err, tt.err) || err != nil && tt.err == nil {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if len(spans) != len(tt.want) {
				t.Fatalf("%d elements, want %d", len(spans), len(tt.want))
			}
			for i, s := range spans {
				if got := string(s.Of([]byte(tt.batch))); got != tt.want[i] {
					t.Errorf("element %d is %s, want %s", i, got, tt.want[i])
				}
			}
		})
	}
	if spans, err := envelope.Split([]byte(many(envelope.MaxBatch))); err != nil || len(spans) != envelope.MaxBatch {
		t.Errorf("largest batch: %d elements, %v", len(spans), err)
	}
}

// EDGE-6: a progress token keeps its bytes, 0 included.
func TestFind(t *testing.T) {
	raw := []byte(` {"a":{"_meta":1},"_m\u0065ta":{"x":[{"progressToken":1}],"progressToken":0},"_meta":2} `)
	tests := []struct {
		path []string
		want string
		ok   bool
	}{
		{[]string{"_meta", "progressToken"}, `0`, true},
		{[]string{"a", "_meta"}, `1`, true},
		{[]string{"a"}, `{"_meta":1}`, true},
		{[]string{"_meta", "x", "progressToken"}, ``, false},
		{[]string{"_META"}, ``, false},
		{[]string{"a", "_meta", "b"}, ``, false},
		{nil, `{"a":{"_meta":1},"_m\u0065ta":{"x":[{"progressToken":1}],"progressToken":0},"_meta":2}`, true},
	}
	for _, tt := range tests {
		s, ok := envelope.Find(raw, tt.path...)
		if got := string(s.Of(raw)); ok != tt.ok || got != tt.want {
			t.Errorf("Find(%q) = %s, %v; want %s, %v", tt.path, got, ok, tt.want, tt.ok)
		}
	}
}

func TestMembers(t *testing.T) {
	raw := []byte(`{"a":1, "\u0062" : [2],"a":"x"}`)
	var got []string
	for name, s := range envelope.Members(raw) {
		got = append(got, name+"="+string(s.Of(raw)))
	}
	if want := `a=1 b=[2] a="x"`; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for name := range envelope.Members([]byte(`[1]`)) {
		t.Errorf("array has a member %q", name)
	}
}

// EDGE-1, C35.
func TestIDKeyC35(t *testing.T) {
	distinct := []string{`1`, `"1"`, `""`, `0`, `"0"`, `-1`, `9.5`, `9007199254740993`, `9007199254740992`, `"a\"b"`, `"\ud800"`, `"\ud801"`, `"\ufffd"`}
	seen := map[string]string{}
	for _, raw := range distinct {
		key := envelope.IDKey([]byte(raw))
		if other, ok := seen[key]; ok {
			t.Errorf("%s and %s share the key %q", raw, other, key)
		}
		seen[key] = raw
	}
	for _, pair := range [][2]string{{`"a"`, `"\u0061"`}, {`"/"`, `"\/"`}, {`"😀"`, `"\ud83d\ude00"`}, {`"\ud800"`, `"\uD800"`}} {
		if a, b := envelope.IDKey([]byte(pair[0])), envelope.IDKey([]byte(pair[1])); a != b {
			t.Errorf("%s has key %q, %s has %q", pair[0], a, pair[1], b)
		}
	}
}

func TestSplice(t *testing.T) {
	line := []byte(`{"id":"abc","method":"x"}`)
	env, _ := envelope.Peek([]byte(`{"id":"abc","method":"x"}`))
	out := envelope.Splice(line, env.ID, []byte("17"))
	if string(out) != `{"id":17,"method":"x"}` {
		t.Errorf("got %s", out)
	}
	if cap(out) <= len(out) {
		t.Error("no room for a line end")
	}
	if string(line) != `{"id":"abc","method":"x"}` {
		t.Errorf("line became %s", line)
	}
}

func TestPeekAllocatesNothing(t *testing.T) {
	line := []byte(`{"method":"tools/call","params":{"_meta":{"progressToken":1},"s":"é\n"},"jsonrpc":"2.0","id":"a"}`)
	allocs := testing.AllocsPerRun(100, func() {
		env, err := envelope.Peek(line)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := envelope.Find(env.Params.Of(line), "_meta", "progressToken"); !ok {
			t.Fatal("no token")
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// The names that come without allocation are spelled like the wire has them.
func TestPeekMethods(t *testing.T) {
	methods := strings.FieldsSeq(`initialize ping tools/call tools/list resources/list resources/read resources/subscribe
		resources/unsubscribe resources/templates/list prompts/list prompts/get completion/complete logging/setLevel
		server/discover subscriptions/listen sampling/createMessage elicitation/create roots/list
		notifications/initialized notifications/cancelled notifications/progress notifications/message
		notifications/resources/updated notifications/resources/list_changed notifications/tools/list_changed
		notifications/prompts/list_changed notifications/roots/list_changed`)
	for want := range methods {
		line := []byte(`{"jsonrpc":"2.0","method":"` + want + `"}`)
		allocs := testing.AllocsPerRun(10, func() {
			if env, err := envelope.Peek(line); err != nil || env.Method != want {
				t.Errorf("%s: got %q, %v", want, env.Method, err)
			}
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations", want, allocs)
		}
	}
}
