package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/control"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/proxy"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/rebuild"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/session"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/supervise"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// before is a time so long before noon.
func before(d time.Duration) time.Time { return noon.Add(-d) }

// aStatus is that of a supervisor in a state, with what a test adds.
func aStatus(state string, more func(*control.Status)) control.Instance {
	s := control.Status{
		Name: "notes", Pid: 4711, Version: "v0.1.0", Started: before(26 * time.Hour),
		Command: "node /home/me/notes/server.js --database /home/me/notes/notes.sqlite --verbose", Dir: "/home/me/notes",
		Settings: map[string]control.Setting{
			"crash-budget": {Value: "3/30s", Origin: "flag"}, "max-leases": {Value: "128", Origin: "default"},
		},
		Crashes: control.Budget{Used: 1, Limit: 3, Window: 30 * time.Second}, Handoffs: control.Budget{Limit: 5, Window: 30 * time.Second},
		Worker: supervise.Status{State: state},
		Client: proxy.Status{
			Protocol: "2025-11-25", Leases: 2,
			Lists: []proxy.List{
				{Kind: "tools", Items: 12, Digest: "0123456789abcdef0123456789abcdef"},
				{Kind: "resources", Items: 50, Digest: "fedcba9876543210", Partly: true},
				{Kind: "prompts"},
			},
		},
	}
	if state == serving || state == swapping {
		s.Worker.Generation, s.Worker.Pid, s.Worker.Since = 3, 4720, before(12*time.Minute+30*time.Second)
	}
	if more != nil {
		more(&s)
	}
	return control.Instance{Status: s}
}

func died(s *control.Status) {
	s.Worker.Exits = []supervise.Ended{
		{Generation: 1, At: before(2 * time.Hour), Uptime: time.Hour, Cause: &protocol.Error{
			Message: "The server was killed by SIGKILL.", StderrTail: []string{"long ago"},
		}},
		{Generation: 2, At: before(13 * time.Minute), Uptime: 4300 * time.Millisecond, Cause: &protocol.Error{
			Message:    "The server exited with code 1 while nothing was under way. This sentence is longer than a line of a terminal, and is wrapped.",
			StderrTail: []string{"Traceback (most recent call last):", "  File \"server.py\", line 7, in main, which is a line that goes on and on until it is cut", `an escape: \x1b[31m`},
		}},
	}
}

func built(state rebuild.State, failures int, text string, output ...string) func(*control.Status) {
	return func(s *control.Status) {
		s.Project = "/home/me/notes/src"
		s.Build = &rebuild.Status{
			State: state, Since: before(95 * time.Second), Command: "npm run build", Took: 1234 * time.Millisecond, Failures: failures, Error: text, Output: output,
		}
	}
}

// TestSUP15Page: SUP-15, SUP-19. The status in every state at 80 columns, with
// what to do about what is wrong.
func TestSUP15Page(t *testing.T) {
	for name, instances := range map[string][]control.Instance{
		"resting":  {aStatus(resting, nil)},
		"starting": {aStatus(starting, func(s *control.Status) { s.Client = proxy.Status{} })},
		"serving": {aStatus(serving, func(s *control.Status) {
			s.Client.Calls = []proxy.Call{
				{ID: `"a-long-id"`, Method: "tools/call", Generation: 3, Age: 12300 * time.Millisecond},
				{ID: "18", Method: "resources/read", Age: 200 * time.Millisecond},
			}
			died(s)
		})},
		"swapping": {aStatus(swapping, func(s *control.Status) { s.Worker.Draining = []uint64{2} })},
		"backoff": {aStatus(backoff, func(s *control.Status) {
			died(s)
			s.Worker.RetryAt = noon.Add(1500 * time.Millisecond)
		})},
		"open": {aStatus(givenUp, func(s *control.Status) {
			died(s)
			s.Worker.Reason, s.Worker.RetryAt = "it crashed more than 3 times within 30s (--crash-budget)", noon.Add(45*time.Second)
		})},
		"silent":   {{Status: control.Status{Pid: 4711, Silent: true}}},
		"outdated": {aStatus(serving, func(s *control.Status) { s.Outdated, s.Worker.Outdated = true, true })},
		"told": {aStatus(serving, func(s *control.Status) {
			s.Client.Early, s.Client.Lacking = session.EarlyMemory, []string{"prompts", "resources.subscribe"}
		})},
		"minimal":    {aStatus(starting, func(s *control.Status) { s.Client.Early = session.EarlyMinimal })},
		"modern":     {aStatus(serving, func(s *control.Status) { s.Client.Protocol = "" })},
		"build-idle": {aStatus(resting, built(rebuild.Idle, 0, ""))}, "build-settling": {aStatus(serving, built(rebuild.Settling, 0, ""))},
		"build-waiting": {aStatus(serving, built(rebuild.Waiting, 0, ""))}, "build-building": {aStatus(serving, built(rebuild.Building, 0, "", "compiling"))},
		"build-ok":     {aStatus(serving, built(rebuild.OK, 0, ""))},
		"build-failed": {aStatus(serving, built(rebuild.Failed, 2, "the build failed with exit code 2", "server.ts:7: syntax error", "1 error"))},
		"several": {
			aStatus(serving, nil), aStatus(givenUp, func(s *control.Status) {
				s.Name, s.Pid, s.Worker.Reason = "mail", 99, "it crashed more than 3 times within 30s (--crash-budget)"
			}),
			aStatus(serving, func(s *control.Status) {
				s.Name, s.Pid, s.Outdated, s.Worker.Outdated = "server-everything", 1234567, true, true
				built(rebuild.Failed, 1, "the build failed")(s)
			}),
			aStatus(backoff, nil), aStatus(resting, nil), aStatus(resting, built(rebuild.Failed, 1, "the build failed")),
			{Status: control.Status{Pid: 12, Silent: true}},
		},
		"hostile": {aStatus(serving, func(s *control.Status) {
			s.Command = "sh -c 'a\nb\x1b[2J\u009b31m'"
			s.Client.Calls = []proxy.Call{{ID: "\"\x1b]0;x\a\"", Method: "tools/\u009bcall", Age: time.Second}}
		})},
	} {
		t.Run(name, func(t *testing.T) {
			p := &page{width: 80, now: noon}
			viewer{}.write(p, instances)
			text := p.out.String()
			golden(t, "status/"+name+".txt", text)
			for line := range strings.Lines(text) {
				if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 80 {
					t.Errorf("%d columns: %s", utf8.RuneCountInString(line), line)
				}
				for _, r := range strings.TrimSuffix(line, "\n") {
					if r < ' ' || r >= 0x7f && r < 0xa0 {
						t.Errorf("control character %q", r)
					}
				}
			}
		})
	}
}

// --all shows all of each of several; without a terminal nothing is wrapped.
func TestStatusAll(t *testing.T) {
	p := &page{now: noon}
	viewer{all: true}.write(p, []control.Instance{aStatus(serving, died), aStatus(resting, nil)})
	golden(t, "status/all.txt", p.out.String())
}

// Colours are for terminals: text without them is the same.
func TestStatusColours(t *testing.T) {
	one := aStatus(givenUp, func(s *control.Status) { died(s); built(rebuild.Failed, 1, "the build failed", "why")(s) })
	colourless, coloured := &page{width: 80, now: noon}, &page{width: 80, now: noon, painter: painter{true}}
	for _, p := range []*page{colourless, coloured} {
		viewer{}.write(p, []control.Instance{one})
		viewer{}.write(p, []control.Instance{one, one})
	}
	text := coloured.out.String()
	for _, want := range []string{bold + "notes" + plain, red + "open" + plain, red + "failed" + plain} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
	for _, colour := range []string{red, green, yellow, bold, grey, plain} {
		text = strings.ReplaceAll(text, colour, "")
	}
	if text != colourless.out.String() {
		t.Errorf("other text: %q, %q", text, colourless.out.String())
	}
}

// A watched page is drawn over the one before, and not beyond the terminal.
func TestRedrawn(t *testing.T) {
	if got := redrawn("a\nb\n", 24, true); got != "\x1b[H\x1b[2Ja\x1b[K\nb\x1b[K\n\x1b[J" {
		t.Errorf("first: %q", got)
	}
	if got := redrawn("a\nb\nc\nd\ne\n", 4, false); got != "\x1b[Ha\x1b[K\nb\x1b[K\n...\x1b[K\n\x1b[J" {
		t.Errorf("cut: %q", got)
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 3 * time.Millisecond: "3ms", 1234 * time.Millisecond: "1.2s", 12345 * time.Millisecond: "12s",
		90 * time.Second: "1m30s", 65 * time.Minute: "1h05m", 50 * time.Hour: "2d02h",
	} {
		if got := span(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

// A line of the log as people see it.
func TestLogLine(t *testing.T) {
	at := noon.Local().Format("15:04:05.000")
	for line, want := range map[string]string{
		`{"level":"info","time":"2026-11-29T12:00:00Z","msg":"worker serves","generation":2,"pid":7}`: " INFO  worker serves generation=2 pid=7",
		`{"level":"info","time":"2026-11-29T12:00:00Z","msg":"server","line":"listening {\"a\":1}"}`:  ` INFO  server | listening {"a":1}`,
		`{"level":"warn","time":"2026-11-29T12:00:00Z","msg":"two\nlines","path":"a b"}`:              ` WARN  two lines path="a b"`,
		`{"level":"error","time":"2026-11-29T12:00:00Z","msg":"x\u009b","more":{"a":[1]}}`:            " ERROR x\ufffd more={\"a\":[1]}",
	} {
		if got := (painter{}).logLine([]byte(line)); got != at+want {
			t.Errorf("%s:\n%q, want\n%q", line, got, at+want)
		}
	}
	const line = `{"level":"warn","time":"2026-11-29T12:00:00Z","msg":"\u001b[31mx","pid":7}`
	want := at + " " + yellow + "WARN " + plain + " \ufffd[31mx " + grey + "pid=7" + plain
	if got := (painter{true}).logLine([]byte(line)); got != want {
		t.Errorf("in colours: %q, want %q", got, want)
	}
	for _, line := range []string{"", "no JSON", `["a"]`, `{"a":`} {
		if got := (painter{}).logLine([]byte(line)); got != line {
			t.Errorf("%q becomes %q", line, got)
		}
	}
}
