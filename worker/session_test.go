package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
	"github.com/holdfast-mcp/holdfast/worker/internal/workertest"
)

// serveMemory serves the server in memory. It is used in synctest bubbles, so
// that time is virtual and a goroutine left behind fails the test.
func serveMemory(t *testing.T, opts Options, newServer func() *mcp.Server) (*service, workerv1.WorkerServiceClient) {
	t.Helper()
	s := newService(t.Context(), newServer, true, opts.withDefaults(), newHandoff())
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer(protocol.ServerOptions(protocol.DefaultMaxFrame)...)
	workerv1.RegisterWorkerServiceServer(server, s)
	go server.Serve(listener) // ends with server.Stop
	cc, err := grpc.NewClient("passthrough:worker",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cc.Close()
		server.Stop()
	})
	return s, workerv1.NewWorkerServiceClient(cc)
}

func shared(s *mcp.Server) func() *mcp.Server { return func() *mcp.Server { return s } }

// C35, EDGE-1, C26: the answer has the client's own id token and, but for it,
// the bytes that the SDK writes to stdio.
func TestC35AnswersAreThoseOfStdio(t *testing.T) {
	calls := []struct{ method, params string }{
		{"tools/call", `{"name":"echo","arguments":{"text":"<a href=\"x\">\u2028 é \u0000</a>"}}`},
		{"tools/call", `{"name":"fail","arguments":{}}`},
		{"tools/call", `{"name":"nope"}`},
		{"tools/call", `{"name":"echo","arguments":{"text":1}}`},
		{"tools/list", `{}`},
		{"tools/list", `{"cursor":"bad<>"}`},
		{"no/such & method", `{}`},
		{"resources/read", `{"uri":"x://y"}`},
		{"initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`},
		{"tools/call", `[]`},
		{"ping", `null`},
	}
	tokens := []string{`1`, `"1"`, `""`, `9.5`, `"a\"b"`, `-1`, `0`, `9007199254740993`, `"\u00e9"`, `1e400`, `12345678901234567890`}
	synctest.Test(t, func(t *testing.T) {
		newServer := func() *mcp.Server {
			s := newTestServer()
			addTool(s, "fail", func(context.Context, *mcp.CallToolRequest, string) (*mcp.CallToolResult, error) {
				return nil, &jsonrpc.Error{Code: 7, Message: "<no>", Data: json.RawMessage(`{"x": 1}`)}
			})
			return s
		}
		stdio := newStdio(t, newServer())
		_, client := serveMemory(t, Options{}, newServer)
		s := workertest.Open(t, client)
		s.Initialize()
		for i, call := range calls {
			n, token := uint64(i+10), tokens[i]
			direct := stdio.ask(n, call.method, call.params)
			want := strings.Replace(direct, fmt.Sprintf(`"id":%d`, n), `"id":`+token, 1)
			s.Request(n, token, call.method, call.params)
			if got := s.Await(workerv1.Frame_KIND_RESPONSE, n); got != want {
				t.Errorf("%s %s:\ngot  %s\nwant %s", call.method, call.params, got, want)
			}
		}
		s.Cancel()
	})
}

// stdio is a session with a server over the SDK's own transport.
type stdio struct {
	t   *testing.T
	in  *io.PipeWriter
	out *json.Decoder
}

func newStdio(t *testing.T, server *mcp.Server) *stdio {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	session, err := server.Connect(t.Context(), &mcp.IOTransport{Reader: inR, Writer: outW}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		inW.Close()
		_ = session.Wait() // the end of its input is no error
	})
	s := &stdio{t, inW, json.NewDecoder(outR)}
	s.ask(1, "initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`)
	fmt.Fprintln(inW, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return s
}

func (s *stdio) ask(n uint64, method, params string) string {
	s.t.Helper()
	fmt.Fprintf(s.in, `{"method":%q,"params":%s,"jsonrpc":"2.0","id":%d}`+"\n", method, params, n)
	var answer json.RawMessage
	if err := s.out.Decode(&answer); err != nil {
		s.t.Fatal(err)
	}
	return string(answer)
}

// EDGE-5: a cancellation finds its call, in both directions.
func TestEDGE5CancelBothWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newTestServer()
		addTool(server, "sample", func(ctx context.Context, req *mcp.CallToolRequest, _ string) (*mcp.CallToolResult, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err := req.Session.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 1})
			return text("%v", err), nil
		})
		_, client := serveMemory(t, Options{}, shared(server))
		s := workertest.Open(t, client)
		s.Initialize()

		s.Request(5, `"mine"`, "tools/call", `{"name":"until_cancelled"}`)
		s.Request(6, `6`, "tools/call", `{"name":"until_cancelled"}`)
		s.Send(workerv1.Frame_KIND_CANCEL, 99, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"unknown"}}`)
		s.Send(workerv1.Frame_KIND_CANCEL, 5, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"mine","reason":"r"}}`)
		contains(t, s.Await(workerv1.Frame_KIND_RESPONSE, 5), `"id":"mine"`)

		s.Request(7, `7`, "tools/call", `{"name":"sample"}`)
		request := s.Next()
		if request.GetKind() != workerv1.Frame_KIND_REQUEST {
			t.Fatalf("got %v", request)
		}
		contains(t, string(request.GetPayload()), `"method":"sampling/createMessage"`)
		cancelled := s.Await(workerv1.Frame_KIND_CANCEL, request.GetId())
		contains(t, cancelled, `"method":"notifications/cancelled"`)
		s.Cancel()
	})
}

// A request of the server is answered by number, whatever id the answer has.
func TestServerRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newTestServer()
		addTool(server, "sample", func(ctx context.Context, req *mcp.CallToolRequest, _ string) (*mcp.CallToolResult, error) {
			result, err := req.Session.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 1})
			if err != nil {
				wire, _ := errors.AsType[*jsonrpc.Error](err)
				return text("%d %s", wire.Code, wire.Message), nil
			}
			return text("%s", result.Model), nil
		})
		_, client := serveMemory(t, Options{}, shared(server))
		s := workertest.Open(t, client)
		s.Initialize()
		for i, answer := range []string{
			`"result":{"role":"assistant","content":{"type":"text","text":""},"model":"m1"}`,
			`"error":{"code":-1,"message":"no"}`,
		} {
			n := uint64(10 + i)
			callTool(s, n, "sample", "")
			request := s.Next()
			s.Send(workerv1.Frame_KIND_RESPONSE, request.GetId(), `{"jsonrpc":"2.0",`+answer+`,"id":2000000001}`)
			contains(t, s.Await(workerv1.Frame_KIND_RESPONSE, n), []string{"m1", "-1 no"}[i])
		}
		s.Cancel()
	})
}

// Sessions of Serve share the server; those of ServeFunc do not.
func TestSessionsShareTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newTestServer()
		_, client := serveMemory(t, Options{}, shared(server))
		a, b := workertest.Open(t, client), workertest.Open(t, client)
		a.Initialize()
		b.Initialize()
		addTool(server, "new", func(context.Context, *mcp.CallToolRequest, string) (*mcp.CallToolResult, error) {
			return text("new"), nil
		})
		for _, s := range []*workertest.Session{a, b} {
			contains(t, s.Await(workerv1.Frame_KIND_NOTIFICATION, 0), "notifications/tools/list_changed")
		}
		a.Cancel()
		callTool(b, 2, "new", "")
		contains(t, b.Await(workerv1.Frame_KIND_RESPONSE, 2), "new")
		b.Cancel()
	})
}

// SUP-21: when the SDK closes a session by itself, the stream ends, without
// EXIT, and the worker goes on.
func TestSUP21SessionClosedByKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := mcp.NewServer(&mcp.Implementation{Name: "keepalive"}, &mcp.ServerOptions{KeepAlive: time.Minute})
		_, client := serveMemory(t, Options{}, shared(server))
		s := workertest.Open(t, client)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // beyond the keep-alive
		defer cancel()
		stream, err := client.Session(ctx)
		if err != nil {
			t.Fatal(err)
		}
		s.Stream = stream
		s.Initialize()
		contains(t, string(s.Next().GetPayload()), `"method":"ping"`) // not answered
		if exit := s.AwaitEnd(); exit != nil {
			t.Errorf("EXIT %v", exit)
		}
		again := workertest.Open(t, client)
		again.Initialize()
		again.Cancel()
	})
}

// Messages beyond the limit fail alone: the stream and the session live on.
func TestTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newTestServer()
		addTool(server, "large", func(context.Context, *mcp.CallToolRequest, string) (*mcp.CallToolResult, error) {
			return text("%s", strings.Repeat("x", 3000)), nil
		})
		addTool(server, "large_log", func(ctx context.Context, req *mcp.CallToolRequest, _ string) (*mcp.CallToolResult, error) {
			err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: 1, Message: strings.Repeat("x", 3000)})
			return text("%v", err), nil
		})
		_, client := serveMemory(t, Options{MaxFrame: 10_000}, shared(server))
		if _, err := client.Describe(t.Context(), &workerv1.DescribeRequest{MaxFrame: 2000}); err != nil {
			t.Fatal(err)
		}
		s := workertest.Open(t, client)
		s.Initialize()
		s.Request(2, `"big"`, "tools/call", `{"name":"large"}`)
		var answer struct {
			ID    string
			Error struct {
				Code int
				Data protocol.Error
			}
		}
		if err := json.Unmarshal([]byte(s.Await(workerv1.Frame_KIND_RESPONSE, 2)), &answer); err != nil {
			t.Fatal(err)
		}
		if answer.ID != "big" || answer.Error.Code != protocol.FrameTooLarge.Code() || answer.Error.Data.Kind != protocol.FrameTooLarge ||
			!strings.Contains(answer.Error.Data.Message, "of 30") {
			t.Errorf("got %+v", answer)
		}
		callTool(s, 3, "large_log", "")
		contains(t, s.Await(workerv1.Frame_KIND_RESPONSE, 3), "exceeds the limit of 2000 bytes")
		callTool(s, 4, "echo", "alive")
		contains(t, s.Await(workerv1.Frame_KIND_RESPONSE, 4), "alive")
		s.Cancel()
	})
}

// What the SDK would end the session over never reaches it.
func TestBadFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		_, client := serveMemory(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, shared(newTestServer()))
		s := workertest.Open(t, client)
		s.Initialize()
		for i, payload := range []string{
			``, `{`, `[]`, `null`, `{"jsonrpc":"1.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":1}`,
			`{"jsonrpc":"2.0","id":1,"method":7}`,
			`{"jsonrpc":"2.0","id":1,"method":"ping","params":` + strings.Repeat("[", 1001) + strings.Repeat("]", 1001) + `}`,
		} {
			n := uint64(10 + i)
			s.Send(workerv1.Frame_KIND_REQUEST, n, payload)
			contains(t, s.Await(workerv1.Frame_KIND_RESPONSE, n), `"code":-32600`)
			for _, kind := range []workerv1.Frame_Kind{workerv1.Frame_KIND_NOTIFICATION, workerv1.Frame_KIND_CANCEL, workerv1.Frame_Kind(77)} {
				s.Send(kind, n, payload)
			}
		}
		s.Send(workerv1.Frame_KIND_RESPONSE, 1, `{`)
		s.Send(workerv1.Frame_KIND_RESPONSE, 4711, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		s.Send(workerv1.Frame_KIND_REQUEST, 1<<60, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		contains(t, s.Await(workerv1.Frame_KIND_RESPONSE, 1<<60), `"code":-32600`)
		callTool(s, 100, "echo", "alive")
		contains(t, s.Await(workerv1.Frame_KIND_RESPONSE, 100), "alive")
		s.Cancel()
		contains(t, log.String(), "dropped a frame")
	})
}

// DRAIN closes Draining and is answered once no call is under way, after the
// last answer. An open listen does not delay it.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := serveMemory(t, Options{}, shared(newTestServer()))
		s := workertest.Open(t, client)
		s.Initialize()
		other := workertest.Open(t, client)
		other.Initialize()
		callTool(other, 2, "until_draining", "")
		s.Request(2, `2`, methodListen, `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},"notifications":{"toolsListChanged":true}}`)
		contains(t, string(s.Next().GetPayload()), "subscriptions/acknowledged")
		callTool(s, 3, "until_draining", "")
		callTool(s, 4, "until_draining", "")
		synctest.Wait()
		s.Send(workerv1.Frame_KIND_DRAIN, 0, "")
		for range 2 {
			if frame := s.Next(); frame.GetKind() != workerv1.Frame_KIND_RESPONSE {
				t.Errorf("got %v before the answers", frame)
			}
		}
		if frame := s.Next(); frame.GetKind() != workerv1.Frame_KIND_DRAINED {
			t.Errorf("got %v, want DRAINED", frame)
		}
		s.Cancel()

		synctest.Wait() // the other session is not drained
		other.Send(workerv1.Frame_KIND_CANCEL, 2, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
		contains(t, other.Await(workerv1.Frame_KIND_RESPONSE, 2), "context canceled")
		other.Cancel()
	})
}

// SUP-3: stop sends EXIT last, leaves open listens to the supervisor, which
// carries them over, and takes no more streams; a request that comes too late is
// refused as not executed.
func TestSUP3Stop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc, client := serveMemory(t, Options{}, shared(newTestServer()))
		s := workertest.Open(t, client)
		s.Initialize()
		s.Request(2, `"l"`, methodListen, `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},"notifications":{"toolsListChanged":true}}`)
		contains(t, string(s.Next().GetPayload()), "subscriptions/acknowledged")
		svc.load.refuse()
		callTool(s, 3, "echo", "late")
		contains(t, s.Await(workerv1.Frame_KIND_RESPONSE, 3), `"kind":"worker_unavailable"`)
		svc.stop(ExitHandoff)
		if frame := s.Next(); frame.GetKind() != workerv1.Frame_KIND_EXIT || frame.GetExit().GetCode() != ExitHandoff {
			t.Errorf("got %v, want EXIT %d", frame, ExitHandoff)
		}
		if exit := s.AwaitEnd(); exit != nil {
			t.Errorf("a second EXIT %v", exit)
		}
		if _, err := workertest.Open(t, client).Stream.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("another session: %v", err)
		}
	})
}

// awaitCalls ends at the first idle moment after the notice, and at the latest
// with the grace.
func TestAwaitCalls(t *testing.T) {
	const notice, grace = time.Second, time.Minute
	for _, test := range []struct {
		name      string
		callEnds  time.Duration
		want      time.Duration
		wantTaken bool
	}{
		{"idle", 0, notice, false},
		{"call ends within the notice", notice / 2, notice, false},
		{"call ends later", 10 * time.Second, 10 * time.Second, false},
		{"call does not end", 2 * grace, grace, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLoad()
				begin := time.Now()
				if !l.begin(true) {
					t.Fatal("call refused")
				}
				go func() { // ends by itself
					time.Sleep(test.callEnds) // virtual time: the length of the call
					l.end(true)
				}()
				awaitCalls(l, notice, grace, nil, nil)
				if took := time.Since(begin); took != test.want {
					t.Errorf("took %v, want %v", took, test.want)
				}
				if taken := l.begin(false); taken != test.wantTaken {
					t.Errorf("a call after that is taken: %v", taken)
				}
				time.Sleep(2 * grace) // virtual time: let the call end
			})
		})
	}
}

// Draining of a context that is no handler's never ends.
func TestDrainingElsewhere(t *testing.T) {
	if Draining(t.Context()) != nil {
		t.Error("a channel for a context without a session")
	}
}
