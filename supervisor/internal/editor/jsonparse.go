package editor

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// dialect says what a client reads beyond JSON.
type dialect struct{ comments, commas bool }

// maxDepth bounds how deep values are nested.
const maxDepth = 500

// jsonParser finds the spans of a text in JSON, perhaps with comments and
// trailing commas.
type jsonParser struct {
	dialect

	src   []byte
	at    int
	depth int
}

// parseJSON returns the one value of a text; nil if there is nothing but
// blanks and comments.
func parseJSON(src []byte, d dialect) (*node, error) {
	if err := checkText(src); err != nil {
		return nil, err
	}
	p := jsonParser{dialect: d, src: src}
	if bytes.HasPrefix(src, []byte(byteOrderMark)) {
		p.at = len(byteOrderMark)
	}
	if err := p.skip(); err != nil {
		return nil, err
	}
	if p.at == len(src) {
		return nil, nil
	}
	root, err := p.value()
	if err != nil {
		return nil, err
	}
	if err := p.skip(); err != nil {
		return nil, err
	}
	if p.at < len(src) {
		return nil, p.unexpected("the end of the file")
	}
	return root, nil
}

func (p *jsonParser) unexpected(wanted string) error {
	if p.at >= len(p.src) {
		return errorAt(p.src, p.at, "the file ends where %s should be", wanted)
	}
	return errorAt(p.src, p.at, "%s instead of %s", strconv.QuoteRune(bytes.Runes(p.src[p.at:min(p.at+4, len(p.src))])[0]), wanted)
}

// skip passes blanks and comments.
func (p *jsonParser) skip() error {
	for p.at < len(p.src) {
		rest := p.src[p.at:]
		switch {
		case rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r' || rest[0] == '\n':
			p.at++
		case bytes.HasPrefix(rest, []byte("//")) || bytes.HasPrefix(rest, []byte("/*")):
			if !p.comments {
				return errorAt(p.src, p.at, "a comment, which this client does not read")
			}
			if rest[1] == '/' {
				p.at = lineEnd(p.src, p.at)
				continue
			}
			n := bytes.Index(rest[2:], []byte("*/"))
			if n < 0 {
				return errorAt(p.src, p.at, "a comment without an end")
			}
			p.at += n + 4
		default:
			return nil
		}
	}
	return nil
}

func (p *jsonParser) value() (*node, error) {
	if p.at >= len(p.src) {
		return nil, p.unexpected("a value")
	}
	switch p.src[p.at] {
	case '{':
		return p.composite(object, '}', p.pair)
	case '[':
		return p.composite(array, ']', func(n *node) error {
			element, err := p.value()
			n.elements = append(n.elements, element)
			return err
		})
	case '"':
		return p.str()
	}
	start := p.at
	for p.at < len(p.src) && bytes.IndexByte([]byte(" \t\r\n,:]}/\"[{"), p.src[p.at]) < 0 {
		p.at++
	}
	if !json.Valid(p.src[start:p.at]) {
		p.at = start
		return nil, p.unexpected("a value")
	}
	return &node{kind: scalar, start: start, end: p.at}, nil
}

// composite reads what stands in brackets and is parted by commas.
func (p *jsonParser) composite(k kind, end byte, item func(*node) error) (*node, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, errorAt(p.src, p.at, "nested too deep")
	}
	defer func() { p.depth-- }()
	n := &node{kind: k, start: p.at}
	p.at++
	for first := true; ; first = false {
		if err := p.skip(); err != nil {
			return nil, err
		}
		comma := p.at
		if !first {
			switch {
			case p.peek(end):
				p.at++
				n.end = p.at
				return n, nil
			case !p.peek(','):
				return nil, p.unexpected("a comma or " + strconv.QuoteRune(rune(end)))
			}
			p.at++
			if err := p.skip(); err != nil {
				return nil, err
			}
		}
		if p.peek(end) {
			if !first && !p.commas {
				return nil, errorAt(p.src, comma, "a comma behind the last value, which this client does not read")
			}
			p.at++
			n.end = p.at
			return n, nil
		}
		if err := item(n); err != nil {
			return nil, err
		}
	}
}

func (p *jsonParser) peek(c byte) bool { return p.at < len(p.src) && p.src[p.at] == c }

// pair reads one member of an object.
func (p *jsonParser) pair(n *node) error {
	if !p.peek('"') {
		return p.unexpected("a key in double quotes")
	}
	key, err := p.str()
	if err != nil {
		return err
	}
	if err := p.skip(); err != nil {
		return err
	}
	if !p.peek(':') {
		return p.unexpected("a colon")
	}
	p.at++
	if err := p.skip(); err != nil {
		return err
	}
	value, err := p.value()
	n.members = append(n.members, member{jsonText(p.src, key), key.start, key.end, value})
	return err
}

func (p *jsonParser) str() (*node, error) {
	start := p.at
	for p.at++; p.at < len(p.src); p.at++ {
		switch p.src[p.at] {
		case '\\':
			p.at++
		case '"':
			p.at++
			if !json.Valid(p.src[start:p.at]) {
				return nil, errorAt(p.src, start, "not a string")
			}
			return &node{kind: text, start: start, end: p.at}, nil
		case '\n':
			return nil, errorAt(p.src, start, "a string without an end")
		}
	}
	p.at = start
	return nil, errorAt(p.src, start, "a string without an end")
}

// jsonText returns what a string says.
func jsonText(src []byte, n *node) string {
	var s string
	_ = json.Unmarshal(src[n.start:n.end], &s) // it was checked when it was read
	return s
}
