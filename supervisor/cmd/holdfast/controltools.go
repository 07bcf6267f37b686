package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/control"
)

// logLines is how many lines the model's holdfast_logs shows, if it does not
// say, and at most.
const (
	logLines    = 50
	maxLogLines = 500
)

// controlTool executes one of the tools that the client's model has beside those
// of the server. They do what the control socket does, and no more (SEC-5).
func (t target) controlTool(ctx context.Context, tool string, arguments []byte) (answer string, failed bool) {
	var err error
	switch tool {
	case "holdfast_status":
		answer = t.statusForModel()
	case "holdfast_swap":
		answer, err = t.swapForModel(ctx)
	case "holdfast_logs":
		answer, err = t.logsForModel(arguments)
	}
	if err != nil {
		return err.Error(), true
	}
	return answer, false
}

func (t target) statusForModel() string {
	s := t.Status()
	if t.config.NoStderrInErrors {
		s = withoutStderr(s)
	}
	p := &page{now: time.Now()}
	p.instance(s, false)
	return p.out.String()
}

// withoutStderr takes what servers have printed out of a status (SEC-3).
func withoutStderr(s control.Status) control.Status {
	exits := s.Worker.Exits
	s.Worker.Exits = nil
	for _, e := range exits {
		cause := *e.Cause
		cause.StderrTail = nil
		e.Cause = &cause
		s.Worker.Exits = append(s.Worker.Exits, e)
	}
	return s
}

func (t target) swapForModel(ctx context.Context) (string, error) {
	outcome, err := t.Swap(ctx)
	if err == nil {
		err = outcome.Err
	}
	if err == nil {
		return fmt.Sprintf("Generation %d of the server serves now.", outcome.Generation), nil
	}
	text := err.Error()
	if told, ok := errors.AsType[*protocol.Error](err); ok {
		text = told.Message
		if len(told.StderrTail) > 0 && !t.config.NoStderrInErrors {
			text += "\nLast output of the server on stderr:\n  " + strings.Join(told.StderrTail, "\n  ")
		}
	}
	if outcome.Generation != 0 {
		text += fmt.Sprintf("\nGeneration %d still serves.", outcome.Generation)
	}
	return "", errors.New(text)
}

func (t target) logsForModel(arguments []byte) (string, error) {
	asked := struct {
		Lines *int `json:"lines"`
	}{}
	if arguments != nil {
		if err := json.Unmarshal(arguments, &asked); err != nil {
			return "", fmt.Errorf("lines must be a number from 1 to %d", maxLogLines)
		}
	}
	wanted := logLines
	if asked.Lines != nil {
		wanted = *asked.Lines
	}
	if wanted < 1 || wanted > maxLogLines {
		return "", fmt.Errorf("lines is %d, and must be from 1 to %d", wanted, maxLogLines)
	}
	lines, _, _, _ := t.recent.Since(0)
	var out []string
	for _, line := range lines {
		text := painter{}.logLine(line)
		if t.config.NoStderrInErrors && strings.Contains(text, " server | ") {
			continue
		}
		out = append(out, text)
	}
	if len(out) == 0 {
		return "The log is empty; --log-level says how much is logged.", nil
	}
	return strings.Join(out[max(0, len(out)-wanted):], "\n"), nil
}
