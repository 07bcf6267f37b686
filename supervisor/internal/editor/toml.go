package editor

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// tomlDocument is a file in TOML, in which each server is a table below that
// of the key. Validity and values are go-toml's; spans are our own, since
// go-toml does not keep comments and layout.
type tomlDocument struct {
	src         []byte
	key         string
	values      map[string]any
	expressions []expression
}

func newTOML(src []byte, key string) (*tomlDocument, error) {
	if err := checkText(src); err != nil {
		return nil, err
	}
	d := &tomlDocument{src: src, key: key}
	err := toml.Unmarshal(bytes.TrimPrefix(src, []byte(byteOrderMark)), &d.values)
	if decode, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, column := decode.Position()
		return nil, &SyntaxError{Line: line, Column: column, Message: strings.TrimPrefix(decode.Error(), "toml: ")}
	}
	if err != nil {
		return nil, err
	}
	if v, ok := d.values[key]; ok {
		if _, ok := v.(map[string]any); !ok {
			return nil, fmt.Errorf("%w: %q is not a table", ErrForm, key)
		}
	}
	d.expressions = scanTOML(src)
	return d, nil
}

func (d *tomlDocument) tables() map[string]any {
	tables, _ := d.values[d.key].(map[string]any) // checked when it was read
	return tables
}

// depth is always 1: a table needs no key above it to exist.
func (d *tomlDocument) depth() (int, error) { return 1, nil }

func (d *tomlDocument) servers() ([]Server, error) {
	var servers []Server
	for _, name := range slices.Sorted(maps.Keys(d.tables())) {
		s := Server{Name: name}
		table, ok := d.tables()[name].(map[string]any)
		if !ok {
			s.err = fmt.Errorf("%w: %s.%s is not a table", ErrForm, d.key, name)
		}
		s.Command, _ = table["command"].(string)
		s.Dir, _ = table["cwd"].(string)
		args, ok := table["args"].([]any)
		if table["args"] != nil && !ok {
			s.err = fmt.Errorf("%w: args of %s is not an array", ErrForm, name)
		}
		for _, a := range args {
			arg, ok := a.(string)
			if !ok {
				s.err = fmt.Errorf("%w: an argument of %s is not a string", ErrForm, name)
			}
			s.Args = append(s.Args, arg)
		}
		env, _ := table["env"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(env)) {
			value, _ := env[name].(string)
			s.Env = append(s.Env, Variable{name, value})
		}
		servers = append(servers, s)
	}
	return servers, nil
}

// place is where a value stands: alone as an expression, or as a member of an
// inline table.
type place struct {
	expression *expression
	inline     *node
	index      int
	value      *node
}

// lookup finds the value of a whole key; false without it.
func (d *tomlDocument) lookup(path ...string) (place, bool) {
	for i := range d.expressions {
		e := &d.expressions[i]
		if e.value == nil || !isPrefix(e.path, path) {
			continue
		}
		rest := path[len(e.path):]
		if len(rest) == 0 {
			return place{expression: e, value: e.value}, true
		}
		if p, ok := lookupInline(e.value, rest); ok {
			return p, true
		}
	}
	return place{}, false
}

func lookupInline(n *node, path []string) (place, bool) {
	for i, m := range n.members {
		parts := strings.Split(m.key, keySeparator)
		switch {
		case !isPrefix(parts, path):
		case len(parts) == len(path):
			return place{inline: n, index: i, value: m.value}, true
		default:
			if p, ok := lookupInline(m.value, path[len(parts):]); ok {
				return p, true
			}
		}
	}
	return place{}, false
}

func isPrefix(prefix, path []string) bool {
	return len(prefix) <= len(path) && slices.Equal(prefix, path[:len(prefix)])
}

func (d *tomlDocument) command(name string) (command, args *node, err error) {
	c, ok := d.lookup(d.key, name, "command")
	if !ok || c.value.kind != text {
		return nil, nil, ErrNoCommand
	}
	a, _ := d.lookup(d.key, name, "args")
	return c.value, a.value, nil
}

func (d *tomlDocument) add(s Server) ([]edit, error) {
	if p, ok := d.lookup(d.key); ok {
		return nil, fmt.Errorf("%w: %w", ErrForm, errorAt(d.src, p.value.start,
			"%s is an inline table, to which nothing can be added from outside; make it [%s.NAME] tables", d.key, d.key))
	}
	nl := lineBreak(d.src)
	header := d.key + "." + tomlKey(s.Name)
	lines := []string{"[" + header + "]", "command = " + quoteTOML(s.Command), "args = " + tomlArray(s.Args)}
	if len(s.Env) > 0 {
		lines = append(lines, "", "["+header+".env]")
		for _, v := range s.Env {
			lines = append(lines, tomlKey(v.Name)+" = "+quoteTOML(v.Value))
		}
	}
	block := strings.Join(lines, nl)
	switch {
	case len(bytes.TrimPrefix(d.src, []byte(byteOrderMark))) == 0:
		block += nl
	case bytes.HasSuffix(d.src, []byte{'\n'}):
		block = nl + block + nl
	default: // as it was: without an end of the last line
		block = nl + nl + block
	}
	return []edit{{len(d.src), len(d.src), block}}, nil
}

func (d *tomlDocument) addArgs(name string, args []string) ([]edit, error) {
	p, ok := d.lookup(d.key, name, "command")
	if !ok {
		return nil, ErrNoCommand
	}
	if p.inline != nil {
		m := p.inline.members[p.index]
		key := string(d.src[m.keyStart:m.keyEnd]) + "args"
		return []edit{{m.value.end, m.value.end, ", " + key + " = " + tomlArray(args)}}, nil
	}
	e := p.expression
	end := e.start + len(bytes.TrimRight(d.src[e.start:e.end], "\r\n"))
	key := indentOf(d.src, e.first) + string(d.src[e.first:e.last]) + "args"
	return []edit{{end, end, lineBreak(d.src) + key + " = " + tomlArray(args)}}, nil
}

func (d *tomlDocument) removeArgs(name string) ([]edit, error) {
	p, ok := d.lookup(d.key, name, "args")
	if !ok {
		return nil, ErrNoCommand
	}
	return []edit{d.cut(p)}, nil
}

// cut takes out one value with its key.
func (d *tomlDocument) cut(p place) edit {
	if p.expression != nil {
		return d.cutLines(p.expression.start, p.expression.end)
	}
	members := p.inline.members
	switch {
	case p.index > 0:
		return edit{members[p.index-1].value.end, p.value.end, ""}
	case len(members) > 1:
		return edit{members[0].keyStart, members[1].keyStart, ""}
	}
	return edit{p.inline.start + 1, p.inline.end - 1, ""}
}

// cutLines takes out whole lines. Without a line end behind them, the one in
// front of them goes.
func (d *tomlDocument) cutLines(start, end int) edit {
	if end == len(d.src) && end > 0 && d.src[end-1] != '\n' {
		start = len(bytes.TrimSuffix(bytes.TrimSuffix(d.src[:start], []byte{'\n'}), []byte{'\r'}))
	}
	return edit{start, end, ""}
}

// remove takes out the tables of an entry with the blank line in front of
// each, and what stands of it elsewhere. Comments between tables stay.
func (d *tomlDocument) remove(name string, _ int) ([]edit, error) {
	entry := []string{d.key, name}
	var cuts []edit
	for i := 0; i < len(d.expressions); i++ {
		e := d.expressions[i]
		if !isPrefix(entry, e.path) {
			continue
		}
		start, end := e.start, e.end
		if e.header {
			for i+1 < len(d.expressions) && !d.expressions[i+1].header {
				i++
			}
			end = d.expressions[i].end
			before := lineStart(d.src, max(0, start-1))
			if before < start && blank(d.src[before:start]) && blank(d.src[end:lineEnd(d.src, end)]) {
				start = before
			}
		}
		if n := len(cuts); n > 0 && start <= cuts[n-1].end {
			cuts[n-1].end = end
		} else {
			cuts = append(cuts, edit{start, end, ""})
		}
	}
	for i, c := range cuts {
		cuts[i] = d.cutLines(c.start, c.end)
	}
	if p, ok := d.lookup(entry...); ok && p.inline != nil {
		cuts = append(cuts, d.cut(p))
	}
	if len(cuts) == 0 {
		return nil, fmt.Errorf("%w: %s is written in an unusual way", ErrForm, name)
	}
	return cuts, nil
}

func (d *tomlDocument) next(at int) int {
	s := tomlScanner{src: d.src, at: at}
	s.skip(true)
	return s.at
}

func (d *tomlDocument) quote(s string) string { return quoteTOML(s) }

// others returns the values of everything but the named entry.
func (d *tomlDocument) others(name string) (string, error) {
	values, tables := map[string]any{}, map[string]any{}
	maps.Copy(values, d.values)
	maps.Copy(tables, d.tables())
	delete(values, d.key)
	delete(tables, name)
	return fmt.Sprintf("%#v %#v", values, tables), nil
}

func tomlArray(items []string) string {
	quoted := make([]string, 0, len(items))
	for _, item := range items {
		quoted = append(quoted, quoteTOML(item))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

func tomlKey(name string) string {
	bare := strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
	if bare && name != "" {
		return name
	}
	return quoteTOML(name)
}

// quoteTOML writes a basic string.
func quoteTOML(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
