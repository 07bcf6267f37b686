package ipynb

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
)

// Notebook is a notebook file in memory. The zero value is none; use Read.
type Notebook struct {
	// top is the text with an empty list of cells, which are put in at inner.
	top   []byte
	inner int
	// cells[i] stands between gaps[i] and gaps[i+1]: space, and commas.
	cells  []*cell
	gaps   [][]byte
	minor  int
	style  style
	faults []*Error
}

// cell is the text of a cell, and what was found in it.
type cell struct {
	id      string
	text    []byte
	members []member
}

// Cell is what a cell holds. JSON is the text of the file.
type Cell struct {
	ID     string
	Type   string // Code, Markdown or Raw
	Source string
	// Metadata is an object, Attachments one or nil.
	Metadata, Attachments []byte
	// Outputs is a list, and nil if the cell is not of code.
	Outputs []byte
	// ExecutionCount is nil if the cell was not run, or the number is no int.
	ExecutionCount *int
}

// Read takes the text of a file apart. Its errors are of type *Error.
func Read(data []byte) (*Notebook, error) {
	at, escapes, syntaxErr := checkSyntax(data)
	if syntaxErr != nil {
		return nil, syntaxErr
	}
	c := &checker{text: data}
	whole := span{at, len(bytes.TrimRight(data, " \t\r\n"))}
	if err := c.object(whole, ""); err != nil {
		return nil, err
	}
	if err := c.format(whole); err != nil {
		return nil, err
	}
	err := c.fields(whole, "", []field{
		{"metadata", "{}", (*checker).notebookMetadata},
		{"nbformat", "4", (*checker).count},
		{"nbformat_minor", "5", (*checker).count},
		{"cells", "[]", (*checker).cells},
	}, true)
	if err != nil {
		return nil, err
	}

	n := &Notebook{minor: c.minor}
	top := slices.Collect(members(data, at))
	list, _ := find(top, "cells")
	n.split(data, list.value)
	n.style = detect(data, top, n.cells, escapes)
	n.nameCells(c, list.value)
	if bytes.HasPrefix(data, mark) {
		c.fault(c.fail(0, "", "the file begins with a byte order mark, which nbformat does not read", "it is kept as it is"))
	}
	slices.SortStableFunc(c.faults, func(a, b *Error) int { return a.Offset - b.Offset })
	n.faults = c.faults
	return n, nil
}

// split cuts data at the cells, of which list is the place.
func (n *Notebook) split(data []byte, list span) {
	last := list.from + 1
	for e := range elements(data, list.from) {
		n.gaps = append(n.gaps, data[last:e.from])
		n.cells = append(n.cells, newCell(data[e.from:e.to:e.to]))
		last = e.to
	}
	n.gaps = append(n.gaps, data[last:list.to-1])
	n.inner = list.from + 1
	n.top = slices.Concat(data[:n.inner], data[list.to-1:])
}

func newCell(text []byte) *cell {
	return &cell{text: text, members: slices.Collect(members(text, 0))}
}

// format checks the version, before anything else: other formats look
// different all over.
func (c *checker) format(at span) *Error {
	top := slices.Collect(members(c.text, at.from))
	major, ok := find(top, "nbformat")
	v := major.value.of(c.text)
	switch {
	case !ok:
		return errorAt(c.text, at.from, ErrInvalid, "", `"nbformat" is missing`, "this is not a notebook, or a part of one")
	case isInteger(v) && len(v) == 1 && '0' <= v[0] && v[0] < '4':
		return errorAt(c.text, major.value.from, ErrFormat, "nbformat", "the file is of nbformat "+string(v)+", want 4",
			"convert it: jupyter nbconvert --to notebook --nbformat 4 FILE")
	case string(v) != "4":
		return errorAt(c.text, major.value.from, ErrFormat, "nbformat", "want nbformat 4, found "+kindOf(v), "")
	}
	minor, ok := find(top, "nbformat_minor")
	if !ok {
		return c.fail(at.from, "", `"nbformat_minor" is missing`, `add "nbformat_minor": 4`)
	}
	if err := c.count(minor.value, "nbformat_minor"); err != nil {
		return err
	}
	v = minor.value.of(c.text)
	number, err := strconv.Atoi(string(v))
	if err != nil || number > lastMinor {
		return errorAt(c.text, minor.value.from, ErrFormat, "nbformat_minor",
			fmt.Sprintf("the file is of nbformat 4.%s, want at most 4.%d", clip(string(v)), lastMinor), "save it in an older format")
	}
	c.minor = number
	return nil
}

func (c *checker) cells(at span, path string) *Error {
	if err := c.want(isList(at.of(c.text)), at, path, "a list of cells"); err != nil {
		return err
	}
	i := 0
	for e := range elements(c.text, at.from) {
		if err := c.cell(e, join(path, element(i))); err != nil {
			return err
		}
		i++
	}
	return nil
}

// Minor is the minor version of nbformat 4.
func (n *Notebook) Minor() int { return n.minor }

// Faults are those of the text given to Read that are kept as they are: what
// nbformat warns of or calls invalid. There are at most 100.
func (n *Notebook) Faults() []*Error { return n.faults }

// Len is the number of cells.
func (n *Notebook) Len() int { return len(n.cells) }

// Cells yields the cells in order.
func (n *Notebook) Cells() iter.Seq[Cell] {
	return func(yield func(Cell) bool) {
		for _, c := range n.cells {
			if !yield(c.read()) {
				return
			}
		}
	}
}

// Cell returns the cell of an id. Its error is ErrNoCell.
func (n *Notebook) Cell(id string) (Cell, error) {
	i, err := n.index(id)
	if err != nil {
		return Cell{}, err
	}
	return n.cells[i].read(), nil
}

func (n *Notebook) index(id string) (int, error) {
	i := slices.IndexFunc(n.cells, func(c *cell) bool { return c.id == id })
	if i < 0 {
		return 0, fmt.Errorf("%w: %q", ErrNoCell, clip(id))
	}
	return i, nil
}

// Metadata returns the metadata of the notebook, a JSON object.
func (n *Notebook) Metadata() []byte {
	return n.member("metadata").value.of(n.top)
}

// member returns a member of the notebook that Read has found to be there.
func (n *Notebook) member(name string) member {
	m, _ := find(slices.Collect(members(n.top, bytes.IndexByte(n.top, '{'))), name)
	return m
}

func (c *cell) value(name string) []byte {
	m, ok := find(c.members, name)
	if !ok {
		return nil
	}
	return m.value.of(c.text)
}

func (c *cell) read() Cell {
	cell := Cell{
		ID:          c.id,
		Type:        decode(c.value("cell_type")),
		Source:      textOf(c.value("source")),
		Metadata:    c.value("metadata"),
		Attachments: c.value("attachments"),
	}
	if cell.Type != Code {
		return cell
	}
	cell.Attachments = nil
	cell.Outputs = c.value("outputs")
	if count, err := strconv.Atoi(string(c.value("execution_count"))); err == nil {
		cell.ExecutionCount = &count
	}
	return cell
}

// WriteTo writes the text of the file.
func (n *Notebook) WriteTo(w io.Writer) (int64, error) {
	var written int64
	for part := range n.parts() {
		count, err := w.Write(part)
		written += int64(count)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// Bytes returns the text of the file.
func (n *Notebook) Bytes() []byte { return slices.Concat(slices.Collect(n.parts())...) }

func (n *Notebook) parts() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if !yield(n.top[:n.inner]) {
			return
		}
		for i, gap := range n.gaps {
			if !yield(gap) {
				return
			}
			if i < len(n.cells) && !yield(n.cells[i].text) {
				return
			}
		}
		yield(n.top[n.inner:])
	}
}
