package ipynb

import (
	"fmt"
	"slices"
	"strconv"
)

// SetSource replaces the source of a cell. Of a list of lines, those that stay
// at the beginning and at the end keep their text.
func (n *Notebook) SetSource(id, source string) error {
	i, err := n.index(id)
	if err != nil {
		return err
	}
	if !validText(source) {
		return fmt.Errorf("source of cell %s: %w", id, ErrText)
	}
	c := n.cells[i]
	if textOf(c.value("source")) == source {
		return nil
	}
	return n.put(i, n.style.set(c.text, "source", layout{}, func(dst []byte, l layout) []byte {
		return n.style.source(dst, c.value("source"), source, l)
	}))
}

// source appends a source in the form of the old one, if that shows any.
func (s style) source(dst, old []byte, text string, l layout) []byte {
	switch {
	case textOf(old) == "" || text == "" && isList(old):
		return s.renderText(dst, text, l)
	case isString(old):
		return appendString(dst, text, s.ascii)
	}
	return append(dst, s.relist(old, splitLines(text))...)
}

// relist returns the list of strings in old with other lines, at least one,
// and replaces what lies between the first and the last that differ.
func (s style) relist(old []byte, lines []string) []byte {
	kept := slices.Collect(elements(old, 0))
	head, tail := 0, 0
	for head < min(len(kept), len(lines)) && decode(kept[head].of(old)) == lines[head] {
		head++
	}
	for tail < min(len(kept), len(lines))-head && decode(kept[len(kept)-1-tail].of(old)) == lines[len(lines)-1-tail] {
		tail++
	}
	lead := old[1:kept[0].from]
	separator := s.between(layoutOf(lead))
	if len(kept) > 1 {
		separator = string(old[kept[0].to:kept[1].from])
	}
	var middle []byte
	for i, line := range lines[head : len(lines)-tail] {
		if i > 0 {
			middle = append(middle, separator...)
		}
		middle = appendString(middle, line, s.ascii)
	}
	behind := len(kept) - tail // of what is replaced
	switch {
	case head < behind && middle != nil:
		return splice(old, span{kept[head].from, kept[behind-1].to}, middle)
	case head < behind && head > 0:
		return splice(old, span{kept[head-1].to, kept[behind-1].to}, nil)
	case head < behind:
		return splice(old, span{kept[0].from, kept[behind].from}, nil)
	case head > 0:
		return splice(old, span{kept[head-1].to, kept[head-1].to}, append([]byte(separator), middle...))
	}
	return splice(old, span{kept[0].from, kept[0].from}, append(middle, separator...))
}

// SetType makes a cell one of another type. What the new type does not have is
// dropped: outputs and execution count, or attachments.
func (n *Notebook) SetType(id, kind string) error {
	i, err := n.index(id)
	if err != nil {
		return err
	}
	c := n.cells[i]
	if decode(c.value("cell_type")) == kind {
		return nil
	}
	set := func(text []byte, name, value string) []byte {
		return n.style.set(text, name, layout{}, func(dst []byte, _ layout) []byte { return append(dst, value...) })
	}
	text := set(c.text, "cell_type", strconv.Quote(kind))
	if kind == Code {
		text = drop(text, "attachments")
		text = set(set(text, "execution_count", "null"), "outputs", "[]")
	} else {
		text = drop(drop(text, "execution_count"), "outputs")
	}
	return n.put(i, text)
}

// SetOutputs replaces the outputs of a cell of code by those of a JSON list, in
// the form of nbformat. A text in them may be a string or a list of strings.
func (n *Notebook) SetOutputs(id string, outputs []byte) error {
	c := &checker{minor: n.minor}
	value, err := c.given("outputs", outputs, (*checker).outputs)
	if err != nil {
		return err
	}
	return n.setCode(id, "outputs", func(dst []byte, l layout) []byte {
		return n.style.render(dst, value, l, outputsShape)
	})
}

// SetExecutionCount replaces the number of a cell of code, by null if count is
// nil.
func (n *Notebook) SetExecutionCount(id string, count *int) error {
	return n.setCode(id, "execution_count", func(dst []byte, _ layout) []byte { return append(dst, countText(count)...) })
}

func countText(count *int) string {
	if count == nil {
		return "null"
	}
	return strconv.Itoa(*count)
}

func (n *Notebook) setCode(id, name string, write func(dst []byte, l layout) []byte) error {
	i, err := n.index(id)
	if err != nil {
		return err
	}
	c := n.cells[i]
	if decode(c.value("cell_type")) != Code {
		return fmt.Errorf("%w: cell %s is not of code and has no %s", ErrInvalid, id, name)
	}
	return n.put(i, n.style.set(c.text, name, layout{}, write))
}

// SetCellMetadata sets a member of the metadata of a cell to a JSON value, or
// removes it if that is nil.
func (n *Notebook) SetCellMetadata(id, key string, value []byte) error {
	i, err := n.index(id)
	if err != nil {
		return err
	}
	c := n.cells[i]
	m, _ := find(c.members, "metadata")
	check := (&checker{minor: n.minor}).cellMetadata(decode(c.value("cell_type")))
	changed, err := n.setMetadata(m.value.of(c.text), layoutOf(m.lead.of(c.text)), key, value, check)
	if err != nil {
		return err
	}
	return n.put(i, splice(c.text, m.value, changed))
}

// SetMetadata sets a member of the metadata of the notebook to a JSON value, or
// removes it if that is nil.
func (n *Notebook) SetMetadata(key string, value []byte) error {
	m := n.member("metadata")
	changed, err := n.setMetadata(m.value.of(n.top), layoutOf(m.lead.of(n.top)), key, value, (*checker).notebookMetadata)
	if err != nil {
		return err
	}
	n.top = splice(n.top, m.value, changed)
	n.inner = n.member("cells").value.from + 1
	return nil
}

func (n *Notebook) setMetadata(object []byte, l layout, key string, value []byte, check check) ([]byte, error) {
	if !validText(key) {
		return nil, fmt.Errorf("key of metadata: %w", ErrText)
	}
	if value == nil {
		return drop(object, key), nil
	}
	c := &checker{minor: n.minor}
	value, err := c.given("metadata", value, anything)
	if err != nil {
		return nil, err
	}
	alone := slices.Concat([]byte("{"), appendString(nil, key, false), []byte(":"), value, []byte("}"))
	if _, err := c.given("metadata", alone, check); err != nil {
		return nil, err
	}
	return n.style.set(object, key, l, func(dst []byte, l layout) []byte {
		return n.style.render(dst, value, l, plain)
	}), nil
}

func (c *checker) cellMetadata(kind string) check {
	for _, f := range cellFields[kind] {
		if f.name == "metadata" {
			return f.check
		}
	}
	return (*checker).object
}

func anything(*checker, span, string) *Error { return nil }

// given checks JSON that is to be written, faults included, and returns it
// without the space around it.
func (c *checker) given(what string, value []byte, check check) ([]byte, error) {
	at, _, err := checkSyntax(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	c.text, c.faults = value[at:skipValue(value, at)], nil
	err = check(c, span{0, len(c.text)}, "")
	if err == nil && len(c.faults) > 0 {
		err = c.faults[0]
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return c.text, nil
}

// put replaces a cell by text, with its id where the format wants one.
func (n *Notebook) put(i int, text []byte) error {
	id := n.cells[i].id
	if m, ok := find(slices.Collect(members(text, 0)), "id"); n.minor >= idMinor && (!ok || decode(m.value.of(text)) != id) {
		text = n.style.set(text, "id", layout{}, func(dst []byte, _ layout) []byte { return appendString(dst, id, false) })
	}
	c := &checker{text: text, minor: n.minor}
	if err := c.cell(span{0, len(text)}, ""); err != nil {
		return fmt.Errorf("cell %s: %w", id, err)
	}
	n.cells[i] = newCell(text)
	n.cells[i].id = id
	return nil
}
