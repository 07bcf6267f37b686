package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestFloodIsTakenApart(t *testing.T) {
	asked := time.Now()
	r := &floodRun{calls: map[int]time.Time{7: asked, 8: asked}, flood: 9, quiet: make(map[string]int)}
	for _, line := range []string{
		`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://noisy"}}`,
		`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"_meta":{"k":1},"uri":"test://quiet/3"}}`,
		`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`,
		string(result("8", "1")),
		string(result("9", "20000")),
	} {
		if err := r.takeLocked([]byte(line), asked.Add(time.Second)); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	if r.noisy != 1 || len(r.quiet) != 1 || r.quiet[quietURI(3)] != 1 || r.told != "20000" {
		t.Errorf("taken: %+v", r)
	}
	if len(r.took) != 1 || r.took[0] != time.Second || len(r.calls) != 1 {
		t.Errorf("took %v, open %v", r.took, r.calls)
	}
	for name, line := range map[string]string{
		"twice":       string(result("8", "1")),
		"tool failed": strings.Replace(string(result("7", "1")), "}}", `,"isError":true}}`, 1),
		"error":       `{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"m"}}`,
		"cut":         `{"jsonrpc":"2.0","id":7,`,
	} {
		if err := r.takeLocked([]byte(line), asked); !errors.Is(err, errBadAnswer) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFloodReport(t *testing.T) {
	row := func(p99, rss float64, quiet int) floodReport {
		return floodReport{Rows: []flooded{{
			floodForm: floodForm{Name: "native, listen", held: true}, Start: 20,
			Calm:   []phase{{P99: 100, Quiet: quietUpdates}, {P99: 100, Quiet: quietUpdates}},
			Floods: []phase{{P99: p99, RSS: 30, Quiet: quietUpdates, Told: 1}, {P99: p99, RSS: rss, Quiet: quiet, Told: 1}},
		}}}
	}
	for _, test := range []struct {
		report floodReport
		want   []string
		lost   bool
	}{
		{row(200, 33, quietUpdates), []string{"at most 2    ok", "at most 1.1  ok", fmt.Sprintf("%d of %d", 4*quietUpdates, 4*quietUpdates)}, false},
		{row(201, 34, quietUpdates), []string{"at most 2    MISSED", "at most 1.1  MISSED"}, false},
		{row(100, 30, quietUpdates-1), []string{fmt.Sprintf("repetition 2: %d of %d", quietUpdates-1, quietUpdates)}, true},
	} {
		var out strings.Builder
		if err := test.report.write(&out, false); err != nil {
			t.Fatal(err)
		}
		for _, want := range test.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q is missing in\n%s", want, out.String())
			}
		}
		if err := test.report.verdict(); errors.Is(err, errBadAnswer) != test.lost {
			t.Errorf("verdict %v", err)
		}
	}
}
