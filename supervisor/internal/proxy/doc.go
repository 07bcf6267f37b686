// Package proxy moves messages between the client, its session and the workers
// it is attached to. It holds no policy: the session decides what becomes of a
// message, supervise decides which worker serves.
//
//	stdin -> line.Reader -> [session] -> Stream.Send   one goroutine: Run
//	stdout <- line.Writer <- outbox <- [session] <- Stream.Recv   one per Conn
//
// The session is guarded by one mutex, held for no longer than it takes to
// decide. Nothing waits under it: lines go to the outbox and frames to the
// stream's own queue. What waits for a slow client are the readers of workers,
// so that a worker which floods is slowed down and memory stays bounded, while
// the client's own messages are read on (EDGE-15, SUP-20).
package proxy
