package generation

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
)

func open(t *testing.T, g *Generation) *Stream {
	t.Helper()
	s, err := g.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func request(id uint64, command string) *workerv1.Frame {
	return &workerv1.Frame{Kind: workerv1.Frame_KIND_REQUEST, Id: id, Payload: []byte(command)}
}

func echo(t *testing.T, s *Stream, id uint64, text string) {
	t.Helper()
	if !s.Send(request(id, "echo "+text), false) {
		t.Fatal("no room")
	}
	f, err := s.Recv()
	if err != nil || f.Id != id || string(f.Payload) != text {
		t.Fatalf("Recv() = %v, %v", f, err)
	}
}

func TestStreams(t *testing.T) {
	h := newHarness(t)
	g := h.start(h.config("good"))
	a, b := open(t, g), open(t, g)
	echo(t, a, 1, "one")
	echo(t, b, 1, "two")
	for id := range uint64(100) { // order is kept
		a.Send(request(id, "echo x"), false)
	}
	for id := range uint64(100) {
		if f, err := a.Recv(); err != nil || f.Id != id {
			t.Fatalf("frame %v, %v, want %d", f, err, id)
		}
	}
	if unsent := a.Close(); len(unsent) > 0 {
		t.Errorf("unsent: %v", unsent)
	}
	if _, err := a.Recv(); err == nil {
		t.Error("a closed stream goes on")
	}
	echo(t, b, 2, "three")
	// SUP-21: the worker ends one session and lives on.
	b.Send(request(3, "close"), false)
	if _, err := b.Recv(); err == nil {
		t.Error("the stream goes on")
	}
	echo(t, open(t, g), 1, "four")
	select {
	case <-g.Done():
		t.Error("the worker is gone")
	default:
	}
}

// SEC-3: what a worker says of its end over the wire is treated as its stderr.
func TestWordsOfAWorker(t *testing.T) {
	h := newHarness(t)
	c := h.config("good")
	c.Stderr.Mask = []string{"correct horse"}
	s := open(t, h.start(c))
	s.Send(request(1, "complain key correct horse \x1b[31mred"), false)
	const want = `key *** \x1b[31mred`
	if f, err := s.Recv(); err != nil || f.GetExit().GetStderrTail() != want+"\nend" {
		t.Errorf("Recv() = %v, %v", f, err)
	}
	if _, err := s.Recv(); status.Convert(err).Message() != want || status.Code(err) != codes.Internal {
		t.Errorf("the stream ends with %v", err)
	}
}

// SUP-20: requests get a part of the room, notifications another, and cancels
// all that they need.
func TestStreamRoom(t *testing.T) {
	s := &Stream{wake: make(chan struct{}, 1)}
	frame := func(k workerv1.Frame_Kind) *workerv1.Frame {
		return &workerv1.Frame{Kind: k, Payload: make([]byte, maxQueued/4)}
	}
	fill := func(k workerv1.Frame_Kind) int {
		n := 0
		for n < 100 && s.Send(frame(k), false) {
			n++
		}
		return n
	}
	requests, notes := fill(workerv1.Frame_KIND_REQUEST), fill(workerv1.Frame_KIND_NOTIFICATION)
	if cancels := fill(workerv1.Frame_KIND_CANCEL); requests != 4 || notes != 4 || cancels != 100 {
		t.Errorf("room for %d requests, %d notifications, %d cancels", requests, notes, cancels)
	}
	if !s.Send(frame(workerv1.Frame_KIND_REQUEST), true) {
		t.Error("no room for a held request")
	}
}

// SUP-1, SUP-13: the end of a worker is seen at once, with its exit, its last
// words, and the answers that it gave before.
func TestLost(t *testing.T) {
	for _, tt := range []struct {
		name, command string
		exit          protocol.Exit
	}{
		{"code", "exit 3", protocol.Exit{Code: 3}},
		{"zero", "exit 0", protocol.Exit{}},
		{"handoff", "exit 75", protocol.Exit{Code: 75}},
		{"signal", "kill", protocol.Exit{Code: -1, Signal: "SIGKILL"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if runtime.GOOS == "windows" && tt.exit.Signal != "" {
				t.Skip("no signals")
			}
			t.Parallel()
			h := newHarness(t)
			g := h.start(h.config("good"))
			p := h.accept()
			s, other := open(t, g), open(t, g)
			s.Send(request(1, "say last words"), false)
			s.Send(request(2, "echo answered"), false)
			s.Send(request(3, "poke"), false)
			h.accept()
			echo(t, other, 1, "x") // the answer on s was written before this one
			other.Send(request(2, tt.command), false)
			if f, err := other.Recv(); err == nil {
				t.Errorf("the stream goes on with %v", f)
			}
			if f, err := s.Recv(); err != nil || string(f.Payload) != "answered" {
				t.Errorf("Recv() = %v, %v", f, err)
			}
			if f, err := s.Recv(); err == nil {
				t.Errorf("the stream goes on with %v", f)
			}
			await(t, "the end", g.Done())
			p.awaitGone()
			if got := g.Exit(); got != tt.exit {
				t.Errorf("Exit() = %+v, want %+v", got, tt.exit)
			}
			if tail := g.Tail(); len(tail) == 0 || tail[len(tail)-1] != "last words" {
				t.Errorf("tail %q", tail)
			}
			g.Stop()
			h.nothingLeft()
		})
	}
}

// A process that holds the pipes of a worker does not hold up its end.
func TestPipesHeld(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a job ends all")
	}
	h := newHarness(t)
	g := h.start(h.config("good"))
	h.accept()
	s := open(t, g)
	s.Send(request(1, "orphan"), false)
	orphan := h.accept()
	defer orphan.kill()
	s.Send(request(2, "exit 4"), false)
	if _, err := s.Recv(); err == nil {
		t.Error("the stream goes on")
	}
	began := time.Now()
	await(t, "the end", g.Done())
	if d := time.Since(began); d > 2*time.Second {
		t.Errorf("Done came %v after the end of the stream", d)
	}
	if got := g.Exit(); got.Code != 4 {
		t.Errorf("Exit() = %+v", got)
	}
}

func TestPipesHeldAtStart(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a job ends all")
	}
	h := newHarness(t)
	began := time.Now()
	_, err := Start(t.Context(), 1, h.config("leaving"))
	if d := time.Since(began); err == nil || !strings.Contains(err.Error(), "exited with code 4") || d > 10*time.Second {
		t.Errorf("after %v: %v", d, err)
	}
	for range 2 {
		if p := h.accept(); p.role == "orphan" {
			p.kill()
		}
	}
}

// A worker that ignores TERM is killed after the grace.
func TestStopStubborn(t *testing.T) {
	h := newHarness(t)
	g := h.start(h.config("stubborn"))
	p := h.accept()
	began := time.Now()
	g.Stop()
	if d := time.Since(began); d > 5*time.Second || runtime.GOOS != "windows" && d < StopGrace {
		t.Errorf("took %v", d)
	}
	await(t, "the end", g.Done())
	p.awaitGone()
	if got := g.Exit(); runtime.GOOS != "windows" && got.Signal != "SIGKILL" {
		t.Errorf("Exit() = %+v", got)
	}
}

// SUP-20: to a worker that does not read, requests are refused beyond the
// bound, cancels go, and what it cannot have seen is known in the end.
func TestDeaf(t *testing.T) {
	h := newHarness(t)
	g := h.start(h.config("deaf"))
	s := open(t, g)
	payload := strings.Repeat("x", 1<<20)
	var last uint64
	for last < 100 && s.Send(request(last+1, payload), false) {
		last++
	}
	if last < maxQueued>>20 || last == 100 {
		t.Fatalf("%d requests of 1 MiB were taken", last)
	}
	cancel := request(last, payload)
	cancel.Kind = workerv1.Frame_KIND_CANCEL
	if !s.Send(cancel, false) {
		t.Error("a cancel was refused")
	}
	if s.Send(request(last+1, payload), false) {
		t.Error("a request was taken beyond the bound")
	}
	began := time.Now()
	unsent := s.Close()
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("Close took %v", d)
	}
	if len(unsent) < maxQueued>>20-1 || len(unsent) > int(last) {
		t.Errorf("%d of %d requests are unsent", len(unsent), last)
	}
	var want []uint64
	for id := last - uint64(len(unsent)) + 1; id <= last; id++ {
		want = append(want, id)
	}
	if !slices.Equal(unsent, want) {
		t.Errorf("unsent %v, want %v", unsent, want)
	}
	// The session alone is over.
	g.Stop()
	h.nothingLeft()
}
