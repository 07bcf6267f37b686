package generation

import (
	"strings"

	"google.golang.org/grpc/status"

	"github.com/holdfast-mcp/holdfast/internal/ring"
)

// words treats text that a worker sends over the wire as its stderr is
// treated: bounded, sanitised and masked (SEC-3). Any program may be a worker.
type words struct{ options ring.Options }

// clean returns the last lines of a text.
func (w words) clean(text string) []string {
	o := w.options
	o.Sink = nil
	r := ring.New(o)
	_, _ = r.Write([]byte(text)) // never fails
	_ = r.Close()
	return r.Tail()
}

// cleanError returns err, or if it is a worker's own status, one with a clean
// message.
func (w words) cleanError(err error) error {
	s, ok := status.FromError(err)
	if err == nil || !ok || s.Message() == "" {
		return err
	}
	return status.Error(s.Code(), strings.Join(w.clean(s.Message()), " "))
}
