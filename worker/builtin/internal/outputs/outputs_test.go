package outputs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// message is one of a kernel, "type content".
func apply(t *testing.T, c *Cell, message string) []*Cell {
	t.Helper()
	kind, raw, _ := strings.Cut(message, " ")
	changed, err := c.Apply(kind, []byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

func out(text string) string { return said("stdout", text) }

func said(name, text string) string {
	raw, _ := json.Marshal(map[string]string{"name": name, "text": text})
	return "stream " + string(raw)
}

func display(id, text string) string {
	return fmt.Sprintf(`display_data {"data":{"text/plain":%q},"metadata":{},"transient":{"display_id":%q}}`, text, id)
}

func update(id, text string) string { return "update_" + display(id, text) }

func wantStream(name, text string) string {
	raw, _ := json.Marshal(text)
	return fmt.Sprintf(`{"name":%q,"output_type":"stream","text":%s}`, name, raw)
}

func wantDisplay(text string) string {
	return fmt.Sprintf(`{"data":{"text/plain":%q},"metadata":{},"output_type":"display_data"}`, text)
}

const (
	clearNow  = `clear_output {"wait":false}`
	clearNext = `clear_output {"wait":true}`
)

// ROOM-8: outputs are what Jupyter makes of the messages.
func TestOutputs(t *testing.T) {
	for name, test := range map[string]struct {
		messages []string
		want     []string
	}{
		"streams are put together":       {[]string{out("a"), out("b\n"), out("c")}, []string{wantStream("stdout", "ab\nc")}},
		"but not over another":           {[]string{out("a"), said("stderr", "e"), out("b")}, []string{wantStream("stdout", "a"), wantStream("stderr", "e"), wantStream("stdout", "b")}},
		"nor over a display":             {[]string{out("a"), display("", "x"), out("b")}, []string{wantStream("stdout", "a"), wantDisplay("x"), wantStream("stdout", "b")}},
		"a return across messages":       {[]string{out("10%"), out("\r20%"), out("\r100%\n")}, []string{wantStream("stdout", "100%\n")}},
		"cleared at once":                {[]string{out("a"), clearNow}, nil},
		"cleared with the next":          {[]string{out("a"), clearNext, out("b")}, []string{wantStream("stdout", "b")}},
		"never cleared":                  {[]string{out("a"), clearNext}, []string{wantStream("stdout", "a")}},
		"at once overrides":              {[]string{out("a"), clearNext, clearNow, out("b"), out("c")}, []string{wantStream("stdout", "bc")}},
		"cleared once":                   {[]string{out("a"), clearNext, out("b"), display("", "x")}, []string{wantStream("stdout", "b"), wantDisplay("x")}},
		"update":                         {[]string{display("i", "x"), display("i", "y"), update("i", "z")}, []string{wantDisplay("z"), wantDisplay("z")}},
		"a display updates":              {[]string{display("i", "x"), display("i", "y")}, []string{wantDisplay("y"), wantDisplay("y")}},
		"no update of others":            {[]string{display("i", "x"), display("", "y"), update("j", "z"), update("", "z")}, []string{wantDisplay("x"), wantDisplay("y")}},
		"no update of what is cleared":   {[]string{display("i", "x"), clearNow, update("i", "z")}, nil},
		"an update is no output":         {[]string{display("i", "x"), clearNext, update("i", "z")}, []string{wantDisplay("z")}},
		"comms and status show nothing":  {[]string{`comm_open {"data":{}}`, `status {"execution_state":"idle"}`, `iopub_welcome {}`}, nil},
		"an error":                       {[]string{`error {"ename":"E","evalue":"<v>","traceback":["a","b"],"engine":1}`}, []string{`{"ename":"E","evalue":"<v>","output_type":"error","traceback":["a","b"]}`}},
		"an error without traceback":     {[]string{`error {"ename":"E","evalue":"v"}`}, []string{`{"ename":"E","evalue":"v","output_type":"error","traceback":[]}`}},
		"a result":                       {[]string{`execute_result {"data":{"text/plain":"2"},"metadata":{},"execution_count":7,"transient":{}}`}, []string{`{"data":{"text/plain":"2"},"execution_count":7,"metadata":{},"output_type":"execute_result"}`}},
		"a result without count":         {[]string{`execute_result {"data":{}}`}, []string{`{"data":{},"execution_count":null,"metadata":{},"output_type":"execute_result"}`}},
		"numbers keep their digits":      {[]string{`display_data {"data":{"application/vnd.x+json":{"n":1.0,"big":12345678901234567890}},"metadata":{"x":1e5}}`}, []string{`{"data":{"application/vnd.x+json":{"n":1.0,"big":12345678901234567890}},"metadata":{"x":1e5},"output_type":"display_data"}`}},
		"what nbformat does not allow":   {[]string{`display_data {"data":{"text/html":["a","b"],"text/plain":3,"image/png":null,"application/json":null,"text/x":["a",1]},"metadata":[]}`}, []string{`{"data":{"application/json":null,"text/html":["a","b"],"text/plain":"3","text/x":"[\"a\",1]"},"metadata":{},"output_type":"display_data"}`}},
		"what is no UTF-8":               {[]string{"display_data {\"data\":{\"text/plain\":\"\xff\"}}", "stream {\"name\":\"stdout\",\"text\":\"\xff\"}"}, []string{wantDisplay("\uFFFD"), wantStream("stdout", "\uFFFD")}},
		"html is not escaped":            {[]string{out("<a>&\u2028")}, []string{"{\"name\":\"stdout\",\"output_type\":\"stream\",\"text\":\"<a>&\\u2028\"}"}},
		"a stream has a name":            {[]string{`stream {"text":"x"}`}, []string{wantStream("stdout", "x")}},
		"a stream written after a clear": {[]string{out("abc"), clearNow, out("\rX")}, []string{wantStream("stdout", "X")}},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewSet().NewCell()
			for _, m := range test.messages {
				apply(t, c, m)
			}
			var got []json.RawMessage
			if err := json.Unmarshal(c.JSON(), &got); err != nil {
				t.Fatalf("%v: %s", err, c.JSON())
			}
			if len(got) != c.Len() || !slices.EqualFunc(got, test.want, func(a json.RawMessage, b string) bool {
				return normal(t, string(a)) == normal(t, b)
			}) {
				t.Errorf("\n%s\nwant\n%s", c.JSON(), test.want)
			}
		})
	}
}

// normal tells values apart as JSON does, but numbers by their digits.
func normal(t *testing.T, raw string) string {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(raw))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// ROOM-8: an update reaches the displays of earlier cells, which is told.
func TestUpdateAcrossCells(t *testing.T) {
	s := NewSet()
	first, second := s.NewCell(), s.NewCell()
	apply(t, first, display("i", "x"))
	apply(t, second, display("i", "y"))
	if changed := apply(t, second, update("i", "z")); !slices.Equal(changed, []*Cell{first, second}) {
		t.Errorf("%d cells changed", len(changed))
	}
	if want := "[" + wantDisplay("z") + "]"; string(first.JSON()) != want || string(second.JSON()) != want {
		t.Errorf("%s\n%s", first.JSON(), second.JSON())
	}
	apply(t, first, clearNow)
	if changed := apply(t, second, update("i", "w")); !slices.Equal(changed, []*Cell{second}) {
		t.Errorf("%d cells changed after the other was cleared", len(changed))
	}
	apply(t, second, clearNow)
	if len(s.displays) != 0 {
		t.Errorf("kept for nothing: %v", s.displays)
	}
}

func TestCount(t *testing.T) {
	c := NewSet().NewCell()
	if c.Count() != nil {
		t.Error("a count before the execution")
	}
	apply(t, c, `execute_input {"code":"1","execution_count":4}`)
	apply(t, c, `execute_input {"code":"1","execution_count":null}`)
	if n := c.Count(); n == nil || *n != 4 {
		t.Errorf("count %v", n)
	}
}

func TestMalformed(t *testing.T) {
	c := NewSet().NewCell()
	apply(t, c, out("a"))
	for _, m := range []string{`stream {"text":1}`, `stream [`, `display_data {"data":[]}`, `error {"traceback":"x"}`, `clear_output {"wait":"x"}`} {
		kind, raw, _ := strings.Cut(m, " ")
		if changed, err := c.Apply(kind, []byte(raw)); err == nil || changed != nil {
			t.Errorf("%s: %v %v", m, changed, err)
		}
	}
	if want := "[" + wantStream("stdout", "a") + "]"; string(c.JSON()) != want {
		t.Errorf("%s", c.JSON())
	}
}

// ROOM-8: carriage returns and backspaces do what they do in JupyterLab.
func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                          "",
		"a\nb\n":                    "a\nb\n",
		"abcdef\rXY":                "XYcdef",
		"abc\rX\n":                  "Xbc\n",
		"abc\r\ndef\r\n":            "abc\ndef\n",
		"abc\r":                     "abc",
		"abc\b":                     "abc",
		"abc\bX":                    "abX",
		"abc\b\b\b\b\bX":            "Xbc",
		"a\n\bX":                    "a\nX",
		"a\n\rX":                    "a\nX",
		"äöü\rx":                    "xöü",
		"äöü\b\bx":                  "äxü",
		"xyz\rä":                    "äyz",
		"abc\rdefgh":                "defgh",
		"1\r22\r333\r4":             "433",
		"\x1b[1mb\x1b[0m":           "\x1b[1mb\x1b[0m",
		"one\ntwo\rT\nthree\r\r3\n": "one\nTwo\n3hree\n",
	} {
		var whole text
		whole.write(in)
		if got := whole.String(); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
		var parts text
		for _, r := range in {
			parts.write(string(r))
		}
		if got := parts.String(); got != want {
			t.Errorf("%q by characters: %q, want %q", in, got, want)
		}
	}
}

// FuzzApply: whatever a kernel sends, outputs stay JSON.
func FuzzApply(f *testing.F) {
	f.Add("stream", []byte(`{"name":"stdout","text":"a\r\u00e4\b\b\n"}`))
	f.Add("display_data", []byte(`{"data":{"text/plain":["a"],"application/json":{"a":1}},"metadata":{},"transient":{"display_id":"i"}}`))
	f.Add("error", []byte(`{"ename":"E","evalue":"v","traceback":["a"]}`))
	f.Add("clear_output", []byte(`{"wait":true}`))
	f.Fuzz(func(t *testing.T, kind string, raw []byte) {
		c := NewSet().NewCell()
		for range 2 {
			_, _ = c.Apply(kind, raw)
			_, _ = c.Apply("update_display_data", raw)
		}
		var list []struct {
			Kind string `json:"output_type"`
		}
		if err := json.Unmarshal(c.JSON(), &list); err != nil || len(list) != c.Len() {
			t.Fatalf("%v: %q", err, c.JSON())
		}
	})
}
