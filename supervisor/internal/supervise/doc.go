// Package supervise decides which worker serves the client. One goroutine, Run,
// owns that decision; others ask it through [Supervisor.Swap] and
// [Supervisor.Demand] or read [Supervisor.Status].
//
// A life is one generation, from its start to its end:
//
//	            started, attached,          promoted             another promoted
//	            handshake told again
//	[starting] ----------------> [ready] ------------> [serving] ----> [draining]
//	    |                           |                      |               | answered all,
//	    | failed start              | lost                 | lost          | or deadline
//	    v                           v                      v               v
//	 [over] <-------------------[over]<---------------- [over]         [over]
//
// The owner keeps at most one life that starts or is ready, one that serves and
// any number that drain:
//
//	none serves:   a life that becomes ready is promoted at once
//	one serves:    a life that becomes ready is promoted and the former drains
//	               (overlap); or the former drains first (sequential)
//	serving ends:  the candidate, if there is one, is its replacement; else the
//	               restart policy says when the next life starts
//	start fails:   beside a serving life nothing changes; else the policy
//	               charges it, and the client is told the cause
//
// Triggers ask for a replacement. A trigger joins a life that has not resolved
// its executable yet; otherwise exactly one follow-up is remembered (SUP-6).
//
// The package starts no process and sees no message: workers and the client
// edge are interfaces.
package supervise
