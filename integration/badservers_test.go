package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"testing"
	"time"
)

// badServerArg makes the test binary a server of the kind that its next
// argument names.
const badServerArg = "bad-server"

// badServer returns the command of a server of the kind.
func badServer(t *testing.T, kind string, args ...string) []string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{exe, badServerArg, kind}, args...)
}

// rawServer is a server without any SDK, where the bytes matter.
type rawServer struct {
	args []string
	in   *bufio.Scanner
	mu   sync.Mutex // one write at a time
}

// message is what a raw server reads.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

var badServers = map[string]func(*rawServer) int{
	"strict":        (*rawServer).strict,
	"verbatim":      (*rawServer).verbatim,
	"reversing":     (*rawServer).reversing,
	"late-progress": (*rawServer).lateProgress,
	"slow-answer":   (*rawServer).slowAnswer,
	"half-answer":   (*rawServer).halfAnswer,
	"no-newline":    (*rawServer).noNewline,
	"silent":        (*rawServer).silent,
	"early-exit":    (*rawServer).earlyExit,
	"stubborn":      (*rawServer).stubborn,
}

func runBadServer(kind string, args []string) int {
	serve := badServers[kind]
	if serve == nil {
		fmt.Fprintln(os.Stderr, "no such server:", kind)
		return 2
	}
	s := &rawServer{args: args, in: bufio.NewScanner(os.Stdin)}
	s.in.Buffer(nil, 64<<20)
	return serve(s)
}

func (s *rawServer) read() (message, bool) {
	for s.in.Scan() {
		var m message
		if json.Unmarshal(s.in.Bytes(), &m) == nil {
			return m, true
		}
	}
	return message{}, false
}

func (s *rawServer) write(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = os.Stdout.WriteString(text)
}

func (s *rawServer) result(id json.RawMessage, result string) {
	s.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, result))
}

func (s *rawServer) fail(id json.RawMessage, text string) {
	s.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":%q}}`+"\n", id, text))
}

const rawInitialize = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`

// ordinary answers what every server must; it reports whether it did.
func (s *rawServer) ordinary(m message) bool {
	switch {
	case m.Method == "initialize":
		s.result(m.ID, rawInitialize)
	case m.Method == "tools/list":
		s.result(m.ID, `{"tools":[]}`)
	case m.Method == "server/discover":
		s.fail(m.ID, "method not found")
	case m.ID == nil:
	default:
		return false
	}
	return true
}

func rawText(text string) string {
	b, _ := json.Marshal(text) // a string always marshals
	return `{"content":[{"type":"text","text":` + string(b) + `}]}`
}

// strict insists on one handshake in its order and journals what it saw
// (C53). The tool die ends it.
func (s *rawServer) strict() int {
	journal, err := os.OpenFile(s.args[0], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 1
	}
	note := func(text string) { fmt.Fprintf(journal, "%d %s\n", os.Getpid(), text) }
	state := "new"
	for {
		m, ok := s.read()
		if !ok {
			return 0
		}
		switch {
		case m.Method == "initialize" && state == "new":
			state = "greeted"
			note("initialize")
			s.result(m.ID, rawInitialize)
		case m.Method == "notifications/initialized" && state == "greeted":
			state = "ready"
			note("initialized")
		case state != "ready":
			note("too early: " + m.Method)
			if m.ID != nil {
				s.fail(m.ID, "not initialized")
			}
		case m.Method == "initialize" || m.Method == "notifications/initialized":
			note("again: " + m.Method)
			if m.ID != nil {
				s.fail(m.ID, "initialized already")
			}
		case strings.Contains(string(m.Params), `"die"`):
			die()
		case m.ID != nil:
			s.result(m.ID, rawText(fmt.Sprint(os.Getpid())))
		}
	}
}

// verbatimResult has what typed re-encoding loses or changes (C26).
const verbatimResult = `{"content":[{"type":"text","text":"\u0041\u00e9\ud83d\ude00A","x-unknown":{"b":1,"a":[ 2 ,3]}}], "big":9007199254740993,"huge":1e400,` +
	`"dec":0.10,"neg":-0,"_meta":{"vendor.example/k":null,"Z":true},"isError":false,"dup":"\/","structuredContent":{"n":1.0}  }`

func (s *rawServer) verbatim() int {
	for {
		m, ok := s.read()
		if !ok {
			return 0
		}
		switch m.Method {
		case "initialize":
			s.result(m.ID, verbatimInitialize)
		case "tools/list":
			s.result(m.ID, verbatimList)
		default:
			if !s.ordinary(m) {
				s.result(m.ID, verbatimResult)
			}
		}
	}
}

const (
	verbatimInitialize = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"experimental":{"x":{"n":1e2}}}, "serverInfo":{"name":"raw","version":"1","icons":[{"src":"data:,"}],"websiteUrl":"x:y"},"instructions":"do\u000athis","_meta":{"k":9007199254740993}}`
	verbatimList       = `{"tools":[{"name":"t","inputSchema":{"type":"object","default":0.10},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"other":1E5},"icons":[],"_meta":{"v":[1, 2]}}], "extra":"\u00e9"}`
)

// reversing answers calls in the reverse order of their arrival, so many at a
// time as its argument says (C35).
func (s *rawServer) reversing() int {
	var n int
	if _, err := fmt.Sscan(s.args[0], &n); err != nil {
		return 2
	}
	var waiting []message
	for {
		m, ok := s.read()
		if !ok {
			return 0
		}
		if s.ordinary(m) {
			continue
		}
		if waiting = append(waiting, m); len(waiting) < n {
			continue
		}
		for i := n - 1; i >= 0; i-- {
			s.result(waiting[i].ID, `{"params":`+string(waiting[i].Params)+`}`)
		}
		waiting = nil
	}
}

// lateProgress goes on reporting progress after its answer (C41).
func (s *rawServer) lateProgress() int {
	for {
		m, ok := s.read()
		if !ok {
			return 0
		}
		if s.ordinary(m) {
			continue
		}
		var p struct {
			Meta struct {
				Token json.RawMessage `json:"progressToken"`
			} `json:"_meta"`
		}
		if json.Unmarshal(m.Params, &p) != nil || p.Meta.Token == nil {
			s.result(m.ID, rawText("no token"))
			continue
		}
		progress := func(n int) {
			s.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"total":2}}`+"\n", p.Meta.Token, n))
		}
		progress(1)
		s.result(m.ID, rawText("done"))
		progress(2)
	}
}

// slowAnswer answers each call 300 ms later, also after the end of its stdin
// (C33).
func (s *rawServer) slowAnswer() int {
	var answers sync.WaitGroup
	for {
		m, ok := s.read()
		if !ok {
			answers.Wait()
			return 0
		}
		if s.ordinary(m) {
			continue
		}
		answers.Go(func() { // ends after its answer
			<-time.After(300 * time.Millisecond)
			s.result(m.ID, rawText("late"))
		})
	}
}

// halfAnswer dies after half a line (C33).
func (s *rawServer) halfAnswer() int {
	for {
		m, ok := s.read()
		if !ok {
			return 0
		}
		if !s.ordinary(m) {
			s.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"resu`, m.ID))
			die()
		}
	}
}

// noNewline ends its last answer by exiting (C33).
func (s *rawServer) noNewline() int {
	for {
		m, ok := s.read()
		if !ok {
			return 0
		}
		if !s.ordinary(m) {
			s.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, rawText("whole")))
			return 0
		}
	}
}

// silent reads and says nothing.
func (s *rawServer) silent() int {
	for {
		if _, ok := s.read(); !ok {
			return 0
		}
	}
}

// earlyExit complains and ends at once (C50).
func (s *rawServer) earlyExit() int {
	fmt.Fprintln(os.Stderr, "missing API_KEY")
	return 1
}

// stubborn answers and ignores the end of its stdin and every signal that can
// be ignored (C46).
func (s *rawServer) stubborn() int {
	signal.Ignore()
	for {
		m, ok := s.read()
		if !ok {
			select {}
		}
		var asked struct{ ProtocolVersion string }
		_ = json.Unmarshal(m.Params, &asked) // other params name no version
		switch {
		case m.Method == "initialize": // Gemini CLI insists on its version, and on pings
			s.result(m.ID, strings.Replace(rawInitialize, "2025-11-25", asked.ProtocolVersion, 1))
		case m.Method == "ping":
			s.result(m.ID, "{}")
		case !s.ordinary(m):
			s.result(m.ID, rawText("still here"))
		}
	}
}

// die ends the process as a crash does.
func die() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill()
	}
	select {}
}
