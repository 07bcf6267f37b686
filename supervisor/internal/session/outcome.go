package session

import "github.com/holdfast-mcp/holdfast/internal/envelope"

// outcome says what becomes of a request whose link is lost after it was put
// on the stream (the table in docs/outcomes.md).
type outcome uint8

const (
	// unknown: answered outcome_unknown, never sent again.
	unknown outcome = iota
	// retried: sent to the next link until one answers; nothing can have
	// happened, or happening twice is the same as once.
	retried
	// read: sent once more; lost again it is worker_unavailable.
	read
	// unavailable: answered worker_unavailable.
	unavailable
)

const (
	methodInitialize = "initialize"
	methodDiscover   = "server/discover"
	methodPing       = "ping"
	methodSetLevel   = "logging/setLevel"
	methodToolsCall  = "tools/call"
	methodToolsList  = "tools/list"
	methodListen     = "subscriptions/listen"
	methodComplete   = "completion/complete"

	methodSubscribe   = "resources/subscribe"
	methodUnsubscribe = "resources/unsubscribe"

	noteInitialized  = "notifications/initialized"
	noteCancelled    = "notifications/cancelled"
	noteProgress     = "notifications/progress"
	noteRootsChanged = "notifications/roots/list_changed"
	noteUpdated      = "notifications/resources/updated"
	noteAcknowledged = "notifications/subscriptions/acknowledged"
)

func outcomeOf(method string) outcome {
	switch method {
	case methodInitialize, methodDiscover,
		methodSetLevel, methodSubscribe, methodUnsubscribe:
		return retried
	case methodToolsList, "prompts/list", "resources/list", "resources/templates/list",
		"resources/read", "prompts/get", methodComplete, "tasks/get", "tasks/list", methodPing:
		return read
	case methodListen:
		return unavailable
	}
	return unknown
}

// outcomeOf returns what becomes of a request that is lost now. A tool counts
// as read by its annotation only if the user says so: what a server claims of
// its tools proves nothing (SUP-16).
func (s *Session) outcomeOf(r *request) outcome {
	if r.method == methodToolsCall && s.limits.ReplayAnnotated {
		if span, ok := envelope.Find(r.params, "name"); ok && s.readOnly[envelope.IDKey(span.Of(r.params))] {
			return read
		}
	}
	return outcomeOf(r.method)
}

// needsWorker reports whether only a worker can answer a request; the others
// have answers of our own.
func needsWorker(method string) bool {
	return method != methodInitialize && method != methodDiscover && method != methodPing
}

// learnTools notes which tools of a list the client is shown as read-only.
func (s *Session) learnTools(result []byte) {
	list, ok := envelope.Find(result, "tools")
	if !ok || !s.limits.ReplayAnnotated {
		return
	}
	tools := list.Of(result)
	spans, err := envelope.Split(tools)
	if err != nil {
		return
	}
	for _, span := range spans {
		tool := span.Of(tools)
		name, ok := envelope.Find(tool, "name")
		if !ok {
			continue
		}
		hint, ok := envelope.Find(tool, "annotations", "readOnlyHint")
		s.readOnly[envelope.IDKey(name.Of(tool))] = ok && string(hint.Of(tool)) == "true"
	}
}

// isListChanged reports whether a notification announces a changed list. A
// link that is still replaying cannot have changed what the client knows.
func isListChanged(method string) bool {
	switch method {
	case "notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed":
		return true
	}
	return false
}
