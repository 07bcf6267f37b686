package session

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/holdfast-mcp/holdfast/internal/envelope"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/lease"
)

// A worker with one session has one listen for all listens of the client, the
// union. Each of the client's is examined first by a server/discover with its
// own _meta: an invalid one would end the union of all.

// askValidate examines a listen.
func (s *Session) askValidate(a lease.AskValidate, out *Output) {
	r := s.watched.listens[a.Holder]
	n := s.number()
	s.noteAsk(a.Ask, asking{link: s.serving, number: n, holder: a.Holder, validates: true})
	s.own[n] = ownCall{link: s.serving, method: methodListen}
	out.frame(s.serving, Request, n, requestLine(n, methodDiscover,
		slices.Concat([]byte(`{"_meta":`), plainMeta(r.params), []byte{'}'})))
}

// validated takes the answer of the examination.
func (s *Session) validated(ask lease.Ask, a asking, payload []byte, env envelope.Envelope, accepted bool, out *Output) {
	s.forgetAsk(ask)
	r := s.watched.listens[a.holder]
	if r == nil { // it was cancelled
		s.act(s.watched.table.Refuse(ask, lease.Refusal{}), out)
		return
	}
	if !accepted {
		r.reply, _, _ = answerLine(r, payload, out)
		s.act(s.watched.table.Refuse(ask, lease.Refusal{}), out)
		return
	}
	result := env.Result.Of(payload)
	if fault := versionFault(result, r.params); fault != nil {
		r.reply = errorLine(r.id, fault)
		s.act(s.watched.table.Refuse(ask, lease.Refusal{}), out)
		return
	}
	s.speaks(r)
	s.links[a.link].serverInfo = serverInfo(result)
	s.act(s.watched.table.Accept(ask, grantOf(result, r.params)), out)
}

// versionFault returns the error for a request of a version that a discover
// result does not list, nil if it does.
func versionFault(result, params []byte) []byte {
	versions, ok := envelope.Find(result, "supportedVersions")
	asked, _ := envelope.Find(params, "_meta", metaVersion)
	if !ok || bytes.Contains(versions.Of(result), asked.Of(params)) {
		return nil
	}
	fault, err := json.Marshal(metaError{-32022, "Unsupported protocol version", map[string]any{
		"supported": json.RawMessage(versions.Of(result)), "requested": json.RawMessage(asked.Of(params)),
	}})
	if err != nil {
		return nil // it is no JSON that we could pass on
	}
	return fault
}

// grantOf returns what of a listen a server grants that has these capabilities.
func grantOf(result, params []byte) lease.Grant {
	wanted, _ := envelope.Find(params, "notifications")
	lists, uris := filterOf(wanted.Of(params))
	declared := func(path ...string) bool {
		span, ok := envelope.Find(result, append([]string{"capabilities"}, path...)...)
		return ok && string(span.Of(result)) == "true"
	}
	for list, capability := range map[lease.Lists]string{
		lease.Tools: "tools", lease.Prompts: "prompts", lease.Resources: "resources",
	} {
		if !declared(capability, "listChanged") {
			lists &^= list
		}
	}
	if !declared("resources", "subscribe") {
		uris = nil
	}
	return lease.Grant{Lists: lists, URIs: uris}
}

func serverInfo(result []byte) []byte {
	span, ok := envelope.Find(result, "_meta", metaServerInfo)
	if !ok {
		return nil
	}
	return slices.Clone(span.Of(result))
}

// askUnion opens the union, once the one before is over.
func (s *Session) askUnion(a lease.AskUnion, out *Output) {
	to := s.target(a.Candidate)
	opening := func(out *Output) {
		if s.links[to] == nil {
			return
		}
		n := s.number()
		s.noteAsk(a.Ask, asking{link: to, number: n, union: true, again: a.Replaces != 0})
		s.own[n] = ownCall{link: to, method: methodListen}
		out.frame(to, Request, n, requestLine(n, methodListen, slices.Concat(
			[]byte(`{"_meta":`), s.modern.meta, []byte(`,"notifications":`), composeFilter(lease.AllLists, a.URIs), []byte{'}'})))
	}
	if a.Replaces == 0 {
		opening(out)
		return
	}
	s.stopListen(a.Replaces, opening, out)
}

// unionAnswered takes the answer to the union: its refusal, or its end.
func (s *Session) unionAnswered(ask lease.Ask, payload []byte, env envelope.Envelope, out *Output) {
	a := s.watched.asks[ask]
	if stop, ok := s.takeStopped(ask); ok {
		s.listenOver(stop, out)
		return
	}
	s.forgetAsk(ask)
	if !a.acknowledged { // one that is complete without that is refused, too
		actions := s.watched.table.Refuse(ask, refusalOf(payload, env))
		for _, action := range actions {
			if refused, ok := action.(lease.Refused); ok && s.sent[refused.Request] != nil {
				r := s.sent[refused.Request]
				r.reply, _, _ = answerLine(r, payload, out) // it is why the union was refused
			}
		}
		s.act(actions, out)
		return
	}
	s.act(s.watched.table.Finished(ask), out)
}

// unionNotification takes a notification that belongs to the union. It reports
// false if it does not.
func (s *Session) unionNotification(from Link, payload []byte, env envelope.Envelope, out *Output) bool {
	params := env.Params.Of(payload)
	span, ok := envelope.Find(params, "_meta", subscriptionKey)
	if !ok {
		return false
	}
	number, err := strconv.ParseUint(string(span.Of(params)), 10, 64)
	ask, known := s.watched.byNumber[number]
	a := s.watched.asks[ask]
	if err != nil || !known || !a.union || a.link != from {
		return false
	}
	switch {
	case env.Method == noteAcknowledged:
		a.acknowledged = true
		s.watched.asks[ask] = a
		granted, _ := envelope.Find(params, "notifications")
		lists, uris := filterOf(granted.Of(params))
		s.act(s.watched.table.Accept(ask, lease.Grant{Lists: lists, URIs: uris}), out)
		if a.again {
			s.doubtLists() // nobody listened for a moment
		}
		s.goOn(out)
	case env.Method == noteUpdated:
		s.updated(lease.Connection, params, nil, out)
	case isListChanged(env.Method):
		s.listenChanged(from, lease.Connection, env.Method)
	}
	return true
}
