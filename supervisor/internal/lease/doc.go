// Package lease is the table of what one client watches: which resources and
// lists, for whom, and what of that the worker has admitted. It is a pure core:
// no clock, no goroutine, no I/O. Its caller hands in what client and workers
// say, and carries out the [Action] values that it gets back.
//
// A lease is the right of one holder to updates of one URI. A holder is the
// client's connection itself, by resources/subscribe ([Connection]), or one
// request subscriptions/listen, known by its number. Leases of all holders
// count against one capacity (LEASE-5), and a URI has one subscription on the
// client's connection to the worker, however many hold it there (LEASE-1).
//
//	           Subscribe, Listen           admitted by the worker: Ack
//	(none) -----------------> [reserved] ----------------------------> [held] <--+ Updated
//	  ^                        |      |                               |  |  |  |  | replaced: kept
//	  | Full                   |      | refused: Refused              |  |  +--+--+
//	  +------------------------+      v                               |  |
//	  ^                            (none)   Unsubscribe, Cancel       |  | Ended, or refused by
//	  |                                  +----------------------------+  | the next worker
//	  | worker has cleaned up            v                               v
//	  +---------------------------- [leaving]                         [over] -- Next: the last
//	  ^                                  ^                               |      Updated
//	  |                                  | cancelled before the Ack      |
//	  |                             [reserved]                           |
//	  +------------------------------------------------------------------+
//
// All but (none) take room. A terminal signal is sticky: a lease that is over
// stays so, Expired wins over Unavailable until the client has been told, and a
// URI lives again by a new request alone (LEASE-6, LEASE-7).
//
// # Workers
//
// The table knows at most two connections to workers, the one that serves and
// a candidate. What it wants of them are asks, numbered and answered by
// [Table.Accept] or [Table.Refuse], in any order. An answer to an ask of a
// connection that is gone changes nothing.
//
//	             Offer                Promote              Lost, or Promote of another
//	(none) ---------------> candidate --------> serving --------------> (none)
//	                            | Abandon
//	                            +-------------> (none)
//
// Offer puts every lease to the candidate, and so is what is acquired while it
// waits. Promote keeps what it has accepted, with one update, and ends what it
// has refused. Where it has not answered yet, or was not asked, its answer
// decides later; what was released meanwhile is unsubscribed. Requests of the
// client that the old worker has not answered are put to the new one. Without a
// serving connection the leases stay and requests wait.
//
// How listens reach a worker depends on the connection. With many sessions
// (multi), each listen has a session of its own, and the worker grants,
// acknowledges and completes; a listen that a candidate refuses is split, to
// find out which URI it does not want. Otherwise all listens share one, the
// union: it is opened with all kinds of lists, opened anew for a new URI, and
// stopped after the last listen. A URI that nobody watches any more leaves it
// when it is opened anew for another reason.
//
// Per URI, subscriptions of the connection follow one another in the order of
// the client's requests: the next is put to the worker when the last is
// answered. There is no order between URIs.
//
// # Updates
//
// Updates are a set and no queue: [Table.Next] tells each lease and list once,
// however often it has changed, and what has changed again goes to the end of
// the line. So a flood on one URI delays another by one turn (LEASE-8).
//
// A Table is for one goroutine. It neither reads nor writes messages, and does
// not know why a worker refuses or how long anything may take: a caller that
// gives up says Cancel or Abandon.
package lease
