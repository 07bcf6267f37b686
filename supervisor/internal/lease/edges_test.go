package lease

import "testing"

// What a worker has said before it was lost, or before the request that is under
// way, is not about the next lease.
func TestEarlySignalsAreForgotten(t *testing.T) {
	table := serves(t, 8, true)
	does(t, table.Subscribe(1, "a"), AskSubscribe{Ask: 1, Request: 1, URI: "a"})
	does(t, table.Ended(Connection, "a", Ending{Reason: Expired}))
	does(t, table.Lost())
	does(t, table.Offer(true))
	does(t, table.Promote(), AskSubscribe{Ask: 2, Request: 1, URI: "a"})
	does(t, table.Accept(2, Grant{}), Ack{Request: 1})
	tells(t, table)

	does(t, table.Subscribe(2, "b"), AskSubscribe{Ask: 3, Request: 2, URI: "b"})
	does(t, table.Subscribe(3, "b"))
	does(t, table.Ended(Connection, "b", Ending{Reason: Expired}))
	does(t, table.Refuse(3, Refusal{}), Refused{2}, AskSubscribe{Ask: 4, Request: 3, URI: "b"})
	does(t, table.Accept(4, Grant{}), Ack{Request: 3})
	tells(t, table)
}

// A request for what is held already, refused without a reason, changes nothing;
// with one it ends the lease.
func TestRenewalRefused(t *testing.T) {
	table := serves(t, 8, true)
	holds(t, table, 1, "a")
	does(t, table.Subscribe(2, "a"), AskSubscribe{Ask: 2, Request: 2, URI: "a"})
	does(t, table.Refuse(2, Refusal{}), Refused{2})
	table.Updated(Connection, "a")
	tells(t, table, Updated{Holder: Connection, URI: "a"})
	does(t, table.Subscribe(3, "a"), AskSubscribe{Ask: 3, Request: 3, URI: "a"})
	does(t, table.Refuse(3, Refusal{Ending: Ending{Reason: Expired}}), Refused{3})
	tells(t, table, Updated{Connection, "a", true, Ending{Reason: Expired}})
}

// A listen is not refused for what it has lost while it was asked for.
func TestRefusalOfWhatIsOver(t *testing.T) {
	table := serves(t, 8, true)
	listens(t, table, 1, 0, "a", "b")
	does(t, table.Offer(true), AskListen{Ask: 2, Candidate: true, Holder: 1, URIs: []string{"a", "b"}})
	does(t, table.Ended(1, "a", Ending{Reason: Expired}))
	does(t, table.Refuse(2, Refusal{}), AskListen{Ask: 3, Candidate: true, Holder: 1, URIs: []string{"b"}})
	does(t, table.Accept(3, Grant{0, []string{"b"}}))
	does(t, table.Promote())
	tells(t, table, Updated{1, "a", true, Ending{Reason: Expired}}, Updated{Holder: 1, URI: "b"})
}

// Until the client has been told of the last end, a stronger one wins.
func TestStrongerEndOfFinishedListen(t *testing.T) {
	table := serves(t, 8, true)
	ask := listens(t, table, 1, 0, "a")
	does(t, table.Ended(1, "a", Ending{Reason: Unavailable}), Stop{ask})
	does(t, table.Ended(1, "a", Ending{Reason: Expired}))
	tells(t, table, Updated{1, "a", true, Ending{Reason: Expired}}, Complete{1})
	does(t, table.Finished(ask))
}

// A list that changes again before the client was told is told once.
func TestChangedOnce(t *testing.T) {
	table := serves(t, 8, true)
	listens(t, table, 1, Tools)
	table.Changed(Connection, Tools)
	table.Changed(1, AllLists)
	tells(t, table, Changed{1, Tools})
	table.Changed(1, Tools)
	tells(t, table, Changed{1, Tools})
}

// The union of a new worker waits for the validation of a listen there.
func TestValidationOfEachWorker(t *testing.T) {
	table := serves(t, 8, false)
	does(t, table.Listen(1, Tools, nil), AskValidate{1, 1})
	does(t, table.Accept(1, Grant{Tools, nil}), AskUnion{Ask: 2})
	does(t, table.Offer(false))
	does(t, table.Promote(), AskValidate{3, 1})
	does(t, table.Accept(3, Grant{Tools, nil}), AskUnion{Ask: 4})
	does(t, table.Accept(4, Grant{AllLists, nil}), Ack{Request: 1, Lists: Tools})
}

// A listen does not race an unsubscribe of the same URI, on a worker where that
// would silence it; nor an unsubscribe the listen.
func TestUnionAndUnsubscribe(t *testing.T) {
	table := serves(t, 8, false)
	holds(t, table, 1, "a", "b")
	does(t, table.Unsubscribe(3, "a"), AskUnsubscribe{Ask: 3, Request: 3, URI: "a"})
	does(t, table.Listen(4, 0, []string{"a", "b"}), AskValidate{4, 4})
	does(t, table.Accept(4, Grant{0, []string{"a", "b"}}))
	does(t, table.Accept(3, Grant{}), Ack{Request: 3}, AskUnion{Ask: 5}.of("a", "b"))
	does(t, table.Unsubscribe(5, "b"), Ack{Request: 5})
	does(t, table.Refuse(5, Refusal{}), AskUnsubscribe{Ask: 6, URI: "b"}, Refused{4})
}

// A union that ends while its URI is subscribed to once more takes the older
// subscription of the connection with it, though not the lease.
func TestUnionEndsDuringRenewal(t *testing.T) {
	table := serves(t, 8, false)
	holds(t, table, 1, "a")
	does(t, table.Listen(2, 0, []string{"a"}), AskValidate{2, 2})
	does(t, table.Accept(2, Grant{0, []string{"a"}}), AskUnion{Ask: 3}.of("a"))
	does(t, table.Accept(3, Grant{0, []string{"a"}}), Ack{Request: 2, URIs: []string{"a"}})
	does(t, table.Subscribe(3, "a"), AskSubscribe{Ask: 4, Request: 3, URI: "a"})
	does(t, table.Finished(3))
	does(t, table.Refuse(4, Refusal{}), Refused{3}, AskSubscribe{Ask: 5, URI: "a"})
	does(t, table.Accept(5, Grant{}))
	tells(t, table, Updated{Holder: 2, URI: "a", Over: true}, Complete{2}, Updated{Holder: Connection, URI: "a"})
}

// A worker that says which URI of the union it does not want any more is not
// asked for the others one by one.
func TestUnionRefusalNamesAnOlderURI(t *testing.T) {
	table := serves(t, 8, false)
	does(t, table.Listen(1, Tools, []string{"a"}), AskValidate{1, 1})
	does(t, table.Accept(1, Grant{Tools, []string{"a"}}), AskUnion{Ask: 2}.of("a"))
	does(t, table.Accept(2, Grant{AllLists, []string{"a"}}), Ack{1, Tools, []string{"a"}})
	does(t, table.Listen(2, 0, []string{"b"}), AskValidate{3, 2})
	does(t, table.Accept(3, Grant{0, []string{"b"}}), AskUnion{Ask: 4, Replaces: 2}.of("a", "b"))
	does(t, table.Refuse(4, Refusal{Ending{Reason: Expired}, "a"}), AskUnion{Ask: 5}.of("b"))
	does(t, table.Accept(5, Grant{AllLists, []string{"b"}}), Ack{2, 0, []string{"b"}})
	tells(t, table, Updated{1, "a", true, Ending{Reason: Expired}})
}

// A worker that completes the union by itself ends its URIs, and is not asked
// again before somebody listens anew.
func TestUnionCompletedByTheWorker(t *testing.T) {
	table := serves(t, 8, false)
	does(t, table.Listen(1, Tools, nil), AskValidate{1, 1})
	does(t, table.Accept(1, Grant{Tools, nil}), AskUnion{Ask: 2})
	does(t, table.Accept(2, Grant{AllLists, nil}), Ack{1, Tools, nil})
	does(t, table.Finished(2))
	does(t, table.Listen(2, Tools, nil), AskValidate{3, 2})
	does(t, table.Accept(3, Grant{Tools, nil}), AskUnion{Ask: 4})
	does(t, table.Refuse(4, Refusal{}), Refused{2})
}

func (a AskUnion) of(uris ...string) AskUnion {
	a.URIs = uris
	return a
}

// Nothing is told to a listen that the client has cancelled.
func TestUpdatesAfterCancel(t *testing.T) {
	table := serves(t, 8, true)
	ask := listens(t, table, 1, Tools, "a")
	table.Updated(1, "a")
	does(t, table.Cancel(1), Stop{ask})
	table.Updated(1, "a")
	does(t, table.Ended(1, "a", Ending{Reason: Expired}))
	table.Changed(1, Tools)
	tells(t, table)
	does(t, table.Finished(ask))
	tells(t, table)
}

// A request that was with a lost worker is with none, so its cancellation
// leaves nothing to undo.
func TestCancelAfterLoss(t *testing.T) {
	table := serves(t, 1, true)
	does(t, table.Subscribe(1, "a"), AskSubscribe{Ask: 1, Request: 1, URI: "a"})
	does(t, table.Lost())
	does(t, table.Cancel(1))
	does(t, table.Subscribe(2, "b"))
	does(t, table.Offer(true))
	does(t, table.Promote(), AskSubscribe{Ask: 2, Request: 2, URI: "b"})
}

// What a new worker admits after it has begun to serve is told then.
func TestAdmittedAfterPromotion(t *testing.T) {
	table := serves(t, 8, true)
	listens(t, table, 1, 0, "a", "b")
	holds(t, table, 2, "c")
	does(t, table.Offer(true),
		AskSubscribe{Ask: 3, Candidate: true, URI: "c"}, AskListen{Ask: 4, Candidate: true, Holder: 1, URIs: []string{"a", "b"}})
	does(t, table.Promote())
	tells(t, table)
	does(t, table.Refuse(3, Refusal{}))
	does(t, table.Accept(4, Grant{0, []string{"a"}}))
	tells(t, table,
		Updated{Holder: Connection, URI: "c", Over: true}, Updated{Holder: 1, URI: "a"}, Updated{Holder: 1, URI: "b", Over: true})
}

// A union that is opened anew is a gap for the connection as well.
func TestGapOfTheConnection(t *testing.T) {
	table := serves(t, 8, false)
	holds(t, table, 1, "a")
	does(t, table.Listen(2, 0, []string{"a"}), AskValidate{2, 2})
	does(t, table.Accept(2, Grant{0, []string{"a"}}), AskUnion{Ask: 3}.of("a"))
	does(t, table.Accept(3, Grant{0, []string{"a"}}), Ack{Request: 2, URIs: []string{"a"}})
	tells(t, table)
	does(t, table.Listen(4, 0, []string{"b"}), AskValidate{4, 4})
	does(t, table.Accept(4, Grant{0, []string{"b"}}), AskUnion{Ask: 5, Replaces: 3}.of("a", "b"))
	does(t, table.Accept(5, Grant{0, []string{"a", "b"}}), Ack{Request: 4, URIs: []string{"b"}})
	tells(t, table, Updated{Holder: 2, URI: "a"}, Updated{Holder: Connection, URI: "a"})
}

// A listen that is acknowledged beside a candidate is put to that as well.
func TestListenBesideACandidate(t *testing.T) {
	table := serves(t, 8, true)
	does(t, table.Offer(true))
	does(t, table.Listen(1, Tools, []string{"a"}), AskListen{Ask: 1, Holder: 1, Lists: Tools, URIs: []string{"a"}, First: true})
	does(t, table.Accept(1, Grant{Tools, []string{"a"}}),
		Ack{1, Tools, []string{"a"}}, AskListen{Ask: 2, Candidate: true, Holder: 1, Lists: Tools, URIs: []string{"a"}})
	if table.Offered() {
		t.Error("it is not answered")
	}
	does(t, table.Accept(2, Grant{Tools, []string{"a"}}))
	does(t, table.Promote())
	tells(t, table, Updated{Holder: 1, URI: "a"})
}
