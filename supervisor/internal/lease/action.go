package lease

// Holder is who has a lease: a listen, by the number of its request, or the
// connection of the client itself.
type Holder uint64

// Connection is the holder of what resources/subscribe has acquired.
const Connection Holder = 0

// Ask is the number of a question to a worker, used once. It also names the
// listen that its acceptance has opened.
type Ask uint64

// Lists is a set of the lists whose changes can be listened for.
type Lists uint8

// The lists, and the set of all of them.
const (
	Tools Lists = 1 << iota
	Prompts
	Resources
	AllLists = Tools | Prompts | Resources
)

// Reason is why a lease is over. A higher one wins.
type Reason uint8

// Reasons. Plain has no key to tell it by.
const (
	Plain Reason = iota
	Unavailable
	Expired
)

// Ending is a terminal signal.
type Ending struct {
	Reason Reason
	// Value is what stands under the key of the reason; it is passed on.
	Value string
}

// Grant is what a worker has accepted of a listen.
type Grant struct {
	Lists Lists
	URIs  []string
}

// Refusal is what a worker says instead.
type Refusal struct {
	Ending
	// URI that is refused, if the worker has said which.
	URI string
}

// Action is something that the caller has to do.
type Action interface{ action() }

// Actions at a worker: at the candidate if Candidate is set, else at the one
// that serves. Each Ask has to be answered by Accept or Refuse.
type (
	// AskSubscribe sends resources/subscribe on the client's own connection:
	// the client's request of this number, or one composed if it is 0.
	AskSubscribe struct {
		Ask       Ask
		Candidate bool
		Request   uint64
		URI       string
	}
	// AskUnsubscribe is the same for resources/unsubscribe.
	AskUnsubscribe struct {
		Ask     Ask
		Request uint64
		URI     string
	}
	// AskValidate asks whether a listen may be part of the union, and what is
	// granted to it.
	AskValidate struct {
		Ask    Ask
		Holder Holder
	}
	// AskListen sends a listen on a session of its own. First: it is the
	// client's request as it came, and the worker's acknowledgement is for the
	// client. Else it is that request with this filter, and the
	// acknowledgement is not.
	AskListen struct {
		Ask       Ask
		Candidate bool
		Holder    Holder
		Lists     Lists
		URIs      []string
		First     bool
	}
	// AskUnion opens the union with all lists and these URIs, after the one that
	// it replaces, if any, has come to its end.
	AskUnion struct {
		Ask       Ask
		Candidate bool
		Replaces  Ask
		URIs      []string
	}
	// Stop cancels a listen or the union. Finished says that it is over.
	Stop struct{ Ask Ask }
)

// Actions at the client.
type (
	// Ack answers a request with success: a subscribe or unsubscribe with its
	// result, a listen with its acknowledgement, for what is granted.
	Ack struct {
		Request uint64
		Lists   Lists
		URIs    []string
	}
	// Refused answers a request with the error of the worker.
	Refused struct{ Request uint64 }
	// Full answers a request for which there is no room. It was not put to a
	// worker.
	Full struct{ Request uint64 }
	// Updated says that a resource has changed. Over: it is the last update of
	// this lease, with the signal in Ending.
	Updated struct {
		Holder Holder
		URI    string
		Over   bool
		Ending Ending
	}
	// Changed says that a list has changed.
	Changed struct {
		Holder Holder
		List   Lists
	}
	// Complete answers a listen at its end, with the worker's own result if
	// that is what has ended it.
	Complete struct{ Holder Holder }
)

func (AskSubscribe) action()   {}
func (AskUnsubscribe) action() {}
func (AskValidate) action()    {}
func (AskListen) action()      {}
func (AskUnion) action()       {}
func (Stop) action()           {}
func (Ack) action()            {}
func (Refused) action()        {}
func (Full) action()           {}
func (Updated) action()        {}
func (Changed) action()        {}
func (Complete) action()       {}
