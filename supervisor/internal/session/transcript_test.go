package session

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/catalog"
)

var update = flag.Bool("update", false, "write what the session does into testdata/*.txtar")

// TestTranscripts plays the scripts in testdata. A file has prose first and
// then, behind each "-- name --", the script of one session. Unindented lines
// are events, indented ones what the session does about the event above:
//
//	limits hold=8s requests=4 bytes=1000  of this session, before all else
//	traits legacy=yes modern=no dies      what is known of the command, likewise
//	memory METHOD RESULT                  a client of this kind was answered so
//	client LINE                           the client wrote LINE
//	ask ID METHOD [PARAMS]                short for a request of the client
//	note METHOD [PARAMS]                  short for a notification of it
//	cancel ID                             short for notifications/cancelled
//	too-long SIZE HEAD... | ...TAIL       a line beyond the frame limit
//	attach LINK                           of the generation of the same number
//	worker LINK KIND NUMBER LINE          a frame came
//	answer LINK NUMBER RESULT             short for a response frame
//	tell LINK METHOD [PARAMS]             short for a notification frame
//	lost LINK [exit=N] [signal=S] [stderr=S] [unsent=N,N]
//	unsent NUMBER                         the link had no room for a frame
//	starting, down CAUSE, close
//	promote LINK, retire LINK             the serving link changes, or ends
//	drained LINK                          has it answered what it had
//	wait DURATION                         time passes, then Expire
//	state                                 shows what the session says of itself
//
// Lines that begin with # are comments.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { playFile(t, file) })
	}
}

func playFile(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	prose, scripts := sections(string(text))
	if strings.TrimSpace(prose) == "" || len(scripts) == 0 {
		t.Fatalf("%s: needs prose and at least one script", file)
	}
	got := prose
	for _, s := range scripts {
		var played string
		t.Run(s.name, func(t *testing.T) {
			played = play(t, s.text)
			if !*update && played != s.text {
				t.Errorf("-want +got, see -update:\n%s", cmp.Diff(s.text, played))
			}
		})
		got += "-- " + s.name + " --\n" + played
	}
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

type section struct{ name, text string }

// sections takes a txtar file apart.
func sections(text string) (prose string, files []section) {
	for line := range strings.Lines(text) {
		name, isHead := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "-- ")
		name, isHead2 := strings.CutSuffix(name, " --")
		switch {
		case isHead && isHead2:
			files = append(files, section{name: name})
		case len(files) == 0:
			prose += line
		default:
			files[len(files)-1].text += line
		}
	}
	return prose, files
}

// player plays one script.
type player struct {
	session *Session
	now     time.Time
	out     Output
	text    strings.Builder

	limits Limits
	memory Memory
	multi  bool // workers take many sessions
	// remembers: the script is about what is remembered.
	remembers bool
}

// epoch is when the time of all tests begins.
var epoch = time.Unix(1_700_000_000, 0)

var testLimits = Limits{HoldTimeout: 8 * time.Second, HoldRequests: 64, HoldBytes: 1 << 20, Leases: 128}

func newPlayer(limits Limits) *player {
	return &player{limits: limits, session: New(limits, "v0", epoch, Traits{}), now: epoch}
}

func play(t *testing.T, script string) string {
	p := newPlayer(testLimits)
	for line := range strings.Lines(script) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "    "): // what was expected
		case strings.TrimSpace(line) == "", strings.HasPrefix(line, "#"):
			p.text.WriteString(line + "\n")
		default:
			p.text.WriteString(line + "\n")
			p.event(t, line)
		}
	}
	return p.text.String()
}

// fields returns n words of s, the last one with all that is left.
func fields(s string, n int) []string {
	f := strings.SplitN(s, " ", n)
	for len(f) < n {
		f = append(f, "")
	}
	return f
}

func (p *player) event(t *testing.T, line string) {
	t.Helper()
	s, out := p.session, &p.out
	out.Reset()
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "limits":
		p.limits = parseLimits(t, rest)
		p.session = New(p.limits, "v0", epoch, Traits{})
	case "controlled":
		f := fields(rest, 2)
		s.Controlled(number(t, f[0]), f[1], false, out)
	case "multi":
		p.multi = true
	case "side-lost":
		s.SideLost(firstSide+Link(number(t, rest)), out)
	case "traits":
		p.session, p.remembers = New(p.limits, "v0", epoch, parseTraits(t, rest)), true
	case "memory":
		p.remembers = true
		p.keep(t, rest)
	case "client":
		s.Receive([]byte(rest), p.now, out)
	case "ask":
		f := fields(rest, 3)
		s.Receive(message(f[0], f[1], f[2]), p.now, out)
	case "note":
		f := fields(rest, 2)
		s.Receive(message("", f[0], f[1]), p.now, out)
	case "cancel":
		s.Receive(message("", noteCancelled, `{"requestId":`+rest+`}`), p.now, out)
	case "too-long":
		f := fields(rest, 2)
		head, tail, _ := strings.Cut(f[1], " | ")
		s.ReceiveTooLong([]byte(head), []byte(tail), int64(number(t, f[0])), out)
	case "attach":
		n := number(t, rest)
		s.Attach(Link(n), Worker{Generation: n, Multi: p.multi}, out)
	case "worker":
		f := fields(rest, 4)
		kinds := map[string]Kind{"request": Request, "response": Response, "notification": Notification, "cancel": Cancel}
		s.Frame(Link(number(t, f[0])), Frame{kinds[f[1]], number(t, f[2]), []byte(f[3])}, out)
	case "answer":
		f := fields(rest, 3)
		s.Frame(Link(number(t, f[0])), Frame{Response, number(t, f[1]), resultLine([]byte(f[1]), []byte(f[2]))}, out)
	case "tell":
		f := fields(rest, 3)
		s.Frame(Link(number(t, f[0])), Frame{Notification, 0, message("", f[1], f[2])}, out)
	case "lost":
		link, loss := parseLoss(t, rest)
		p.lost(link, loss)
	case "unsent":
		s.Unsent(number(t, rest), out)
	case "announce":
		s.Announce(rest, out)
	case "starting":
		s.Starting()
	case "down":
		s.Down(protocol.NewError(protocol.WorkerUnavailable, rest), time.Unix(1<<40, 0), out)
	case "close":
		s.Close(out)
	case "promote":
		fmt.Fprintf(&p.text, "    promoted: %v\n", s.Promote(Link(number(t, rest)), out))
	case "retire":
		s.Retire(Link(number(t, rest)), out)
	case "drained":
		fmt.Fprintf(&p.text, "    drained: %v\n", s.Drained(Link(number(t, rest))))
	case "wait":
		d, err := time.ParseDuration(rest)
		if err != nil {
			t.Fatal(err)
		}
		p.now = p.now.Add(d)
		s.Expire(p.now, out)
	case "state":
		p.state()
	default:
		t.Fatalf("no such event: %q", line)
	}
	if out.Recall {
		out.Recall = false
		s.Recalled(p.memory, p.now, out)
	}
	for s.HasUpdates() {
		s.Update(out)
	}
	p.show()
}

func (p *player) keep(t *testing.T, text string) {
	t.Helper()
	method, result, _ := strings.Cut(text, " ")
	kind, isList := catalog.OfMethod(method)
	switch {
	case method == methodInitialize:
		p.memory.Initialize = []byte(result)
	case method == methodDiscover:
		p.memory.Discover = []byte(result)
	case isList:
		p.memory.Lists[kind] = []byte(result)
	default:
		t.Fatalf("nothing to remember: %q", text)
	}
}

func parseTraits(t *testing.T, text string) Traits {
	t.Helper()
	var traits Traits
	known := map[string]Known{"yes": Yes, "no": No}
	for kv := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(kv, "=")
		switch key {
		case "legacy":
			traits.Legacy = known[value]
		case "modern":
			traits.Modern = known[value]
		case "dies":
			traits.DiesOfProbe = true
		default:
			t.Fatalf("no such trait: %q", kv)
		}
	}
	return traits
}

func (p *player) lost(link Link, loss Loss) { p.session.Lost(link, loss, p.now, &p.out) }

// message composes a request, or a notification if there is no id.
func message(id, method, params string) []byte {
	b := []byte(`{"jsonrpc":"2.0",`)
	if id != "" {
		b = append(b, `"id":`+id+`,`...)
	}
	b = append(b, `"method":`+strconv.Quote(method)...)
	if params != "" {
		b = append(b, `,"params":`+params...)
	}
	return append(b, '}')
}

func number(t *testing.T, s string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func parseLimits(t *testing.T, s string) Limits {
	t.Helper()
	l := testLimits
	for kv := range strings.FieldsSeq(s) {
		key, value, _ := strings.Cut(kv, "=")
		switch key {
		case "hold":
			l.HoldTimeout, _ = time.ParseDuration(value)
		case "start":
			l.StartTimeout, _ = time.ParseDuration(value)
		case "initialize":
			l.InitializeTimeout, _ = time.ParseDuration(value)
		case "discover":
			l.DiscoverTimeout, _ = time.ParseDuration(value)
		case "start-on-demand":
			l.Lazy = true
		case "controls":
			l.Controls = true
		case "leases":
			l.Leases = int(number(t, value))
		case "chain":
			l.ChainTimeout, _ = time.ParseDuration(value)
		case "stale":
			l.ForwardStale = value == "forward"
		case "requests":
			l.HoldRequests = int(number(t, value))
		case "bytes":
			l.HoldBytes = int(number(t, value))
		default:
			t.Fatalf("no such limit: %q", kv)
		}
	}
	return l
}

func parseLoss(t *testing.T, s string) (Link, Loss) {
	t.Helper()
	link, rest, _ := strings.Cut(s, " ")
	loss := Loss{Generation: number(t, link), Cause: "closed its session"}
	exit := protocol.Exit{Code: -1}
	for kv := range strings.FieldsSeq(rest) {
		key, value, _ := strings.Cut(kv, "=")
		switch key {
		case "exit":
			exit.Code = int(number(t, value))
			loss.Exit, loss.Cause = &exit, exit.String()
		case "signal":
			exit.Signal = value
			loss.Exit, loss.Cause = &exit, exit.String()
		case "stderr":
			loss.StderrTail = append(loss.StderrTail, value)
		case "unsent":
			for n := range strings.SplitSeq(value, ",") {
				loss.Unsent = append(loss.Unsent, number(t, n))
			}
		default:
			t.Fatalf("no such part of a loss: %q", kv)
		}
	}
	return Link(number(t, link)), loss
}

var kindNames = map[Kind]string{
	Request: "request", Response: "response", Notification: "notification", Cancel: "cancel", Drain: "drain",
}

// show writes down what the session wants done.
func (p *player) show() {
	for _, l := range p.out.Lines {
		for _, tool := range controlTools {
			l = bytes.ReplaceAll(l, []byte(tool.definition), []byte("<"+tool.name+">"))
		}
		fmt.Fprintf(&p.text, "    client <- %s\n", bytes.TrimSpace(l))
	}
	for _, side := range p.out.Open {
		fmt.Fprintf(&p.text, "    open %d beside %d\n", side.Link, side.Beside)
	}
	for _, f := range p.out.Frames {
		text := fmt.Sprintf("    %d <- %s %d %s", f.Link, kindNames[f.Frame.Kind], f.Frame.ID, f.Frame.Payload)
		p.text.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	for _, side := range p.out.Closed {
		fmt.Fprintf(&p.text, "    close %d\n", side)
	}
	if p.out.Ready != 0 {
		what := "could serve"
		if p.session.Serving() == p.out.Ready {
			what = "serves"
		}
		fmt.Fprintf(&p.text, "    %d %s\n", p.out.Ready, what)
	}
	if p.out.Refused != 0 {
		fmt.Fprintf(&p.text, "    %d refused: %s\n", p.out.Refused, p.out.RefusedReason)
	}
	for _, c := range p.out.Controls {
		fmt.Fprintf(&p.text, "    control %d %s %s\n", c.Number, c.Tool, c.Arguments)
	}
	if p.out.Demand && p.limits.Lazy {
		p.text.WriteString("    demands a start\n")
	}
	if p.out.Renew != 0 {
		fmt.Fprintf(&p.text, "    %d is renewed\n", p.out.Renew)
	}
	if p.out.Remember != 0 && p.remembers {
		p.showMemory()
	}
	for _, n := range p.out.Notices {
		fmt.Fprintf(&p.text, "    log: %s\n", strings.Join(strings.Fields(n.What+" "+n.Method+" "+n.ID), " "))
	}
}

// showMemory names what is remembered of a link.
func (p *player) showMemory() {
	m, traits := p.session.Memory(p.out.Remember), p.session.Traits()
	words := []string{"?", "yes", "no"}
	fmt.Fprintf(&p.text, "    remembered of %d: legacy %s, modern %s", p.out.Remember, words[traits.Legacy], words[traits.Modern])
	if traits.DiesOfProbe {
		p.text.WriteString(", dies of a probe")
	}
	add := func(name string, result []byte) {
		if result != nil {
			p.text.WriteString(", " + name)
		}
	}
	add(methodInitialize, m.Initialize)
	add(methodDiscover, m.Discover)
	for k, list := range m.Lists {
		add(catalog.Kind(k).Method(), list)
	}
	p.text.WriteByte('\n')
}

func (p *player) state() {
	s := p.session
	fmt.Fprintf(&p.text, "    idle %v, in flight %d, serving %d", s.Idle(), s.InFlight(), s.Serving())
	if at, ok := s.Deadline(); ok {
		fmt.Fprintf(&p.text, ", expires in %v", at.Sub(p.now))
	}
	if lacking := s.Lacking(); len(lacking) > 0 {
		fmt.Fprintf(&p.text, ", lacking %s", strings.Join(lacking, " "))
	}
	p.text.WriteByte('\n')
}
