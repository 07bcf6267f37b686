package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-mcp/holdfast/internal/envelope"
	"github.com/holdfast-mcp/holdfast/internal/proc"
	"github.com/holdfast-mcp/holdfast/internal/ring"
	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/generation"
)

// What the server is asked, of both eras of the protocol.
const (
	discoverParams = `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"holdfast doctor","version":"0"},"io.modelcontextprotocol/clientCapabilities":{}}}`
	initializeParams = `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"holdfast doctor","version":"0"}}`
	initialized      = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// droppedMark begins what holdfast-worker writes of a line on a server's stdout
// that is no message.
const droppedMark = "holdfast-worker: dropped "

// errLost is returned when the server has ended before it answered.
var errLost = errors.New("it ended before it answered")

// server starts the server as run does, and speaks with it: first as a client
// of the newest revision, then as one that falls back to initialize. One that
// has answered the former, or died of it, is started again for the latter.
func (d *doctor) server(ctx context.Context, sockets string) {
	_ = proc.BecomeSubreaper() // what the server leaves behind is then ended with it, where the system has that
	defer proc.Sweep()
	t, err := d.start(ctx, 1, sockets)
	if err != nil {
		d.fail("server", err.Error(), "start the command by itself, and see what it prints")
		return
	}
	defer func() { t.end() }()
	modern, lost := d.discover(ctx, t)
	first := t
	if modern || lost {
		t.end()
		if t, err = d.start(ctx, 2, sockets); err != nil {
			t = first
			d.fail("server", "started once, and not again: "+err.Error(), "does it hold a lock or a port? It then needs --swap sequential")
			return
		}
	}
	d.initialize(ctx, t, modern)
	if first.first == 0 {
		first = t
	}
	d.speed(first)
	d.printed(t)
}

// discover asks for the newest revision. It reports whether the server has it,
// and whether it has ended.
func (d *doctor) discover(ctx context.Context, t *trial) (modern, lost bool) {
	const check = "server/discover"
	// A server that does not know the method may leave it unanswered.
	result, err := t.ask(ctx, 1, "server/discover", discoverParams, min(5*d.config.DiscoverTimeout, d.config.StartTimeout))
	refused, isRefusal := errors.AsType[*refusal](err)
	switch {
	case errors.Is(err, errLost):
		d.warn(check, "the server ended when it was asked for a newer revision: "+t.exit(),
			"nothing has to be done: holdfast remembers that, and does not charge it; the server's SDK may have a newer version")
		return false, true
	case isRefusal:
		d.ok(check, "refused (%v): it speaks the revisions with initialize only", refused)
	case err != nil:
		d.warn(check, err.Error(), "clients of the newest revision wait for --discover-timeout at the first start")
	default:
		versions, _ := envelope.Find(result, "supportedVersions")
		d.ok(check, "answers%s", t.harmless(listed(versions.Of(result))))
		return true, false
	}
	return false, false
}

// listed is a JSON array of strings for people.
func listed(raw []byte) string {
	var words []string
	if json.Unmarshal(raw, &words) != nil || len(words) == 0 {
		return ""
	}
	return ", speaks " + strings.Join(words, ", ")
}

// text is a JSON string for people, or else the JSON itself.
func text(raw []byte) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return string(raw)
	}
	return s
}

func (d *doctor) initialize(ctx context.Context, t *trial, modern bool) {
	const check = "initialize"
	result, err := t.ask(ctx, 2, "initialize", initializeParams, d.config.StartTimeout)
	if err != nil {
		text := err.Error()
		if errors.Is(err, errLost) {
			text = "the server ended before it answered: " + t.exit()
		}
		if refused, ok := errors.AsType[*refusal](err); ok && modern {
			d.warn(check, "refused: "+refused.Error(), "clients that know no server/discover cannot use this server")
			return
		}
		d.fail(check, text, "start the command by itself, and see what it prints; "+
			"a slow one may need a longer --start-timeout, one that waits for something else is no MCP server on stdio")
		return
	}
	version, _ := envelope.Find(result, "protocolVersion")
	d.ok(check, "answers in revision %s", t.harmless(text(version.Of(result))))
	t.stream.Send(&workerv1.Frame{Kind: workerv1.Frame_KIND_NOTIFICATION, Payload: []byte(initialized)}, true)
	if _, ok := envelope.Find(result, "capabilities", "tools"); !ok {
		return
	}
	list, err := t.ask(ctx, 3, "tools/list", "{}", d.config.StartTimeout)
	if err != nil {
		d.fail("tools/list", err.Error(), "clients show no tools of this server")
		return
	}
	tools, _ := envelope.Find(list, "tools")
	var all []json.RawMessage
	if err := json.Unmarshal(tools.Of(list), &all); err != nil {
		d.fail("tools/list", "the answer has no array of tools", "clients show no tools of this server")
		return
	}
	d.ok("tools/list", "%d tools on the first page", len(all))
}

// speed tells how long a client waits that knows nothing of the server yet.
func (d *doctor) speed(t *trial) {
	limit := d.config.InitializeTimeout
	switch text := "the first answer came after " + span(t.first); {
	case t.first == 0: // there was none
	case t.first <= limit:
		d.ok("start", "%s", text)
	default:
		d.warn("start", text, fmt.Sprintf("at the first start holdfast answers by itself after %s (--initialize-timeout); "+
			"later ones are answered from memory after a second", span(limit)))
	}
}

// printed tells of what the server wrote beside messages.
func (d *doctor) printed(t *trial) {
	lines := t.lines()
	if len(lines) == 0 {
		d.ok("stdout", "has nothing but messages")
		return
	}
	d.warn("stdout", fmt.Sprintf("%d times something that is no message: %s", len(lines), strings.TrimPrefix(lines[0], droppedMark)),
		"print to stderr; holdfast keeps it from the client, which without holdfast may fail by it")
}

// refusal is an answer that is an error.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

// trial is one life of a server that is tried.
type trial struct {
	worker  *generation.Generation
	stream  *generation.Stream
	began   time.Time            // of the start, and then of a request that is asked later
	first   time.Duration        // until the first answer
	answers chan *workerv1.Frame // closed at the end of the stream
	secrets []string

	mu      sync.Mutex
	dropped []string
}

func (d *doctor) start(ctx context.Context, n uint64, sockets string) (*trial, error) {
	t := &trial{began: time.Now(), answers: make(chan *workerv1.Frame), secrets: values(d.secrets)}
	worker, err := generation.Start(ctx, n, generation.Config{
		Command:      generation.Command{Worker: d.config.Worker, Args: d.config.Args, Dir: d.dir, Env: d.env},
		StartTimeout: d.config.StartTimeout, MaxFrame: int(d.config.MaxFrame), SocketDir: sockets, Version: version(),
		Stderr: ring.Options{Mask: t.secrets, Sink: t.line},
	})
	if err != nil {
		return nil, err
	}
	t.worker = worker
	if t.stream, err = worker.Open(); err != nil {
		worker.Stop()
		return nil, err
	}
	go t.read() // ends with the stream
	return t, nil
}

func (t *trial) read() {
	defer close(t.answers)
	for {
		f, err := t.stream.Recv()
		if err != nil || f.GetKind() == workerv1.Frame_KIND_EXIT {
			return
		}
		if f.GetKind() == workerv1.Frame_KIND_RESPONSE {
			t.answers <- f
		}
	}
}

func (t *trial) line(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if strings.HasPrefix(text, droppedMark) {
		t.dropped = append(t.dropped, text)
	}
}

func (t *trial) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.dropped...)
}

// ask sends a request and returns its result. An answer that is an error is a
// *refusal, the end of the server errLost.
func (t *trial) ask(ctx context.Context, id uint64, method, params string, patience time.Duration) ([]byte, error) {
	defer func() { t.began = time.Now() }()
	line := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params)
	t.stream.Send(&workerv1.Frame{Kind: workerv1.Frame_KIND_REQUEST, Id: id, Payload: []byte(line)}, true)
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		select {
		case f, ok := <-t.answers:
			switch {
			case !ok:
				return nil, errLost
			case f.GetId() == id:
				if t.first == 0 {
					t.first = time.Since(t.began)
				}
				result, err := resultOf(f.GetPayload())
				if refused, ok := errors.AsType[*refusal](err); ok {
					refused.text = t.harmless(refused.text)
				}
				return result, err
			}
		case <-deadline.C:
			return nil, fmt.Errorf("no answer within %s", span(patience))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func resultOf(payload []byte) ([]byte, error) {
	env, err := envelope.Peek(payload)
	if err != nil {
		return nil, fmt.Errorf("the answer is no message: %w", err)
	}
	if env.Kind == envelope.Response {
		return env.Result.Of(payload), nil
	}
	var e struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	if span, ok := envelope.Find(payload, "error"); !ok || json.Unmarshal(span.Of(payload), &e) != nil {
		return nil, &refusal{"an error without a code"}
	}
	return nil, &refusal{fmt.Sprintf("%d %s", e.Code, e.Message)}
}

// harmless is a text of the server as its output is shown (SEC-3).
func (t *trial) harmless(text string) string {
	r := ring.New(ring.Options{Mask: t.secrets})
	_, _ = io.WriteString(r, text) // it takes all
	_ = r.Close()
	return strings.Join(r.Tail(), " ")
}

// exit tells how the server has ended, with what it printed last.
func (t *trial) exit() string {
	select {
	case <-t.worker.Done():
	case <-time.After(generation.StopGrace):
	}
	text := "its session was closed"
	select {
	case <-t.worker.Done():
		text = "it " + t.worker.Exit().String()
	default:
	}
	if tail := t.worker.Tail(); len(tail) > 0 {
		text += "; it printed: " + strings.Join(tail[max(0, len(tail)-3):], " / ")
	}
	return text
}

// end ends the server and what is below it; it may be called again.
func (t *trial) end() {
	if t.worker == nil {
		return
	}
	t.worker.Stop()
	for range t.answers { // the reader ends with the stream
	}
	t.worker = nil
}
