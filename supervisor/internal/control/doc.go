// Package control lets people look into a running supervisor and ask it for a
// swap: HTTP with JSON over a unix socket in the supervisor's private directory.
//
//	GET  /status   -> Status
//	POST /swap     -> SwapResult, when the new worker serves or cannot
//
// A control socket can read and replace; it never takes a command line, a path
// or an environment (SEC-5). Who may connect is decided by the directory, and
// where the system tells by the peer's user as well.
package control
