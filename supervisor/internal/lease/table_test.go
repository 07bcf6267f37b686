package lease

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// does checks the actions of one step.
func does(t *testing.T, got []Action, want ...Action) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("(-want +got)\n%s", diff)
	}
}

// tells checks all that Next has to say.
func tells(t *testing.T, table *Table, want ...Action) {
	t.Helper()
	var got []Action
	for a := table.Next(); a != nil; a = table.Next() {
		got = append(got, a)
	}
	does(t, got, want...)
}

// serves returns a table with a worker that serves and has been asked nothing.
func serves(t *testing.T, capacity int, multi bool) *Table {
	table := New(capacity)
	does(t, table.Offer(multi))
	does(t, table.Promote())
	return table
}

// holds subscribes, by requests from number on, which the worker admits.
func holds(t *testing.T, table *Table, number uint64, uris ...string) {
	t.Helper()
	for _, uri := range uris {
		table.Subscribe(number, uri)
		does(t, table.Accept(table.lastAsk, Grant{}), Ack{Request: number})
		number++
	}
}

// listens opens a listen by itself on a worker with many sessions.
func listens(t *testing.T, table *Table, id Holder, lists Lists, uris ...string) Ask {
	t.Helper()
	does(t, table.Listen(id, lists, uris), AskListen{Ask: table.lastAsk, Holder: id, Lists: lists, URIs: uris, First: true})
	ask := table.lastAsk
	does(t, table.Accept(ask, Grant{lists, uris}), Ack{uint64(id), lists, uris})
	return ask
}

// Requests about one URI follow one another; another URI does not wait. Each is
// for the worker to admit, also if the lease exists; a lease is released once.
func TestSubscribe(t *testing.T) {
	table := serves(t, 8, true)
	does(t, table.Subscribe(1, "a"), AskSubscribe{Ask: 1, Request: 1, URI: "a"})
	does(t, table.Subscribe(2, "a"))
	does(t, table.Unsubscribe(3, "a"))
	does(t, table.Subscribe(4, "b"), AskSubscribe{Ask: 2, Request: 4, URI: "b"})
	does(t, table.Accept(1, Grant{}), Ack{Request: 1}, AskSubscribe{Ask: 3, Request: 2, URI: "a"})
	does(t, table.Accept(3, Grant{}), Ack{Request: 2}, AskUnsubscribe{Ask: 4, Request: 3, URI: "a"})
	does(t, table.Refuse(2, Refusal{}), Refused{4})
	does(t, table.Accept(4, Grant{}), Ack{Request: 3})
	does(t, table.Unsubscribe(5, "a"), AskUnsubscribe{Ask: 5, Request: 5, URI: "a"})
	does(t, table.Refuse(5, Refusal{}), Refused{5})
	table.Updated(Connection, "a")
	tells(t, table)
	if table.used != 0 {
		t.Errorf("%d leases", table.used)
	}
}

// What is cancelled between the worker's acknowledgement and ours is undone,
// and takes room until then.
func TestCancelAcquisition(t *testing.T) {
	table := serves(t, 1, true)
	does(t, table.Subscribe(1, "a"), AskSubscribe{Ask: 1, Request: 1, URI: "a"})
	does(t, table.Cancel(1))
	does(t, table.Accept(1, Grant{}), AskUnsubscribe{Ask: 2, URI: "a"})
	does(t, table.Subscribe(2, "b"), Full{2})
	does(t, table.Accept(2, Grant{}))

	does(t, table.Listen(3, 0, []string{"b"}), AskListen{Ask: 3, Holder: 3, URIs: []string{"b"}, First: true})
	does(t, table.Cancel(3), Stop{3})
	does(t, table.Accept(3, Grant{0, []string{"b"}}))
	does(t, table.Subscribe(4, "c"), Full{4})
	does(t, table.Finished(3))
	does(t, table.Subscribe(5, "c"), AskSubscribe{Ask: 4, Request: 5, URI: "c"})
	does(t, table.Refuse(4, Refusal{}), Refused{5})
	does(t, table.Subscribe(6, "d"), AskSubscribe{Ask: 5, Request: 6, URI: "d"})
}

// All holders count together, each URI once for each. What does not fit leaves
// nothing behind.
func TestCapacity(t *testing.T) {
	table := serves(t, 3, true)
	holds(t, table, 1, "a")
	does(t, table.Listen(2, 0, []string{"a", "b", "c"}), Full{2})
	first := listens(t, table, 3, 0, "a", "b")
	does(t, table.Subscribe(4, "b"), Full{4})
	does(t, table.Subscribe(5, "a"), AskSubscribe{Ask: 3, Request: 5, URI: "a"})
	does(t, table.Accept(3, Grant{}), Ack{Request: 5})
	does(t, table.Listen(6, AllLists, nil), AskListen{Ask: 4, Holder: 6, Lists: AllLists, First: true})
	does(t, table.Cancel(3), Stop{first})
	does(t, table.Subscribe(7, "b"), Full{7})
	does(t, table.Finished(first))
	does(t, table.Subscribe(8, "b"), AskSubscribe{Ask: 5, Request: 8, URI: "b"})

	for id := Holder(100); id < 100+maxListeners-1; id++ {
		if got := table.Listen(id, Tools, nil); len(got) != 1 {
			t.Fatalf("listen %d: %v", id, got)
		}
	}
	does(t, table.Listen(99, Tools, nil), Full{99})
}

// A signal ends its URI for its holder, and the stronger one wins. A listen of
// URIs is complete after the last one, one of lists as well is not.
func TestTerminalSignals(t *testing.T) {
	unavailable, expired := Ending{Unavailable, "{}"}, Ending{Expired, `{"x":1}`}
	table := serves(t, 8, true)
	uris := listens(t, table, 1, 0, "a", "b")
	listens(t, table, 2, Tools, "a")
	holds(t, table, 3, "a", "b")

	does(t, table.Ended(1, "a", unavailable))
	does(t, table.Ended(1, "a", expired))
	does(t, table.Ended(1, "a", unavailable))
	table.Updated(1, "a")
	tells(t, table, Updated{1, "a", true, expired})
	does(t, table.Ended(2, "a", expired))
	does(t, table.Ended(Connection, "a", unavailable))
	does(t, table.Ended(1, "b", unavailable), Stop{uris})
	table.Updated(Connection, "b")
	table.Changed(Connection, AllLists)
	tells(t, table,
		Updated{2, "a", true, expired}, Updated{Connection, "a", true, unavailable},
		Updated{1, "b", true, unavailable}, Complete{1},
		Updated{Holder: Connection, URI: "b"}, Changed{2, Tools})

	// What is over is over, until it is asked for again.
	table.Updated(Connection, "a")
	does(t, table.Ended(Connection, "a", expired))
	tells(t, table)
	does(t, table.Subscribe(5, "a"), AskSubscribe{Ask: 5, Request: 5, URI: "a"})
	does(t, table.Accept(5, Grant{}), Ack{Request: 5})
	table.Updated(Connection, "a")
	tells(t, table, Updated{Holder: Connection, URI: "a"})
}

// The end of an earlier lease is told before a new one begins.
func TestEndBeforeNewLease(t *testing.T) {
	table := serves(t, 8, true)
	holds(t, table, 1, "a")
	does(t, table.Subscribe(2, "a"), AskSubscribe{Ask: 2, Request: 2, URI: "a"})
	does(t, table.Ended(Connection, "a", Ending{Reason: Expired}))
	does(t, table.Accept(2, Grant{}), Updated{Connection, "a", true, Ending{Reason: Expired}}, Ack{Request: 2})
	tells(t, table, Updated{Holder: Connection, URI: "a"}) // it may have changed in between
}

// What a worker says before it answers is told after the answer.
func TestSignalsBeforeTheAnswer(t *testing.T) {
	table := serves(t, 8, true)
	does(t, table.Subscribe(1, "a"), AskSubscribe{Ask: 1, Request: 1, URI: "a"})
	table.Updated(Connection, "a")
	tells(t, table)
	does(t, table.Accept(1, Grant{}), Ack{Request: 1})
	tells(t, table, Updated{Holder: Connection, URI: "a"})

	does(t, table.Subscribe(2, "b"), AskSubscribe{Ask: 2, Request: 2, URI: "b"})
	does(t, table.Ended(Connection, "b", Ending{Reason: Unavailable}))
	does(t, table.Accept(2, Grant{}), Ack{Request: 2})
	tells(t, table, Updated{Connection, "b", true, Ending{Reason: Unavailable}})
}

// Case C23, with a worker that is lost and one that takes its place.
func TestLoss(t *testing.T) {
	table := serves(t, 8, true)
	holds(t, table, 1, "u1", "u1", "u2", "u4")
	does(t, table.Unsubscribe(5, "u4"), AskUnsubscribe{Ask: 5, Request: 5, URI: "u4"})
	does(t, table.Accept(5, Grant{}), Ack{Request: 5})
	does(t, table.Lost())
	does(t, table.Offer(true),
		AskSubscribe{Ask: 6, Candidate: true, URI: "u1"}, AskSubscribe{Ask: 7, Candidate: true, URI: "u2"})
	does(t, table.Accept(6, Grant{}))
	if table.Offered() {
		t.Fatal("u2 is not answered")
	}
	does(t, table.Refuse(7, Refusal{}))
	if !table.Offered() {
		t.Fatal("all is answered")
	}
	does(t, table.Promote())
	table.Updated(Connection, "u3")
	tells(t, table, Updated{Holder: Connection, URI: "u1"}, Updated{Holder: Connection, URI: "u2", Over: true})
}

// What changes while a candidate is asked is made good when it serves. One that
// fails changes nothing.
func TestChangesWhileOffered(t *testing.T) {
	table := serves(t, 8, true)
	holds(t, table, 1, "kept", "released")
	does(t, table.Offer(true), AskSubscribe{Ask: 3, Candidate: true, URI: "kept"}, AskSubscribe{Ask: 4, Candidate: true, URI: "released"})
	does(t, table.Abandon())
	does(t, table.Refuse(3, Refusal{}))
	tells(t, table)

	does(t, table.Offer(true), AskSubscribe{Ask: 5, Candidate: true, URI: "kept"}, AskSubscribe{Ask: 6, Candidate: true, URI: "released"})
	does(t, table.Accept(5, Grant{}))
	does(t, table.Accept(6, Grant{}))
	does(t, table.Unsubscribe(3, "released"), AskUnsubscribe{Ask: 7, Request: 3, URI: "released"})
	does(t, table.Accept(7, Grant{}), Ack{Request: 3})
	does(t, table.Subscribe(4, "new"), AskSubscribe{Ask: 8, Request: 4, URI: "new"})
	does(t, table.Accept(8, Grant{}), AskSubscribe{Ask: 9, Candidate: true, URI: "new"}, Ack{Request: 4})
	does(t, table.Subscribe(5, "open"), AskSubscribe{Ask: 10, Request: 5, URI: "open"})
	does(t, table.Promote(),
		AskSubscribe{Ask: 11, Request: 5, URI: "open"}, AskUnsubscribe{Ask: 12, URI: "released"})
	does(t, table.Accept(10, Grant{})) // of the old worker: too late
	tells(t, table, Updated{Holder: Connection, URI: "kept"})
	does(t, table.Accept(9, Grant{}))
	does(t, table.Accept(11, Grant{}), Ack{Request: 5})
	tells(t, table, Updated{Holder: Connection, URI: "new"})
}

// A worker that refuses a listen is asked for its parts. What it refuses is
// over once it serves; the rest goes on.
func TestListenIsSplit(t *testing.T) {
	table := serves(t, 8, true)
	listens(t, table, 1, Tools, "a", "b", "c")
	does(t, table.Offer(true), AskListen{Ask: 2, Candidate: true, Holder: 1, Lists: Tools, URIs: []string{"a", "b", "c"}})
	does(t, table.Refuse(2, Refusal{}),
		AskListen{Ask: 3, Candidate: true, Holder: 1, Lists: Tools, URIs: []string{"a"}},
		AskListen{Ask: 4, Candidate: true, Holder: 1, URIs: []string{"b", "c"}})
	does(t, table.Accept(3, Grant{Tools, []string{"a"}}))
	expired := Ending{Expired, "{}"}
	does(t, table.Refuse(4, Refusal{expired, "b"}), AskListen{Ask: 5, Candidate: true, Holder: 1, URIs: []string{"c"}})
	does(t, table.Refuse(5, Refusal{}))
	does(t, table.Promote())
	tells(t, table, Updated{Holder: 1, URI: "a"}, Updated{1, "b", true, expired}, Updated{Holder: 1, URI: "c", Over: true})

	// No URI is left: it stays open for its lists, and revives none.
	does(t, table.Ended(1, "a", expired))
	tells(t, table, Updated{1, "a", true, expired})
	does(t, table.Offer(true), AskListen{Ask: 6, Candidate: true, Holder: 1, Lists: Tools})
	does(t, table.Refuse(6, Refusal{}))
	does(t, table.Promote())
	does(t, table.Offer(true), AskListen{Ask: 7, Candidate: true, Holder: 1, Lists: Tools})
	does(t, table.Close(), Complete{1})
}

// The end of a listen's session is none for the client; its completion by the
// worker that has acknowledged it is.
func TestListenEndedByTheWorker(t *testing.T) {
	table := serves(t, 8, true)
	first := listens(t, table, 1, Tools, "a")
	does(t, table.Dropped(first), AskListen{Ask: 2, Holder: 1, Lists: Tools, URIs: []string{"a"}})
	does(t, table.Accept(2, Grant{Tools, []string{"a"}}))
	does(t, table.Finished(2))
	tells(t, table, Updated{Holder: 1, URI: "a", Over: true})

	first = listens(t, table, 2, Tools, "a")
	table.Updated(2, "a")
	does(t, table.Finished(first))
	tells(t, table, Updated{Holder: 2, URI: "a"}, Complete{2})

	does(t, table.Listen(3, Tools, nil), AskListen{Ask: 4, Holder: 3, Lists: Tools, First: true})
	does(t, table.Dropped(4), AskListen{Ask: 5, Holder: 3, Lists: Tools, First: true})
}

// The union is opened once, with everything that is wanted, and again for a new
// URI alone. It goes with its last listen.
func TestUnion(t *testing.T) {
	table := serves(t, 8, false)
	does(t, table.Listen(1, Tools, nil), AskValidate{1, 1})
	does(t, table.Accept(1, Grant{Tools | Resources, nil}), AskUnion{Ask: 2})
	does(t, table.Accept(2, Grant{AllLists, nil}), Ack{Request: 1, Lists: Tools})
	does(t, table.Listen(2, AllLists, []string{"a", "b"}), AskValidate{3, 2})
	does(t, table.Accept(3, Grant{Prompts, []string{"a", "b"}}), AskUnion{Ask: 4, Replaces: 2, URIs: []string{"a", "b"}})
	does(t, table.Accept(4, Grant{AllLists, []string{"a"}}), Ack{2, Prompts, []string{"a"}})

	// What the union has is admitted without it; what is refused keeps nothing.
	does(t, table.Listen(3, 0, []string{"a"}), AskValidate{5, 3})
	does(t, table.Accept(5, Grant{0, []string{"a"}}), Ack{Request: 3, URIs: []string{"a"}})
	does(t, table.Listen(4, 0, []string{"x"}), AskValidate{6, 4})
	does(t, table.Refuse(6, Refusal{}), Refused{4})
	does(t, table.Listen(5, 0, []string{"x"}), AskValidate{7, 5})
	does(t, table.Accept(7, Grant{0, []string{"x"}}), AskUnion{Ask: 8, Replaces: 4, URIs: []string{"a", "x"}})
	does(t, table.Refuse(8, Refusal{}), Refused{5}, AskUnion{Ask: 9, URIs: []string{"a"}})
	does(t, table.Accept(9, Grant{AllLists, []string{"a"}}))
	tells(t, table, Updated{Holder: 2, URI: "a"}, Updated{Holder: 3, URI: "a"}) // there was a gap
	does(t, table.Listen(6, 0, nil), AskValidate{10, 6})
	does(t, table.Accept(10, Grant{}), Ack{Request: 6}, Complete{6})

	table.Updated(Connection, "a")
	table.Changed(Connection, AllLists)
	tells(t, table,
		Updated{Holder: 2, URI: "a"}, Updated{Holder: 3, URI: "a"}, Changed{1, Tools}, Changed{2, Prompts})
	does(t, table.Cancel(2), Complete{2})
	does(t, table.Cancel(1), Complete{1})
	does(t, table.Cancel(3), Complete{3}, Stop{9})
	does(t, table.Listen(7, Tools, nil), AskValidate{11, 7})
	does(t, table.Accept(11, Grant{Tools, nil}))
	does(t, table.Finished(9), AskUnion{Ask: 12})
}

// The connection and a listen share the one subscription of their URI.
func TestUnionAndConnection(t *testing.T) {
	table := serves(t, 8, false)
	holds(t, table, 1, "a")
	does(t, table.Listen(2, 0, []string{"a"}), AskValidate{2, 2})
	does(t, table.Accept(2, Grant{0, []string{"a"}}), AskUnion{Ask: 3, URIs: []string{"a"}})
	does(t, table.Accept(3, Grant{0, []string{"a"}}), Ack{Request: 2, URIs: []string{"a"}})
	does(t, table.Unsubscribe(3, "a"), Ack{Request: 3}) // the listen has it still
	does(t, table.Subscribe(4, "a"), AskSubscribe{Ask: 4, Request: 4, URI: "a"})
	does(t, table.Accept(4, Grant{}), Ack{Request: 4})
	table.Updated(Connection, "a")
	tells(t, table, Updated{Holder: Connection, URI: "a"}, Updated{Holder: 2, URI: "a"})
	does(t, table.Cancel(2), Complete{2}, Stop{3})
	does(t, table.Finished(3), AskSubscribe{Ask: 5, URI: "a"}) // the worker may have ended both
	does(t, table.Accept(5, Grant{}))
	tells(t, table, Updated{Holder: Connection, URI: "a"})
}

// A candidate with one session is offered everything at once, and in halves
// until it is clear what it does not want.
func TestUnionIsOffered(t *testing.T) {
	table := serves(t, 8, true)
	listens(t, table, 1, 0, "a", "b")
	listens(t, table, 2, 0, "c", "b")
	does(t, table.Offer(false), AskUnion{Ask: 3, Candidate: true, URIs: []string{"a", "b", "c"}})
	does(t, table.Refuse(3, Refusal{}), AskUnion{Ask: 4, Candidate: true, URIs: []string{"a"}})
	does(t, table.Accept(4, Grant{0, []string{"a"}}), AskUnion{Ask: 5, Candidate: true, Replaces: 4, URIs: []string{"a", "b", "c"}})
	does(t, table.Refuse(5, Refusal{}), AskUnion{Ask: 6, Candidate: true, URIs: []string{"a", "b"}})
	does(t, table.Refuse(6, Refusal{Ending{Unavailable, "{}"}, ""}), AskUnion{Ask: 7, Candidate: true, URIs: []string{"a", "c"}})
	does(t, table.Accept(7, Grant{0, []string{"a", "c"}}))
	if !table.Offered() {
		t.Fatal("all is answered")
	}
	does(t, table.Promote())
	tells(t, table,
		Updated{Holder: 1, URI: "a"}, Updated{1, "b", true, Ending{Unavailable, "{}"}},
		Updated{Holder: 2, URI: "c"}, Updated{2, "b", true, Ending{Unavailable, "{}"}})
}

// A flood on one URI delays each other by a turn, and takes no room. A changed
// list ends no lease.
func TestFlood(t *testing.T) {
	const quiet = 127
	table := serves(t, quiet+1, true)
	holds(t, table, 1, "loud")
	for i := range quiet {
		holds(t, table, uint64(i+2), fmt.Sprint("quiet", i))
	}
	var told []string
	for i := range 10_000 {
		table.Updated(Connection, "loud")
		if i < quiet {
			table.Updated(Connection, fmt.Sprint("quiet", i))
		}
		if i%10 == 0 {
			told = append(told, table.Next().(Updated).URI)
		}
		if len(table.queue) > quiet+1 {
			t.Fatalf("%d updates wait", len(table.queue))
		}
	}
	if told[0] != "loud" {
		t.Errorf("first %q", told[0])
	}
	for i := range quiet {
		if at := slices.Index(told, fmt.Sprint("quiet", i)); at < 0 || at > quiet+quiet/10 {
			t.Errorf("quiet%d was told at turn %d", i, at)
		}
	}
	table.Changed(Connection, AllLists)
	if table.used != quiet+1 {
		t.Errorf("%d leases", table.used)
	}
}
