package session

import (
	"bytes"
	"encoding/json"

	"github.com/holdfast-mcp/holdfast/internal/envelope"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/catalog"
)

// With Limits.Controls the client's model has tools of ours beside those of the
// server: they stand at the end of the list of tools and are called like them,
// also while no worker serves. A tool of the server with the same name wins.

// controlTool is a tool of ours.
type controlTool struct {
	name       string
	definition string
}

var controlTools = []controlTool{
	{
		"holdfast_status",
		`{"name":"holdfast_status","title":"Status of the supervised server","description":"Tells how the server behind this connection is doing: ` +
			`which generation of it serves, its last exits with their output, the state of its build, and requests under way. It changes nothing.",` +
			`"inputSchema":{"type":"object","properties":{},"additionalProperties":false},` +
			`"annotations":{"readOnlyHint":true,"openWorldHint":false}}`,
	},
	{
		"holdfast_swap",
		`{"name":"holdfast_swap","title":"Replace the supervised server","description":"Builds the server anew, where a build is configured, and replaces it ` +
			`without closing this connection: calls under way end on the old one. Answers with the new generation, or with the errors of the build or the start; ` +
			`then the old one still serves. Use it after a change of the server's sources, or when it hangs.",` +
			`"inputSchema":{"type":"object","properties":{},"additionalProperties":false},` +
			`"annotations":{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":false,"openWorldHint":false}}`,
	},
	{
		"holdfast_logs",
		`{"name":"holdfast_logs","title":"Log of the supervised server","description":"Shows the last lines of the supervisor's log, with what the server printed on stderr.",` +
			`"inputSchema":{"type":"object","properties":{"lines":{"type":"integer","minimum":1,"maximum":500,"description":"how many lines, 50 if not given"}},"additionalProperties":false},` +
			`"annotations":{"readOnlyHint":true,"openWorldHint":false}}`,
	},
}

// ControlCall is a call of one of our tools.
type ControlCall struct {
	// Number names the call for Controlled.
	Number uint64
	Tool   string
	// Arguments is a raw JSON object, nil if there are none.
	Arguments []byte
}

// takesControl takes a call of one of our tools. It reports false if the request
// is none.
func (s *Session) takesControl(r *request, out *Output) bool {
	if !s.limits.Controls || r.method != methodToolsCall {
		return false
	}
	span, ok := envelope.Find(r.params, "name")
	if !ok {
		return false
	}
	name := text(span.Of(r.params))
	for _, tool := range controlTools {
		if tool.name != name || s.serverHas(name) {
			continue
		}
		s.expect(r)
		s.sent[r.number] = r
		call := ControlCall{Number: r.number, Tool: name}
		if span, ok := envelope.Find(r.params, "arguments"); ok {
			call.Arguments = span.Of(r.params)
		}
		out.Controls = append(out.Controls, call)
		return true
	}
	return false
}

// serverHas reports whether the client was shown a tool of the server by a name.
func (s *Session) serverHas(name string) bool {
	_, has := s.tools[name]
	return has
}

// Controlled answers a call of one of our tools, unless it was cancelled.
func (s *Session) Controlled(number uint64, answer string, failed bool, out *Output) {
	r := s.sent[number]
	if r == nil {
		return
	}
	s.forget(r)
	members := `"content":[{"type":"text","text":` + quote(answer) + `}]`
	if failed {
		members += `,"isError":true`
	}
	out.line(resultLine(r.id, complete(r.modern, members)))
}

// withControls puts our tools at the end of a list of tools.
func (s *Session) withControls(result []byte) []byte {
	if !s.limits.Controls {
		return result
	}
	if catalog.Cursor(result, "nextCursor") != nil {
		return result
	}
	list, ok := envelope.Find(result, catalog.Tools.Member())
	if !ok || result[list.Start] != '[' {
		return result
	}
	var added []byte
	some := hasMembers(list.Of(result))
	for _, tool := range controlTools {
		if s.serverHas(tool.name) {
			continue
		}
		if some {
			added = append(added, ',')
		}
		added, some = append(added, tool.definition...), true
	}
	return envelope.Splice(result, envelope.Span{Start: list.End - 1, End: list.End - 1}, added)
}

// hasMembers reports whether a raw JSON array or object has members.
func hasMembers(raw []byte) bool { return len(bytes.TrimSpace(raw[1:len(raw)-1])) > 0 }

// learnNames notes which tools of the server the client is shown.
func (s *Session) learnNames(first bool, result []byte) {
	if !s.limits.Controls {
		return
	}
	if first || s.tools == nil {
		s.tools = make(map[string]struct{})
	}
	var page struct {
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}
	if json.Unmarshal(result, &page) != nil {
		return
	}
	for _, tool := range page.Tools {
		s.tools[tool.Name] = struct{}{}
	}
}

// offeringControls declares our tools in a result of initialize or
// server/discover.
func (s *Session) offeringControls(result []byte) []byte {
	if !s.limits.Controls {
		return result
	}
	if _, ok := envelope.Find(result, "capabilities", "tools"); ok {
		return result
	}
	capabilities, ok := envelope.Find(result, "capabilities")
	if !ok || result[capabilities.Start] != '{' {
		return result
	}
	added := `"tools":{"listChanged":true}`
	if hasMembers(capabilities.Of(result)) {
		added += ","
	}
	at := envelope.Span{Start: capabilities.Start + 1, End: capabilities.Start + 1}
	return envelope.Splice(result, at, []byte(added))
}

// withOurs returns a worker's result as the client gets it.
func (s *Session) withOurs(method string, result []byte) []byte {
	switch method {
	case methodToolsList:
		return s.withControls(result)
	case methodInitialize, methodDiscover:
		return s.offeringControls(result)
	}
	return result
}

// controlsAlone answers a request for the tools while no server is there: ours
// are.
func (s *Session) controlsAlone(r *request, out *Output) bool {
	if !s.limits.Controls || r.method != methodToolsList {
		return false
	}
	s.views[catalog.Tools].owed = true
	out.line(resultLine(r.id, s.withControls(emptyList(catalog.Tools, r.modern))))
	return true
}
