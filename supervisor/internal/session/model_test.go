package session

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-mcp/holdfast/internal/envelope"
	"github.com/holdfast-mcp/holdfast/protocol"
)

// TestModel: SUP-7, SUP-9, SUP-16, SUP-23, EDGE-5, EDGE-6. Random clients,
// workers, swaps and losses are played against a simple model. What it proves:
// an id gets at most one answer, and exactly one in the end unless it was
// cancelled; nothing that may have an effect is given to two workers; requests
// reach the serving worker and no other, in the order of their arrival and never
// before the answer to initialize; a worker that drains is heard until it is
// gone, and drained when it has answered; one that is gone is not heard; nothing
// is remembered of what is over.
func TestModel(t *testing.T) {
	steps := flag.Lookup("rapid.steps")
	if steps.Value.String() == steps.DefValue {
		if err := steps.Value.Set("100"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = steps.Value.Set(steps.DefValue) })
	}
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		t.Repeat(map[string]func(*rapid.T){
			"":         m.check,
			"ask":      m.ask,
			"ask more": m.ask,
			"cancel":   m.cancel,
			"attach":   m.attach,
			"promote":  m.promote,
			"retire":   m.retire,
			"lose":     m.lose,
			"change":   m.change,
			"deliver":  m.deliver,
			"answer":   m.answer,
			"stale":    m.stale,
			"progress": m.progress,
			"question": m.question,
			"reply":    m.reply,
			"withdraw": m.withdraw,
			"down":     m.down,
			"wait":     m.wait,
		})
		m.settle(t)
	})
}

// asked is the model of a request of the client.
type asked struct {
	id        string
	method    string
	token     string
	number    uint64 // once it was put on a link
	cancelled bool
	answers   int
	sends     int // times on a link, without those that never left it
	on        *worker
	// again: it went back into the queue while other workers lived, so that
	// later ones may have overtaken it.
	again bool
}

func (a *asked) open() bool { return a.answers == 0 && !a.cancelled }

// worker is the model of a link with a worker at its end, which has got the
// first frames of what was put on the link.
type worker struct {
	link    Link
	queue   []put
	got     int
	numbers uint64 // of its own requests
	asks    []uint64
	last    uint64 // last number of a client's request
	phase   modelPhase
	shaken  bool   // it has answered an initialize
	initial *asked // initialize that it has not answered
}

// modelPhase is what a worker is to the client.
type modelPhase uint8

const (
	preparing modelPhase = iota
	standsBy
	serves
	drains
	isDismissed
)

type put struct {
	number   uint64
	asked    *asked // nil: the session's own
	method   string
	answered bool
}

type model struct {
	session *Session
	now     time.Time
	out     Output

	ids         int
	all         []*asked
	live        []*worker
	gone        []*worker
	links       Link
	isDown      bool
	told        bool // initialize has been answered
	initialized bool // the client has said so
	asks        map[string]struct {
		w      *worker
		number uint64
	}
	lastAsk int
}

var modelMethods = []string{
	"tools/call", "tools/call", "vendor/x", "tools/list", "resources/read",
	"logging/setLevel", "server/discover", "subscriptions/listen", "initialize", "ping",
}

// modelResult answers everything.
const modelResult = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"prompts":{},"resources":{},"completions":{},"logging":{}}}`

func newModel(*rapid.T) *model {
	return &model{
		session: New(Limits{HoldTimeout: 8 * time.Second, InitializeTimeout: 4 * time.Second, HoldRequests: 12, HoldBytes: 2000}, "v0", epoch, Traits{}),
		now:     epoch,
		asks: make(map[string]struct {
			w      *worker
			number uint64
		}),
	}
}

// step lets the session do something and looks at what it wants done.
func (m *model) step(t *rapid.T, f func(out *Output)) {
	m.out.Reset()
	f(&m.out)
	if m.out.Recall {
		m.session.Recalled(Memory{}, m.now, &m.out)
	}
	if w := m.worker(m.out.Ready); w != nil && w.phase == preparing {
		w.phase = standsBy
		if m.serving() == nil {
			w.phase = serves
		}
	} else if m.out.Ready != 0 {
		t.Fatalf("link %d could serve, which it could not say", m.out.Ready)
	}
	for _, l := range m.out.Lines {
		m.toClient(t, l)
	}
	for _, f := range m.out.Frames {
		m.toWorker(t, f)
	}
	if m.told && !m.initialized {
		m.initialized = true
		m.step(t, func(out *Output) { m.session.Receive(message("", noteInitialized, ""), m.now, out) })
	}
}

// worker returns the living worker of a link, nil if there is none.
func (m *model) worker(l Link) *worker {
	return m.first(func(w *worker) bool { return w.link == l })
}

func (m *model) serving() *worker {
	return m.first(func(w *worker) bool { return w.phase == serves })
}

// candidate returns the worker that is to serve next, nil if there is none.
func (m *model) candidate() *worker {
	return m.first(func(w *worker) bool { return w.phase < serves })
}

func (m *model) first(f func(*worker) bool) *worker {
	if i := slices.IndexFunc(m.live, f); i >= 0 {
		return m.live[i]
	}
	return nil
}

// draw returns a living worker, nil if there is none.
func (m *model) draw(t *rapid.T) *worker {
	if len(m.live) == 0 {
		return nil
	}
	return rapid.SampledFrom(m.live).Draw(t, "worker")
}

func (m *model) find(id string) *asked {
	for _, a := range m.all {
		if a.id == id {
			return a
		}
	}
	return nil
}

func (m *model) toClient(t *rapid.T, line []byte) {
	env, err := envelope.Peek(line)
	if err != nil {
		t.Fatalf("illegal line for the client: %v: %s", err, line)
	}
	id := string(env.ID.Of(line))
	switch {
	case env.Kind.IsAnswer():
		a := m.find(id)
		if a == nil {
			t.Fatalf("answer to nothing: %s", line)
		}
		if a.answers++; a.answers > 1 {
			t.Fatalf("%s was answered twice: %s", id, line)
		}
		if a.method == methodInitialize && env.Kind == envelope.Response {
			m.told = true
			m.early(a)
		}
	case env.Kind == envelope.Request:
		n, err := strconv.Atoi(id)
		if err != nil || n <= m.lastAsk {
			t.Fatalf("number of a worker's request was used before: %s", line)
		}
		m.lastAsk = n
	case env.Method == noteCancelled:
		span, _ := envelope.Find(env.Params.Of(line), "requestId")
		id := string(span.Of(env.Params.Of(line)))
		if _, ok := m.asks[id]; !ok {
			t.Fatalf("withdrew what was not asked: %s", line)
		}
		delete(m.asks, id)
	}
}

// early notes that initialize was answered: if it was ahead of its worker, the
// worker's answer is for the session alone, and it serves after that, unless it
// has been retired.
func (m *model) early(a *asked) {
	for _, w := range m.live {
		if w.initial != a {
			continue
		}
		w.initial, a.on = nil, nil
		if w.phase == serves {
			w.phase = preparing
		}
		for i := range w.queue {
			if w.queue[i].asked == a {
				w.queue[i].asked = nil
			}
		}
	}
}

func (m *model) toWorker(t *rapid.T, o Outgoing) {
	w := m.worker(o.Link)
	if w == nil {
		t.Fatalf("frame for link %d, which is not there", o.Link)
	}
	if o.Frame.Kind != Request {
		return
	}
	env, err := envelope.Peek(o.Frame.Payload)
	if err != nil {
		t.Fatalf("illegal frame: %v: %s", err, o.Frame.Payload)
	}
	p := put{number: o.Frame.ID, method: env.Method}
	if a := m.find(string(env.ID.Of(o.Frame.Payload))); a != nil {
		p.asked = a
		m.sent(t, w, a, o.Frame.ID)
	}
	w.queue = append(w.queue, p)
}

// sent checks that the worker may have this request now.
func (m *model) sent(t *rapid.T, w *worker, a *asked, number uint64) {
	if w.phase != serves {
		t.Fatalf("%s goes to a worker that does not serve", a.id)
	}
	if m.first(func(w *worker) bool { return w.initial != nil }) != nil {
		t.Fatalf("%s overtakes initialize", a.id)
	}
	if !a.open() {
		t.Fatalf("%s is executed after it was answered or cancelled", a.id)
	}
	if !a.again && number <= w.last {
		t.Fatalf("%s came out of order: %d after %d", a.id, number, w.last)
	}
	if a.number != 0 && a.number != number {
		t.Fatalf("%s has two numbers, %d and %d", a.id, a.number, number)
	}
	w.last, a.number, a.on = max(w.last, number), number, w
	a.sends++
	switch o := outcomeOf(a.method); {
	case (o == unknown || o == unavailable) && a.sends > 1, o == read && a.sends > 2:
		t.Fatalf("%s %s is sent for the %d. time", a.id, a.method, a.sends)
	}
	if a.method == methodInitialize {
		w.initial = a
	}
}

func (m *model) ask(t *rapid.T) {
	m.ids++
	id := strconv.Quote(fmt.Sprint("q", m.ids))
	a := &asked{id: id, method: rapid.SampledFrom(modelMethods).Draw(t, "method")}
	if a.method == methodInitialize && (m.told || len(m.openOnes(isInitialize)) > 0) {
		return // a client initializes once
	}
	params := `{"protocolVersion":"2025-06-18"}`
	if rapid.Bool().Draw(t, "with token") {
		a.token = strconv.Itoa(m.ids)
		params = `{"_meta":{"progressToken":` + a.token + `},"protocolVersion":"2025-06-18"}`
	}
	m.all = append(m.all, a)
	m.step(t, func(out *Output) { m.session.Receive(message(id, a.method, params), m.now, out) })
	if a.method == methodPing && a.answers != 1 {
		t.Fatal("ping is not answered at once")
	}
}

func isInitialize(a *asked) bool { return a.method == methodInitialize }

func (m *model) openOnes(f func(*asked) bool) []*asked {
	var open []*asked
	for _, a := range m.all {
		if a.open() && f(a) {
			open = append(open, a)
		}
	}
	return open
}

func (m *model) cancel(t *rapid.T) {
	open := m.openOnes(func(*asked) bool { return true })
	if len(open) == 0 {
		return
	}
	a := rapid.SampledFrom(open).Draw(t, "request")
	m.step(t, func(out *Output) {
		m.session.Receive(message("", noteCancelled, `{"requestId":`+a.id+`}`), m.now, out)
	})
	if a.answers > 0 {
		t.Fatal("a cancel was answered")
	}
	cancels := slices.ContainsFunc(m.out.Frames, func(o Outgoing) bool {
		return o.Frame.Kind == Cancel && o.Frame.ID == a.number
	})
	if onLink := a.on != nil && a.method != methodInitialize; cancels != onLink {
		t.Fatalf("cancel of %s: told its worker %v, want %v", a.id, cancels, onLink)
	}
	a.cancelled = a.method != methodInitialize
}

func (m *model) attach(t *rapid.T) {
	if m.candidate() != nil {
		return
	}
	if m.isDown {
		m.step(t, func(*Output) { m.session.Starting() })
		m.isDown = false
	}
	m.links++
	m.live = append(m.live, &worker{link: m.links})
	m.step(t, func(out *Output) { m.session.Attach(m.links, Worker{Generation: uint64(m.links)}, out) })
}

// promote lets the candidate serve. It cannot if the client has shaken hands
// since it came, or is about to.
func (m *model) promote(t *rapid.T) {
	w := m.candidate()
	if w == nil || w.phase != standsBy {
		return
	}
	busy := m.first(func(w *worker) bool { return w.initial != nil }) != nil
	m.step(t, func(out *Output) {
		if got, want := m.session.Promote(w.link, out), !busy && (w.shaken || !m.told); got != want {
			t.Fatalf("Promote() = %v, want %v", got, want)
		} else if !got {
			w.phase = preparing
			return
		}
		if old := m.serving(); old != nil {
			old.phase = drains
		}
		w.phase = serves
	})
}

// retire lets the serving worker drain, with nothing in its place, or dismisses
// a candidate.
func (m *model) retire(t *rapid.T) {
	w := m.first(func(w *worker) bool { return w.phase != drains && w.phase != isDismissed })
	if w == nil {
		return
	}
	m.step(t, func(out *Output) {
		m.session.Retire(w.link, out)
		if w.phase == serves {
			w.phase = drains
		} else {
			w.phase = isDismissed
		}
	})
}

// change lets a worker say that its tools have changed. Only the serving one's
// are the client's (SUP-7).
func (m *model) change(t *rapid.T) {
	w := m.draw(t)
	if w == nil || !m.told {
		return
	}
	m.step(t, func(out *Output) {
		m.session.Frame(w.link, Frame{Notification, 0, message("", "notifications/tools/list_changed", "")}, out)
	})
	if want := w.phase == serves; (len(m.out.Lines) > 0) != want {
		t.Fatalf("list_changed of a worker in phase %d passed: %v", w.phase, !want)
	}
}

func (m *model) lose(t *rapid.T) {
	w := m.draw(t)
	if w == nil {
		return
	}
	loss := Loss{Generation: uint64(w.link), Cause: "died"}
	for i, p := range w.queue {
		if i >= w.got {
			loss.Unsent = append(loss.Unsent, p.number)
			if p.asked != nil {
				p.asked.sends--
			}
		}
		if p.asked != nil && p.asked.on == w {
			p.asked.on = nil
			p.asked.again = len(m.live) > 1
		}
	}
	m.live = slices.DeleteFunc(m.live, func(other *worker) bool { return other == w })
	m.gone = append(m.gone, w)
	before := make(map[*asked]int)
	for _, p := range w.queue {
		if p.asked != nil {
			before[p.asked] = p.asked.sends
		}
	}
	m.step(t, func(out *Output) { m.session.Lost(w.link, loss, m.now, out) })
	for id, q := range m.asks {
		if q.w == w {
			t.Fatalf("request %s of a lost worker was not withdrawn", id)
		}
	}
	for _, p := range w.queue {
		a := p.asked
		if a == nil || p.answered || a.cancelled {
			continue
		}
		kept := slices.Contains(loss.Unsent, p.number) || outcomeOf(a.method) == retried ||
			outcomeOf(a.method) == read && before[a] < 2
		kept = kept && !m.isDown
		if kept == (a.answers > 0) {
			t.Fatalf("%s %s, sent %d times: kept %v", a.id, a.method, a.sends, !kept)
		}
	}
}

// deliver lets the worker get some more of what is on its link.
func (m *model) deliver(t *rapid.T) {
	if w := m.draw(t); w != nil {
		w.got = rapid.IntRange(w.got, len(w.queue)).Draw(t, "got")
	}
}

func (m *model) answer(t *rapid.T) {
	w := m.draw(t)
	if w == nil {
		return
	}
	var due []int
	for i, p := range w.queue[:w.got] {
		if !p.answered {
			due = append(due, i)
		}
	}
	if len(due) == 0 {
		return
	}
	m.answerOne(t, w, rapid.SampledFrom(due).Draw(t, "answered"))
}

func (m *model) answerOne(t *rapid.T, w *worker, i int) {
	p := &w.queue[i]
	p.answered = true
	w.shaken = w.shaken || p.method == methodInitialize
	if p.asked != nil {
		p.asked.on = nil
		if p.asked == w.initial {
			w.initial = nil
		}
	}
	n := strconv.FormatUint(p.number, 10)
	m.step(t, func(out *Output) {
		m.session.Frame(w.link, Frame{Response, p.number, resultLine([]byte(n), []byte(modelResult))}, out)
	})
	if p.asked != nil && p.asked.answers != 1 {
		t.Fatalf("the answer to %s was not delivered", p.asked.id)
	}
}

// stale lets a worker speak that is gone.
func (m *model) stale(t *rapid.T) {
	if len(m.gone) == 0 {
		return
	}
	w := rapid.SampledFrom(m.gone).Draw(t, "worker")
	f := Frame{Notification, 0, message("", "notifications/message", "")}
	if len(w.queue) > 0 && rapid.Bool().Draw(t, "answers") {
		p := rapid.SampledFrom(w.queue).Draw(t, "stale")
		f = Frame{Response, p.number, resultLine([]byte("1"), []byte(`{}`))}
	}
	m.step(t, func(out *Output) { m.session.Frame(w.link, f, out) })
	if len(m.out.Lines)+len(m.out.Frames) > 0 {
		t.Fatalf("a worker that is gone was heard: %s", m.out.Lines)
	}
}

func (m *model) progress(t *rapid.T) {
	w := m.draw(t)
	var ours []*asked
	for _, a := range m.all {
		if a.token != "" {
			ours = append(ours, a)
		}
	}
	if w == nil || len(ours) == 0 || !m.told {
		return
	}
	a := rapid.SampledFrom(ours).Draw(t, "progress of")
	m.step(t, func(out *Output) {
		m.session.Frame(w.link, Frame{Notification, 0, message("", noteProgress, `{"progressToken":`+a.token+`}`)}, out)
	})
	if want := a.on == w && a.open(); (len(m.out.Lines) > 0) != want {
		t.Fatalf("progress of %s passed: %v, want %v", a.id, !want, want)
	}
}

func (m *model) question(t *rapid.T) {
	w := m.draw(t)
	if w == nil || !m.told {
		return
	}
	w.numbers++
	before := m.lastAsk
	m.step(t, func(out *Output) {
		n := strconv.FormatUint(w.numbers, 10)
		m.session.Frame(w.link, Frame{Request, w.numbers, message(n, "roots/list", "")}, out)
	})
	if m.lastAsk != before {
		w.asks = append(w.asks, w.numbers)
		m.asks[strconv.Itoa(m.lastAsk)] = struct {
			w      *worker
			number uint64
		}{w, w.numbers}
	}
}

// askIDs returns the ids of the open requests of workers, in order.
func (m *model) askIDs() []string {
	ids := make([]string, 0, len(m.asks))
	for id := range m.asks {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (m *model) reply(t *rapid.T) {
	if len(m.asks) == 0 {
		return
	}
	id := rapid.SampledFrom(m.askIDs()).Draw(t, "reply to")
	q := m.asks[id]
	delete(m.asks, id)
	m.step(t, func(out *Output) { m.session.Receive(resultLine([]byte(id), []byte(`{}`)), m.now, out) })
	if len(m.out.Frames) != 1 || m.out.Frames[0].Frame.ID != q.number || m.out.Frames[0].Link != q.w.link {
		t.Fatalf("the reply to %s went to %v", id, m.out.Frames)
	}
}

// withdraw lets a worker cancel what it asked.
func (m *model) withdraw(t *rapid.T) {
	if len(m.asks) == 0 {
		return
	}
	q := m.asks[rapid.SampledFrom(m.askIDs()).Draw(t, "withdrawn")]
	before := len(m.asks)
	m.step(t, func(out *Output) {
		m.session.Frame(q.w.link, Frame{Cancel, q.number, message("", noteCancelled, `{"requestId":1}`)}, out)
	})
	if len(m.asks) != before-1 {
		t.Fatal("the client was not told that its answer is not wanted")
	}
}

func (m *model) down(t *rapid.T) {
	if m.serving() != nil || m.candidate() != nil {
		return
	}
	m.isDown = true
	m.step(t, func(out *Output) {
		m.session.Down(protocol.NewError(protocol.WorkerUnavailable, "down"), time.Unix(1<<40, 0), out)
	})
}

func (m *model) wait(t *rapid.T) {
	at, ok := m.session.Deadline()
	m.now = m.now.Add(time.Duration(rapid.IntRange(1, 5).Draw(t, "seconds")) * time.Second)
	told := m.told
	m.step(t, func(out *Output) { m.session.Expire(m.now, out) })
	did := len(m.out.Lines) > 0 || m.told != told
	if due := ok && !m.now.Before(at); due != did && (did || !at.IsZero() && len(m.out.Frames) == 0) {
		t.Fatalf("at %v, deadline %v: refused %d", m.now, at, len(m.out.Lines))
	}
}

// check compares what the session says of itself with the model.
func (m *model) check(t *rapid.T) {
	open := m.openOnes(func(*asked) bool { return true })
	if got := m.session.InFlight(); got != len(open) {
		t.Fatalf("InFlight() = %d, want %d", got, len(open))
	}
	due := m.openOnes(func(a *asked) bool { return a.on == nil || a.method != methodListen })
	if got := m.session.Idle(); got != (len(due) == 0) {
		t.Fatalf("Idle() = %v with %d requests", got, len(due))
	}
	serving := Link(0)
	if w := m.serving(); w != nil {
		serving = w.link
	}
	if got := m.session.Serving(); got != serving {
		t.Fatalf("Serving() = %d, want %d", got, serving)
	}
	for _, w := range m.live {
		owes := slices.ContainsFunc(due, func(a *asked) bool { return a.on == w && a.method != methodListen })
		if got, want := m.session.Drained(w.link), w.phase >= drains && !owes; got != want {
			t.Fatalf("Drained(%d) = %v, want %v", w.link, got, want)
		}
	}
	if waits := slices.ContainsFunc(open, func(a *asked) bool { return a.on == nil }); m.isDown && waits {
		t.Fatal("a request waits for nothing")
	}
}

// settle gives the client a worker that answers everything.
func (m *model) settle(t *rapid.T) {
	if m.serving() == nil {
		m.attach(t)
		m.promote(t)
	}
	for range 3 { // what one answers may be news for another
		for _, w := range m.live {
			for i := 0; i < len(w.queue); i++ {
				w.got = len(w.queue)
				if !w.queue[i].answered {
					m.answerOne(t, w, i)
				}
			}
		}
		if m.serving() == nil {
			m.promote(t)
		}
	}
	for len(m.asks) > 0 {
		m.reply(t)
	}
	m.check(t)
	for _, a := range m.all {
		if a.answers == 0 && !a.cancelled {
			t.Fatalf("%s %s was never answered", a.id, a.method)
		}
	}
	s := m.session
	if n := len(s.sent) + len(s.own) + len(s.byID) + len(s.byToken) + len(s.asked) + s.queued + s.queueSize + len(s.queue); n != 0 {
		t.Fatalf("something is left: sent %d, own %d, byID %d, byToken %d, asked %d, queued %d of %d bytes, queue %d",
			len(s.sent), len(s.own), len(s.byID), len(s.byToken), len(s.asked), s.queued, s.queueSize, len(s.queue))
	}
	if len(s.links) != len(m.live) || s.told.pending != nil {
		t.Fatalf("%d links, initialize pending: %v", len(s.links), s.told.pending != nil)
	}
}
