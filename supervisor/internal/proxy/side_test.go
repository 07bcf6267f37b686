package proxy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
)

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// listen opens a listen with the id "s", which the worker acknowledges as it
// came, and returns its stream and the number that the worker knows it by.
func (e *edge) listen(filter string) (side *stream, number uint64) {
	e.t.Helper()
	e.write(`{"jsonrpc":"2.0","id":"s","method":"subscriptions/listen","params":{` + modernMeta + `,"notifications":{` + filter + `}}}`)
	side = <-e.sides
	synctest.Wait()
	side.mu.Lock()
	number = side.down[0].Id
	side.mu.Unlock()
	side.note(number, "subscriptions/acknowledged", `,"notifications":{`+filter+`}`)
	e.expect("acknowledged", `"s"`)
	return side, number
}

// note says a notification of a subscription.
func (s *stream) note(number uint64, method, more string) {
	s.say(workerv1.Frame_KIND_NOTIFICATION, 0, fmt.Sprintf(
		`{"jsonrpc":"2.0","method":"notifications/%s","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%d}%s}}`, method, number, more))
}

// TestFloodOfUpdates: LEASE-8. While the client does not read, the changes of
// one resource are one, and that of another has its turn.
func TestFloodOfUpdates(t *testing.T) {
	inBubble(t, func(t *testing.T, e *edge) {
		_, conn := e.attach()
		side, number := e.listen(`"resourceSubscriptions":["u","v"]`)
		side.note(number, "message", `,"data":"`+strings.Repeat("x", 2*updatesRoom)+`"`) // fills the way to the client
		synctest.Wait()
		for range 1000 {
			side.note(number, "resources/updated", `,"uri":"u"`)
		}
		side.note(number, "resources/updated", `,"uri":"v"`)
		synctest.Wait()
		e.expect("message")
		e.expect("updated", `"uri":"u"`, `"s"`)
		e.expect("updated", `"uri":"v"`, `"s"`)
		synctest.Wait()
		if e.session.HasUpdates() {
			t.Error("more is told of what is known")
		}
		conn.Detach(loss("was stopped"))
	})
}

// A stream that cannot be opened leaves the listen waiting, not the session.
func TestSideFails(t *testing.T) {
	inBubble(t, func(t *testing.T, e *edge) {
		opened := 0
		s := newStream()
		conn := e.Attach(s, Worker{Generation: 1, Multi: true, Open: func() (Stream, error) {
			opened++
			return nil, errors.New("the worker is gone")
		}})
		e.write(`{"jsonrpc":"2.0","id":"s","method":"subscriptions/listen","params":{` + modernMeta + `,"notifications":{"toolsListChanged":true}}}`)
		e.call(1)
		s.answer(2, `{"n":1}`)
		e.expect(`"id":1`, `{"n":1}`)
		if opened == 0 || opened > 5 {
			t.Errorf("opened %d times", opened)
		}
		conn.Detach(loss("was stopped"))
	})
}

// The streams of listens end with the connection that they stand beside.
func TestSidesEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, e *edge) {
		_, conn := e.attach()
		side, _ := e.listen(`"toolsListChanged":true`)
		conn.Detach(loss("exited with code 1"))
		synctest.Wait()
		select {
		case <-side.closed:
		default:
			t.Error("the stream of the listen is open")
		}
	})
}
