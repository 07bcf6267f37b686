package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
	"github.com/holdfast-mcp/holdfast/integration/usercache"
)

// diagnosis is what doctor found, by check.
type diagnosis map[string]struct{ Verdict, Text, Next string }

// doctor runs doctor with a home of its own.
func doctor(t *testing.T, home string, args ...string) (diagnosis, int) {
	t.Helper()
	env := append(usercache.Env(filepath.Join(home, "cache")), privateTemp(t), "HOME="+home, "USERPROFILE="+home,
		"XDG_CONFIG_HOME="+filepath.Join(home, ".config"), "APPDATA="+home)
	if err := os.MkdirAll(filepath.Join(home, "cache"), 0o700); err != nil {
		t.Fatal(err)
	}
	got := holdfastIn(t, home, env, append([]string{"doctor", "--json"}, args...)...)
	var all []struct{ Check, Verdict, Text, Next string }
	if err := json.Unmarshal([]byte(got.stdout), &all); err != nil || got.stderr != "" {
		t.Fatalf("%v: %+v", err, got)
	}
	d := diagnosis{}
	for _, f := range all {
		d[f.Check] = struct{ Verdict, Text, Next string }{f.Verdict, f.Text, f.Next}
	}
	return d, got.code
}

// expect checks a verdict and what stands in the text.
func (d diagnosis) expect(t *testing.T, check, verdict, text string) {
	t.Helper()
	f, ok := d[check]
	if !ok || f.Verdict != verdict || !strings.Contains(f.Text, text) || verdict != "ok" && f.Next == "" {
		t.Errorf("%s: %+v, want %s with %q", check, f, verdict, text)
	}
}

// TestDoctorServer: what doctor says of servers of every kind, which it starts
// and ends.
func TestDoctorServer(t *testing.T) {
	good := []string{harness.TestServer(t)}
	start := func(args ...string) []string { return append([]string{harness.StartServer(t)}, args...) }
	for _, tt := range []struct {
		name    string
		flags   []string
		command []string
		code    int
		wants   [][3]string
	}{
		{"good", nil, good, 0, [][3]string{
			{"settings", "ok", ""},
			{"holdfast", "ok", ""},
			{"holdfast-worker", "ok", ""},
			{"sockets", "ok", ""},
			{"cache", "ok", ""},
			{"command", "ok", ""},
			{"server/discover", "ok", "2026-07-28"},
			{"initialize", "ok", "2025-11-25"},
			{"tools/list", "ok", "tools"},
			{"start", "ok", ""},
			{"stdout", "ok", ""},
		}},
		{"native", []string{"--worker", good[0]}, nil, 0, [][3]string{{"initialize", "ok", ""}, {"server/discover", "ok", ""}}},
		{"legacy", nil, start("-era", "legacy"), 0, [][3]string{{"server/discover", "ok", "initialize only"}, {"initialize", "ok", ""}}},
		{"dies of a probe", nil, start("-era", "legacy", "-probe", "exit"), 0, [][3]string{
			{"server/discover", "warn", "exited with code 1"}, {"initialize", "ok", ""}, {"start", "ok", ""},
		}},
		{"leaves a probe unanswered", []string{"--discover-timeout", "100ms"}, start("-era", "legacy", "-probe", "silent"), 0, [][3]string{
			{"server/discover", "warn", "no answer"}, {"initialize", "ok", ""},
		}},
		{"modern", nil, start("-era", "modern"), 0, [][3]string{{"server/discover", "ok", ""}, {"initialize", "warn", "refused"}}},
		{"slow", []string{"--env", "STARTSERVER_DELAY=400ms", "--initialize-timeout", "300ms"}, start("-era", "legacy"), 0, [][3]string{
			{"initialize", "ok", ""}, {"start", "warn", "first answer"},
		}},
		{"prints", nil, []string{"sh", "-c", `echo "listening on 80"; exec "$0"`, good[0]}, 0, [][3]string{
			{"stdout", "warn", "listening on 80"}, {"initialize", "ok", ""},
		}},
		{"ends at once", nil, badServer(t, "early-exit"), 1, [][3]string{{"initialize", "fail", "ended before"}}},
		{"never answers", []string{"--start-timeout", "500ms"}, badServer(t, "silent"), 1, [][3]string{{"initialize", "fail", "no answer within 500ms"}}},
		{"is not there", nil, []string{"no-such-server"}, 1, [][3]string{{"command", "fail", "not found"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, code := doctor(t, shortTemp(t), append(append(tt.flags, "--"), tt.command...)...)
			if code != tt.code {
				t.Errorf("exit code %d", code)
			}
			for _, want := range tt.wants {
				d.expect(t, want[0], want[1], want[2])
			}
			if t.Failed() {
				t.Logf("%+v", d)
			}
		})
	}
}

// TestSUP19Doctor: SUP-19. doctor finds a supervisor whose server has another
// file by now, and clients whose entry starts a holdfast that is gone.
func TestSUP19Doctor(t *testing.T) {
	server := filepath.Join(t.TempDir(), "doctored"+exe())
	copyFile(t, harness.TestServer(t), server)
	h := startHeldWith(t, harness.Config{}, harness.Bridged(t, nil, server))
	h.Initialize()
	h.awaitState("serving")
	home := shortTemp(t)
	if err := os.Mkdir(filepath.Join(home, ".cursor"), 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(home, ".cursor", "mcp.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program, err := json.Marshal(harness.Holdfast(t))
	if err != nil {
		t.Fatal(err)
	}
	write(`{"mcpServers":{"there":{"command":` + string(program) + `,"args":["run","--","x"]},
		"gone":{"command":"/nonexistent/holdfast","args":["run","--","x"]}, "other":{"command":"/nonexistent/x"}}}`)
	running := "running doctored, pid " + h.id()
	d, code := doctor(t, home, h.id())
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	d.expect(t, running, "ok", "serving")
	d.expect(t, "Cursor, there", "ok", "")
	d.expect(t, "Cursor, gone", "fail", "/nonexistent/holdfast")
	if _, ok := d["Cursor, other"]; ok {
		t.Errorf("a server without holdfast is looked at: %+v", d)
	}
	write(`{"mcpServers":`)
	copyFile(t, harness.TestServer(t), server)
	d, code = doctor(t, home, "doctored")
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	d.expect(t, running, "warn", "older")
	d.expect(t, "Cursor", "warn", "mcp.json")
}
