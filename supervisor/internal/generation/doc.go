// Package generation is one life of one worker: it is started once, serves
// sessions, ends once, and is never used again.
//
//	Start --> process --> go-plugin handshake --> Describe --> (ready)
//	                 \--------- failed start: *StartError --------/
//	(ready) -- Open --> Stream, Stream, ...
//	(ready) -- exit, Stop --> Done, Exit
//
// It is the only importer of go-plugin in the supervisor, and uses of it what
// negotiates versions and the connection. The process itself is ours: its
// stdin is a pipe that stays open as long as the supervisor lives, its stdout
// is searched for the handshake line, its stderr is always drained, and its
// exit is seen by our own Wait (SUP-1, SUP-13).
//
// All methods are safe for concurrent use. The package does not decide when a
// generation starts or ends, and does not look into frames.
package generation
