package envelope

import "bytes"

// The members that decide about a message, as indexes and bits in [members].
const (
	nameID = iota
	nameMethod
	nameParams
	nameJSONRPC
	nameResult
	nameError
	names
)

var nameOf = [names]string{"id", "method", "params", "jsonrpc", "result", "error"}

// members is what a message's object was found to contain.
type members struct {
	span            [names]Span
	seen, ambiguous uint8 // bits by name
}

func (m *members) has(name int) bool { return m.seen&(1<<name) != 0 }

// scan reads the object at s. The span of a member is kept only once the
// member is complete, since a truncated number looks like a shorter one.
func (m *members) scan(s *scanner) bool {
	for more := s.enter('}'); more; {
		key, escaped, ok := s.key()
		if !ok {
			return false
		}
		name := m.note(key.Of(s.b), escaped)
		start := s.i
		if !s.value(1) {
			return false
		}
		value := Span{start, s.i}
		if more, ok = s.more('}'); !ok {
			return false
		}
		if name < names {
			m.span[name] = value
		}
	}
	return true
}

// note records a key and returns which name it is, or names if it is none.
func (m *members) note(key []byte, escaped bool) int {
	// Seven characters at most, each of them at most a \uXXXX.
	if len(key) > 6*len("jsonrpc") {
		return names
	}
	if escaped {
		var buf [64]byte
		key = appendUnquoted(buf[:0], key, false)
	}
	var name int
	switch string(key) {
	case "id":
		name = nameID
	case "method":
		name = nameMethod
	case "params":
		name = nameParams
	case "jsonrpc":
		name = nameJSONRPC
	case "result":
		name = nameResult
	case "error":
		name = nameError
	default:
		for i, n := range nameOf {
			// Readers that ignore case fold as Unicode does: "paramſ" too.
			if bytes.EqualFold(key, []byte(n)) {
				m.seen |= 1 << i
				m.ambiguous |= 1 << i
			}
		}
		return names
	}
	if m.has(name) {
		m.ambiguous |= 1 << name
	}
	m.seen |= 1 << name
	return name
}

// envelope returns what may be said about the message before it is known to
// be legal.
func (m *members) envelope(line []byte) Envelope {
	env := Envelope{
		MethodSpan: m.span[nameMethod],
		Params:     m.span[nameParams],
		Result:     m.span[nameResult],
		Error:      m.span[nameError],
	}
	call, answer := m.has(nameMethod), m.has(nameResult) || m.has(nameError)
	switch {
	case call && answer:
		return env
	case call && m.has(nameID):
		env.Kind = Request
	case call:
		env.Kind = Notification
	case m.has(nameResult):
		env.Kind = Response
	case answer:
		env.Kind = ErrorResponse
	}
	if id := m.span[nameID]; m.ambiguous&(1<<nameID) == 0 && legalID(id.Of(line)) {
		env.ID = id
	}
	return env
}

// legal reports whether a message of the kind has the shape of that kind.
func (m *members) legal(line []byte, kind Kind) bool {
	version := m.span[nameJSONRPC].Of(line)
	if len(version) < 2 || version[0] != '"' || !same(version[1:len(version)-1], true, "2.0") {
		return false
	}
	idOK := legalID(m.span[nameID].Of(line))
	switch kind {
	case Request:
		return idOK && m.legalCall(line)
	case Notification:
		return m.legalCall(line)
	case Response:
		return idOK && !m.has(nameError)
	case ErrorResponse:
		return idOK && line[m.span[nameError].Start] == '{'
	default:
		return false
	}
}

func (m *members) legalCall(line []byte) bool {
	if line[m.span[nameMethod].Start] != '"' {
		return false
	}
	if !m.has(nameParams) {
		return true
	}
	c := line[m.span[nameParams].Start]
	return c == '{' || c == '['
}

// legalID reports whether raw, a JSON value or nothing, may be an id.
func legalID(raw []byte) bool {
	return len(raw) > 0 && (raw[0] == '"' || raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9')
}
