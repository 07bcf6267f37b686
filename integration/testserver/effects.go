package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-mcp/holdfast/worker"
)

// effect is the input of append: one line in the journal, and the point of
// the call at which the process is to die, if any.
type effect struct {
	Key string `json:"key"`
	// At is one of the points below, or empty.
	At string `json:"at,omitempty"`
	// Millis is how long the effect takes.
	Millis int `json:"ms,omitempty"`
	// Delay is how many microseconds after the effect the process dies, where
	// the answer cannot be cut.
	Delay int `json:"delay,omitempty"`
	// Bytes is the size of the answer.
	Bytes int `json:"bytes,omitempty"`
}

// Points of a call at which the process dies by SIGKILL.
const (
	atReceipt   = "receipt"   // the request has arrived, no handler has seen it
	atExecution = "execution" // the handler runs, the effect has not happened
	atEffect    = "effect"    // the effect has happened, no byte of the answer is out
	atMidframe  = "midframe"  // half of the answer is out
)

// dieOnReceipt is the point before all handlers.
func (s *server) dieOnReceipt(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if call, ok := req.(*mcp.CallToolRequest); ok {
			var in effect
			if json.Unmarshal(call.Params.Arguments, &in) == nil && in.At == atReceipt {
				die()
			}
		}
		return next(ctx, method, req)
	}
}

// addEffects adds the tools that change something or end the process.
func (s *server) addEffects(m *mcp.Server) {
	add(m, "append", "appends the key to the journal", s.append)
	type exit struct {
		Code int    `json:"code"`
		Key  string `json:"key,omitempty"`
	}
	add(m, "exit", "ends the process with the code, after appending the key if there is one", func(_ context.Context, _ *mcp.CallToolRequest, in exit) (*mcp.CallToolResult, error) {
		if in.Key != "" {
			if err := s.note(in.Key); err != nil {
				return nil, err
			}
		}
		fmt.Fprintln(os.Stderr, "asked to exit")
		os.Exit(in.Code) //nolint:forbidigo // this is the crash that was asked for
		return nil, nil
	})
	add(m, "handoff", "asks for an upgrade", func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, error) {
		worker.Handoff("asked to by a call")
		return text("%d", os.Getpid()), nil
	})
}

func (s *server) append(_ context.Context, _ *mcp.CallToolRequest, in effect) (*mcp.CallToolResult, error) {
	<-time.After(time.Duration(in.Millis) * time.Millisecond)
	if in.At == atExecution {
		die()
	}
	if err := s.note(in.Key); err != nil {
		return nil, err
	}
	switch in.At {
	case atEffect:
		die()
	case atMidframe:
		if s.cuts {
			s.out.cut.Store(true)
			break
		}
		// The transport is not ours to cut: die while it sends the answer,
		// which is expected to be a large one.
		go func() { // ends with the process
			<-time.After(time.Duration(in.Delay) * time.Microsecond)
			die()
		}()
	}
	return text("appended %s by %d%s", in.Key, os.Getpid(), strings.Repeat(" ", in.Bytes)), nil
}

// note appends a line to the journal by one write, so that lines of several
// processes never mix.
func (s *server) note(line string) error {
	f, err := os.OpenFile(s.journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(line + "\n"); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// die ends the process as a crash does: without clean-up or exit code.
func die() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill()
	}
	select {}
}
