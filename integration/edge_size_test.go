package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/integration/harness"
	"github.com/holdfast-mcp/holdfast/protocol"
)

const mib = 1 << 20

// How large, in KiB, holdfast or the bridge may get while it meets what it must
// not keep: queues have their limits, and a buffer that grows up to the frame
// limit takes a multiple of it for a moment.
const (
	queuesKB = 160 << 10
	frameKB  = 4 * protocol.DefaultMaxFrame >> 10
)

// paddedCall is a tools/call whose line has n bytes, its LF not counted.
func paddedCall(id, tool string, n int) string {
	head := `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":{"text":"`
	const tail = `"}}}`
	return head + strings.Repeat("p", max(0, n-len(head)-len(tail))) + tail
}

// TestC31FrameSizes: C31, EDGE-4. Frames of sizes around those of buffers, and
// large ones, pass in both directions unharmed.
func TestC31FrameSizes(t *testing.T) {
	c := startHostile(t, nil)
	c.Initialize()
	for _, n := range []int{65_535, 65_536, 65_537, 131_072, 5 * mib, 10 * mib} {
		id := fmt.Sprintf(`"up%d"`, n)
		c.Send(paddedCall(id, "size", n))
		f := c.WaitFor("the answer to "+id, func(f harness.Frame) bool { return string(f.ID) == id })
		var got int
		// The bridge writes a number in place of the id.
		if _, err := fmt.Sscan(f.Text(t), &got); err != nil || got > n || got < n-len(id) {
			t.Errorf("of %d bytes the server got %d", n, got)
		}
		p := send(c, order{Answer: n})
		if text := p.Wait().Text(t); strings.Trim(text, "a") != "" || len(text) < n-100 {
			t.Errorf("the answer of %d bytes has %d of text", n, len(text))
		}
	}
}

// TestC31TestServer: C31, EDGE-4. The same with a server of the Go SDK, native
// and bridged: 10 MB each way.
func TestC31TestServer(t *testing.T) {
	eachSupervised(t, func(t *testing.T, v variant) {
		c := startTestServer(t, v)
		c.Initialize()
		for _, n := range []int{65_536, 10 * mib} {
			text := strings.Repeat("é", n/2)
			if got := c.CallTool("echo", map[string]any{"text": text}).Text(t); got != text {
				t.Errorf("%d bytes came back as %d", len(text), len(got))
			}
		}
	})
}

// TestC31Chunks: C31, EDGE-4. A large frame that arrives in small pieces takes
// time in proportion to its size, in both directions.
func TestC31Chunks(t *testing.T) {
	// Each piece is a system call on either side.
	bytewise := 512 << 10
	if os.Getenv("HOLDFAST_EXTENDED") != "" {
		bytewise = 5 * mib
	}
	c := startHostile(t, nil)
	c.Initialize()
	for _, tt := range []struct{ size, piece int }{{5 * mib, 4 << 10}, {bytewise, 1}} {
		t.Run(fmt.Sprintf("%d", tt.piece), func(t *testing.T) {
			line := []byte(paddedCall(`"c`+fmt.Sprint(tt.piece)+`"`, "size", tt.size) + "\n")
			began := time.Now()
			for len(line) > 0 {
				n := min(tt.piece, len(line))
				c.Write(line[:n])
				line = line[n:]
			}
			c.WaitFor("the answer", func(f harness.Frame) bool { return string(f.ID) == `"c`+fmt.Sprint(tt.piece)+`"` }).Text(t)
			up := time.Since(began)
			stdout := []byte(`{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"` + strings.Repeat("d", tt.size) + `"}]}}` + "\n")
			began = time.Now()
			p := send(c, order{Stdout: stdout, Piece: tt.piece, Instead: "nothing"})
			if got := p.Wait().Text(t); got != strings.Repeat("d", tt.size) {
				t.Errorf("%d bytes came back as %d", tt.size, len(got))
			}
			t.Logf("%d bytes in pieces of %d: %v to the server, %v back", tt.size, tt.piece, up.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
		})
	}
}

// TestEDGE4TooLarge: EDGE-4. A message beyond the limit, in either direction,
// is an error for its id that names its size; all else goes on. At the limit
// it passes.
func TestEDGE4TooLarge(t *testing.T) {
	const limit = protocol.DefaultMaxFrame
	c := startHostile(t, nil)
	c.Initialize()
	pid := c.CallTool("pid", nil).Text(t)
	refused := func(t *testing.T, f harness.Frame, size int) {
		t.Helper()
		e := f.Typed()
		if e == nil || e.Kind != protocol.FrameTooLarge || !strings.Contains(e.Message, fmt.Sprint(size)) {
			t.Errorf("%d bytes are answered with %.400s", size, f.Raw)
		}
	}
	t.Run("from the client", func(t *testing.T) {
		c.Send(paddedCall(`"big"`, "size", limit+1))
		refused(t, c.WaitFor("the refusal", func(f harness.Frame) bool { return string(f.ID) == `"big"` }), limit+1)
		// With its id at the end, as the TypeScript SDK writes it.
		line := `{"method":"tools/call","params":{"name":"size","arguments":{"text":"` + strings.Repeat("p", limit) + `"}},"jsonrpc":"2.0","id":"late"}`
		c.Send(line)
		refused(t, c.WaitFor("the refusal", func(f harness.Frame) bool { return string(f.ID) == `"late"` }), len(line))
	})
	t.Run("from the server", func(t *testing.T) {
		p := send(c, order{Answer: limit + 1})
		other := c.Request("tools/call", harness.Call("pid", nil))
		refused(t, p.Wait(), limit+1)
		if got := other.Wait().Text(t); got != pid {
			t.Errorf("the other call got %q", got)
		}
	})
	t.Run("at the limit", func(t *testing.T) {
		if f := send(c, order{Answer: limit}).Wait(); len(f.Text(t)) < limit-100 {
			t.Errorf("an answer at the limit: %.300s", f.Raw)
		}
		c.Send(paddedCall(`"max"`, "size", limit))
		c.WaitFor("the answer", func(f harness.Frame) bool { return string(f.ID) == `"max"` }).Text(t)
	})
	if got := c.CallTool("pid", nil).Text(t); got != pid {
		t.Error("the server was replaced")
	}
}

// TestEDGE4NativeTooLarge: EDGE-4. The same for a native worker's results.
func TestEDGE4NativeTooLarge(t *testing.T) {
	c := harness.Start(t, harness.Config{Command: harness.Native(t, []string{"--max-frame", "1MiB"}, harness.TestServer(t))})
	c.Initialize()
	pid := c.CallTool("pid", nil).Text(t)
	f := c.CallTool("big", map[string]any{"bytes": 2 * mib})
	if e := f.Typed(); e == nil || e.Kind != protocol.FrameTooLarge || !strings.Contains(e.Message, "2097") {
		t.Errorf("a large result is answered with %.300s", f.Raw)
	}
	if got := c.CallTool("pid", nil).Text(t); got != pid {
		t.Error("the worker was replaced")
	}
}

// TestEDGE4LargeResultIsLogged: EDGE-4. A result over 10 MB, at which common
// clients end the connection, passes and leaves a warning in the log.
func TestEDGE4LargeResultIsLogged(t *testing.T) {
	eachSupervised(t, func(t *testing.T, v variant) {
		file := filepath.Join(t.TempDir(), "log")
		c := harness.Start(t, harness.Config{Command: v.command(t, []string{"--log-file", file}, harness.TestServer(t))})
		c.Initialize()
		c.CallTool("big", map[string]any{"bytes": 9 * mib}).Text(t)
		c.CallTool("big", map[string]any{"bytes": 11 * mib}).Text(t)
		warnings := func() int {
			n := 0
			for _, l := range logLines(t, file) {
				if l.Level == "warn" && strings.Contains(l.Msg, "large result") {
					n++
				}
			}
			return n
		}
		harness.Await(t, "the warning", func() bool { return warnings() > 0 })
		if n := warnings(); n != 1 {
			t.Errorf("%d warnings for one result over 10 MB", n)
		}
	})
}

// logLine is a line of a log file.
type logLine struct {
	Level string `json:"level"`
	Msg   string `json:"msg"`
}

func logLines(t *testing.T, file string) []logLine {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var lines []logLine
	for text := range strings.Lines(string(b)) {
		var l logLine
		if json.Unmarshal([]byte(text), &l) == nil {
			lines = append(lines, l)
		}
	}
	return lines
}

// TestEDGE4EndlessLine: EDGE-4. A line without end, from the client or from
// the server, costs bounded memory in holdfast and in the bridge, and the
// stream goes on behind it.
func TestEDGE4EndlessLine(t *testing.T) {
	harness.RequireLinux(t)
	const size = 600 * mib
	t.Run("from the client", func(t *testing.T) {
		c := startHostile(t, nil)
		c.Initialize()
		chunk := []byte(strings.Repeat("x", mib))
		peak := peakOf(t, c.Process().Pid, func() {
			for range size / mib {
				c.Write(chunk)
			}
			c.Send("")
			c.CallTool("pid", nil).Text(t)
		})
		t.Logf("holdfast had at most %d KiB while %d MiB came", peak, size/mib)
		if peak == 0 || peak > frameKB {
			t.Errorf("holdfast grew to %d KiB", peak)
		}
		f := c.WaitFor("the refusal", func(f harness.Frame) bool { return f.Error != nil })
		if !strings.Contains(string(f.Raw), fmt.Sprint(size)) || f.ID != nil {
			t.Errorf("the endless line was answered with %.300s", f.Raw)
		}
	})
	t.Run("from the server", func(t *testing.T) {
		c := startHostile(t, nil)
		c.Initialize()
		bridge := bridgeOf(t, c)
		var inBridge int
		peak := peakOf(t, c.Process().Pid, func() {
			inBridge = peakOf(t, bridge, func() { send(c, order{Endless: size}).Wait().Text(t) })
		})
		t.Logf("holdfast had at most %d KiB and the bridge %d KiB while %d MiB came", peak, inBridge, size/mib)
		if peak == 0 || peak > frameKB || inBridge == 0 || inBridge > frameKB {
			t.Errorf("holdfast grew to %d KiB, the bridge to %d KiB", peak, inBridge)
		}
		harness.Await(t, "the report", func() bool { return strings.Contains(c.Stderr(), "a line beyond the limit") })
	})
}

// bridgeOf returns the process id of the bridge.
func bridgeOf(t *testing.T, c *harness.Client) int {
	t.Helper()
	for _, p := range c.Descendants() {
		if len(p.Args) > 1 && p.Args[1] == "bridge" {
			return p.PID
		}
	}
	t.Fatal("there is no bridge")
	return 0
}

// TestEDGE4ClientDoesNotRead: EDGE-4, SUP-20. While the client sleeps, 100,000
// notifications of the server cost bounded memory; once it reads, it gets all
// of them, in order, and its other calls are unharmed.
func TestEDGE4ClientDoesNotRead(t *testing.T) {
	harness.RequireLinux(t)
	const notes = 100_000
	c := startRaw(t, harness.Bridged(t, nil, badServer(t, "hostile")...))
	c.initialize()
	b, err := json.Marshal(do(order{Notes: notes}))
	if err != nil {
		t.Fatal(err)
	}
	bridge := 0
	harness.Await(t, "the bridge", func() bool {
		for _, p := range harness.Marked(t, c.mark) {
			if len(p.Args) > 1 && p.Args[1] == "bridge" {
				bridge = p.PID
			}
		}
		return bridge != 0
	})
	var inBridge, before int
	peak := c.peak(func() {
		inBridge = peakOf(t, bridge, func() {
			c.must(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + string(b) + `}`)
			c.must(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"pid"}}`)
			// What is in flight fills all buffers, until nothing moves any more.
			steady(t, c.cmd.Process.Pid)
			c.must(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
			for range notes {
				if _, n := c.until(`"data":"note ` + fmt.Sprint(before) + ` `); n > 1 {
					t.Fatalf("%d lines came before note %d", n, before)
				}
				before++
			}
		})
	})
	c.until(`"id":1`)
	c.until(`"id":2`)
	t.Logf("holdfast had at most %d KiB and the bridge %d KiB for %d notifications of 2 KB", peak, inBridge, notes)
	if peak == 0 || peak > queuesKB || inBridge > queuesKB {
		t.Errorf("holdfast grew to %d KiB, the bridge to %d KiB", peak, inBridge)
	}
}

// steady waits until the process takes no more time of the processor.
func steady(t *testing.T, pid int) {
	t.Helper()
	last, since := -1, time.Now()
	harness.Await(t, "rest", func() bool {
		if now := cpuTicks(t, pid); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 300*time.Millisecond
	})
}

// cpuTicks is how much processor time a living process has used, in hundredths
// of a second.
func cpuTicks(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	// The name of the program, in parentheses, may have blanks.
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	var user, system int
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		t.Fatal(err)
	}
	return user + system
}

// TestEDGE4PingFlood: EDGE-4. A client that asks and asks without reading is
// no longer read at some point, at bounded memory, and gets every answer once
// it reads.
func TestEDGE4PingFlood(t *testing.T) {
	harness.RequireLinux(t)
	c := startRaw(t, harness.Bridged(t, nil, badServer(t, "hostile")...))
	c.initialize()
	pad := strings.Repeat("p", 4000)
	sent := 0
	peak := c.peak(func() {
		// Each refused line is echoed with an answer; ids are long, so that
		// answers are.
		for sent < 100_000 && c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"%d %s","method":"ping"}`, sent, pad), 2*time.Second) {
			sent++
		}
		t.Logf("after %d pings of 4 KB holdfast reads no more", sent)
		if sent == 100_000 {
			t.Error("holdfast took 400 MB of pings that nobody waits for the answers of")
		}
		for i := range sent {
			if _, n := c.until(fmt.Sprintf(`"id":"%d `, i)); n != 0 {
				t.Fatalf("%d lines came before answer %d", n, i)
			}
		}
	})
	t.Logf("holdfast had at most %d KiB", peak)
	if peak == 0 || peak > queuesKB {
		t.Errorf("holdfast grew to %d KiB", peak)
	}
	// The ping that was cut off by the deadline goes on.
	_, _ = io.WriteString(c.in, "\n")
}
