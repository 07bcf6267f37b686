// Command demo shows what holdfast is for, in a few seconds: a client in the
// middle of a call, a SIGKILL to the server, and what the client sees of it.
//
//	demo -holdfast PATH
//
// It is its own server: holdfast starts the same program as a native worker.
// Everything it says is checked; what does not hold ends it with an error.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-mcp/holdfast/integration/usercache"
	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/worker"
)

func main() {
	holdfast := flag.String("holdfast", "bin/holdfast", "the supervisor to show")
	server := flag.Bool("server", false, "be the server")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	run := func() error { return show(ctx, *holdfast) }
	if *server {
		run = func() error { return serve(ctx) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// serve is the server: pid tells which process answers, work takes its time.
func serve(ctx context.Context) error {
	m := mcp.NewServer(&mcp.Implementation{Name: "demo", Version: "1"}, nil)
	mcp.AddTool(m, &mcp.Tool{Name: "pid", Description: "tells which process answers"},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strconv.Itoa(os.Getpid())}}}, nil, nil
		})
	mcp.AddTool(m, &mcp.Tool{Name: "work", Description: "works for a minute"},
		func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1, Total: 2})
			if err != nil {
				return nil, nil, err
			}
			<-ctx.Done()
			return nil, nil, ctx.Err()
		})
	return worker.Serve(ctx, m, nil)
}

// trace prints lines with the time since the start.
type trace struct{ start time.Time }

func (t trace) say(format string, args ...any) {
	fmt.Printf("%6.3f s  %s\n", time.Since(t.start).Seconds(), fmt.Sprintf(format, args...))
}

// show is the client and its story.
func show(ctx context.Context, holdfast string) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	t := trace{time.Now()}
	cmd := exec.CommandContext(ctx, holdfast, "run", "--log-level", "off", "--worker", self, "--", "-server")
	cmd.Stderr = os.Stderr
	remove, err := usercache.Isolate()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	underway := make(chan struct{}, 1)
	client := mcp.NewClient(&mcp.Implementation{Name: "demo", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { underway <- struct{}{} },
	})
	t.say("client     starts %s run --worker %s", holdfast, self)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	before, err := pid(ctx, session)
	if err != nil {
		return err
	}
	t.say("holdfast   serves process %d as protocol %s", before, session.InitializeResult().ProtocolVersion)

	killed, err := killDuring(ctx, t, session, before, underway)
	if err != nil {
		return err
	}
	after, err := pid(ctx, session)
	if err != nil {
		return fmt.Errorf("the call after the kill: %w", err)
	}
	if after == before {
		return fmt.Errorf("process %d answers, which was killed", after)
	}
	t.say("client     calls pid: process %d answers, %d ms after the kill", after, time.Since(killed).Milliseconds())
	t.say("           same session, same client, no restart of the editor")
	return nil
}

// killDuring kills the server in the middle of a call and shows the outcome
// that the client is told. It returns when the kill was.
func killDuring(ctx context.Context, t trace, session *mcp.ClientSession, pid int, underway <-chan struct{}) (time.Time, error) {
	type answer struct {
		result *mcp.CallToolResult
		err    error
	}
	answered := make(chan answer, 1)
	go func() { // ends with the answer
		p := &mcp.CallToolParams{Name: "work", Arguments: map[string]any{}}
		p.SetProgressToken("work")
		r, err := session.CallTool(ctx, p)
		answered <- answer{r, err}
	}()
	select {
	case <-underway:
	case a := <-answered:
		return time.Time{}, fmt.Errorf("work was answered before the kill: %+v", a)
	}
	t.say("client     calls work: it is under way in process %d", pid)
	process, err := os.FindProcess(pid)
	if err != nil {
		return time.Time{}, err
	}
	killed := time.Now()
	if err := process.Kill(); err != nil {
		return time.Time{}, fmt.Errorf("kill: %w", err)
	}
	t.say("           SIGKILL to process %d, in the middle of the call", pid)
	a := <-answered
	if a.err != nil {
		return time.Time{}, fmt.Errorf("work ended with an error and not with a typed outcome: %w", a.err)
	}
	outcome, err := typed(a.result)
	if err != nil {
		return time.Time{}, err
	}
	if outcome.Kind != protocol.OutcomeUnknown || outcome.Retryable {
		return time.Time{}, fmt.Errorf("work ended as %s, retryable: %t", outcome.Kind, outcome.Retryable)
	}
	t.say("holdfast   answers work after %d ms: %s, retryable: %t", time.Since(killed).Milliseconds(), outcome.Kind, outcome.Retryable)
	t.say("           %q", outcome.Message)
	return killed, nil
}

// typed returns holdfast's error in a tool result.
func typed(r *mcp.CallToolResult) (*protocol.Error, error) {
	b, err := json.Marshal(r.Meta[protocol.MetaError])
	if err != nil {
		return nil, err
	}
	var e *protocol.Error
	if err := json.Unmarshal(b, &e); err != nil {
		return nil, err
	}
	if !r.IsError || e == nil {
		return nil, fmt.Errorf("the result carries no typed error: %+v", r)
	}
	return e, nil
}

// pid asks the server who it is.
func pid(ctx context.Context, session *mcp.ClientSession) (int, error) {
	r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "pid", Arguments: map[string]any{}})
	if err != nil {
		return 0, err
	}
	if len(r.Content) == 1 {
		if text, ok := r.Content[0].(*mcp.TextContent); ok && !r.IsError {
			return strconv.Atoi(text.Text)
		}
	}
	return 0, fmt.Errorf("pid answers %+v", r)
}
