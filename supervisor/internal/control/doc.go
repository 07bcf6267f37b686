// Package control lets people look into a running supervisor, and ask it for a
// swap or its end: HTTP with JSON over a unix socket in the supervisor's private
// directory.
//
//	GET  /status        -> Status
//	GET  /logs          -> the lines of the log that are kept, one JSON object each
//	GET  /logs/follow   -> the same, and those to come until the supervisor ends
//	POST /swap          -> SwapResult, when the new worker serves or cannot
//	POST /stop          -> {} at once, then the end of the answer with that of the session
//
// Nobody can tell a supervisor what to run: there are no other paths, and a
// request with a query or a body is refused (SEC-5). Who may connect is decided
// by the directory, and where the system tells by the peer's user as well.
//
// [Serve] is the supervisor's side, [Instances] and the methods of an
// [Instance] are that of a person's command. Each request has a goroutine of its
// own; a reader that is slow delays itself alone.
package control
