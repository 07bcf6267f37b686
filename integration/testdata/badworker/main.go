// Command badworker is a worker written against protocol/ alone that breaks
// one rule, the one that its argument names (see modes). Without one it breaks
// none, and is the oldest worker that the wire version allows: it declares no
// feature and has no Lifecycle.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
)

// mode is what distinguishes a bad worker.
type mode struct {
	features []string
	wire     int    // 0: the right one
	first    string // printed before the handshake line
	mute     bool   // prints no handshake line
	ends     bool   // exits before the handshake
	newer    bool   // sends what no version has yet
	child    []string
	childEnv bool // the child sees the handshake

	number       func(n uint64, id json.RawMessage) uint64 // of the answer
	silentOn     func(method string) bool
	maxPayload   int // exits beyond
	defaultLimit bool
	pretty       bool
	once         bool // serves one session
	crossed      bool // answers on the session opened last
	ignores      string
}

var modes = map[string]mode{
	"older":  {},
	"newer":  {newer: true, features: []string{"drain", "multi_session", "time_travel"}},
	"banner": {first: "Welcome to the worker\n"},

	"silent":      {mute: true},
	"junk":        {mute: true, first: "Server running on stdio\n"},
	"half a line": {mute: true, first: "1|1|unix\n"},
	"net/rpc":     {mute: true, first: "1|1|unix|/tmp/none|netrpc|\n"},
	"early exit":  {ends: true},
	"other wire":  {wire: 7},

	"wrong number": {number: func(n uint64, id json.RawMessage) uint64 {
		var own uint64
		if json.Unmarshal(id, &own) == nil {
			return own
		}
		return n
	}},
	"unknown method":   {silentOn: func(m string) bool { return m != "initialize" && m != "ping" && m != "server/discover" }},
	"dies of size":     {maxPayload: 1 << 20},
	"default limit":    {defaultLimit: true},
	"never drained":    {features: []string{"drain"}, silentOn: func(m string) bool { return m == drain }},
	"several lines":    {pretty: true},
	"one session":      {once: true},
	"crossed sessions": {features: []string{"multi_session"}, crossed: true},
	"ignores stdin":    {ignores: "stdin"},
	"ignores term":     {ignores: "term"},
	"never exit":       {features: []string{"exit"}, child: []string{os.Args[0], "sleep"}},
	"runaway child":    {child: []string{"setsid", os.Args[0], "sleep"}, childEnv: true},
}

// drain stands for the frame where methods are named.
const drain = "DRAIN"

func main() {
	if len(os.Args) < 2 {
		os.Args = append(os.Args, "older")
	}
	if os.Args[1] == "sleep" {
		<-time.After(time.Hour)
		return
	}
	m, known := modes[os.Args[1]]
	if !known {
		log.Fatalf("no mode %q", os.Args[1])
	}
	if !protocol.StartedBySupervisor(os.Environ()) {
		log.Fatal("badworker is a worker")
	}
	if err := m.run(); err != nil {
		log.Fatal(err)
	}
}

func (m mode) run() error {
	if m.ends {
		fmt.Fprintln(os.Stderr, "cannot find my database")
		os.Exit(3)
	}
	signal.Ignore(os.Interrupt)
	if m.ignores == "term" {
		signal.Ignore(syscall.SIGTERM)
	}
	_, _ = os.Stdout.WriteString(m.first)
	if !m.mute {
		if err := m.serve(); err != nil {
			return err
		}
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	if m.ignores == "stdin" {
		select {}
	}
	return nil
}

func (m mode) serve() error {
	wire := protocol.WireVersion
	if m.wire != 0 {
		wire = m.wire
	}
	socket := filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	options := protocol.ServerOptions(protocol.DefaultMaxFrame)
	if m.defaultLimit {
		options = nil
	}
	server := grpc.NewServer(options...)
	workerv1.RegisterWorkerServiceServer(server, &worker{mode: m})
	go func() { _ = server.Serve(listener) }() // ends with the process
	if len(m.child) > 0 {
		child := exec.Command(m.child[0], m.child[1:]...)
		if !m.childEnv {
			child.Env = protocol.StripHandshake(os.Environ())
		}
		if err := child.Start(); err != nil {
			return err
		}
	}
	fmt.Printf("1|%d|unix|%s|grpc|\n", wire, socket)
	return nil
}

type worker struct {
	workerv1.UnimplementedWorkerServiceServer

	mode mode

	mu       sync.Mutex
	sessions int
	last     workerv1.WorkerService_SessionServer
}

func (w *worker) Describe(context.Context, *workerv1.DescribeRequest) (*workerv1.DescribeResponse, error) {
	info := &workerv1.DescribeResponse{
		Name: "badworker", Pid: int64(os.Getpid()), StartTimeUnixMs: time.Now().UnixMilli(), Features: w.mode.features,
	}
	if w.mode.newer {
		info.ProtoReflect().SetUnknown(unknownFields())
	}
	return info, nil
}

func unknownFields() []byte {
	return protowire.AppendString(protowire.AppendTag(nil, 1999, protowire.BytesType), "of a later version")
}

func (w *worker) Session(stream workerv1.WorkerService_SessionServer) error {
	w.mu.Lock()
	w.sessions++
	first := w.sessions == 1
	w.last = stream
	w.mu.Unlock()
	if w.mode.once && !first {
		return status.Error(codes.ResourceExhausted, "one session is enough")
	}
	for {
		frame, err := stream.Recv()
		if err != nil {
			return nil
		}
		if err := w.take(stream, frame); err != nil {
			return err
		}
	}
}

func (w *worker) take(stream workerv1.WorkerService_SessionServer, frame *workerv1.Frame) error {
	m := w.mode
	if m.maxPayload > 0 && len(frame.GetPayload()) > m.maxPayload {
		os.Exit(1)
	}
	if m.crossed {
		w.mu.Lock()
		stream = w.last
		w.mu.Unlock()
	}
	switch frame.GetKind() {
	case workerv1.Frame_KIND_DRAIN:
		if m.silentOn != nil && m.silentOn(drain) {
			return nil
		}
		return stream.Send(&workerv1.Frame{Kind: workerv1.Frame_KIND_DRAINED})
	case workerv1.Frame_KIND_REQUEST:
	default:
		return nil
	}
	var request struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if err := json.Unmarshal(frame.GetPayload(), &request); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if m.silentOn != nil && m.silentOn(request.Method) {
		return nil
	}
	answer := &workerv1.Frame{
		Kind: workerv1.Frame_KIND_RESPONSE, Id: frame.GetId(), Payload: payload(request.ID, request.Method),
	}
	if m.number != nil {
		answer.Id = m.number(frame.GetId(), request.ID)
	}
	if m.pretty {
		answer.Payload = []byte(strings.Replace(string(answer.Payload), "{", "{\n  ", 1))
	}
	if m.newer {
		if err := stream.Send(&workerv1.Frame{Kind: 99, Id: 5, Payload: []byte("of a later version")}); err != nil {
			return err
		}
		answer.ProtoReflect().SetUnknown(unknownFields())
	}
	return stream.Send(answer)
}

// payload is the answer of the smallest server of the legacy era.
func payload(id json.RawMessage, method string) []byte {
	switch method {
	case "initialize":
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},`+
			`"serverInfo":{"name":"badworker","version":"1"}}}`, id)
	case "ping":
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{}}`, id)
	case "tools/list":
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[]}}`, id)
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, id)
}
