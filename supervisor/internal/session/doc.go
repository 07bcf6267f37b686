// Package session is the state of one client connection: what the client said,
// what it was told, which of its requests are held or under way, and what must
// happen next. It is a pure core: no clock, no goroutine, no I/O. Callers hand
// in events one at a time and carry out the [Output] they get back.
//
//	               Receive                    Frame
//	client line ------------> [ Session ] <------------ frame of a link
//	client line <------------ [         ] ------------> frame for a link
//	               Output.Lines               Output.Frames
//
// A link is one Session stream to one worker generation. Links are numbered by
// the caller, never reused, and at most one of them serves:
//
//	        Attach           handshake told again    none serves, or Promote    another does, or Retire
//	(none) -------> replaying -----------------> standby --------------> serving -------------> draining
//	                    |                           |                       |                       |
//	                    +------------ Lost ---------+-----------------------+-----------------------+--> (gone)
//
// A link with nothing to be told stands by at once; one that must wait for the
// answer to the client's own initialize is waiting before it replays; one that
// is retired before it serves is dismissed.
//
// What a client connection promises, request by request:
//
//   - one answer for each request id, whatever happens to links (SUP-16);
//   - frames of a link that is gone change nothing (SUP-7);
//   - requests leave in the order of their arrival, and nothing overtakes an
//     initialize that is not answered (docs/protocol.md);
//   - ids are opaque tokens and leave as they came (EDGE-1).
//
// The raw params, result and error values are never decoded or re-encoded.
// The package does not know processes, versions of the wire, or why a link
// was lost: that is told to it as a protocol.Error to pass on.
package session
