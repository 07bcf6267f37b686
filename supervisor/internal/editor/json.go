package editor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// shape is what a client wants in an entry beside command and args.
type shape struct {
	stdio bool // "type": "stdio"
	env   bool // "env", even if it is empty
}

// jsonDocument is a file in JSON.
type jsonDocument struct {
	src  []byte
	root *node // nil in an empty file
	keys []string
	dialect
	shape
}

func newJSON(src []byte, keys []string, d dialect, s shape) (*jsonDocument, error) {
	root, err := parseJSON(src, d)
	if err != nil {
		return nil, err
	}
	doc := &jsonDocument{src, root, keys, d, s}
	_, err = doc.path()
	return doc, err
}

// path returns the objects above the entries, as far as they exist: the root,
// and one for each key.
func (d *jsonDocument) path() ([]*node, error) {
	if d.root == nil {
		return nil, nil
	}
	if d.root.kind != object {
		return nil, errorAt(d.src, d.root.start, "not an object")
	}
	path := []*node{d.root}
	for _, key := range d.keys {
		n, err := path[len(path)-1].member(d.src, key)
		if err != nil || n == nil {
			return path, err
		}
		if n.kind != object {
			return nil, errorAt(d.src, n.start, "%q is not an object", key)
		}
		path = append(path, n)
	}
	return path, nil
}

func (d *jsonDocument) depth() (int, error) {
	path, err := d.path()
	return max(0, len(path)-1), err
}

// container returns the object that has the entries, nil without it.
func (d *jsonDocument) container() (*node, error) {
	path, err := d.path()
	if err != nil || len(path) <= len(d.keys) {
		return nil, err
	}
	return path[len(d.keys)], nil
}

func (d *jsonDocument) servers() ([]Server, error) {
	c, err := d.container()
	if err != nil || c == nil {
		return nil, err
	}
	var servers []Server
	for _, m := range c.members {
		s := d.server(m)
		if _, err := c.index(d.src, m.key); err != nil {
			s.err = err
		}
		servers = append(servers, s)
	}
	return servers, nil
}

func (d *jsonDocument) server(m member) Server {
	s := Server{Name: m.key}
	for _, f := range m.value.members {
		if _, err := m.value.index(d.src, f.key); err != nil {
			s.err = err
		}
		switch {
		case f.key == "command" && f.value.kind == text:
			s.Command = jsonText(d.src, f.value)
		case f.key == "cwd" && f.value.kind == text:
			s.Dir = jsonText(d.src, f.value)
		case f.key == "args" && f.value.kind == array:
			for _, e := range f.value.elements {
				if e.kind != text {
					s.err = errorAt(d.src, e.start, "an argument that is not a string")
					continue
				}
				s.Args = append(s.Args, jsonText(d.src, e))
			}
		case f.key == "args":
			s.err = errorAt(d.src, f.value.start, "args is not an array")
		case f.key == "env":
			for _, v := range f.value.members {
				s.Env = append(s.Env, Variable{v.key, jsonText(d.src, v.value)})
			}
		}
	}
	return s
}

// entry returns the object of an entry.
func (d *jsonDocument) entry(name string) (*node, error) {
	c, err := d.container()
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, ErrNotFound
	}
	n, err := c.member(d.src, name)
	if err == nil && n == nil {
		return nil, ErrNotFound
	}
	return n, err
}

func (d *jsonDocument) command(name string) (command, args *node, err error) {
	e, err := d.entry(name)
	if err != nil {
		return nil, nil, err
	}
	if command, err = e.member(d.src, "command"); err != nil {
		return nil, nil, err
	}
	if command == nil || command.kind != text {
		return nil, nil, ErrNoCommand
	}
	args, err = e.member(d.src, "args")
	return command, args, err
}

func (d *jsonDocument) add(s Server) ([]edit, error) {
	path, err := d.path()
	if err != nil {
		return nil, err
	}
	value := fields{{s.Name, d.fields(s)}}
	for i := len(d.keys) - 1; i >= max(0, len(path)-1); i-- {
		value = fields{{d.keys[i], value}}
	}
	if d.root == nil {
		nl := lineBreak(d.src)
		start := ""
		if len(d.src) > 0 && !bytes.HasSuffix(d.src, []byte("\n")) && !blank(bytes.TrimPrefix(d.src, []byte(byteOrderMark))) {
			start = nl
		}
		return []edit{{len(d.src), len(d.src), start + style{nl: nl, unit: "  "}.write(value) + nl}}, nil
	}
	return d.insert(path[len(path)-1], value[0]), nil
}

// fields returns the members of an entry as this client wants them.
func (d *jsonDocument) fields(s Server) fields {
	var f fields
	if d.stdio {
		f = append(f, field{"type", "stdio"})
	}
	f = append(f, field{"command", s.Command}, field{"args", s.Args})
	if len(s.Env) > 0 || d.env {
		env := fields{}
		for _, v := range s.Env {
			env = append(env, field{v.Name, v.Value})
		}
		f = append(f, field{"env", env})
	}
	return f
}

func (d *jsonDocument) remove(name string, keep int) ([]edit, error) {
	path, err := d.path()
	if err != nil {
		return nil, err
	}
	if len(path) <= len(d.keys) {
		return nil, ErrNotFound
	}
	level, key := len(d.keys), name
	for level > keep && len(path[level].members) == 1 {
		level--
		key = d.keys[level]
	}
	i, err := path[level].index(d.src, key)
	if err != nil {
		return nil, err
	}
	if i < 0 {
		return nil, ErrNotFound
	}
	return d.cut(path[level], i), nil
}

func (d *jsonDocument) addArgs(name string, args []string) ([]edit, error) {
	e, err := d.entry(name)
	if err != nil {
		return nil, err
	}
	i, err := e.index(d.src, "command")
	if err != nil {
		return nil, err
	}
	m := e.members[i]
	st := style{compact: true}
	if start := lineStart(d.src, m.keyStart); blank(d.src[start:m.keyStart]) {
		st = style{nl: lineBreak(d.src), indent: string(d.src[start:m.keyStart]), unit: d.unit()}
	}
	return d.insertAfter(m, st, st.member(field{"args", args})), nil
}

func (d *jsonDocument) removeArgs(name string) ([]edit, error) {
	e, err := d.entry(name)
	if err != nil {
		return nil, err
	}
	i, err := e.index(d.src, "args")
	if err != nil {
		return nil, err
	}
	return d.cut(e, i), nil
}

func (d *jsonDocument) next(at int) int {
	p := jsonParser{dialect: dialect{comments: true}, src: d.src, at: at}
	_ = p.skip() // the text was parsed before
	return p.at
}

func (d *jsonDocument) quote(s string) string { return quoteJSON(s) }

// others returns the text of every value but the named entry, with the keys
// that lead to it.
func (d *jsonDocument) others(name string) (string, error) {
	var out strings.Builder
	var walk func(n *node, keys []string)
	walk = func(n *node, keys []string) {
		for _, m := range n.members {
			switch {
			case len(keys) > 0 && m.key == keys[0] && m.value.kind == object:
				walk(m.value, keys[1:])
			case len(keys) > 0 || m.key != name:
				fmt.Fprintf(&out, "%d %q %q\n", len(keys), m.key, d.src[m.value.start:m.value.end])
			}
		}
	}
	if d.root != nil {
		walk(d.root, d.keys)
	}
	return out.String(), nil
}

// fields are the members of an object in their order; a value is a string, a
// list of strings, or fields.
type fields []field

type field struct {
	key   string
	value any
}

// style is how new text is laid out.
type style struct {
	compact bool   // on one line
	nl      string // line end
	indent  string // of the line it stands on
	unit    string // one more level
}

func (s style) deeper() style {
	s.indent += s.unit
	return s
}

func (s style) member(f field) string { return quoteJSON(f.key) + ": " + s.write(f.value) }

func (s style) write(value any) string {
	var items []string
	open, end := "{", "}"
	switch v := value.(type) {
	case string:
		return quoteJSON(v)
	case []string:
		open, end = "[", "]"
		for _, item := range v {
			items = append(items, quoteJSON(item))
		}
	case fields:
		for _, f := range v {
			items = append(items, s.deeper().member(f))
		}
	}
	switch {
	case len(items) == 0:
		return open + end
	case s.compact:
		return open + strings.Join(items, ", ") + end
	}
	inner := s.nl + s.deeper().indent
	return open + inner + strings.Join(items, ","+inner) + s.nl + s.indent + end
}

func quoteJSON(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string can always be written
	return strings.TrimSuffix(b.String(), "\n")
}
