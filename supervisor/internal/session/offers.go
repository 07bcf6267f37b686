package session

import (
	"github.com/holdfast-mcp/holdfast/internal/envelope"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/catalog"
)

// offer is one thing that a server may declare in its capabilities.
type offer uint8

const (
	offersTools offer = 1 << iota
	offersPrompts
	offersResources
	offersSubscribe
	offersCompletions
	offersLogging
	// offersKnown: the capabilities were seen.
	offersKnown
)

var offerPaths = []struct {
	offer offer
	path  []string
	name  string
}{
	{offersTools, []string{"tools"}, "tools"},
	{offersPrompts, []string{"prompts"}, "prompts"},
	{offersResources, []string{"resources"}, "resources"},
	{offersSubscribe, []string{"resources", "subscribe"}, "resources.subscribe"},
	{offersCompletions, []string{"completions"}, "completions"},
	{offersLogging, []string{"logging"}, "logging"},
}

// offersOf returns what the result of initialize or server/discover declares.
func offersOf(result []byte) offer {
	all := offersKnown
	for _, o := range offerPaths {
		span, ok := envelope.Find(result, append([]string{"capabilities"}, o.path...)...)
		if ok && string(span.Of(result)) != "false" {
			all |= o.offer
		}
	}
	return all
}

// needs returns the offer that a method belongs to, 0 if there is none.
func needs(method string) offer {
	switch method {
	case methodToolsList, methodToolsCall:
		return offersTools
	case "prompts/list", "prompts/get":
		return offersPrompts
	case "resources/list", "resources/templates/list", "resources/read":
		return offersResources
	case methodSubscribe, methodUnsubscribe:
		return offersSubscribe
	case methodComplete:
		return offersCompletions
	case methodSetLevel:
		return offersLogging
	}
	return 0
}

// lost returns what the client was told and a link does not offer.
func (s *Session) lost(l *link) offer {
	if l == nil || l.offers&offersKnown == 0 || s.told.offers&offersKnown == 0 {
		return 0
	}
	return s.told.offers &^ l.offers
}

// Lacking names what the client was told and the serving worker does not offer.
func (s *Session) Lacking() []string {
	lost := s.lost(s.links[s.serving])
	if s.told.ownTools {
		lost &^= offersTools
	}
	var names []string
	for _, o := range offerPaths {
		if lost&o.offer != 0 {
			names = append(names, o.name)
		}
	}
	return names
}

// answerLost answers a request for something that the client was told and that
// is gone: the client cannot be told so before its next start. It reports false
// if there is no such need.
func (s *Session) answerLost(r *request, out *Output) bool {
	if r.modern == (s.told.initialize != nil) || s.lost(s.links[s.serving])&needs(r.method) == 0 {
		return false
	}
	s.forget(r)
	kind, isList := catalog.OfMethod(r.method)
	switch {
	case isList:
		result := emptyList(kind, r.modern)
		out.line(resultLine(r.id, s.withOurs(r.method, result)))
		s.learnList(kind, r, result, out)
	case r.method == methodComplete:
		out.line(resultLine(r.id, complete(r.modern, `"completion":{"values":[],"total":0,"hasMore":false}`)))
	case r.method == methodSetLevel:
		s.told.setLevel = r.params
		out.line(resultLine(r.id, []byte("{}")))
	default:
		out.line(rpcErrorLine(r.id, -32601, "Method not found: the server no longer offers "+r.method))
	}
	return true
}

func emptyList(kind catalog.Kind, modern bool) []byte {
	members := `"` + kind.Member() + `":[]`
	if modern {
		members += `,"ttlMs":0,"cacheScope":"private"`
	}
	return complete(modern, members)
}

// complete returns a result of the members, with what a result of the era has.
func complete(modern bool, members string) []byte {
	if modern {
		return []byte(`{"resultType":"complete",` + members + `}`)
	}
	return []byte(`{` + members + `}`)
}
