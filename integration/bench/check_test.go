package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// result is what a server answers a call with.
func result(id, text string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[{"type":"text","text":"` + text + `"}]}}` + "\n")
}

func TestBadAnswersAreFound(t *testing.T) {
	text := func(id int) string { return map[int]string{7: "seven", 8: "eight"}[id] }
	for name, test := range map[string]struct {
		lines [][]byte
		ok    bool
	}{
		"any order":   {[][]byte{result("8", "eight"), result("7", "seven")}, true},
		"twice":       {[][]byte{result("7", "seven"), result("7", "seven")}, false},
		"not asked":   {[][]byte{result("7", "seven"), result("9", "nine")}, false},
		"other text":  {[][]byte{result("7", "eight"), result("8", "eight")}, false},
		"id as text":  {[][]byte{result(`"7"`, "seven"), result("8", "eight")}, false},
		"cut":         {[][]byte{result("7", "seven")[:30], result("8", "eight")}, false},
		"error":       {[][]byte{[]byte(`{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"m"}}`), result("8", "eight")}, false},
		"tool failed": {[][]byte{bytes.Replace(result("7", "seven"), []byte("}}"), []byte(`,"isError":true}}`), 1), result("8", "eight")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkAll(test.lines, 7, text)
			if test.ok && err != nil || !test.ok && !errors.Is(err, errBadAnswer) {
				t.Errorf("checkAll = %v", err)
			}
		})
	}
}

func TestEchoAnswersAsAServer(t *testing.T) {
	for _, p := range []payload{newPayload(false), newPayload(true)} {
		text := p.text(12, 100_000)
		if len(text) != 100_000 {
			t.Errorf("text of %d bytes", len(text))
		}
		var out bytes.Buffer
		if err := echo(bytes.NewReader(call(12, text)), &out); err != nil {
			t.Fatal(err)
		}
		if err := checkEcho(out.Bytes(), 12, text); err != nil {
			t.Error(err)
		}
	}
}

func TestSpreadThatContainsOneIsMarked(t *testing.T) {
	for _, test := range []struct {
		figures []float64
		want    string
	}{
		{[]float64{1.2, 0.9, 1.1}, "~1.10 [0.90..1.20]"},
		{[]float64{1.3, 1.1}, "1.20 [1.10..1.30]"},
	} {
		s, _ := spreadOf(test.figures)
		if got := s.String(); got != test.want {
			t.Errorf("spread of %v is %q, want %q", test.figures, got, test.want)
		}
	}
}

func TestMissedBoundIsReported(t *testing.T) {
	r := report{
		Targets:     []target{{Name: nameDirect}, {Name: nameNative}},
		Repetitions: [][]sample{{{"p50_64b_us": 100, "p50_4k_us": 100}, {"p50_64b_us": 201, "p50_4k_us": 119}}},
	}
	r.Bounds = r.bounds()
	var out strings.Builder
	if err := r.print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"at most 2    MISSED", "at most 1.2  ok", "at most 4    not measured"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}
