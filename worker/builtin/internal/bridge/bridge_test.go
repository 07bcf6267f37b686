package bridge

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
)

// patience bounds every wait of the tests.
const patience = time.Minute

// supervisor is the other side of a bridge.
type supervisor struct {
	t       *testing.T
	bridge  *Bridge
	client  workerv1.WorkerServiceClient
	reports *os.File // what went to stderr
}

// start serves a Bridge whose server is this test binary.
func start(t *testing.T, change func(*Config)) *supervisor {
	t.Helper()
	reports, err := os.CreateTemp(t.TempDir(), "stderr")
	if err != nil {
		t.Fatal(err)
	}
	config := Config{
		Command: os.Args[0],
		// The race detector would let every exit take a second.
		Env:    append(protocol.StripHandshake(os.Environ()), childVariable+"=server", "GORACE=atexit_sleep_ms=0"),
		Stderr: reports,
	}
	if change != nil {
		change(&config)
	}
	b := New(config)
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer(protocol.ServerOptions(protocol.DefaultMaxFrame)...)
	workerv1.RegisterWorkerServiceServer(server, b)
	go server.Serve(listener) // ends with server.Stop
	cc, err := grpc.NewClient("passthrough:bridge",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.Close()
		cc.Close()
		server.Stop()
		reports.Close()
	})
	return &supervisor{t, b, workerv1.NewWorkerServiceClient(cc), reports}
}

func (s *supervisor) stderr() string {
	s.t.Helper()
	b, err := os.ReadFile(s.reports.Name())
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

// session is the supervisor's side of a Session stream.
type clientSession struct {
	t      *testing.T
	stream workerv1.WorkerService_SessionClient
	cancel func()
}

func (s *supervisor) open() *clientSession {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	stream, err := s.client.Session(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(cancel)
	return &clientSession{s.t, stream, cancel}
}

func (c *clientSession) send(kind workerv1.Frame_Kind, n uint64, payload string) {
	c.t.Helper()
	if err := c.stream.Send(&workerv1.Frame{Kind: kind, Id: n, Payload: []byte(payload)}); err != nil {
		c.t.Fatalf("sending %s: %v", kind, err)
	}
}

// request sends a request whose client id is the raw token.
func (c *clientSession) request(n uint64, token, method, params string) {
	c.t.Helper()
	c.send(workerv1.Frame_KIND_REQUEST, n, fmt.Sprintf(`{"method":%q,"params":%s,"jsonrpc":"2.0","id":%s}`, method, params, token))
}

func (c *clientSession) next() *workerv1.Frame {
	c.t.Helper()
	frame, err := c.stream.Recv()
	if err != nil {
		c.t.Fatalf("no frame: %v", err)
	}
	return frame
}

// want receives one frame and compares all of it.
func (c *clientSession) want(kind workerv1.Frame_Kind, n uint64, payload string) {
	c.t.Helper()
	frame := c.next()
	if frame.GetKind() != kind || frame.GetId() != n || string(frame.GetPayload()) != payload {
		c.t.Fatalf("got %s %d %.300s\nwant %s %d %.300s", frame.GetKind(), frame.GetId(), frame.GetPayload(), kind, n, payload)
	}
}

// wantExit receives EXIT and the end of the stream.
func (c *clientSession) wantExit(code int32, signal string) {
	c.t.Helper()
	frame := c.next()
	if frame.GetKind() != workerv1.Frame_KIND_EXIT || frame.GetExit().GetCode() != code || frame.GetExit().GetSignal() != signal {
		c.t.Fatalf("got %v, want EXIT %d %q", frame, code, signal)
	}
	if frame, err := c.stream.Recv(); err != io.EOF {
		c.t.Fatalf("after EXIT: %v, %v", frame, err)
	}
}

// emit lets the server print bytes.
func emit(bytes string) string {
	return fmt.Sprintf(`{"bytes":%q}`, base64.StdEncoding.EncodeToString([]byte(bytes)))
}

func ok(token string) string { return `{"jsonrpc":"2.0","id":` + token + `,"result":{}}` }

// C35, EDGE-1: every answer carries the client's own id token, whatever it
// looks like, and answers may come in any order.
func TestC35RawIDTokensInReverse(t *testing.T) {
	s := start(t, nil).open()
	tokens := []string{`1`, `"1"`, `""`, `"a\"b"`, `0`, `-1`, `9.5`, `9007199254740993`, `1e2`, `"\u00e9"`}
	for i, token := range tokens {
		s.request(uint64(100+i), token, "hold", fmt.Sprintf(`{"of":%d}`, len(tokens)))
	}
	for i, token := range slices.Backward(tokens) {
		n := uint64(100 + i)
		s.want(workerv1.Frame_KIND_RESPONSE, n, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%d}`, token, n))
	}
}

// C26: what the server says passes byte for byte, and so does what it hears.
func TestC26BytesPassUnchanged(t *testing.T) {
	s := start(t, nil).open()
	const body = `"result" : {"n":9007199254740993, "e":1e400,"d":0.10,"u":"\u00e9\/é","_meta":{"x/y":null},"dup":1,"dup":2},"extra":[ ]}`
	s.request(7, `"t"`, "emit", emit(`{"jsonrpc":"2.0", "id":$ID ,`+body+"\n"))
	s.want(workerv1.Frame_KIND_RESPONSE, 7, `{"jsonrpc":"2.0", "id":"t" ,`+body)

	const notification = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"7","progress":0.50}}`
	s.request(8, `8`, "emit", emit(notification+"\r\n"))
	s.want(workerv1.Frame_KIND_NOTIFICATION, 0, notification)

	const request = `{ "jsonrpc":"2.0","x":1.0,"method":"echo","params":{"id":"t","é":"\u00e9"}, "id":"t"}`
	s.send(workerv1.Frame_KIND_REQUEST, 9, request)
	s.want(workerv1.Frame_KIND_RESPONSE, 9, ok(`"t"`))
	s.request(10, `10`, "seen", `{}`)
	seen := seenLines(t, s.next())
	if want := strings.Replace(request, `"id":"t"}`, `"id":9}`, 1); seen[2] != want {
		t.Errorf("server saw %s, want %s", seen[2], want)
	}
}

func seenLines(t *testing.T, frame *workerv1.Frame) []string {
	t.Helper()
	var answer struct{ Result []string }
	if err := json.Unmarshal(frame.GetPayload(), &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Result
}

// C27, EDGE-10: what is no MCP message is kept from the client, reported with a
// hint and a limit, and does not cost the server its life.
func TestC27JunkOnStdoutIsKeptOut(t *testing.T) {
	sup := start(t, nil)
	s := sup.open()
	junk := "Server running on stdio\n" +
		"{\n  name: 'x',\n  list: [ 1, 2 ]\n}\n" +
		"[1,2]\n\"str\"\nnull\n42\n[]\n\n \n" +
		`{"level":"info"}` + "\n" +
		`{"level":30,"id":1,"msg":"looks like an answer"}` + "\n" +
		`{"jsonrpc":"1.0","id":77,"result":{}}x` + "\n" +
		"caf\xe9 \xff\xfe\n" +
		`Loading...{"jsonrpc":"2.0","id":$ID,"result":"glued"}` + "\n"
	s.request(1, `"one"`, "emit", emit(junk+`{"jsonrpc":"2.0","id":$ID,"result":"real"}`+"\n"))
	s.want(workerv1.Frame_KIND_RESPONSE, 1, `{"jsonrpc":"2.0","id":"one","result":"real"}`)
	s.request(2, `2`, "emit", emit(strings.Repeat("Server running on stdio\n", 20)+ok("$ID")+"\n"))
	s.want(workerv1.Frame_KIND_RESPONSE, 2, ok(`2`))

	reports := sup.stderr()
	for _, want := range []string{junkText, junkScalar, junkObject, junkGlued, "print to stderr instead", "): Server running on stdio\n", "  list: [ 1, 2 ]\n"} {
		if !strings.Contains(reports, want) {
			t.Errorf("no report of %q in:\n%s", want, reports)
		}
	}
	if n := strings.Count(reports, "dropped "+junkText+" on stdout"); n != reportBurst {
		t.Errorf("%d reports of text at once, want %d:\n%s", n, reportBurst, reports)
	}
}

// EDGE-10: an answer that is broken but shows whose it is fails its request,
// and only that.
func TestEDGE10BrokenAnswerFailsItsRequest(t *testing.T) {
	s := start(t, nil).open()
	s.request(1, `"a"`, "emit", emit(`{"jsonrpc":"2.0","id":$ID,"result":{"text":"`+"\xff"+`"}}`+"\n"))
	frame := s.next()
	var answer struct {
		ID    string
		Error struct{ Code int }
	}
	if err := json.Unmarshal(frame.GetPayload(), &answer); err != nil || frame.GetId() != 1 || answer.ID != "a" || answer.Error.Code != codeInternal {
		t.Errorf("got %v", frame)
	}
	s.request(2, `2`, "echo", `{}`)
	s.want(workerv1.Frame_KIND_RESPONSE, 2, ok(`2`))
}

// A server of 2025-03-26 may answer in a batch; unknown and repeated answers
// are dropped.
func TestBatchIsSplit(t *testing.T) {
	s := start(t, nil).open()
	s.request(1, `"a"`, "hang", `{}`)
	s.request(2, `"b"`, "emit", emit(`[{"jsonrpc":"2.0","id":$ID,"result":{}}, {"jsonrpc":"2.0","method":"n"},[],3,`+
		`{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":99,"result":{}}]`+"\n"))
	s.want(workerv1.Frame_KIND_RESPONSE, 2, ok(`"b"`))
	s.want(workerv1.Frame_KIND_NOTIFICATION, 0, `{"jsonrpc":"2.0","method":"n"}`)
	s.want(workerv1.Frame_KIND_RESPONSE, 1, ok(`"a"`))
	s.request(3, `3`, "echo", `{}`)
	s.want(workerv1.Frame_KIND_RESPONSE, 3, ok(`3`))
}

// Requests of the server get numbers of ours; its own ids, of any form, come
// back with the client's answer.
func TestServerRequests(t *testing.T) {
	s := start(t, nil).open()
	const roots, elicit = `{"jsonrpc":"2.0","id":0,"method":"roots/list"}`, `{"jsonrpc":"2.0","method":"elicitation/create","params":{},"id":"0"}`
	s.request(1, `1`, "emit", emit(roots+"\n"+elicit+"\n"))
	s.want(workerv1.Frame_KIND_REQUEST, 1, roots)
	s.want(workerv1.Frame_KIND_REQUEST, 2, elicit)
	s.send(workerv1.Frame_KIND_RESPONSE, 2, `{"jsonrpc":"2.0","id":4711,"error":{"code":-1,"message":"no"}}`)
	s.send(workerv1.Frame_KIND_RESPONSE, 1, `{"result":{"roots":[]},"id":4712,"jsonrpc":"2.0"}`)
	s.send(workerv1.Frame_KIND_RESPONSE, 1, `{"result":{},"id":4712,"jsonrpc":"2.0"}`) // a second answer
	s.request(2, `2`, "seen", `{}`)
	seen := seenLines(t, s.next())
	want := []string{`{"jsonrpc":"2.0","id":"0","error":{"code":-1,"message":"no"}}`, `{"result":{"roots":[]},"id":0,"jsonrpc":"2.0"}`}
	if !slices.Equal(seen[1:3], want) || len(seen) != 4 {
		t.Errorf("server saw %q, want %q", seen[1:], want)
	}
}

// EDGE-5: a cancellation names the request as the receiver knows it, in both
// directions.
func TestEDGE5CancelBothWays(t *testing.T) {
	s := start(t, nil).open()
	s.request(11, `"call"`, "hang", `{}`)
	s.send(workerv1.Frame_KIND_CANCEL, 11, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"reason":"r","requestId":"call"}}`)
	s.request(12, `12`, "seen", `{}`)
	seen := seenLines(t, s.next())
	if want := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"reason":"r","requestId":11}}`; seen[1] != want {
		t.Errorf("server saw %s, want %s", seen[1], want)
	}
	// A late answer is still passed on; the supervisor decides.
	s.request(13, `13`, "emit", emit(`{"jsonrpc":"2.0","id":11,"result":{}}`+"\n"))
	s.want(workerv1.Frame_KIND_RESPONSE, 11, ok(`"call"`))

	const request = `{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{}}`
	const cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"s"}}`
	s.request(14, `14`, "emit", emit(request+"\n"+cancel+"\n"+cancel+"\n"+ok("$ID")+"\n"))
	s.want(workerv1.Frame_KIND_REQUEST, 1, request)
	s.want(workerv1.Frame_KIND_CANCEL, 1, cancel)
	s.want(workerv1.Frame_KIND_RESPONSE, 14, ok(`14`))
}

// DRAIN is answered when nothing is under way; a cancelled request and an open
// listen are not.
func TestDrain(t *testing.T) {
	s := start(t, nil).open()
	s.request(1, `1`, methodListen, `{}`)
	s.want(workerv1.Frame_KIND_RESPONSE, 1, ok(`1`)) // this server ends it at once
	s.request(2, `2`, "hang", `{}`)
	s.request(3, `3`, "hang", `{}`)
	s.send(workerv1.Frame_KIND_DRAIN, 0, "")
	s.send(workerv1.Frame_KIND_CANCEL, 2, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	s.request(4, `4`, "emit", emit(ok("$ID")+"\n"+ok("3")+"\n"))
	s.want(workerv1.Frame_KIND_RESPONSE, 4, ok(`4`))
	s.want(workerv1.Frame_KIND_RESPONSE, 3, ok(`3`))
	s.want(workerv1.Frame_KIND_DRAINED, 0, "")
}

// SUP-1, SUP-3: what the server wrote before its end is delivered, then how it
// ended, and the bridge is done.
func TestSUP1AnswerThenExit(t *testing.T) {
	for _, code := range []int32{0, 1, 75} {
		t.Run(strconv.Itoa(int(code)), func(t *testing.T) {
			sup := start(t, nil)
			s := sup.open()
			s.request(1, `1`, "emit_and_exit", strings.Replace(emit(ok("$ID")+"\n"), "}", fmt.Sprintf(`,"code":%d}`, code), 1))
			s.want(workerv1.Frame_KIND_RESPONSE, 1, ok(`1`))
			s.wantExit(code, "")
			select {
			case <-sup.bridge.Ended():
			case <-time.After(patience):
				t.Fatal("bridge has not ended")
			}
			if got := sup.bridge.Exit().Code; got != int(code) {
				t.Errorf("exit code %d, want %d", got, code)
			}
			_, err := sup.open().stream.Recv()
			if status.Code(err) != codes.Unavailable {
				t.Errorf("another session: %v, want Unavailable", err)
			}
		})
	}
}

func TestCrashInCall(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no signals on Windows")
	}
	s := start(t, nil).open()
	s.request(1, `1`, "kill", `{}`)
	s.wantExit(-1, "SIGKILL")
}

// C33: a message that was cut off is not passed on and fails nothing by
// itself; one that is complete but for the line end counts.
func TestC33PartialFrameThenDeath(t *testing.T) {
	sup := start(t, nil)
	s := sup.open()
	s.request(2, `2`, "emit_and_exit", emit(`{"jsonrpc":"2.0","id":$ID,"result":{"text":"cut of`))
	s.wantExit(0, "")
	if reports := sup.stderr(); !strings.Contains(reports, junkPartial) {
		t.Errorf("no report in %q", reports)
	}
}

func TestC33LastLineWithoutLF(t *testing.T) {
	s := start(t, nil).open()
	s.request(2, `2`, "emit_and_exit", emit(`{"jsonrpc":"2.0","id":$ID,"result":{}}`))
	s.want(workerv1.Frame_KIND_RESPONSE, 2, ok(`2`))
	s.wantExit(0, "")
}

// A process that the server left behind holds its stdout: the end is told
// nevertheless, and soon.
func TestGrandchildHoldsStdout(t *testing.T) {
	s := start(t, nil).open()
	begin := time.Now()
	s.request(1, `1`, "leave_grandchild", `{"code":75}`)
	frame := s.next()
	var answer struct{ Result int }
	if err := json.Unmarshal(frame.GetPayload(), &answer); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if p, err := os.FindProcess(answer.Result); err == nil {
			p.Kill()
		}
	}()
	s.wantExit(75, "")
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}

// A session is one life of the child: closing it ends the child, the next gets
// a fresh one, and there is one at a time.
func TestSessionIsOneLife(t *testing.T) {
	sup := start(t, nil)
	first := sup.open()
	first.request(1, `1`, "echo", `{}`)
	first.want(workerv1.Frame_KIND_RESPONSE, 1, ok(`1`))

	if _, err := sup.open().stream.Recv(); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a session beside: %v, want FailedPrecondition", err)
	}
	if err := first.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if frame, err := first.stream.Recv(); err != io.EOF {
		t.Errorf("closed by the supervisor: got %v, %v, want the end without EXIT", frame, err)
	}
	second := sup.open()
	second.request(1, `1`, "seen", `{}`)
	if seen := seenLines(t, second.next()); len(seen) != 1 {
		t.Errorf("not a fresh child: %q", seen)
	}
	second.cancel()
	third := sup.open()
	third.request(1, `1`, "echo", `{}`)
	third.want(workerv1.Frame_KIND_RESPONSE, 1, ok(`1`))
	select {
	case <-sup.bridge.Ended():
		t.Error("bridge has ended with a child that the supervisor closed")
	default:
	}
}

// SUP-20: a server that stops reading blocks neither the frame reader nor
// memory; a request beyond the bound is refused as never sent, a cancellation
// still goes.
func TestSUP20ServerStopsReading(t *testing.T) {
	sup := start(t, nil)
	sup.bridge.queueLimit = 512 << 10
	s := sup.open()
	s.request(1, `1`, "deaf", `{}`)
	s.want(workerv1.Frame_KIND_RESPONSE, 1, ok(`1`))
	pad := `{"pad":"` + strings.Repeat("x", 100<<10) + `"}` // more than a pipe holds
	for n := uint64(2); n < 10; n++ {
		s.request(n, strconv.FormatUint(n, 10), "echo", pad)
	}
	frame := s.next()
	var answer struct{ Error struct{ Data protocol.Error } }
	if err := json.Unmarshal(frame.GetPayload(), &answer); err != nil {
		t.Fatal(err)
	}
	if answer.Error.Data.Kind != protocol.WorkerUnavailable || !answer.Error.Data.Retryable {
		t.Errorf("got %s", frame.GetPayload())
	}
	for n := uint64(2); n < frame.GetId(); n++ {
		s.send(workerv1.Frame_KIND_CANCEL, n, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, n))
	}
	s.send(workerv1.Frame_KIND_REQUEST, 99, `{`) // its refusal comes after all before
	for s.next().GetId() != 99 {
	}
	if reports := sup.stderr(); strings.Contains(reports, "dropped") {
		t.Errorf("reports: %s", reports)
	}
}

// An answer beyond the frame limit fails its request with the real size,
// wherever the id stands, and nothing else.
func TestAnswerTooLarge(t *testing.T) {
	for _, method := range []string{"large", "large_id_last"} {
		t.Run(method, func(t *testing.T) {
			s := start(t, func(c *Config) { c.MaxFrame = 1 << 20 }).open()
			s.request(1, `"big"`, method, `{"size":2000000}`)
			frame := s.next()
			var answer struct {
				ID    string
				Error struct{ Data protocol.Error }
			}
			if err := json.Unmarshal(frame.GetPayload(), &answer); err != nil {
				t.Fatal(err)
			}
			if answer.ID != "big" || answer.Error.Data.Kind != protocol.FrameTooLarge || !strings.Contains(answer.Error.Data.Message, "of 20000") {
				t.Errorf("got %s", frame.GetPayload())
			}
			s.request(2, `2`, "echo", `{}`)
			s.want(workerv1.Frame_KIND_RESPONSE, 2, ok(`2`))
		})
	}
}

// SUP-18: the child gets the environment given, without the handshake.
func TestSUP18Environment(t *testing.T) {
	cookie := protocol.Handshake().MagicCookieKey
	s := start(t, func(c *Config) {
		c.Env = append(protocol.StripHandshake([]string{cookie + "=x", "PLUGIN_CLIENT_CERT=y"}),
			"MINE=1", childVariable+"=server")
	}).open()
	s.request(1, `1`, "env", `{}`)
	env := seenLines(t, s.next())
	if !slices.Contains(env, "MINE=1") {
		t.Errorf("MINE is missing in %q", env)
	}
	for _, kv := range env {
		if name, _, _ := strings.Cut(kv, "="); protocol.IsHandshakeVariable(name) {
			t.Errorf("the child sees %s", kv)
		}
	}
}

// C45: the child writes to the stderr that it inherits, which the bridge does
// not stand between.
func TestC45StderrFlood(t *testing.T) {
	sup := start(t, nil)
	s := sup.open()
	s.request(1, `1`, "flood_stderr", `{}`)
	s.want(workerv1.Frame_KIND_RESPONSE, 1, ok(`1`))
	if n := len(sup.stderr()); n < 256<<10 {
		t.Errorf("%d bytes on stderr", n)
	}
}

// A command that cannot be started fails the session with the cause.
func TestCommandNotFound(t *testing.T) {
	sup := start(t, func(c *Config) { c.Command = "no-such-command-of-holdfast" })
	_, err := sup.open().stream.Recv()
	if status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), "no-such-command-of-holdfast") {
		t.Errorf("got %v", err)
	}
	sup = start(t, func(c *Config) { c.Command = t.TempDir() })
	if _, err := sup.open().stream.Recv(); status.Code(err) != codes.PermissionDenied {
		t.Errorf("got %v", err)
	}
}

// A bad frame of the supervisor is answered or dropped, and harms nothing.
func TestBadFramesFromSupervisor(t *testing.T) {
	s := start(t, nil).open()
	s.send(workerv1.Frame_KIND_REQUEST, 1, `{"jsonrpc":"2.0","id":1,`)
	if frame := s.next(); frame.GetId() != 1 || !strings.Contains(string(frame.GetPayload()), "-32600") {
		t.Errorf("got %v", frame)
	}
	s.send(workerv1.Frame_KIND_CANCEL, 77, `{}`)
	s.send(workerv1.Frame_KIND_RESPONSE, 77, `{}`)
	s.send(workerv1.Frame_Kind(99), 0, `{}`)
	s.request(2, `2`, "echo", `{}`)
	s.want(workerv1.Frame_KIND_RESPONSE, 2, ok(`2`))
}

// Close ends a child that ignores everything, in time.
func TestCloseEndsChild(t *testing.T) {
	sup := start(t, nil)
	s := sup.open()
	s.request(1, `1`, "deaf", `{}`)
	s.want(workerv1.Frame_KIND_RESPONSE, 1, ok(`1`))
	done := make(chan struct{})
	go func() { // ends with the child
		defer close(done)
		sup.bridge.Close()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("not closed")
	}
	<-sup.bridge.slot // for the clean-up's own Close
}
