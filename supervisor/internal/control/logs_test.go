package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/internal/logging"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/rundir"
)

func logLine(n int) []byte { return fmt.Appendf(nil, `{"msg":"line %d"}`+"\n", n) }

func write(t *testing.T, log *logging.Recent, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		if _, err := log.Write(logLine(n)); err != nil {
			t.Fatal(err)
		}
	}
}

// The last lines of what is kept come in their order.
func TestLogs(t *testing.T) {
	inTemp(t)
	log := logging.NewRecent(100, 0)
	write(t, log, 0, 150)
	one, stop := serveOne(t, fake{log: log})
	defer stop()
	for last, first := range map[int]int{-1: 50, 1000: 50, 100: 50, 3: 147, 1: 149, 0: 150} {
		want := first
		err := one.Logs(t.Context(), last, false, func(line []byte) error {
			if string(line)+"\n" != string(logLine(want)) {
				t.Errorf("last %d: %s instead of line %d", last, line, want)
			}
			want++
			return nil
		})
		if err != nil || want != 150 {
			t.Errorf("last %d: %v, up to %d", last, err, want)
		}
	}
	told := errors.New("enough")
	if err := one.Logs(t.Context(), 5, false, func([]byte) error { return told }); !errors.Is(err, told) {
		t.Errorf("Logs() = %v", err)
	}
}

// Who follows gets what is written, to the last line before the end, and then
// the end.
func TestLogsFollow(t *testing.T) {
	inTemp(t)
	log := logging.NewRecent(0, 0)
	write(t, log, 0, 10)
	one, stop := serveOne(t, fake{log: log})
	got := make(chan string)
	ended := make(chan error, 1)
	go func() { // ends with the server
		ended <- one.Logs(t.Context(), 2, true, func(line []byte) error {
			got <- string(line) + "\n"
			return nil
		})
	}()
	for n := 8; n < 20; n++ {
		if n >= 10 {
			write(t, log, n, n+1)
		}
		if line := <-got; line != string(logLine(n)) {
			t.Fatalf("%s instead of line %d", line, n)
		}
	}
	var rest []string
	var reader sync.WaitGroup
	reader.Go(func() { // ends with Logs
		for {
			select {
			case line := <-got:
				rest = append(rest, line)
			case err := <-ended:
				if err != nil {
					t.Errorf("Logs() = %v", err)
				}
				return
			}
		}
	})
	write(t, log, 20, 25)
	stop()
	reader.Wait()
	want := []string{string(logLine(20)), string(logLine(21)), string(logLine(22)), string(logLine(23)), string(logLine(24))}
	if !slices.Equal(rest, want) {
		t.Errorf("the rest is %q", rest)
	}
}

func TestLogsInterrupted(t *testing.T) {
	inTemp(t)
	one, stop := serveOne(t, fake{log: logging.NewRecent(0, 0)})
	defer stop()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- one.Logs(ctx, 0, true, func([]byte) error { return nil }) }() // ends with ctx
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Logs() = %v", err)
	}
}

// A reader that does not read keeps nobody from writing, and learns how much it
// has missed. One that never reads on does not keep the supervisor from ending.
func TestLogsSlowReader(t *testing.T) {
	inTemp(t)
	log := logging.NewRecent(100, 0)
	dir, stop := serve(t, fake{log: log})
	follow := func() net.Conn {
		conn, err := net.Dial("unix", rundir.Control(dir.Path))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "GET /logs/follow HTTP/1.1\r\nHost: holdfast\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	slow, deaf := follow(), follow()
	defer slow.Close()
	defer deaf.Close()
	if _, err := io.ReadFull(slow, make([]byte, 1)); err != nil { // it is being answered
		t.Fatal(err)
	}
	long := []byte(`{"msg":"` + strings.Repeat("x", 10_000) + `"}`)
	began := time.Now()
	for range 5000 { // 50 MB: more than any socket takes
		if _, err := log.Write(long); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("writing took %v", took)
	}
	if err := slow.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(slow)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal("no line says that some are missing: ", err)
		}
		if strings.Contains(line, "lines are missing here") {
			break
		}
	}
	began = time.Now()
	stop()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the end took %v", took)
	}
}
