package session

// outcome says what becomes of a request whose link is lost after it was put
// on the stream (the table of DESIGN section 4).
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
	methodListen     = "subscriptions/listen"

	noteInitialized  = "notifications/initialized"
	noteCancelled    = "notifications/cancelled"
	noteProgress     = "notifications/progress"
	noteRootsChanged = "notifications/roots/list_changed"
)

func outcomeOf(method string) outcome {
	switch method {
	case methodInitialize, methodDiscover,
		methodSetLevel, "resources/subscribe", "resources/unsubscribe":
		return retried
	case "tools/list", "prompts/list", "resources/list", "resources/templates/list",
		"resources/read", "prompts/get", "completion/complete", "tasks/get", "tasks/list", methodPing:
		return read
	case methodListen:
		return unavailable
	}
	return unknown
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
