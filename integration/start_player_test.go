package integration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/integration/harness"
	"github.com/holdfast-mcp/holdfast/protocol"
)

// player plays the first seconds of one client with one server: it sends what
// the client is known to send, gives up when the client would, and notes who
// answered what. The server is the start server, whose answers name the process.
type player struct {
	*harness.Client

	t       *testing.T
	kind    *clientKind
	config  harness.Config
	started time.Time
	// earlier are the processes of an earlier start, whose answers can only
	// come from the cache.
	earlier map[string]bool
	// quick: the server needs no time.
	quick bool
	// relistBy is how long after the start a list_changed may come after which
	// a list that was refused is asked for again.
	relistBy time.Duration
	// others are processes that the client started beside the one that it uses.
	others []*harness.Client

	ids   int
	steps []string // what was answered by whom, and when
	wrong []string // what must not be, but may come of a machine that is busy
	tools bool     // the client has got its tools
}

// Deadlines of holdfast for the first answers.
const (
	cacheAfter      = time.Second
	discoverTimeout = 2 * time.Second
	greetTimeout    = 4 * time.Second
	holdTimeout     = 8 * time.Second
)

// What an answer may be off its deadline: it may count from before the request,
// and a loaded machine adds to it.
const (
	early = 300 * time.Millisecond
	tardy = 1500 * time.Millisecond
)

// when tells whether an answer came at once or at its deadline.
func (p *player) when(step string, after, deadline time.Duration) string {
	due, text := time.Duration(0), "at once"
	if after >= deadline-early {
		due, text = deadline, fmt.Sprintf("at %g s", deadline.Seconds())
	}
	if after > due+tardy {
		p.wrong = append(p.wrong, fmt.Sprintf("%s: answered after %v, which is %v too late", step, after, after-due))
	}
	return text
}

// processOf returns the process of the start server that an answer names.
func processOf(f harness.Frame) string {
	type info struct{ Name, Version string }
	var answer struct {
		ServerInfo info `json:"serverInfo"`
		Meta       struct {
			ServerInfo info `json:"io.modelcontextprotocol/serverInfo"`
		} `json:"_meta"`
	}
	raw := f.Result
	if f.Error != nil {
		raw = f.Error.Data
	}
	_ = json.Unmarshal(raw, &answer) // what is no such answer names none
	for _, i := range []info{answer.ServerInfo, answer.Meta.ServerInfo} {
		if i.Name == "startserver" {
			return i.Version
		}
	}
	return ""
}

// givers of answers.
const (
	byWorker   = "worker"
	byCache    = "cache"
	byHoldfast = "holdfast"
)

func (p *player) giver(f harness.Frame) string {
	switch process := processOf(f); {
	case process == "":
		return byHoldfast
	case p.earlier[process]:
		return byCache
	}
	return byWorker
}

// describe tells who gave an answer, of what kind and when.
func (p *player) describe(step string, f harness.Frame, after time.Duration) string {
	switch giver := p.giver(f); {
	case giver == byWorker && f.Error != nil:
		return "worker refuses"
	case p.quick && step == stepTools && giver != byHoldfast:
		return "worker or cache" // a matter of milliseconds
	case giver == byWorker:
		return "worker"
	case giver == byCache:
		return "cache " + p.when(step, after, cacheAfter)
	case f.Error == nil && after < greetTimeout-early:
		return "minimal, the start has failed"
	case f.Error == nil:
		return "minimal " + p.when(step, after, greetTimeout)
	case f.Typed() != nil && f.Typed().Kind == protocol.WorkerStarting:
		return string(protocol.WorkerStarting) + " " + p.when(step, after, holdTimeout)
	case f.Typed() != nil:
		return string(f.Typed().Kind) + ", the start has failed"
	}
	return fmt.Sprint(f.Error.Code, " ", p.when(step, after, discoverTimeout))
}

// asked is a request whose answer is awaited.
type asked struct {
	*harness.Pending

	step string
	at   time.Time
}

// ask sends a request. An empty id is one that no client begins with.
func (p *player) ask(id, step, method string, params any) asked {
	if id == "" {
		p.ids++
		id = fmt.Sprint(100 + p.ids)
	}
	return asked{p.RequestID(id, method, params), step, time.Now()}
}

// await returns the answer and notes it; false if the client gave up.
func (p *player) await(a asked, patience time.Duration) (harness.Frame, bool) {
	f, err := a.Within(min(patience, p.left()))
	after := time.Since(a.at)
	if err == nil {
		p.steps = append(p.steps, a.step+": "+p.describe(a.step, f, after))
		return f, true
	}
	if after < patience {
		p.steps = append(p.steps, a.step+": nothing")
		p.wrong = append(p.wrong, fmt.Sprintf("%s: %v", a.step, err))
		return harness.Frame{}, false
	}
	p.steps = append(p.steps, fmt.Sprintf("%s: given up after %.0f s", a.step, patience.Seconds()))
	return harness.Frame{}, false
}

// left is how long the client is still watched. It has been given all answers
// long before.
func (p *player) left() time.Duration { return watched - time.Since(p.started) }

const watched = time.Minute

// initialize opens the legacy era and reports whether the server agreed.
func (p *player) initialize(id string) bool {
	f, ok := p.await(p.ask(id, "initialize", "initialize", p.kind.hello()), p.kind.patience)
	return ok && f.Error == nil
}

func (p *player) initialized() { p.Notify("notifications/initialized", nil) }

// probe asks for the modern era and reports whether there is an answer, and
// whether the server agreed.
func (p *player) probe(id string, patience time.Duration) (answered, agreed bool) {
	f, ok := p.await(p.ask(id, "discover", "server/discover", p.kind.envelope(nil)), patience)
	return ok, ok && f.Error == nil
}

// listen asks to be told of changes, as clients of the modern era do.
func (p *player) listen() {
	p.RequestID(`"listen:0"`, "subscriptions/listen", p.kind.envelope(map[string]any{
		"notifications": map[string]any{"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true},
	}))
}

const stepTools = "tools"

// list asks for the tools and then for other lists; what params adds to each is
// up to the era.
func (p *player) list(id string, params func() map[string]any, others ...string) {
	f, _ := p.await(p.ask(id, stepTools, "tools/list", params()), p.kind.patience)
	p.tools = f.Result != nil
	if f.Error != nil && p.kind.relists && p.relistBy > 0 {
		p.relist(params)
	}
	var pending []asked
	for _, method := range others {
		pending = append(pending, p.ask("", method, method, params()))
	}
	for _, a := range pending {
		if _, err := a.Within(min(p.kind.patience, p.left())); err != nil {
			p.wrong = append(p.wrong, fmt.Sprintf("%s: %v", a.step, err))
		}
	}
}

// relist asks for the tools again once they are said to have changed.
func (p *player) relist(params func() map[string]any) {
	left := p.relistBy - time.Since(p.started)
	_, err := p.Within(left, func(f harness.Frame) bool { return f.Method == toolsChanged })
	if err != nil {
		return
	}
	a := p.ask("", "tools after list_changed", "tools/list", params())
	f, _ := p.await(a, p.kind.patience)
	p.tools = f.Result != nil
}

// sibling starts a second process of the same command, as clients do that
// probe beside the connection, and ends it as they do. It reports what became
// of the probe.
func (p *player) sibling() (agreed bool) {
	ours := p.Client
	p.Client = harness.Start(p.t, p.config)
	p.others = append(p.others, p.Client)
	_, agreed = p.probe(`"server-discover-probe-1"`, p.kind.patience)
	p.CloseStdin()
	p.Signal(p.t, "TERM")
	p.Client = ours
	return agreed
}

// frames returns all that the client has got.
func (p *player) frames() []harness.Frame {
	var all []harness.Frame
	for _, c := range append(slices.Clone(p.others), p.Client) {
		if c != nil {
			all = append(all, c.Frames()...)
		}
	}
	return all
}

// processes are those of the start server that answered.
func (p *player) processes() map[string]bool {
	all := map[string]bool{}
	for _, f := range p.frames() {
		if process := processOf(f); process != "" {
			all[process] = true
		}
	}
	return all
}

// checkLists fails the test for each list that is empty, since the server has
// something of each kind.
func (p *player) checkLists() {
	for _, f := range p.frames() {
		var r map[string]json.RawMessage
		_ = json.Unmarshal(f.Result, &r) // an error has no list
		for _, member := range []string{"tools", "prompts", "resources", "resourceTemplates"} {
			if string(r[member]) == "[]" || string(r[member]) == "null" {
				p.t.Errorf("an empty list: %s", f.Raw)
			}
		}
	}
}

// Endings of a cell.
const (
	withTools   = "tools"
	withNothing = "no tools"
	withoutEnd  = "no session"
)

// play has the client do its part and returns what became of it.
func (p *player) play() (ending, steps string) {
	p.started = time.Now()
	session := p.kind.play(p)
	p.checkLists()
	ending = withTools
	switch {
	case !session:
		ending = withoutEnd
	case !p.tools:
		ending = withNothing
	}
	return ending, strings.Join(p.steps, ", ")
}
