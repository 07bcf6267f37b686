package editor

import "bytes"

// insert puts a member at the end of an object, in the style of what is there.
func (d *jsonDocument) insert(n *node, f field) []edit {
	st := d.styleIn(n)
	if len(n.members) == 0 {
		return []edit{d.insertFirst(n, st, st.member(f))}
	}
	return d.insertAfter(n.members[len(n.members)-1], st, st.member(f))
}

// insertAfter puts a member behind another one and what is remarked on that.
func (d *jsonDocument) insertAfter(m member, st style, text string) []edit {
	last := m.value.end
	tail, comma := last, d.next(last)
	hasComma := d.src[comma] == ','
	if hasComma {
		tail = comma + 1
	}
	at := tail
	separator := " "
	if !st.compact {
		at, _ = d.restOfLine(tail)
		separator = st.nl + st.indent
	}
	switch {
	case hasComma:
		return []edit{{at, at, separator + text + ","}}
	case at == last:
		return []edit{{at, at, "," + separator + text}}
	}
	return []edit{{last, last, ","}, {at, at, separator + text}}
}

// insertFirst puts a member into an object without members.
func (d *jsonDocument) insertFirst(n *node, st style, member string) edit {
	inner, end := n.start+1, n.end-1
	if st.compact {
		return edit{end, end, member}
	}
	if start := lineStart(d.src, end); start > inner && blank(d.src[start:end]) {
		return edit{start, start, st.indent + member + st.nl}
	}
	if blank(d.src[inner:end]) {
		end = inner
	}
	return edit{end, n.end - 1, st.nl + st.indent + member + st.nl + indentOf(d.src, n.start)}
}

// cut takes out one member of an object, with its line if it has one for
// itself.
func (d *jsonDocument) cut(n *node, i int) []edit {
	m := n.members[i]
	last := i == len(n.members)-1
	tail, comma := m.value.end, d.next(m.value.end)
	hasComma := d.src[comma] == ','
	if hasComma {
		tail = comma + 1
	}
	start, end := m.keyStart, tail
	newline, alone := d.restOfLine(tail)
	alone = alone && blank(d.src[lineStart(d.src, start):start])
	if alone {
		start, end = lineStart(d.src, start), lineEnd(d.src, newline)
	}
	if len(n.members) == 1 {
		if blank(d.src[n.start+1:start]) && blank(d.src[end:n.end-1]) {
			start, end = n.start+1, n.end-1
		}
		return []edit{{start, end, ""}}
	}
	if !last {
		if !alone {
			end += len(d.src[end:]) - len(bytes.TrimLeft(d.src[end:], " \t"))
		}
		return []edit{{start, end, ""}}
	}
	before := d.next(n.members[i-1].value.end) // the comma before it
	switch {
	case alone && hasComma:
		return []edit{{start, end, ""}}
	case alone:
		return []edit{{before, before + 1, ""}, {start, end, ""}}
	case !blank(d.src[before+1 : start]): // a comment, which stays
		if hasComma {
			return []edit{{start, end, ""}}
		}
		return []edit{{before, before + 1, ""}, {start, end, ""}}
	case hasComma:
		return []edit{{before + 1, end, ""}}
	}
	return []edit{{before, end, ""}}
}

// restOfLine returns where the line ends that at is on, before its line end,
// and true, if only blanks and comments follow; else at and false.
func (d *jsonDocument) restOfLine(at int) (int, bool) {
	next := d.next(at)
	end := bytes.IndexByte(d.src[at:], '\n')
	if end < 0 || at+end >= next {
		return at, false
	}
	end += at
	// A comment over several lines that begins on this one would be cut.
	if open := bytes.LastIndex(d.src[at:end], []byte("/*")); open >= 0 && !bytes.Contains(d.src[at+open:end], []byte("*/")) {
		return at, false
	}
	if end > at && d.src[end-1] == '\r' {
		end--
	}
	return end, true
}

// styleIn returns how new members of an object are laid out.
func (d *jsonDocument) styleIn(n *node) style {
	oneLine := func(n *node) bool { return len(n.members) > 0 && !bytes.Contains(d.src[n.start:n.end], []byte{'\n'}) }
	if oneLine(n) || oneLine(d.root) {
		return style{compact: true}
	}
	st := style{nl: lineBreak(d.src), unit: d.unit(), indent: indentOf(d.src, n.start)}
	st.indent += st.unit
	for _, m := range n.members {
		if start := lineStart(d.src, m.keyStart); blank(d.src[start:m.keyStart]) {
			st.indent = string(d.src[start:m.keyStart])
		}
	}
	return st
}

// unit returns what the file indents its first level by.
func (d *jsonDocument) unit() string {
	for _, m := range d.root.members {
		start := lineStart(d.src, m.keyStart)
		if indent := d.src[start:m.keyStart]; len(indent) > 0 && blank(indent) {
			return string(indent)
		}
	}
	return "  "
}
