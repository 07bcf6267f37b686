package ipynb

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// style is the manner in which a file is written.
type style struct {
	unit         string // indentation of one level
	colon, comma string // with the space around the colon, behind the comma in a line
	ascii        bool   // escapes beyond ASCII
	sorted       bool   // keys in order
	lines        bool   // texts are lists of lines
}

// layout is that of the line in which a value stands: how its lines end, and
// the space before it. Without nl, everything is in one line.
type layout struct{ nl, indent string }

func (l layout) deeper(s style) layout {
	if l.nl != "" {
		l.indent += s.unit
	}
	return l
}

func (l layout) space() string { return l.nl + l.indent }

// layoutOf reads the layout of a value off the space before it.
func layoutOf(space []byte) layout {
	i := bytes.LastIndexAny(space, "\r\n")
	if i < 0 {
		return layout{}
	}
	nl := string(space[i])
	if i > 0 && string(space[i-1:i+1]) == "\r\n" {
		nl = "\r\n"
	}
	return layout{nl, string(space[i+1:])}
}

// closing is the layout of the line in which the object or list in text ends,
// which is that of its own line.
func closing(text []byte) layout {
	end := len(text) - 1
	return layoutOf(text[len(bytes.TrimRight(text[:end], " \t\r\n")):end])
}

// detect finds out the style of a notebook with the object top and these
// cells.
func detect(text []byte, top []member, cells []*cell, escapes bool) style {
	s := style{unit: " ", colon: ": ", comma: " ", sorted: true, lines: true}
	s.ascii = escapes && !slices.ContainsFunc(bytes.TrimPrefix(text, mark), func(b byte) bool { return b >= utf8.RuneSelf })
	s.colon = string(text[top[0].key.to:top[0].value.from])
	if lead := top[0].lead.of(text); layoutOf(lead).nl != "" {
		s.unit = layoutOf(lead).indent
	} else if lead := top[1].lead.of(text); layoutOf(lead).nl == "" { // there are four, see Read
		s.comma = string(lead)
	}
	s.sorted = sorted(top)
	for _, c := range cells {
		s.sorted = s.sorted && sorted(c.members)
	}
	for _, c := range cells {
		source, _ := find(c.members, "source")
		if v := source.value.of(c.text); isList(v) || len(v) > len(`""`) {
			s.lines = isList(v)
			break
		}
	}
	return s
}

func sorted(all []member) bool {
	return slices.IsSortedFunc(all, func(a, b member) int { return strings.Compare(a.name, b.name) })
}

// shape says which strings below a value are texts that files hold as lists of
// lines.
type shape int

const (
	plain shape = iota
	cellShape
	outputsShape
	outputShape
	bundlesShape // of attachments
	bundleShape
	textShape
)

// below is the shape of a member, or of an element of a list if key is empty.
func (s shape) below(key string) shape {
	switch {
	case s == cellShape && key == "source", s == outputShape && key == "text":
		return textShape
	case s == cellShape && key == "outputs":
		return outputsShape
	case s == cellShape && key == "attachments":
		return bundlesShape
	case s == outputsShape:
		return outputShape
	case s == outputShape && key == "data", s == bundlesShape:
		return bundleShape
	case s == bundleShape && (strings.HasPrefix(key, "text/") || key == "application/javascript" || key == "image/svg+xml"):
		return textShape
	}
	return plain
}

// render appends the value v, which stands in a line of layout l.
func (s style) render(dst, v []byte, l layout, sh shape) []byte {
	switch {
	case sh == textShape && (isString(v) || isList(v)):
		return s.renderText(dst, textOf(v), l)
	case isString(v):
		return appendString(dst, decode(v), s.ascii)
	case isObject(v):
		all := slices.Collect(members(v, 0))
		if s.sorted {
			slices.SortStableFunc(all, func(a, b member) int { return strings.Compare(a.name, b.name) })
		}
		return s.renderAll(dst, "{}", len(all), l, func(dst []byte, i int, l layout) []byte {
			dst = append(appendString(dst, all[i].name, s.ascii), s.colon...)
			return s.render(dst, all[i].value.of(v), l, sh.below(all[i].name))
		})
	case isList(v):
		all := slices.Collect(elements(v, 0))
		return s.renderAll(dst, "[]", len(all), l, func(dst []byte, i int, l layout) []byte {
			return s.render(dst, all[i].of(v), l, sh.below(""))
		})
	}
	return append(dst, v...)
}

// renderAll appends n values in brackets, a line each.
func (s style) renderAll(dst []byte, brackets string, n int, l layout, each func(dst []byte, i int, l layout) []byte) []byte {
	dst = append(dst, brackets[0])
	in := l.deeper(s)
	for i := range n {
		if i > 0 {
			dst = append(dst, s.between(in)...)
		} else {
			dst = append(dst, in.space()...)
		}
		dst = each(dst, i, in)
	}
	if n > 0 {
		dst = append(dst, l.space()...)
	}
	return append(dst, brackets[1])
}

// between is what stands between two values in lines of layout l.
func (s style) between(l layout) string {
	if l.nl == "" {
		return "," + s.comma
	}
	return "," + l.space()
}

func (s style) renderText(dst []byte, text string, l layout) []byte {
	if !s.lines {
		return appendString(dst, text, s.ascii)
	}
	lines := splitLines(text)
	return s.renderAll(dst, "[]", len(lines), l, func(dst []byte, i int, _ layout) []byte {
		return appendString(dst, lines[i], s.ascii)
	})
}

// textOf joins a text that is a string or a list of strings.
func textOf(v []byte) string {
	if isString(v) {
		return decode(v)
	}
	var b strings.Builder
	for e := range elements(v, 0) {
		b.WriteString(decode(e.of(v)))
	}
	return b.String()
}
