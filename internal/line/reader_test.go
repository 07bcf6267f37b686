package line_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/holdfast-mcp/holdfast/internal/line"
)

// chunks is a reader that returns at most n bytes at a time.
type chunks struct {
	r io.Reader
	n int
}

func (c chunks) Read(p []byte) (int, error) { return c.r.Read(p[:min(len(p), c.n)]) }

// all reads everything and says of a message too long only that.
func all(t *testing.T, r *line.Reader) []string {
	t.Helper()
	var got []string
	for {
		b, err := r.Next()
		if tooLong, ok := errors.AsType[*line.TooLongError](err); ok {
			got = append(got, fmt.Sprintf("<%d>", tooLong.Size))
			continue
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Errorf("ended with %v", err)
			}
			return got
		}
		if cap(b) <= len(b) {
			t.Errorf("no room behind %d bytes", len(b))
		}
		got = append(got, string(b))
	}
}

// EDGE-2, C33.
func TestReaderFraming(t *testing.T) {
	const limit = 24
	long := strings.Repeat("x", limit)
	tests := []struct {
		name, in string
		want     []string
	}{
		{"empty", "", nil},
		{"LF", "a\nb\n", []string{"a", "b"}},
		{"CRLF", "a\r\nb\r\n", []string{"a", "b"}},
		{"blank lines", "\n\r\n \t\na\n\n\n", []string{"a"}},
		{"C33 last line without LF", "a\nb", []string{"a", "b"}},
		{"C33 last line with CR only", "a\r", []string{"a"}},
		{"byte order mark", "\xEF\xBB\xBFa\n\xEF\xBB\xBFb\n", []string{"a", "\xEF\xBB\xBFb"}},
		{"part of a mark", "\xEF\xBBa\n", []string{"\xEF\xBBa"}},
		{"less than a mark", "\xEF", []string{"\xEF"}},
		{"only a mark", "\xEF\xBB\xBF", nil},
		{"inner CR", "a\rb\n", []string{"a\rb"}},
		{"C29 junk", "\xFF\xFE\n{}\n", []string{"\xFF\xFE", "{}"}},
		{"limit", long + "\r\n" + long + "y\r\n" + long + "yz\na\n", []string{long, "<25>", "<26>", "a"}},
		{"limit behind a mark", "\xEF\xBB\xBF" + long, []string{long}},
		{"too long at the end", long + "y", []string{"<25>"}},
		{"too long at the end with CR", long + "yz\r", []string{"<26>"}},

		{"Content-Length", "Content-Length: 2\r\n\r\n{}", []string{"{}"}},
		{"two of them", "Content-Length: 2\r\n\r\n{}Content-Length:3\r\n\r\n{ }", []string{"{}", "{ }"}},
		{"other headers, any case", "content-type: a/b; c=d\r\nCONTENT-LENGTH: 2\r\nX-Y: z\r\n\r\n{}\n[]\n", []string{"{}", "[]"}},
		{"LF headers", "Content-Length: 2\n\n{}\n", []string{"{}"}},
		{"mark before", "\xEF\xBB\xBFContent-Length: 2\r\n\r\n{}", []string{"{}"}},
		{"body with LF", "Content-Length: 4\r\n\r\n{\r\n}", []string{"{\r\n}"}},
		{"body cut", "Content-Length: 4\r\n\r\n{}", []string{"{}"}},
		{"no body", "Content-Length: 0\r\n\r\n{}\n", []string{"{}"}},
		{"body missing", "Content-Length: 4\r\n\r\n", nil},
		{"body too long", "Content-Length: 26\r\n\r\n" + long + "\r\r{}\n", []string{"<26>", "{}"}},
		{"stray header", "Content-Length: 4\n{\"a\":1}\n{}\n", []string{"{\"a\":1}", "{}"}},
		{"no length", "Content-Length: x\n{}\n", []string{"Content-Length: x", "{}"}},
		{"negative length", "Content-Length:-1\n{}\n", []string{"Content-Length:-1", "{}"}},
		{"length beyond", "content-length:9223372036854775808\n", []string{"<34>"}},
		{"blank behind type only", "content-type: a\n\n{}\n", []string{"{}"}},
	}
	for _, tt := range tests {
		for _, n := range []int{1, 2, 3, 1 << 20} {
			t.Run(fmt.Sprintf("%s/%d", tt.name, n), func(t *testing.T) {
				got := all(t, line.NewReader(chunks{strings.NewReader(tt.in), n}, limit))
				if fmt.Sprint(got) != fmt.Sprint(tt.want) {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			})
		}
	}
}

// C31.
func TestReaderC31SizesAroundBufferBoundaries(t *testing.T) {
	for _, size := range []int{65_534, 65_535, 65_536, 65_537, 131_071, 131_072, 131_073, 5 << 20} {
		for _, n := range []int{4 << 10, 1 << 20} {
			want := bytes.Repeat([]byte("0123456789"), size/10+1)[:size]
			in := "{}\n" + string(want) + "\r\n[]\n"
			got := all(t, line.NewReader(chunks{strings.NewReader(in), n}, 64<<20))
			if len(got) != 3 || got[0] != "{}" || got[1] != string(want) || got[2] != "[]" {
				t.Errorf("size %d in chunks of %d: %d messages", size, n, len(got))
			}
		}
	}
}

// C31: linear time, or these were 12 million million steps.
func TestReaderC31ByteByByte(t *testing.T) {
	want := strings.Repeat("x", 5<<20)
	start := time.Now()
	got := all(t, line.NewReader(iotest.OneByteReader(strings.NewReader(want+"\n")), 64<<20))
	if len(got) != 1 || got[0] != want {
		t.Errorf("%d messages", len(got))
	}
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("took %v", d)
	}
}

// C29: a code point split across two reads.
func TestReaderC29SplitCodePoint(t *testing.T) {
	want := strings.Repeat("é", 4096)
	got := all(t, line.NewReader(chunks{strings.NewReader("x" + want + "\n"), 4096}, 64<<20))
	if len(got) != 1 || got[0] != "x"+want {
		t.Errorf("got %d messages", len(got))
	}
}

// EDGE-4.
func TestReaderTooLongKeepsBothEnds(t *testing.T) {
	const limit, size = 100 << 10, 1 << 20
	long := make([]byte, size)
	for i := range long {
		long[i] = 'a' + byte(i%23)
	}
	for _, n := range []int{1, 1000, 1 << 20} {
		for _, in := range []string{string(long) + "\r\n{}\n", fmt.Sprintf("Content-Length: %d\r\n\r\n%s{}", size, long)} {
			r := line.NewReader(chunks{strings.NewReader(in), n}, limit)
			_, err := r.Next()
			tooLong, ok := errors.AsType[*line.TooLongError](err)
			if !ok {
				t.Fatalf("error %v", err)
			}
			if tooLong.Size != size || tooLong.Limit != limit {
				t.Errorf("size %d, limit %d", tooLong.Size, tooLong.Limit)
			}
			if !bytes.Equal(tooLong.Head, long[:64<<10]) || !bytes.Equal(tooLong.Tail, long[size-64<<10:]) {
				t.Errorf("chunks of %d: %d bytes of head and %d of tail are not the ends", n, len(tooLong.Head), len(tooLong.Tail))
			}
			if b, err := r.Next(); string(b) != "{}" || err != nil {
				t.Errorf("then %q, %v", b, err)
			}
		}
	}
}

// EDGE-4: an endless line costs bounded memory.
func TestReaderEndlessLineIsBounded(t *testing.T) {
	in := io.LimitReader(repeat(bytes.Repeat([]byte{'x'}, 64<<10)), 256<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := line.NewReader(in, 1<<20).Next()
	runtime.ReadMemStats(&after)
	if tooLong, ok := errors.AsType[*line.TooLongError](err); !ok || tooLong.Size != 256<<20 {
		t.Error(err)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 8<<20 {
		t.Errorf("%d bytes allocated", got)
	}
}

// repeat is an endless stream of its bytes.
type repeat []byte

func (r repeat) Read(p []byte) (int, error) { return copy(p, r), nil }

func TestReaderErrors(t *testing.T) {
	broken := errors.New("broken")
	r := line.NewReader(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)), 100)
	for _, want := range []string{"a", "b"} {
		if b, err := r.Next(); string(b) != want || err != nil {
			t.Errorf("got %q, %v; want %q", b, err, want)
		}
	}
	for range 2 {
		if b, err := r.Next(); !errors.Is(err, broken) {
			t.Errorf("got %q, %v", b, err)
		}
	}
	if _, err := line.NewReader(repeat(nil), 100).Next(); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that returns nothing: %v", err)
	}
}

// FuzzReader compares with a model that has everything at once.
func FuzzReader(f *testing.F) {
	for _, s := range []string{
		"a\nb\r\n\n c", "\xEF\xBB\xBFa\n", "\xFF\xFE\n{}", "0123456789abcdefgh\r\nx", "0123456789abcdef\r\r\n",
		"Content-Length: 2\r\n\r\n{}",
	} {
		f.Add([]byte(s), uint8(1), uint8(16))
	}
	f.Fuzz(func(t *testing.T, in []byte, n, limit uint8) {
		got := all(t, line.NewReader(chunks{bytes.NewReader(in), int(n) + 1}, int(limit)))
		if bytes.Contains(bytes.ToLower(in), []byte("content-")) {
			return // beyond the model
		}
		var want []string
		for b := range bytes.SplitSeq(bytes.TrimPrefix(in, []byte("\xEF\xBB\xBF")), []byte("\n")) {
			b = bytes.TrimSuffix(b, []byte("\r"))
			switch {
			case len(b) > int(limit):
				want = append(want, fmt.Sprintf("<%d>", len(b)))
			case len(bytes.Trim(b, " \t\r")) > 0:
				want = append(want, string(b))
			}
		}
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func BenchmarkReader(b *testing.B) {
	for _, size := range []int{64, 4 << 10, 256 << 10, 4 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			in := append(bytes.Repeat([]byte{'x'}, size-1), '\n')
			r := line.NewReader(&loop{in: in}, 64<<20)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Next(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// loop returns its bytes over and over.
type loop struct {
	in []byte
	i  int
}

func (l *loop) Read(p []byte) (int, error) {
	n := copy(p, l.in[l.i:])
	l.i = (l.i + n) % len(l.in)
	return n, nil
}
