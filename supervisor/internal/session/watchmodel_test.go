package session

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/internal/envelope"
	"github.com/holdfast-mcp/holdfast/protocol"
)

// TestWatchModel: SUP-16, LEASE-2, LEASE-3, EDGE-1, EDGE-14. A client of either
// era lists, watches, cancels and uses ids of what was cancelled again, at
// workers that answer in any order, late, twice, with errors or not at all, and
// are swapped, retired and lost. An id has one answer while the client waits for
// it, a listen one acknowledgement, all that is said is legal, and nothing is
// remembered of what is over.
func TestWatchModel(t *testing.T) {
	for seed := range uint64(watchSeeds) {
		m := newWatchModel(t, seed)
		for range 200 {
			m.act()
		}
		m.settle()
		if t.Failed() {
			t.Logf("seed %d:\n%s", seed, m.log.String())
			return
		}
	}
}

// watchSeeds is how many clients TestWatchModel plays; it was written with 6,000.
const watchSeeds = 150

// atWorker is a request that a worker has.
type atWorker struct {
	link    Link
	number  uint64
	method  string
	payload []byte
}

type watchModel struct {
	*testing.T
	*rand.Rand
	s      *Session
	now    time.Time
	out    Output
	modern bool
	multi  bool
	told   bool

	waits     map[string]string // method of what the client waits for, by id
	acked     map[string]bool
	cancelled []string // ids
	links     []Link
	sides     map[Link]Link
	last      Link
	full      bool // links may have no room
	due       []atWorker
	ids       int
	log       strings.Builder
}

func newWatchModel(t *testing.T, seed uint64) *watchModel {
	r := rand.New(rand.NewPCG(seed, 1))
	limits := testLimits
	limits.ChainTimeout, limits.InitializeTimeout, limits.StartTimeout, limits.DiscoverTimeout = time.Minute, 4*time.Second, time.Minute, 2*time.Second
	limits.Leases = 12
	return &watchModel{
		T: t, Rand: r, s: New(limits, "v0", epoch, Traits{}), now: epoch, modern: r.IntN(2) == 0, multi: r.IntN(2) == 0,
		full: true, waits: map[string]string{}, acked: map[string]bool{}, sides: map[Link]Link{},
	}
}

const watchMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

func (m *watchModel) do(what string, f func(out *Output)) {
	m.log.WriteString(what + "\n")
	m.out.Reset()
	f(&m.out)
	if m.out.Recall {
		m.s.Recalled(Memory{}, m.now, &m.out)
	}
	m.took()
	for m.s.HasUpdates() {
		m.out.Reset()
		m.s.Update(&m.out)
		m.took()
	}
}

func (m *watchModel) took() {
	for i, opened := 0, 0; i < len(m.out.Frames); i++ { // one that is not sent appends to both
		for ; opened < len(m.out.Open); opened++ {
			m.sides[m.out.Open[opened].Link] = m.out.Open[opened].Beside
		}
		f := m.out.Frames[i]
		fmt.Fprintf(&m.log, "    %d <- %d %d %s\n", f.Link, f.Frame.Kind, f.Frame.ID, f.Frame.Payload)
		if f.Frame.Kind == Drain {
			continue
		}
		env, err := envelope.Peek(f.Frame.Payload)
		if err != nil {
			m.Errorf("illegal frame: %v: %s", err, f.Frame.Payload)
		}
		_, isSide := m.sides[f.Link]
		switch {
		case f.Frame.Kind != Request || !isSide && !slices.Contains(m.links, f.Link):
		case !isSide && !f.Held && m.full && m.IntN(20) == 0:
			m.log.WriteString("    that is not sent\n")
			m.s.Unsent(f.Frame.ID, &m.out)
		default:
			m.due = append(m.due, atWorker{f.Link, f.Frame.ID, env.Method, f.Frame.Payload})
		}
	}
	for _, l := range m.out.Lines {
		m.log.WriteString("    client <- " + string(l) + "\n")
		m.toClient(l)
	}
	for _, n := range m.out.Closed {
		m.gone(n)
	}
	if n := m.out.Renew; n != 0 {
		m.out.Renew = 0
		m.lose(n, Loss{Cause: "got a fresh session"})
		m.attach()
	}
	if n := m.out.Refused; n != 0 {
		m.out.Refused = 0
		m.lose(n, Loss{Cause: "was refused"})
	}
}

func (m *watchModel) gone(n Link) {
	delete(m.sides, n)
	m.links = slices.DeleteFunc(m.links, func(l Link) bool { return l == n })
	m.due = slices.DeleteFunc(m.due, func(a atWorker) bool { return a.link == n })
}

func (m *watchModel) lose(n Link, loss Loss) {
	m.gone(n)
	m.do(fmt.Sprint("lost ", n, loss), func(out *Output) { m.s.Lost(n, loss, m.now, out) })
	for side, parent := range m.sides {
		if parent == n {
			m.gone(side)
		}
	}
}

func (m *watchModel) toClient(line []byte) {
	env, err := envelope.Peek(line)
	if err != nil {
		m.Errorf("illegal line: %v: %s", err, line)
		return
	}
	id := string(env.ID.Of(line))
	switch {
	case env.Kind.IsAnswer():
		method, waits := m.waits[id]
		if !waits && !slices.Contains(m.cancelled, id) {
			m.Errorf("%s is answered twice: %s", id, line)
		}
		m.cancelled = slices.DeleteFunc(m.cancelled, func(c string) bool { return c == id })
		delete(m.waits, id)
		delete(m.acked, id)
		m.told = m.told || method == methodInitialize && env.Kind == envelope.Response
	case env.Method == noteAcknowledged:
		span, _ := envelope.Find(env.Params.Of(line), "_meta", subscriptionKey)
		sub := string(span.Of(env.Params.Of(line)))
		if m.acked[sub] || m.waits[sub] != methodListen {
			m.Errorf("acknowledged again, or nothing: %s", line)
		}
		m.acked[sub] = true
	}
}

func (m *watchModel) attach() {
	m.last++
	n := m.last
	m.links = append(m.links, n)
	m.do(fmt.Sprint("attach ", n), func(out *Output) { m.s.Attach(n, Worker{Generation: uint64(n), Multi: m.multi}, out) })
}

func (m *watchModel) ask(id, method, params string) {
	if _, used := m.waits[id]; used {
		return
	}
	m.waits[id] = method
	delete(m.acked, id)
	m.cancelled = slices.DeleteFunc(m.cancelled, func(c string) bool { return c == id })
	line := message(id, method, params)
	m.do("client "+string(line), func(out *Output) { m.s.Receive(line, m.now, out) })
}

func (m *watchModel) request() {
	m.ids++
	id := strconv.Itoa(m.ids)
	if len(m.cancelled) > 0 && m.IntN(4) == 0 {
		id = m.cancelled[m.IntN(len(m.cancelled))]
	}
	uri := fmt.Sprintf("u%d", m.IntN(4))
	if !m.modern {
		switch {
		case !m.told && len(m.waits) == 0:
			m.ask(id, methodInitialize, `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c"}}`)
		case m.told:
			method := []string{methodSubscribe, methodSubscribe, methodUnsubscribe, methodToolsList, methodToolsCall, "resources/list"}[m.IntN(6)]
			m.ask(id, method, `{"uri":"`+uri+`","name":"a"}`)
		}
		return
	}
	switch m.IntN(8) {
	case 0:
		m.ask(id, methodDiscover, `{`+watchMeta+`}`)
	case 1:
		m.ask(id, methodToolsList, `{`+watchMeta+`}`)
	case 2:
		m.ask(id, methodToolsCall, `{`+watchMeta+`,"name":"a"}`)
	case 3:
		m.ask(id, "resources/list", `{`+watchMeta+`}`)
	case 4:
		m.ask(id, methodListen, `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"notifications":{"toolsListChanged":true}}`)
	default:
		m.ask(id, methodListen, fmt.Sprintf(`{%s,"notifications":{"toolsListChanged":%v,"resourceSubscriptions":["%s","u9"]}}`, watchMeta, m.IntN(2) == 0, uri))
	}
}

func (m *watchModel) cancel() {
	ids := slices.Sorted(maps.Keys(m.waits))
	if len(ids) == 0 {
		return
	}
	id := ids[m.IntN(len(ids))]
	if m.waits[id] == methodInitialize {
		return
	}
	delete(m.waits, id)
	m.cancelled = append(m.cancelled, id)
	line := message("", noteCancelled, `{"requestId":`+id+`}`)
	m.do("cancel "+id, func(out *Output) { m.s.Receive(line, m.now, out) })
}

// answer lets a worker answer something, well or not.
func (m *watchModel) answer(i int, well bool) {
	a := m.due[i]
	acks := a.method == methodListen && m.IntN(4) > 0
	n := strconv.FormatUint(a.number, 10)
	say := func(kind Kind, payload []byte) {
		m.do(fmt.Sprintf("worker %d %d %d %s", a.link, kind, a.number, payload), func(out *Output) {
			m.s.Frame(a.link, Frame{kind, a.number, payload}, out)
		})
	}
	if acks || well && a.method == methodListen {
		env, _ := envelope.Peek(a.payload)
		want, _ := envelope.Find(env.Params.Of(a.payload), "notifications")
		ack := message("", noteAcknowledged, `{"_meta":{"`+subscriptionKey+`":`+n+`},"notifications":`+string(want.Of(env.Params.Of(a.payload)))+`}`)
		say(Notification, ack)
		return
	}
	m.due = slices.Delete(m.due, i, i+1)
	if !well && m.IntN(5) == 0 {
		say(Response, rpcErrorLine([]byte(n), -32603, "no"))
		return
	}
	result := `{"resultType":"complete","protocolVersion":"2025-11-25","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true}},` +
		`"tools":[{"name":"` + []string{"a", "b"}[m.IntN(2)] + `"}],"resources":[]}`
	say(Response, resultLine([]byte(n), []byte(result)))
	if !well && m.IntN(8) == 0 {
		say(Response, resultLine([]byte(n), []byte(result)))
	}
}

func (m *watchModel) act() {
	switch x := m.IntN(100); {
	case x < 30:
		m.request()
	case x < 40:
		m.cancel()
	case x < 72:
		if len(m.due) > 0 {
			m.answer(m.IntN(len(m.due)), false)
		}
	case x < 75:
		if m.told && !m.modern {
			m.do("initialized", func(out *Output) { m.s.Receive(message("", noteInitialized, ""), m.now, out) })
		}
	case x < 80:
		if len(m.links) < 3 {
			m.attach()
		}
	case x < 84:
		if len(m.links) > 0 {
			n := m.links[m.IntN(len(m.links))]
			m.do(fmt.Sprint("promote ", n), func(out *Output) { m.s.Promote(n, out) })
		}
	case x < 86:
		if len(m.links) > 0 {
			n := m.links[m.IntN(len(m.links))]
			m.do(fmt.Sprint("retire ", n), func(out *Output) { m.s.Retire(n, out) })
		}
	case x < 89:
		if len(m.links) > 0 {
			m.lose(m.links[m.IntN(len(m.links))], Loss{Cause: "died", Exit: &protocol.Exit{Code: 1}})
		}
	case x < 91:
		if sides := slices.Sorted(maps.Keys(m.sides)); len(sides) > 0 {
			n := sides[m.IntN(len(sides))]
			m.gone(n)
			m.do(fmt.Sprint("side-lost ", n), func(out *Output) { m.s.SideLost(n, out) })
		}
	case x < 95:
		m.change()
	default:
		m.wait(time.Duration(m.IntN(3000)) * time.Millisecond)
	}
}

func (m *watchModel) change() {
	if len(m.links) == 0 {
		return
	}
	on := m.links[m.IntN(len(m.links))]
	line := message("", noteUpdated, `{"uri":"u1"}`)
	if m.IntN(2) == 0 {
		line = message("", "notifications/tools/list_changed", "")
	}
	m.do(fmt.Sprint("tell ", on, string(line)), func(out *Output) { m.s.Frame(on, Frame{Notification, 0, line}, out) })
}

func (m *watchModel) wait(d time.Duration) {
	m.now = m.now.Add(d)
	m.do(fmt.Sprint("wait ", d), func(out *Output) { m.s.Expire(m.now, out) })
}

// settle has the workers answer all, and then the client cancel its listens,
// which no worker answers, and looks at what is left.
func (m *watchModel) settle() {
	m.full = false
	for range 40 {
		if m.s.Serving() == 0 {
			m.attach()
		}
		m.answerAll()
		m.wait(time.Second)
	}
	for id, method := range m.waits {
		if method != methodListen || !m.acked[id] {
			m.Errorf("%s %s was never answered", id, method)
		}
	}
	for range len(m.waits) {
		m.cancel()
	}
	for range 40 {
		m.answerAll()
		m.wait(time.Second)
	}
	w := &m.s.watched
	if n := len(w.listens) + len(w.pending) + len(w.sides) + len(w.waiting) + len(m.s.byID) + m.s.queued; n != 0 {
		m.Errorf("left: listens %d, pending %d, sides %d, waiting %d, byID %d, queued %d",
			len(w.listens), len(w.pending), len(w.sides), len(w.waiting), len(m.s.byID), m.s.queued)
	}
	for _, r := range m.s.sent {
		if !slices.Contains(m.s.forlorn, r.number) {
			m.Errorf("left in sent: %s %s", r.id, r.method)
		}
	}
	m.do("close", func(out *Output) { m.s.Close(out) })
}

// answerAll has the workers answer what they have, and acknowledge listens.
func (m *watchModel) answerAll() {
	others := func(a atWorker) bool { return a.method != methodListen }
	for i := slices.IndexFunc(m.due, others); i >= 0 && !m.Failed(); i = slices.IndexFunc(m.due, others) {
		m.answer(i, true)
	}
	for i := 0; i < len(m.due); i++ {
		if m.due[i].method == methodListen {
			m.answer(i, true)
		}
	}
}
