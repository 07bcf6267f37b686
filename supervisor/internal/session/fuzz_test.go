package session

import (
	"bytes"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/internal/envelope"
)

// FuzzSession feeds whatever a client and a worker may write, line by line and
// in turns. Whatever that is: what leaves is one legal message each.
func FuzzSession(f *testing.F) {
	for _, lines := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}` + "\n" +
			`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-03-26","capabilities":{"tools":{}}}}` + "\n" +
			`[{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":{"progressToken":"a"}}},1,[]]` + "\n" +
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"a"}}`,
		`{"jsonrpc":"2.0","id":"\u0041","method":"subscriptions/listen"}` + "\n" +
			`{"jsonrpc":"2.0","method":"n","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}` + "\n" +
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"A"}}` + "\n" +
			`{"jsonrpc":"2.0","id":1,"result":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}`,
		`{"jsonrpc":"2.0","id":null,"method":"x"}` + "\n" + `{"jsonrpc":"2.0","id":7,"method":"roots/list"}` + "\n" +
			`{"jsonrpc":"2.0","id":1,"result":{}}` + "\n" + `{broken`,
	} {
		f.Add([]byte(lines), byte(0))
		f.Add([]byte(lines), byte(1))
	}
	f.Fuzz(func(t *testing.T, text []byte, lostAfter byte) {
		s := New(testLimits, "v0", time.Unix(1_700_000_000, 0), Traits{})
		now := time.Unix(1_700_000_000, 0)
		link := Link(1)
		var out Output
		s.Attach(link, Worker{Generation: 1}, &out)
		var number uint64 // of the last request that a worker got
		for i, line := range bytes.Split(text, []byte{'\n'}) {
			line = bytes.Clone(line)
			out.Reset()
			if i%2 == 0 {
				s.Receive(line, now, &out)
				if out.Recall {
					s.Recalled(Memory{}, now, &out)
				}
			} else {
				env, _ := envelope.Peek(line)
				kinds := []Kind{Notification, Request, Notification, Response, Response}
				s.Frame(link, Frame{kinds[env.Kind], number, line}, &out)
			}
			number = legal(t, &out, number)
			if i == int(lostAfter) {
				out.Reset()
				s.Lost(link, Loss{Generation: 1, Cause: "died"}, now, &out)
				link++
				s.Attach(link, Worker{Generation: 2}, &out)
				number = legal(t, &out, number)
			}
		}
		out.Reset()
		head := text[:min(len(text), 40)]
		s.ReceiveTooLong(head, text[len(text)-len(head):], 1<<40, &out)
		s.Close(&out)
		legal(t, &out, number)
		if n := s.InFlight(); n != 0 {
			t.Errorf("%d requests were not answered at the end", n)
		}
	})
}

// legal checks what leaves, and returns the number of the last request.
func legal(t *testing.T, out *Output, number uint64) uint64 {
	t.Helper()
	for _, l := range out.Lines {
		env, err := envelope.Peek(l)
		// An error that belongs to no request has no id.
		if err != nil && (env.Kind != envelope.ErrorResponse || !env.ID.IsZero()) {
			t.Errorf("for the client: %q: %v", l, err)
		}
	}
	for _, o := range out.Frames {
		if o.Frame.Kind == Drain {
			continue
		}
		env, err := envelope.Peek(o.Frame.Payload)
		if err != nil {
			t.Errorf("for a worker: %q: %v", o.Frame.Payload, err)
		}
		if o.Frame.Kind == Request {
			number = o.Frame.ID
		}
		if got := env.Kind == envelope.Request; got != (o.Frame.Kind == Request) {
			t.Errorf("frame of kind %d: %q", o.Frame.Kind, o.Frame.Payload)
		}
	}
	return number
}
