package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-mcp/holdfast/worker"
)

func init() {
	badServers["hostile"] = (*rawServer).hostile
	badServers["buffered"] = (*rawServer).buffered
	badServers["stubborn-worker"] = (*rawServer).stubbornWorker
}

// order is what a call of the hostile server's tool "do" asks for, done in the
// order of the members.
type order struct {
	// Stderr is written to standard error, so many times.
	Stderr []byte `json:"stderr,omitempty"`
	Times  int    `json:"times,omitempty"`
	// Stdout is written to standard output before the answer, in pieces of
	// Piece bytes. $ID in it is the id of the call.
	Stdout []byte `json:"stdout,omitempty"`
	Piece  int    `json:"piece,omitempty"`
	// Endless is how many bytes of a line without end are written.
	Endless int `json:"endless,omitempty"`
	// Notes is how many log notifications are sent.
	Notes int `json:"notes,omitempty"`
	// Ask is a method that the client is asked; nobody waits for the answer.
	Ask string `json:"ask,omitempty"`
	// Answer is how many bytes the line of the answer has, its LF not counted;
	// 0: as many as it takes.
	Answer int `json:"answer,omitempty"`
	// Instead says what happens in place of an answer: nothing, or die.
	Instead string `json:"instead,omitempty"`
}

// do returns the params of a call that gives an order.
func do(o order) map[string]any {
	return map[string]any{"name": "do", "arguments": o}
}

// hostile does as each call orders. It keeps all lines that it reads; the tool
// seen tells them. Its arguments are written to stdout before the answer to
// initialize, a line each.
func (s *rawServer) hostile() int {
	var seen []string
	in := bufio.NewReaderSize(os.Stdin, 1<<16)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return 0
		}
		line = bytes.TrimSuffix(line, []byte("\n"))
		seen = append(seen, string(line[:min(len(line), 300)]))
		var m struct {
			message
			Params struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			} `json:"params"`
		}
		switch err := json.Unmarshal(line, &m); {
		case err != nil:
			fmt.Fprintln(os.Stderr, "cannot read a line:", err)
		case m.Method == "initialize":
			for _, early := range s.args {
				s.write(early + "\n")
			}
			// Whatever version is asked for is spoken.
			var p struct {
				Params struct{ ProtocolVersion string }
			}
			_ = json.Unmarshal(line, &p) // an empty version is as good
			s.result(m.ID, strings.Replace(rawInitialize, "2025-11-25", p.Params.ProtocolVersion, 1))
		case s.ordinary(message{ID: m.ID, Method: m.Method}):
		case m.Method != "tools/call":
			if m.Method != "" {
				s.result(m.ID, `{}`)
			}
		case m.Params.Name == "seen":
			text, _ := json.Marshal(seen) // strings always marshal
			s.result(m.ID, `{"content":[],"seen":`+string(text)+`}`)
		case m.Params.Name == "size":
			s.result(m.ID, rawText(fmt.Sprint(len(line))))
		case m.Params.Name == "pid":
			s.result(m.ID, rawText(fmt.Sprint(os.Getpid())))
		default:
			var o order
			if err := json.Unmarshal(m.Params.Arguments, &o); err != nil {
				s.fail(m.ID, err.Error())
				continue
			}
			s.obey(m.ID, o)
		}
	}
}

func (s *rawServer) obey(id json.RawMessage, o order) {
	for range max(o.Times, 1) {
		_, _ = os.Stderr.Write(o.Stderr)
	}
	text := bytes.ReplaceAll(o.Stdout, []byte("$ID"), id)
	for len(text) > 0 {
		n := len(text)
		if o.Piece > 0 {
			n = min(n, o.Piece)
		}
		s.write(string(text[:n]))
		text = text[n:]
	}
	chunk := strings.Repeat("x", 1<<20)
	for n := o.Endless; n > 0; n -= len(chunk) {
		s.write(chunk[:min(n, len(chunk))])
	}
	if o.Endless > 0 {
		s.write("\n")
	}
	for i := range o.Notes {
		s.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"note %d %s"}}`+"\n", i, strings.Repeat("n", 2000)))
	}
	if o.Ask != "" {
		s.write(`{"jsonrpc":"2.0","id":0,"method":"` + o.Ask + `","params":{}}` + "\n")
	}
	switch o.Instead {
	case "nothing":
	case "die":
		die()
	default:
		s.result(id, rawText(strings.Repeat("a", max(0, o.Answer-answerOverhead(id)))))
	}
}

// answerOverhead is how long the line of an empty answer is.
func answerOverhead(id []byte) int {
	return len(`{"jsonrpc":"2.0","id":,"result":}`) + len(id) + len(rawText(""))
}

// buffered is a server whose stdout is flushed when its stdin ends (C34).
func (s *rawServer) buffered() int {
	var out []byte
	for {
		m, ok := s.read()
		if !ok {
			s.write(string(out))
			return 0
		}
		if m.ID != nil {
			out = fmt.Appendf(out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, rawInitialize)
		}
	}
}

// stubbornWorker is a native worker that ignores every signal that can be
// ignored, and lives on when it has nothing to serve any more.
func (s *rawServer) stubbornWorker() int {
	signal.Ignore()
	server := mcp.NewServer(&mcp.Implementation{Name: "stubborn", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "pid"}, func(context.Context, *mcp.CallToolRequest, any) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint(os.Getpid())}}}, nil, nil
	})
	_ = worker.Serve(context.Background(), server, nil) // its end is what this server ignores
	for {
		<-time.After(time.Hour)
	}
}
