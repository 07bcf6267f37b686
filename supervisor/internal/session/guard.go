package session

import (
	"encoding/json"
	"strconv"

	"github.com/holdfast-mcp/holdfast/internal/envelope"
	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/catalog"
)

// schema is what the guard has to know of a tool's inputSchema.
type schema struct {
	Required   []string                   `json:"required"`
	Properties map[string]json.RawMessage `json:"properties"`
	Additional json.RawMessage            `json:"additionalProperties"`
	// With any of these an argument may be known elsewhere.
	Pattern json.RawMessage `json:"patternProperties"`
	Ref     json.RawMessage `json:"$ref"`
	Dynamic json.RawMessage `json:"$dynamicRef"`
	AllOf   json.RawMessage `json:"allOf"`
	AnyOf   json.RawMessage `json:"anyOf"`
	OneOf   json.RawMessage `json:"oneOf"`
	If      json.RawMessage `json:"if"`
	Depend  json.RawMessage `json:"dependentSchemas"`
}

// arguments are those of one tool.
type arguments struct {
	required []string
	known    map[string]bool
	// open: others may be known too.
	open bool
}

// maxGuarded bounds the bytes of a page of tools whose schemas are looked at.
const maxGuarded = 4 << 20

// addSchemas adds the tools of a page, the result of tools/list.
func addSchemas(to map[string]arguments, result []byte) {
	var page struct {
		Tools []struct {
			Name   string          `json:"name"`
			Schema json.RawMessage `json:"inputSchema"`
		} `json:"tools"`
	}
	if len(result) > maxGuarded || json.Unmarshal(result, &page) != nil {
		return
	}
	for _, tool := range page.Tools {
		to[tool.Name] = argumentsOf(tool.Schema)
	}
}

func argumentsOf(raw json.RawMessage) arguments {
	var s schema
	if json.Unmarshal(raw, &s) != nil {
		return arguments{open: true}
	}
	a := arguments{required: s.Required, known: make(map[string]bool, len(s.Properties))}
	for name := range s.Properties {
		a.known[name] = true
	}
	for _, raw := range []json.RawMessage{s.Pattern, s.Ref, s.Dynamic, s.AllOf, s.AnyOf, s.OneOf, s.If, s.Depend} {
		a.open = a.open || raw != nil
	}
	// Said outright, additional arguments are wanted; left unsaid, they are
	// ignored.
	a.open = a.open || s.Additional != nil && string(s.Additional) != "false"
	return a
}

// refusesStale answers a call that carries an argument which the schema shown
// to this client required and the live one of that tool does not know: a tool
// of the same name would ignore it (CAT-4).
func (s *Session) refusesStale(r *request, out *Output) bool {
	if r.method != methodToolsCall || s.limits.ForwardStale {
		return false
	}
	l := s.links[s.serving]
	if l == nil || l.schemas == nil || s.shown == nil {
		return false
	}
	span, ok := envelope.Find(r.params, "name")
	if !ok {
		return false
	}
	var name string
	if json.Unmarshal(span.Of(r.params), &name) != nil {
		return false
	}
	shown, wasShown := s.shown[name]
	live, lives := l.schemas[name]
	if !wasShown || !lives || live.open {
		return false
	}
	for _, argument := range shown.required {
		if !shown.known[argument] || live.known[argument] {
			continue
		}
		if _, given := envelope.Find(r.params, "arguments", argument); given {
			s.forget(r)
			s.refuse(r, protocol.NewError(protocol.StaleSchema, "the tool "+strconv.Quote(name)+
				" has changed: it no longer knows the argument "+strconv.Quote(argument)+
				", which its schema required when you listed it. The call was not executed; list the tools again."), out)
			s.tellChanged(catalog.Tools, out)
			return true
		}
	}
	return false
}
