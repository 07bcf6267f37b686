package worker

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
	"github.com/holdfast-mcp/holdfast/worker/internal/workertest"
)

// modernMeta makes a request one of the 2026-07-28 revision.
const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// newWatchServer returns a server that takes subscriptions, but not to
// note://gone and note://busy.
func newWatchServer() *mcp.Server {
	return mcp.NewServer(&mcp.Implementation{Name: "watch"}, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{Resources: &mcp.ResourceCapabilities{Subscribe: true}},
		SubscribeHandler: func(_ context.Context, req *mcp.SubscribeRequest) error {
			switch uri := req.Params.URI; uri {
			case "note://gone":
				return RefuseSubscription(uri, AttachmentExpired, "the note was deleted")
			case "note://busy":
				return RefuseSubscription(uri, AttachmentUnavailable, "the store is closed")
			}
			return nil
		},
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
}

// answerError decodes the error of an answer.
func answerError(t *testing.T, payload string) (code int, data map[string]json.RawMessage) {
	t.Helper()
	var answer struct {
		Error struct {
			Code int
			Data map[string]json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(payload), &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Error.Code, answer.Error.Data
}

// A refusal carries its signal in both eras, through the SDK and over the wire.
func TestRefuseSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := serveMemory(t, Options{}, shared(newWatchServer()))
		legacy := workertest.Open(t, client)
		legacy.Initialize()
		modern := workertest.Open(t, client)
		number := uint64(10)
		for uri, want := range map[string]struct {
			code  int
			key   string
			value string
		}{
			"note://gone": {-32602, protocol.MetaAttachmentExpired, `{"message":"the note was deleted"}`},
			"note://busy": {-32603, protocol.MetaAttachmentUnavailable, `{"message":"the store is closed"}`},
		} {
			number++
			legacy.Request(number, `"s"`, "resources/subscribe", `{"uri":"`+uri+`"}`)
			modern.Request(number, `"l"`, "subscriptions/listen",
				`{`+modernMeta+`,"notifications":{"resourceSubscriptions":["note://fine","`+uri+`"]}}`)
			for era, session := range map[string]*workertest.Session{"legacy": legacy, "modern": modern} {
				frame := session.Next() // no acknowledgement before it
				if frame.GetKind() != workerv1.Frame_KIND_RESPONSE {
					t.Fatalf("%s %s: got %v", era, uri, frame)
				}
				code, data := answerError(t, string(frame.GetPayload()))
				if code != want.code || string(data[want.key]) != want.value || string(data["uri"]) != `"`+uri+`"` || len(data) != 2 {
					t.Errorf("%s %s: code %d, data %s", era, uri, code, data)
				}
			}
		}
		legacy.Cancel()
		modern.Cancel()
	})
}

// The end of a subscription reaches its subscribers in both eras.
func TestEndSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newWatchServer()
		_, client := serveMemory(t, Options{}, shared(server))
		legacy, modern := workertest.Open(t, client), workertest.Open(t, client)
		legacy.Initialize()
		legacy.Request(2, `"s"`, "resources/subscribe", `{"uri":"note://a"}`)
		legacy.Await(workerv1.Frame_KIND_RESPONSE, 2)
		modern.Request(3, `"l"`, "subscriptions/listen", `{`+modernMeta+`,"notifications":{"resourceSubscriptions":["note://a","note://b"]}}`)
		contains(t, modern.Await(workerv1.Frame_KIND_NOTIFICATION, 0), "acknowledged")

		if err := EndSubscription(t.Context(), server, "note://a", AttachmentExpired, "deleted"); err != nil {
			t.Fatal(err)
		}
		signal := `"` + protocol.MetaAttachmentExpired + `":{"message":"deleted"}`
		update := legacy.Await(workerv1.Frame_KIND_NOTIFICATION, 0)
		contains(t, update, signal)
		if strings.Contains(update, "subscriptionId") {
			t.Errorf("the legacy client got %s", update)
		}
		update = modern.Await(workerv1.Frame_KIND_NOTIFICATION, 0)
		contains(t, update, signal)
		contains(t, update, `"io.modelcontextprotocol/subscriptionId":3`)
		legacy.Cancel()
		modern.Cancel()
	})
}
