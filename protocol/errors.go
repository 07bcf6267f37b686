package protocol

import (
	"encoding/json"
	"strconv"
)

// Kind names what happened to a request whose worker could not answer it.
type Kind string

// The kinds of typed errors, with their JSON-RPC codes. The 2026-07-28
// revision leaves -32000..-32019 to implementations.
const (
	// OutcomeUnknown: the request was given to a worker that was lost before
	// it answered. Its effect may or may not have happened; it was not and
	// will not be sent again.
	OutcomeUnknown Kind = "outcome_unknown"
	// WorkerUnavailable: no worker can take the request and none is about to.
	// It was not executed, or is a read.
	WorkerUnavailable Kind = "worker_unavailable"
	// WorkerStarting: the request was held for a worker that is still
	// starting, for as long as allowed. It was not executed.
	WorkerStarting Kind = "worker_starting"
	// FrameTooLarge: a request or its answer exceeds the frame limit.
	FrameTooLarge Kind = "frame_too_large"
	// StaleSchema: the call relies on a tool schema that is no longer true.
	StaleSchema Kind = "stale_schema"
)

// Code returns the JSON-RPC error code of the kind.
func (k Kind) Code() int {
	switch k {
	case OutcomeUnknown:
		return -32010
	case WorkerUnavailable:
		return -32011
	case WorkerStarting:
		return -32012
	case FrameTooLarge:
		return -32013
	case StaleSchema:
		return -32014
	}
	return -32603
}

// Retryable reports whether a client may send the request again without any
// risk of doing its work twice.
func (k Kind) Retryable() bool { return k == WorkerUnavailable || k == WorkerStarting }

// MetaPrefix starts all _meta keys of holdfast.
const MetaPrefix = "io.github.holdfast-mcp/"

// _meta keys of holdfast.
const (
	// MetaError carries an [Error] in a tool result.
	MetaError = MetaPrefix + "error"
	// MetaAttachmentExpired and MetaAttachmentUnavailable are terminal signals
	// of a subscribed resource (LEASE-6).
	MetaAttachmentExpired     = MetaPrefix + "attachmentExpired"
	MetaAttachmentUnavailable = MetaPrefix + "attachmentUnavailable"
)

// ExitHandoff is the exit code by which a worker asks for its upgrade: the
// executable is looked up again and started at once (SUP-3).
const ExitHandoff = 75

// Exit tells how a worker ended.
type Exit struct {
	// Code is the exit code, -1 if a signal ended the process.
	Code int `json:"code"`
	// Signal is the name of that signal, such as "SIGKILL", or empty.
	Signal string `json:"signal,omitempty"`
}

// String completes the sentence "the server ...".
func (e Exit) String() string {
	if e.Signal != "" {
		return "was killed by " + e.Signal
	}
	return "exited with code " + strconv.Itoa(e.Code)
}

// Error is what a client gets as the data of a JSON-RPC error, or as the
// [MetaError] of a tool result.
type Error struct {
	Kind    Kind   `json:"kind"`
	Message string `json:"message"`
	// Retryable: sending the request again can do nothing twice.
	Retryable bool `json:"retryable"`
	// Generation of the worker concerned, 0 if there was none.
	Generation uint64 `json:"generation,omitempty"`
	// Exit of that worker, if it ended.
	Exit *Exit `json:"exit,omitempty"`
	// StderrTail holds the last sanitised lines of its stderr.
	StderrTail []string `json:"stderr_tail,omitempty"`
}

// NewError returns an Error of the kind, with Retryable as the kind says.
func NewError(kind Kind, message string) *Error {
	return &Error{Kind: kind, Message: message, Retryable: kind.Retryable()}
}

func (e *Error) Error() string { return string(e.Kind) + ": " + e.Message }

// RPC returns e as the value of a JSON-RPC response's "error" member.
func (e *Error) RPC() json.RawMessage {
	return mustMarshal(struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    *Error `json:"data"`
	}{e.Kind.Code(), e.Message, e})
}

// ToolResult returns e as the value of the "result" member of a tools/call
// response: isError, with text for the model and the typed error in _meta.
// modern adds the resultType that the 2026-07-28 revision requires.
func (e *Error) ToolResult(modern bool) json.RawMessage {
	type text struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	result := struct {
		ResultType string            `json:"resultType,omitempty"`
		Content    []text            `json:"content"`
		IsError    bool              `json:"isError"`
		Meta       map[string]*Error `json:"_meta"`
	}{Content: []text{{"text", e.Message}}, IsError: true, Meta: map[string]*Error{MetaError: e}}
	if modern {
		result.ResultType = "complete"
	}
	return mustMarshal(result)
}

// mustMarshal marshals values made of strings, numbers and booleans, which
// cannot fail.
func mustMarshal(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
