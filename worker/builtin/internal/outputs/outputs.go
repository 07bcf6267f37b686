// Package outputs assembles what a notebook shows below its cells from the
// messages of a kernel, as Jupyter does and in the form of nbformat.
//
//	set := outputs.NewSet() // the cells of one kernel
//	cell := set.NewCell()
//	for ... {
//		changed, err := cell.Apply(message.Type, message.Content)
//	}
//	notebook.SetOutputs(id, cell.JSON())
//
// Streams are put together and treated as a terminal treats them, clear_output
// clears at once or with the next output, and an update of a display reaches
// the outputs of earlier cells too. What is transient is dropped, and values
// that nbformat does not allow are put into a form that it does (ROOM-8).
//
// # Concurrency
//
// A Set and its cells are for one goroutine at a time.
//
// # Limits
//
// The package runs nothing and reads no files. All outputs are in memory. Comm
// messages are skipped: the state of widgets is not kept, and what an Output
// widget captures appears in its cell.
package outputs

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// ErrContent is returned when a message does not have the content of its type.
var ErrContent = errors.New("malformed message of a kernel")

// Set is the cells of one kernel, across which displays are updated.
type Set struct {
	displays map[string][]*output
}

// NewSet returns a set without cells.
func NewSet() *Set { return &Set{displays: make(map[string][]*output)} }

// Cell is the outputs of one execution of a cell.
type Cell struct {
	set     *Set
	outputs []*output
	clear   bool // before the next output
	count   *int
}

// The kinds of outputs that nbformat has.
const (
	stream        = "stream"
	displayData   = "display_data"
	executeResult = "execute_result"
	errorOutput   = "error"
)

// output is one output of a cell.
type output struct {
	cell    *Cell
	kind    string
	display string // id that it is updated by

	name string // stream
	text text

	data     map[string]json.RawMessage // display_data, execute_result
	metadata json.RawMessage
	count    *int

	failure failure // error
}

type failure struct {
	EName     string   `json:"ename"`
	EValue    string   `json:"evalue"`
	Traceback []string `json:"traceback"`
}

// content is what messages of kernels have, as far as it matters here.
type content struct {
	failure

	Name           string                     `json:"name"`
	Text           string                     `json:"text"`
	Data           map[string]json.RawMessage `json:"data"`
	Metadata       json.RawMessage            `json:"metadata"`
	ExecutionCount *int                       `json:"execution_count"`
	Wait           bool                       `json:"wait"`
	Transient      struct {
		DisplayID string `json:"display_id"`
	} `json:"transient"`
}

// NewCell returns a cell without outputs, for an execution that begins.
func (s *Set) NewCell() *Cell { return &Cell{set: s} }

// Count returns the execution count, nil as long as none is known.
func (c *Cell) Count() *int { return c.count }

// Len returns the number of outputs.
func (c *Cell) Len() int { return len(c.outputs) }

// Apply takes a message that the execution of the cell led to, and returns the
// cells that look different now: this one, or those whose displays it updated.
// Messages that show nothing are skipped. Its error is [ErrContent]; then
// nothing has changed.
func (c *Cell) Apply(kind string, raw []byte) (changed []*Cell, err error) {
	switch kind {
	case stream, displayData, executeResult, errorOutput, "update_display_data", "clear_output", "execute_input":
	default:
		return nil, nil
	}
	var m content
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrContent, kind, err)
	}
	if m.ExecutionCount != nil && *m.ExecutionCount >= 0 {
		c.count = m.ExecutionCount
	}
	switch kind {
	case "execute_input":
	case "clear_output":
		if c.clear = m.Wait; !m.Wait {
			changed = c.clearNow()
		}
	case stream:
		changed = c.write(m.Name, m.Text)
	case errorOutput:
		changed = c.add(&output{kind: kind, failure: m.failure})
	default:
		changed = c.show(kind, m)
	}
	return changed, nil
}

// show acts on a display or a result: all outputs with its id become what it
// is, and unless it only updates, it is one more.
func (c *Cell) show(kind string, m content) (changed []*Cell) {
	data, metadata := bundle(m.Data), object(m.Metadata)
	id := m.Transient.DisplayID
	if id != "" {
		for _, o := range c.set.displays[id] {
			o.data, o.metadata = data, metadata
			if !slices.Contains(changed, o.cell) {
				changed = append(changed, o.cell)
			}
		}
	}
	if kind == "update_display_data" {
		return changed
	}
	o := &output{kind: kind, display: id, data: data, metadata: metadata, count: m.ExecutionCount}
	for _, cell := range c.add(o) {
		if !slices.Contains(changed, cell) {
			changed = append(changed, cell)
		}
	}
	if id != "" {
		c.set.displays[id] = append(c.set.displays[id], o)
	}
	return changed
}

func (c *Cell) write(name, text string) []*Cell {
	if name == "" {
		name = "stdout"
	}
	if last := len(c.outputs) - 1; !c.clear && last >= 0 && c.outputs[last].kind == stream && c.outputs[last].name == name {
		c.outputs[last].text.write(text)
		return []*Cell{c}
	}
	o := &output{kind: stream, name: name}
	o.text.write(text)
	return c.add(o)
}

func (c *Cell) add(o *output) []*Cell {
	if c.clear {
		c.clear = false
		c.clearNow()
	}
	o.cell = c
	c.outputs = append(c.outputs, o)
	return []*Cell{c}
}

// clearNow drops the outputs, which are then not updated any more.
func (c *Cell) clearNow() []*Cell {
	for _, o := range c.outputs {
		if o.display == "" {
			continue
		}
		rest := slices.DeleteFunc(c.set.displays[o.display], func(other *output) bool { return other.cell == c })
		if c.set.displays[o.display] = rest; len(rest) == 0 {
			delete(c.set.displays, o.display)
		}
	}
	c.outputs = nil
	return []*Cell{c}
}
