package session

import (
	"encoding/json"
	"strings"

	"github.com/holdfast-mcp/holdfast/protocol"
)

// shownTail is how many lines of a lost worker's stderr the text for the model
// repeats; the typed error has all that is known.
const shownTail = 5

// lostLine answers a request whose worker was lost while it was under way.
func lostLine(r *request, o outcome, loss Loss) []byte {
	kind := protocol.OutcomeUnknown
	if o != unknown {
		kind = protocol.WorkerUnavailable
	}
	e := protocol.NewError(kind, lostText(r, kind, loss))
	e.Generation, e.Exit, e.StderrTail = loss.Generation, loss.Exit, loss.StderrTail
	if r.method == methodToolsCall {
		return resultLine(r.id, e.ToolResult(r.modern))
	}
	return errorLine(r.id, e.RPC())
}

func lostText(r *request, kind protocol.Kind, loss Loss) string {
	var b strings.Builder
	b.WriteString("The server " + loss.Cause + " while this request was under way")
	switch {
	case kind == protocol.OutcomeUnknown:
		b.WriteString(", so its outcome is unknown: it may have taken effect in full, in part or not at all." +
			" It was not repeated. Inspect the current state before you try it again.")
	case r.method == methodListen:
		b.WriteString(". The subscription has ended; listen again.")
	case r.attempts < 2:
		b.WriteString(". The request only reads; try it again later.")
	default:
		b.WriteString(", and did so again when it was asked once more. The request only reads; try it again later.")
	}
	if n := len(loss.StderrTail); n > 0 {
		b.WriteString("\nLast output of the server on stderr:")
		for _, l := range loss.StderrTail[max(0, n-shownTail):] {
			b.WriteString("\n  " + l)
		}
	}
	return b.String()
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""`
	}
	return string(b)
}
