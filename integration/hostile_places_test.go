package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// nastyText is what a build or a server prints: a secret, and all that does not
// belong on a terminal or in JSON.
const nastyText = "key " + secret + " \x1b[31mred\x07 \xff\xfe \u009b2J"

// nastyShown is how it shows.
const nastyShown = `key *** \x1b[31mred\x07 \xff\xfe \u009b2J`

// wantHarmless checks what was shown of nastyText: it is there, harmless, and
// without any part of the secret.
func wantHarmless(t *testing.T, where, text string) {
	t.Helper()
	shown, _ := json.Marshal(nastyShown) // a string always marshals
	if !strings.Contains(text, nastyShown) && !strings.Contains(text, strings.Trim(string(shown), `"`)) {
		t.Errorf("%s does not show what was printed: %q", where, text)
	}
	for _, part := range []string{secret[:4], "0123456789abcdef", "\x1b", "\x07", "\xff", "\u009b"} {
		if strings.Contains(text, part) {
			t.Errorf("%s shows %q: %q", where, part, text)
		}
	}
}

// TestSEC3BuildOutput: SEC-3. What a build prints is harmless and without secrets
// wherever it can be read: while it runs and after it has failed, by people, by
// programs and by the client's model.
func TestSEC3BuildOutput(t *testing.T) {
	requireShell(t)
	p := newDevProject(t)
	p.write("nasty", nastyText+"\n")
	logged := filepath.Join(t.TempDir(), "log")
	p.buildScript(p.install("1"))
	h := p.startBuilt(native, "--env", "API_KEY="+secret, "--log-file", logged)
	h.awaitState("resting")
	h.swapTo(1) // so that initialize is answered by the worker, which offers log messages
	h.Initialize()
	h.awaitVersion("1", "1")
	told := func(tool string, wantFailed bool) {
		t.Helper()
		text, failed := said(t, h.CallTool(tool, nil))
		if failed != wantFailed {
			t.Errorf("%s: %s", tool, text)
		}
		wantHarmless(t, tool, text)
	}
	shown := func(args ...string) {
		t.Helper()
		got := ask(t, slices.Insert(args, 1, h.id())...)
		wantHarmless(t, strings.Join(args, " "), got.stdout+got.stderr)
	}

	p.buildScript("cat nasty", "echo > began", "while [ ! -e go ]; do sleep 0.01; done", "exit 3")
	harness.Await(t, "the build", func() bool { return p.lines("began") == 1 })
	harness.Await(t, "its output", func() bool { return len(h.build().Output) > 0 })
	shown("status")
	shown("status", "--json")
	told("holdfast_status", false)
	p.write("go", "")
	h.awaitBuild("failed")

	for _, args := range [][]string{{"status"}, {"status", "--all"}, {"status", "--json"}, {"swap"}, {"swap", "--json"}, {"logs"}, {"logs", "--json"}} {
		shown(args...)
	}
	told("holdfast_status", false)
	told("holdfast_swap", true)
	told("holdfast_logs", false)
	note := h.WaitFor("a log message", func(f harness.Frame) bool { return f.Method == "notifications/message" })
	wantHarmless(t, "the log message", string(note.Raw))
	b, err := os.ReadFile(logged)
	if err != nil {
		t.Fatal(err)
	}
	wantHarmless(t, "the log file", string(b))
	wantHarmless(t, "stderr", h.Stderr())

	first := p.startBuilt(native, "--env", "API_KEY="+secret)
	first.Initialize()
	wantHarmless(t, "a call before the first build", string(first.Request("tools/call", harness.Call("version", nil)).Wait().Raw))
}

// TestSEC3Doctor: SEC-3. So it is with what doctor tells of a server: of its last
// words, of what it prints on stdout, and of what it answers.
func TestSEC3Doctor(t *testing.T) {
	requireShell(t)
	file := filepath.Join(t.TempDir(), "nasty")
	if err := os.WriteFile(file, []byte(nastyText+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for check, command := range map[string][]string{
		"initialize": {"sh", "-c", `cat "$0" >&2; exit 3`, file},
		"stdout":     {"sh", "-c", `cat "$0"; exec "$1"`, file, harness.TestServer(t)},
	} {
		d, _ := doctor(t, shortTemp(t), append([]string{"--env", "API_KEY=" + secret, "--"}, command...)...)
		wantHarmless(t, check, d[check].Text)
	}
	d, _ := doctor(t, shortTemp(t), append([]string{"--env", "API_KEY=" + secret, "--"}, badServer(t, "telltale")...)...)
	for check, want := range map[string]string{
		"server/discover": `key *** \x1b[31mred`,
		"initialize":      `key *** \x1b[31mred`,
		"tools/list":      `key *** \x1b[31mred`,
	} {
		if text := d[check].Text; !strings.Contains(text, want) || strings.Contains(text, "\x1b") {
			t.Errorf("%s: %q", check, text)
		}
	}
}

func init() { badServers["telltale"] = (*rawServer).telltale }

// telltale answers with what is secret, as refusals and as results.
func (s *rawServer) telltale() int {
	text, _ := json.Marshal("key " + os.Getenv("API_KEY") + " \x1b[31mred") // a string always marshals
	for {
		m, ok := s.read()
		switch {
		case !ok:
			return 0
		case m.Method == "initialize":
			s.result(m.ID, `{"protocolVersion":`+string(text)+`,"capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`)
		case m.ID != nil:
			s.write(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":1,"message":` + string(text) + "}}\n")
		}
	}
}
