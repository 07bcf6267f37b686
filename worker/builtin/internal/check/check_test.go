package check

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
)

// The test binary, started with this variable, prints nothing and waits.
const silentVariable = "CHECK_TEST_SILENT"

func TestMain(m *testing.M) {
	if os.Getenv(silentVariable) != "" {
		<-time.After(time.Hour) // until it is killed
	}
	goleak.VerifyTestMain(m)
}

// SUP-8: of a silent program the first check fails and says so, the rest is
// skipped, and the program is ended.
func TestSUP8SilentProgram(t *testing.T) {
	var rows int
	report := Run(t.Context(), Config{
		Path: os.Args[0], Env: append(os.Environ(), silentVariable+"=1"), Timeout: 200 * time.Millisecond,
	}, func(Result) { rows++ })
	if rows != len(report.Checks) || rows != len(all()) {
		t.Errorf("%d results, %d passed on, of %d checks", len(report.Checks), rows, len(all()))
	}
	if first := report.Checks[0]; first.Status != Failed || !strings.Contains(first.Seen, errSilent.Error()) {
		t.Errorf("first check: %+v", first)
	}
	if n := report.Count(Failed); n != 1 {
		t.Errorf("%d failed, want 1", n)
	}
}

func TestInterruptedRunSkips(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	report := Run(ctx, Config{Path: os.Args[0]}, nil)
	if n := report.Count(Skipped); n != len(all()) {
		t.Errorf("%d skipped of %d", n, len(all()))
	}
}

func TestChecksAreNamed(t *testing.T) {
	seen := make(map[string]bool)
	for _, ch := range all() {
		if ch.name == "" || ch.rule == "" || ch.expected == "" || ch.run == nil || seen[ch.name] {
			t.Errorf("check %q of rule %q expects %q", ch.name, ch.rule, ch.expected)
		}
		seen[ch.name] = true
	}
}

func TestParseHandshake(t *testing.T) {
	for line, want := range map[string]error{
		"1|1|unix|/tmp/x|grpc|\n":        nil,
		"1|1|unix|/tmp/x|grpc":           nil,
		"  1|1|tcp|127.0.0.1:1234|grpc|": nil,
		"1|7|unix|/tmp/x|grpc|":          errWire,
		"1|0|unix|/tmp/x|grpc|":          errWire,
		"2|1|unix|/tmp/x|grpc|":          errLine,
		"1|1|unix|tmp/x|grpc|":           errLine,
		"1|1|tcp|192.0.2.1:1234|grpc|":   errLine,
		"1|1|tcp|localhost|grpc|":        errLine,
		"1|1|unix|/tmp/x|netrpc|":        errLine,
		"1|1|unix|/tmp/x|":               errLine,
		"1|1|unix|/tmp/x|grpc|MIIB":      errLine,
	} {
		if h, err := parseHandshake(line); !errors.Is(err, want) || want == nil && h.wire != 1 {
			t.Errorf("%q: %+v, %v; want %v", line, h, err, want)
		}
	}
}

func FuzzHandshake(f *testing.F) {
	f.Add("1|1|unix|/tmp/x|grpc|\n")
	f.Add("1|1|||grpc")
	f.Add("1|99999999999999999999|tcp|[::1]:1|grpc||x")
	f.Fuzz(func(t *testing.T, line string) {
		h, err := parseHandshake(line)
		if err == nil && (h.address == "" || h.wire < protocol.WireVersionMin || h.network != "unix" && h.network != "tcp") {
			t.Errorf("%q is taken for %+v", line, h)
		}
	})
}

func TestFaultOf(t *testing.T) {
	const (
		request      = `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`
		response     = `{"jsonrpc":"2.0","id":1,"result":{}}`
		refusal      = `{"jsonrpc":"2.0","id":"a","error":{"code":1,"message":"m"}}`
		notification = `{"jsonrpc":"2.0","method":"notifications/progress"}`
		cancelled    = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
	)
	for _, test := range []struct {
		kind    workerv1.Frame_Kind
		payload string
		fault   string
	}{
		{workerv1.Frame_KIND_REQUEST, request, ""},
		{workerv1.Frame_KIND_RESPONSE, response, ""},
		{workerv1.Frame_KIND_RESPONSE, refusal, ""},
		{workerv1.Frame_KIND_NOTIFICATION, notification, ""},
		{workerv1.Frame_KIND_CANCEL, cancelled, ""},
		{workerv1.Frame_KIND_DRAINED, "", ""},
		{workerv1.Frame_KIND_EXIT, "", ""},
		{99, "anything", ""},
		{workerv1.Frame_KIND_REQUEST, notification, "is a notification"},
		{workerv1.Frame_KIND_RESPONSE, `{"jsonrpc":"2.0","result":{}}`, "not a JSON-RPC 2.0 message"},
		{workerv1.Frame_KIND_RESPONSE, "{\"jsonrpc\":\"2.0\",\n\"id\":1,\"result\":{}}", "more than one line"},
		{workerv1.Frame_KIND_RESPONSE, `{`, "not a JSON text"},
		{workerv1.Frame_KIND_NOTIFICATION, cancelled, "has to be a CANCEL"},
		{workerv1.Frame_KIND_CANCEL, notification, "is no notifications/cancelled"},
		{workerv1.Frame_KIND_CANCEL, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}`, "no requestId"},
		{workerv1.Frame_KIND_DRAIN, "", "only supervisors"},
		{workerv1.Frame_KIND_EXIT, "{}", "has a payload"},
	} {
		got := faultOf(&workerv1.Frame{Kind: test.kind, Payload: []byte(test.payload)})
		if test.fault == "" && got != "" || !strings.Contains(got, test.fault) {
			t.Errorf("%s %s: %q, want %q", kindName(test.kind), test.payload, got, test.fault)
		}
	}
}

func FuzzFaultOf(f *testing.F) {
	f.Add(int32(2), []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
	f.Add(int32(4), []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}`))
	f.Fuzz(func(t *testing.T, kind int32, payload []byte) {
		l := &ledger{}
		l.judge(&workerv1.Frame{Kind: workerv1.Frame_Kind(kind), Payload: payload})
		if seen := oneLine(l.verdict().seen); strings.ContainsAny(seen, "\n\x1b") || !utf8.ValidString(seen) {
			t.Errorf("not fit for a terminal: %q", seen)
		}
	})
}

func TestTableColours(t *testing.T) {
	for _, colour := range []bool{false, true} {
		var out strings.Builder
		table := NewTable(&out, colour)
		for _, status := range []Status{OK, Failed, Note, Skipped} {
			table.Row(Result{Name: "ids", Rule: "Ids; EDGE-1", Expected: "this", Seen: "that", Status: status})
		}
		if got := strings.Contains(out.String(), "\x1b["); got != colour {
			t.Errorf("coloured %v, want %v", got, colour)
		}
		if strings.Count(out.String(), "expected: this") != 1 {
			t.Errorf("what was expected stands with failures alone:\n%s", out.String())
		}
	}
}
