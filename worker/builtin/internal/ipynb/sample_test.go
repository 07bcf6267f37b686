package ipynb_test

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"

	"pgregory.net/rapid"
)

// A tree is a JSON value of a notebook that the tests make up: an object, a
// list, a str, or a token that is written as it is.
type (
	object []field
	list   []any
	str    string
	token  string
)

type field struct {
	key   string
	value any
}

// manner is how a made-up file is written.
type manner struct {
	nl, unit, colon, comma string
	ascii, sorted, lines   bool
	mark, end              string
}

func (o object) get(key string) any {
	for _, f := range slices.Backward(o) {
		if f.key == key {
			return f.value
		}
	}
	return nil
}

// sample is a made-up file. cells are the places of the cells in its text.
type sample struct {
	text  string
	cells [][2]int
}

func (m manner) write(nb object) sample {
	w := &writer{manner: m}
	w.b.WriteString(m.mark)
	w.value(nb, 0, "")
	w.b.WriteString(m.end)
	return sample{w.b.String(), w.cells}
}

type writer struct {
	manner

	b     strings.Builder
	cells [][2]int
}

func (w *writer) value(v any, depth int, path string) {
	if path == "/cells/" {
		from := w.b.Len()
		defer func() { w.cells = append(w.cells, [2]int{from, w.b.Len()}) }()
	}
	switch v := v.(type) {
	case token:
		w.b.WriteString(string(v))
	case str:
		w.b.WriteString(quote(string(v), w.ascii))
	case object:
		if w.sorted {
			v = slices.Clone(v)
			slices.SortStableFunc(v, func(a, b field) int { return strings.Compare(a.key, b.key) })
		}
		w.all("{}", len(v), depth, func(i int) {
			w.b.WriteString(quote(v[i].key, w.ascii) + w.colon)
			w.value(v[i].value, depth+1, path+"/"+v[i].key)
		})
	case list:
		w.all("[]", len(v), depth, func(i int) { w.value(v[i], depth+1, path+"/") })
	}
}

func (w *writer) all(brackets string, n, depth int, each func(i int)) {
	w.b.WriteByte(brackets[0])
	for i := range n {
		if i > 0 {
			w.b.WriteByte(',')
		}
		if w.nl != "" {
			w.b.WriteString(w.nl + strings.Repeat(w.unit, depth+1))
		} else if i > 0 {
			w.b.WriteString(w.comma)
		}
		each(i)
	}
	if w.nl != "" && n > 0 {
		w.b.WriteString(w.nl + strings.Repeat(w.unit, depth))
	}
	w.b.WriteByte(brackets[1])
}

// quote writes a string that may hold lone surrogates as three bytes.
func quote(s string, ascii bool) string {
	var b strings.Builder
	for _, unit := range units(s) {
		switch r := unit[0]; {
		case len(unit) == 1 && (r == '"' || r == '\\'):
			b.WriteString(`\` + string(rune(r)))
		case len(unit) == 1 && r == '\n':
			b.WriteString(`\n`)
		case len(unit) == 1 && (r < ' ' || r >= 0xd800 && r < 0xe000 || r > 0x7e && ascii):
			fmt.Fprintf(&b, `\u%04x`, r)
		case len(unit) == 2 && ascii:
			fmt.Fprintf(&b, `\u%04x\u%04x`, r, unit[1])
		default:
			b.WriteString(string(utf16.Decode(unit)))
		}
	}
	return `"` + b.String() + `"`
}

// units splits a string into characters of UTF-16; a lone surrogate, in its
// three bytes, is one.
func units(s string) [][]uint16 {
	var all [][]uint16
	for i := 0; i < len(s); {
		if s[i] == 0xed && i+2 < len(s) && s[i+1] >= 0xa0 {
			all = append(all, []uint16{0xd000 | uint16(s[i+1]&0x3f)<<6 | uint16(s[i+2]&0x3f)})
			i += 3
			continue
		}
		for _, r := range s[i:] {
			all = append(all, utf16.AppendRune(nil, r))
			i += len(string(r))
			break
		}
	}
	return all
}

const loneHigh, loneLow = "\xed\xa0\xbd", "\xed\xb8\x80"

// Generators.

func drawManner(t *rapid.T) manner {
	m := manner{
		nl:     rapid.SampledFrom([]string{"\n", "\n", "\r\n", "\r", ""}).Draw(t, "nl"),
		unit:   rapid.SampledFrom([]string{" ", "  ", "\t", "   ", ""}).Draw(t, "unit"),
		colon:  rapid.SampledFrom([]string{": ", ":", " : "}).Draw(t, "colon"),
		comma:  rapid.SampledFrom([]string{" ", ""}).Draw(t, "comma"),
		ascii:  rapid.Bool().Draw(t, "ascii"),
		sorted: rapid.Bool().Draw(t, "sorted"),
		lines:  rapid.Bool().Draw(t, "lines"),
		mark:   rapid.SampledFrom([]string{"", "", "\ufeff"}).Draw(t, "mark"),
		end:    rapid.SampledFrom([]string{"\n", "", "\r\n", " \n\n"}).Draw(t, "end"),
	}
	return m
}

// texts draws texts; without surrogates if lone is not set.
func texts(lone bool) *rapid.Generator[string] {
	parts := []string{"x = 1", "print('é☃')", "\n", "\n", "\n", "\r\n", "\r", "\v", "\u2028", "\u0085", "𝄞", `"quoted"`, `\`, `\\n`, "\t", "\x01", "\x7f", "<&>", "%matplotlib", "  "}
	if lone {
		parts = append(parts, loneHigh, loneLow+".")
	}
	return rapid.Map(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 8), func(all []string) string {
		// Two halves beside each other are a whole, which is another text.
		return strings.ReplaceAll(strings.Join(all, ""), loneHigh+loneLow, loneHigh)
	})
}

// drawText draws the value of a text, as a string or as a list.
func drawText(t *rapid.T, lines, lone bool) any {
	text := texts(lone).Draw(t, "text")
	if !lines {
		return str(text)
	}
	value := list{}
	for _, line := range strings.SplitAfter(text, "\n") {
		if line != "" {
			value = append(value, str(line))
		}
	}
	return value
}

func drawAny(t *rapid.T) any {
	return rapid.SampledFrom([]any{
		token("true"), token("null"), token("1.0"), token("1e5"), token("-0"), token("12345678901234567890123"), token("0.1E+2"),
		str("é"), str(""),
		object{},
		list{},
		list{token("1"), list{str("a")}},
		object{{"b", token("2")}, {"a", object{{"", token("1")}}}},
	}).Draw(t, "any")
}

func drawBundle(t *rapid.T, lines, lone bool) object {
	bundle := object{}
	for _, mime := range []string{"text/plain", "text/html", "image/png", "image/svg+xml", "application/javascript"} {
		if rapid.IntRange(0, 3).Draw(t, mime) == 0 {
			bundle = append(bundle, field{mime, drawText(t, lines && mime != "image/png", lone)})
		}
	}
	if rapid.Bool().Draw(t, "json") {
		bundle = append(bundle, field{"application/vnd.x+json", drawAny(t)})
	}
	return bundle
}

func drawOutput(t *rapid.T, lines, lone bool) object {
	switch rapid.IntRange(0, 3).Draw(t, "output") {
	case 0:
		return object{{"name", str("stdout")}, {"output_type", str("stream")}, {"text", drawText(t, lines, lone)}}
	case 1:
		return object{{"data", drawBundle(t, lines, lone)}, {"metadata", object{{"x", drawAny(t)}}}, {"output_type", str("display_data")}}
	case 2:
		return object{{"data", drawBundle(t, lines, lone)}, {"execution_count", token("3")}, {"metadata", object{}}, {"output_type", str("execute_result")}}
	}
	return object{{"ename", str("E")}, {"evalue", str("é")}, {"output_type", str("error")}, {"traceback", list{str("\x1b[31mE\n"), str("")}}}
}

func drawCell(t *rapid.T, m manner, minor, n int, odd bool) object {
	kind := rapid.SampledFrom([]string{"code", "code", "markdown", "raw"}).Draw(t, "kind")
	cell := object{{"cell_type", str(kind)}, {"metadata", object{}}, {"source", drawText(t, m.lines, odd)}}
	if rapid.Bool().Draw(t, "metadata") {
		cell[1].value = object{{"tags", list{str("a"), str("b")}}, {"zeta", drawAny(t)}, {"alpha", drawAny(t)}}
	}
	if kind == "code" {
		cell = append(cell, field{"execution_count", rapid.SampledFrom([]any{token("null"), token("7"), token("123456789012345678901234")}).Draw(t, "count")})
		outputs := list{}
		for range rapid.IntRange(0, 2).Draw(t, "outputs") {
			outputs = append(outputs, drawOutput(t, m.lines, odd))
		}
		cell = append(cell, field{"outputs", outputs})
	} else if rapid.Bool().Draw(t, "attached") {
		cell = append(cell, field{"attachments", object{{"a.png", drawBundle(t, m.lines, odd)}}})
	}
	if minor >= 5 {
		cell = append(cell, field{"id", str(fmt.Sprintf("cell-%d", n))})
	}
	if !odd {
		return cell
	}
	switch rapid.IntRange(0, 5).Draw(t, "oddity") {
	case 0:
		cell = append(cell, field{"unknown", drawAny(t)})
	case 1:
		cell = append(object{{"source", str("overruled")}}, cell...)
	case 2:
		if minor >= 5 {
			cell[len(cell)-1].value = str("cell-0")
		}
	case 3:
		if minor >= 5 {
			cell = cell[:len(cell)-1]
		}
	}
	return cell
}

// drawNotebook draws a tree; an odd one has what nbformat finds fault with.
func drawNotebook(t *rapid.T, m manner, odd bool) object {
	minor := rapid.IntRange(0, 5).Draw(t, "minor")
	cells := list{}
	for n := range rapid.IntRange(0, 5).Draw(t, "cells") {
		cells = append(cells, drawCell(t, m, minor, n, odd))
	}
	metadata := object{{"language_info", object{{"name", str("python")}}}, {"é", drawAny(t)}, {"kernelspec", object{{"name", str("python3")}, {"display_name", str("P")}, {"x", drawAny(t)}}}}
	nb := object{{"cells", cells}, {"metadata", metadata}, {"nbformat", token("4")}, {"nbformat_minor", token(fmt.Sprint(minor))}}
	if odd && rapid.Bool().Draw(t, "unknown") {
		nb = append(nb, field{"unknown", drawAny(t)})
	}
	if !m.sorted {
		nb = rapid.Permutation(nb).Draw(t, "order")
	}
	return nb
}
