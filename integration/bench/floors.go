package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// be runs one of the small programs that targets are made of.
func be(what string, args []string, stdin io.Reader, stdout io.Writer) error {
	switch {
	case what == "echo":
		return echo(stdin, stdout)
	case what == "passthrough" && len(args) > 0:
		return passThrough(args, stdin, stdout)
	case what == "http":
		return serveHTTP(stdin, stdout)
	}
	return fmt.Errorf("cannot be %q with arguments %q", what, args)
}

// echo answers calls as the server does, but finds the text and the id by
// their place in the lines of this program: what is left is the cost of the
// pipes and of measuring.
func echo(stdin io.Reader, stdout io.Writer) error {
	return eachLine(stdin, func(line []byte) error {
		text, id := []byte(`""`), []byte("1")
		if i := bytes.Index(line, []byte(`"text":`)); i >= 0 {
			end := bytes.LastIndex(line, []byte(`}},"jsonrpc":"2.0","id":`))
			text = line[i+len(`"text":`) : end]
			id = bytes.TrimSuffix(line[end+len(`}},"jsonrpc":"2.0","id":`):], []byte("}\n"))
		} else if !bytes.Contains(line, []byte(`"id":1,`)) {
			return nil // a notification
		}
		out := make([]byte, 0, len(text)+100)
		out = fmt.Appendf(out, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":`, id)
		out = append(append(out, text...), "}]}}\n"...)
		_, err := stdout.Write(out)
		return err
	})
}

// passThrough runs the server and copies whole lines in both directions, as
// the simplest supervisor over pipes would.
func passThrough(argv []string, stdin io.Reader, stdout io.Writer) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { // ends with the input
		_ = eachLine(stdin, func(line []byte) error {
			_, err := in.Write(line)
			return err
		})
		_ = in.Close()
	}()
	err = eachLine(out, func(line []byte) error {
		_, err := stdout.Write(line)
		return err
	})
	return errors.Join(err, cmd.Wait())
}

// eachLine calls f with each line, its end included.
func eachLine(r io.Reader, f func([]byte) error) error {
	lines := bufio.NewReaderSize(r, 64<<10)
	var long []byte
	for {
		part, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			long = append(long, part...)
			continue
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		line := part
		if len(long) > 0 {
			long = append(long, part...)
			line = long
		}
		if err := f(line); err != nil {
			return err
		}
		long = long[:0]
	}
}

// serveHTTP is the echo tool of the server over streamable HTTP, for peers
// that bridge to HTTP only. It prints its URL, and ends with its input.
func serveHTTP(stdin io.Reader, stdout io.Writer) error {
	server := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	type input struct {
		Text string `json:"text"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "echo", Description: "repeats the text"},
		func(_ context.Context, _ *mcp.CallToolRequest, in input) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, nil, nil
		})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(stdout, "http://%s/mcp\n", listener.Addr()); err != nil {
		return err
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{MaxRequestBodyBytes: -1}) // the default would refuse the largest calls
	go func() { // ends with the input
		_, _ = io.Copy(io.Discard, stdin)
		_ = listener.Close()
	}()
	if err := http.Serve(listener, handler); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
