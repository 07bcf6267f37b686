package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-mcp/holdfast/worker"
)

// watched is what the server does with subscriptions.
type watched struct{ journal, refuse, hold string }

func (w *watched) subscribe(_ context.Context, req *mcp.SubscribeRequest) error {
	uri := req.Params.URI
	if err := w.note("subscribe", uri); err != nil {
		return err
	}
	w.wait()
	why, refused, err := w.refusal(uri)
	if err != nil || !refused {
		return err
	}
	if why == "plain" {
		return errors.New("not today")
	}
	reason, err := terminal(why)
	if err != nil {
		return err
	}
	return worker.RefuseSubscription(uri, reason, "it is "+why)
}

func (w *watched) unsubscribe(_ context.Context, req *mcp.UnsubscribeRequest) error {
	return w.note("unsubscribe", req.Params.URI)
}

// note appends a line to the journal by one write, so that lines of several
// processes never mix.
func (w *watched) note(what, uri string) error {
	f, err := os.OpenFile(w.journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(f, "%d %s %s\n", os.Getpid(), what, uri); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// wait returns when there is no such file as hold, whether the request is
// cancelled or not.
func (w *watched) wait() {
	for w.hold != "" {
		if _, err := os.Stat(w.hold); err != nil {
			return
		}
		<-time.After(2 * time.Millisecond) // between two looks
	}
}

// refusal looks a URI up in the file of refusals. The last line counts.
func (w *watched) refusal(uri string) (why string, refused bool, err error) {
	if w.refuse == "" {
		return "", false, nil
	}
	f, err := os.Open(w.refuse)
	if errors.Is(err, os.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if name, reason, ok := strings.Cut(lines.Text(), " "); ok && name == uri {
			why, refused = reason, true
		}
	}
	return why, refused, lines.Err()
}

func terminal(why string) (worker.Terminal, error) {
	switch why {
	case "expired":
		return worker.AttachmentExpired, nil
	case "unavailable":
		return worker.AttachmentUnavailable, nil
	}
	return "", fmt.Errorf("no terminal signal %q", why)
}
