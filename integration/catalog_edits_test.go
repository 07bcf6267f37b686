package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

// editedKinds are the members of lists that are edited, with the notification
// that tells of a change.
var editedKinds = map[string]string{
	"tools":     "notifications/tools/list_changed",
	"prompts":   "notifications/prompts/list_changed",
	"resources": "notifications/resources/list_changed",
}

// TestCAT1CutByASwap: CAT-1, CAT-5. A client that has a whole list asks for it
// again, and the worker is replaced after the first page: the rest is refused,
// the client stays with what it had, and is told that this has changed, though
// the page that it got has not.
func TestCAT1CutByASwap(t *testing.T) {
	o := offerTools(tool("a", nil), tool("b", nil), tool("c", nil))
	o.Page = 2
	s := newStarter(t, nil, "-era", "legacy").offering(o)
	h := s.start("")
	h.Initialize()
	h.listKinds()
	cursor := members(t, h.Request("tools/list", nil).Wait())["nextCursor"]
	o.Lists = map[string][]map[string]any{"tools": {tool("a", nil), tool("b", nil), tool("d", nil)}}
	s.write(o)
	h.swapTo(2)
	if f := h.Request("tools/list", map[string]any{"cursor": cursor}).Wait(); f.Error == nil || f.Error.Code != -32602 {
		t.Errorf("the rest of the list: %.300s", f.Raw)
	}
	h.WaitFor(toolsChanged, func(f harness.Frame) bool { return f.Method == toolsChanged })
}

// TestCAT1RandomEdits: CAT-1, CAT-5, CAT-6. A server's lists are edited at random
// and swapped in, while a client lists at random, page by page. When it is quiet,
// the client, which lists again when it is told to, sees what the server has; and
// it was told of no kind that is as it was. HOLDFAST_EXTENDED makes 1,000 edits,
// otherwise there are 60. HOLDFAST_SEED repeats a run.
func TestCAT1RandomEdits(t *testing.T) {
	const sessions = 4
	edits := 15
	if extended() {
		edits = 250
	}
	seed := seedOf(t)
	began := time.Now()
	cases := map[string]uint64{}
	for i := range uint64(sessions) {
		cases[fmt.Sprint("session ", i)] = i
	}
	sideBySide(t, cases, func(t *testing.T, i uint64) {
		e := newEditing(t, rand.New(rand.NewPCG(seed, i)))
		for range edits {
			e.step()
		}
		t.Logf("%d edits, %d of them changed nothing, %d lists at random, %d of them cut by a swap, %d list_changed",
			edits, e.idle, e.listed, e.cut, e.told)
		if e.idle == 0 || e.listed == 0 || e.told == 0 {
			t.Error("the run has not tried what it was to try")
		}
	})
	t.Logf("%d edits in %.0f s", sessions*edits, time.Since(began).Seconds())
}

// editing is one session whose server is edited.
type editing struct {
	t    *testing.T
	r    *rand.Rand
	s    *starter
	h    held
	live offer
	next int // number of the next item that is made

	generation uint64
	edited     int // counter for descriptions

	idle, listed, cut, told int

	mu   sync.Mutex       // guards view
	view map[string][]any // what the client has seen of each kind, in full
}

func newEditing(t *testing.T, r *rand.Rand) *editing {
	t.Helper()
	changes := map[string]any{"listChanged": true}
	e := &editing{t: t, r: r, generation: 1, view: map[string][]any{}, live: offer{
		Capabilities: map[string]any{"tools": changes, "prompts": changes, "resources": changes},
		Lists:        map[string][]map[string]any{}, Page: 3,
	}}
	for _, kind := range sortedKinds() {
		for range 1 + r.IntN(6) {
			e.live.Lists[kind] = append(e.live.Lists[kind], e.item(kind))
		}
	}
	e.s = newStarter(t, nil, "-era", "legacy").offering(e.live)
	e.h = e.s.start("")
	e.h.Initialize()
	for _, kind := range sortedKinds() {
		if err := e.list(kind); err != nil {
			t.Fatal(err)
		}
	}
	e.check()
	return e
}

func sortedKinds() []string { return slices.Sorted(maps.Keys(editedKinds)) }

// item makes a new item.
func (e *editing) item(kind string) map[string]any {
	e.next++
	name := fmt.Sprint(kind, "-", e.next)
	switch kind {
	case "tools":
		return tool(name, []string{"x"})
	case "resources":
		return map[string]any{"name": name, "uri": "test://" + name}
	}
	return map[string]any{"name": name}
}

// edit changes one list, if it changes anything, and returns of which kind.
func (e *editing) edit() (kind string, differs bool) {
	kind = sortedKinds()[e.r.IntN(len(editedKinds))]
	old := e.live.Lists[kind]
	items := slices.Clone(old)
	at := e.r.IntN(len(items) + 1)
	switch e.r.IntN(6) {
	case 0: // nothing
	case 1:
		items = slices.Insert(items, at, e.item(kind))
	case 2:
		if len(items) > 0 {
			at = min(at, len(items)-1)
			items = slices.Delete(items, at, at+1)
		}
	case 3:
		if len(items) > 0 {
			e.edited++
			changed := maps.Clone(items[min(at, len(items)-1)])
			changed["description"] = fmt.Sprint("edit ", e.edited)
			items[min(at, len(items)-1)] = changed
		}
	case 4:
		e.r.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	case 5:
		items = nil
		for range e.r.IntN(8) {
			items = append(items, e.item(kind))
		}
	}
	lists := maps.Clone(e.live.Lists)
	lists[kind] = items
	e.live.Lists = lists
	return kind, !reflect.DeepEqual(canonicalItems(e.t, old), canonicalItems(e.t, items))
}

// step edits, swaps while the client lists, and waits until it is quiet.
func (e *editing) step() {
	e.t.Helper()
	before := e.heard()
	kind, differs := e.edit()
	if !differs {
		e.idle++
	}
	e.s.write(e.live)
	stop := make(chan struct{})
	var listing sync.WaitGroup
	order := rand.New(rand.NewPCG(e.r.Uint64(), 0))
	listing.Go(func() { // ends with stop
		for {
			select {
			case <-stop:
				return
			default:
			}
			e.listed++
			if err := e.list(sortedKinds()[order.IntN(len(editedKinds))]); err != nil {
				e.cut++
			}
			<-time.After(time.Duration(order.IntN(20)) * time.Millisecond) // a client at rest
		}
	})
	e.generation++
	e.h.swapTo(e.generation)
	close(stop)
	listing.Wait()
	e.settle(before)
	for other, n := range e.heard() {
		told := n - before[other]
		e.told += told
		if told > 0 && (other != kind || !differs) {
			e.t.Errorf("%d list_changed for %s, which are as they were", told, other)
		}
		if told > 1 {
			e.t.Errorf("%d list_changed for one change of %s", told, other)
		}
	}
	e.check()
}

// heard counts the list_changed of each kind.
func (e *editing) heard() map[string]int {
	n := map[string]int{}
	for _, f := range e.h.Frames() {
		for kind, method := range editedKinds {
			if f.Method == method {
				n[kind]++
			}
		}
	}
	return n
}

// settle has the client list again what it is told to, until it sees what the
// server has.
func (e *editing) settle(before map[string]int) {
	e.t.Helper()
	handled := maps.Clone(before)
	deadline := time.Now().Add(harness.Patience)
	for {
		for kind, n := range e.heard() {
			if n > handled[kind] {
				handled[kind] = n
				if err := e.list(kind); err != nil {
					e.t.Fatalf("list %s while nothing is swapped: %v", kind, err)
				}
			}
		}
		if e.differing() == "" {
			return
		}
		if time.Now().After(deadline) {
			e.t.Fatalf("the client was not told that its %s are not those of the server", e.differing())
		}
		<-time.After(5 * time.Millisecond) // between two looks at what came
	}
}

// list lists a kind and keeps what it saw, if it saw all of it.
func (e *editing) list(kind string) error {
	items, err := e.h.pages(listMethods[kind], kind)
	if err != nil {
		if !errors.Is(err, errRefused) {
			e.t.Error(err)
		}
		return err
	}
	seen := make([]any, len(items))
	for i, raw := range items {
		if err := json.Unmarshal(raw, &seen[i]); err != nil {
			e.t.Error(err)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.view[kind] = seen
	return nil
}

// differing returns the kinds of which the client does not see what the server
// has.
func (e *editing) differing() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var kinds []string
	for _, kind := range sortedKinds() {
		if !reflect.DeepEqual(e.view[kind], canonicalItems(e.t, e.live.Lists[kind])) {
			kinds = append(kinds, kind)
		}
	}
	return strings.Join(kinds, ", ")
}

func (e *editing) check() {
	e.t.Helper()
	if kinds := e.differing(); kinds != "" {
		e.t.Fatalf("the client does not see the %s of the server", kinds)
	}
}

// canonicalItems returns items as they are once they were JSON.
func canonicalItems(t *testing.T, items []map[string]any) []any {
	t.Helper()
	all := make([]any, len(items))
	for i, item := range items {
		b, err := json.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &all[i]); err != nil {
			t.Fatal(err)
		}
	}
	return all
}
