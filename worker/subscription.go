package worker

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-mcp/holdfast/protocol"
)

// Terminal says why a resource will send no updates any more. It is the key of
// the signal, in the _meta of a notification or the data of an error, by which
// clients and the supervisor know that a subscription is over and not just
// interrupted.
type Terminal string

const (
	// AttachmentExpired says that what the URI names is gone for good, such as a
	// session that was released. A new subscription needs a new URI.
	AttachmentExpired Terminal = protocol.MetaAttachmentExpired
	// AttachmentUnavailable says that it cannot be watched now. Subscribing to
	// the same URI may succeed later.
	AttachmentUnavailable Terminal = protocol.MetaAttachmentUnavailable
)

// RefuseSubscription returns the error by which a SubscribeHandler of the SDK
// refuses a URI: resources/subscribe, and a subscriptions/listen that names the
// URI, are answered with it. A worker that takes over from an older one is
// asked for all subscriptions that its clients hold; where it refuses one, the
// supervisor ends that subscription with the same signal.
//
// The error is a *jsonrpc.Error and must be returned as it is: of one that is
// wrapped, the SDK sends the code without the data. Its data is
//
//	{"uri": URI, "io.github.holdfast-mcp/attachmentExpired": {"message": MESSAGE}}
//
// and its code that of invalid params, as for a resource that is not found, or
// of an internal error for AttachmentUnavailable.
func RefuseSubscription(uri string, why Terminal, message string) error {
	data, err := json.Marshal(map[string]any{"uri": uri, string(why): signal{message}})
	if err != nil { // strings can always be marshalled
		panic(err)
	}
	refusal := &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: message, Data: data}
	if why == AttachmentUnavailable {
		refusal.Code = jsonrpc.CodeInternalError
	}
	return refusal
}

// EndSubscription tells all subscribers of a URI that nothing will follow: one
// last notifications/resources/updated, with the signal in its _meta. The
// supervisor ends their subscriptions to this URI and no others. Without a
// supervisor the notification is all that happens.
func EndSubscription(ctx context.Context, server *mcp.Server, uri string, why Terminal, message string) error {
	err := server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{
		URI:  uri,
		Meta: mcp.Meta{string(why): signal{message}},
	})
	if err != nil {
		return fmt.Errorf("ending the subscriptions to %s: %w", uri, err)
	}
	return nil
}

// signal is the value of the key of a terminal signal.
type signal struct {
	Message string `json:"message"`
}
