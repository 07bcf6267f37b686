package control

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/internal/logging"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/rundir"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/supervise"
)

// SEC-5: whoever sends anything but a request, or never ends one, gets nothing
// done and keeps nobody else from an answer.
func TestSEC5Garbage(t *testing.T) {
	inTemp(t)
	dir, stop := serve(t, fake{
		status: Status{Pid: 41},
		swap: func(context.Context) (supervise.Outcome, error) {
			t.Error("swapped")
			return supervise.Outcome{}, nil
		},
		stop: func() { t.Error("stopped") },
	})
	var open []net.Conn
	for _, garbage := range []string{
		"", "\n", "\x00\x01\x02", "GET", "GET /status", "POST /swap HTTP/1.1\r\n", "POST /swap HTTP/9.9\r\nHost: x\r\n\r\n",
		"POST /stop HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\n\r\n", "POST /stop\r\n\r\n", "/stop\r\n\r\n",
		"POST /stop HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n/bin/\r\n",
		"POST /swap HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "CONNECT /stop HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST /stop HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("a", 1<<20) + "\r\n\r\n",
		`{"jsonrpc":"2.0","id":1,"method":"initialize"}` + "\n",
	} {
		conn, err := net.Dial("unix", rundir.Control(dir.Path))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, garbage) // which may be cut off by the answer
		open = append(open, conn)
	}
	if got := ask(t.Context(), dir.Path); got.Status.Pid != 41 {
		t.Errorf("status beside garbage: %+v", got)
	}
	stop() // ends beside them as well
	for _, conn := range open {
		conn.Close()
	}
}

// SEC-5: nothing but a bare POST of the two paths has an effect, whatever else
// it brings.
func FuzzRequest(f *testing.F) {
	f.Add("POST", "/swap", "", []byte(nil))
	f.Add("POST", "/stop", "", []byte(nil))
	f.Add("POST", "/stop", "command=rm", []byte(nil))
	f.Add("GET", "/swap", "", []byte(`{"env":["A=b"]}`))
	f.Add("POST", "//swap", "", []byte(nil))
	f.Add("CONNECT", "/stop/..", "", []byte(nil))
	f.Add("GET", "/logs", "", []byte(nil))
	f.Add("", "", "", []byte(nil))
	f.Fuzz(func(t *testing.T, method, path, query string, body []byte) {
		done := ""
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // nothing is waited for
		handler := withoutParameters(routes(ctx, fake{
			swap: func(context.Context) (supervise.Outcome, error) {
				done += "/swap"
				return supervise.Outcome{}, nil
			},
			stop: func() { done += "/stop" },
			log:  logging.NewRecent(0, 0),
		}))
		r := &http.Request{
			Method: method, URL: &url.URL{Path: path, RawQuery: query}, Host: "holdfast", Header: http.Header{}, RequestURI: path,
			Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), ProtoMajor: 1, ProtoMinor: 1,
		}
		handler.ServeHTTP(httptest.NewRecorder(), r.WithContext(t.Context()))
		want := ""
		if method == http.MethodPost && query == "" && len(body) == 0 && (path == "/swap" || path == "/stop") {
			want = path
		}
		if done != want {
			t.Errorf("%q %q?%q with %q does %q", method, path, query, body, done)
		}
	})
}
