package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"
)

// era is what a server speaks.
type era string

const (
	legacy era = "legacy"
	dual   era = "dual"
	modern era = "modern"
)

func eraOf(text string) (era, error) {
	e := era(text)
	if !slices.Contains([]era{legacy, dual, modern}, e) {
		return "", fmt.Errorf("no era %q", text)
	}
	return e, nil
}

// manner is how a server takes a request that comes before initialize.
type manner string

const (
	polite manner = ""       // by its era
	exits  manner = "exit"   // as servers do that insist on initialize
	silent manner = "silent" // no answer
	sulks  manner = "sulk"   // no answer, and initialize is refused then
	params manner = "params" // -32602
	late   manner = "late"   // by its era, after lateness in which it reads nothing
)

const manners = "exit, silent, sulk (silent, and refuses initialize then), params (-32602) or late (4 s)"

// lateness is beyond every deadline for an answer to a probe.
const lateness = 4 * time.Second

func mannerOf(text string) (manner, error) {
	m := manner(text)
	if !slices.Contains([]manner{polite, exits, silent, sulks, params, late}, m) {
		return "", fmt.Errorf("no manner %q", text)
	}
	return m, nil
}

// errProbed is returned when the server ends because it was probed.
var errProbed = errors.New("expected initialize")

// message is a message of the client.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Meta struct {
			Version string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
		ProtocolVersion string          `json:"protocolVersion"`
		Cursor          string          `json:"cursor"`
		Name            string          `json:"name"`
		Arguments       json.RawMessage `json:"arguments"`
		RequestID       json.RawMessage `json:"requestId"`
		Notifications   json.RawMessage `json:"notifications"`
	} `json:"params"`
}

func (m message) modern() bool { return m.Params.Meta.Version >= newest }

// Versions of MCP.
const newest = "2026-07-28"

var versions = []string{newest, "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// Codes of errors.
const (
	notInitialized     = 0 // as the Go SDK has it
	invalidRequest     = -32600
	methodNotFound     = -32601
	invalidParams      = -32602
	internalError      = -32603
	unsupportedVersion = -32022
)

// server is the state of one connection.
type server struct {
	era     era
	probe   manner
	offer   offer
	journal string
	out     io.Writer

	greeted, discovered, probed bool
	listens                     map[string]json.RawMessage // granted subscriptions by id
}

func (s *server) handle(m message) error {
	switch {
	case m.Method == "notifications/cancelled":
		return s.cancel(m)
	case m.ID == nil || m.Method == "":
		return nil
	case m.Method == "initialize":
		return s.initialize(m)
	}
	if !s.greeted {
		switch s.probe {
		case exits:
			return errProbed
		case silent, sulks:
			s.probed = true
			return nil
		case params:
			return s.fail(m, invalidParams, "invalid request parameters")
		case late:
			<-time.After(lateness)
		case polite:
		}
	}
	if m.Method == "server/discover" {
		return s.discover(m)
	}
	return s.request(m)
}

func (s *server) initialize(m message) error {
	switch {
	case s.era == modern:
		return s.failWith(m, unsupportedVersion, "initialize is not served", map[string]any{
			"supported": []string{newest}, "requested": m.Params.ProtocolVersion,
		})
	case s.era == dual && (s.discovered || s.greeted):
		return s.fail(m, notInitialized, "duplicate initialize")
	case s.probe == sulks && s.probed:
		return s.fail(m, invalidRequest, "not the first request")
	}
	s.greeted = true
	version := m.Params.ProtocolVersion
	if !slices.Contains(versions[1:], version) {
		version = versions[1]
	}
	if s.offer.Version != "" {
		version = s.offer.Version
	}
	return s.result(m, map[string]any{
		"protocolVersion": version, "capabilities": s.offer.Capabilities, "serverInfo": info(), "instructions": "be tested",
	})
}

func (s *server) discover(m message) error {
	if s.era == legacy || !m.modern() {
		return s.fail(m, methodNotFound, "method not found")
	}
	s.discovered = true
	supported := versions
	if s.era == modern {
		supported = versions[:1]
	}
	return s.result(m, map[string]any{
		"supportedVersions": supported, "capabilities": s.offer.Capabilities, "ttlMs": 0, "cacheScope": "private",
	})
}

// request answers what needs a session, or modern _meta.
func (s *server) request(m message) error {
	switch {
	case s.era == modern && !m.modern():
		return s.fail(m, invalidParams, "missing _meta")
	case s.era == dual && !s.greeted && !m.modern():
		return s.fail(m, notInitialized, "invalid during session initialization")
	}
	if k, ok := kindOf(m.Method); ok {
		return s.list(m, k)
	}
	switch m.Method {
	case "tools/call":
		return s.call(m)
	case "subscriptions/listen":
		return s.listen(m)
	}
	if f, ok := features[m.Method]; ok && s.offer.has(f.capability...) && (!f.legacy || !m.modern()) {
		return s.result(m, f.result)
	}
	return s.fail(m, methodNotFound, "method not found")
}

// features are the methods with the same answer always, the capability that
// they belong to, and whether they are of the legacy era alone.
var features = map[string]struct {
	capability []string
	result     map[string]any
	legacy     bool
}{
	"ping":                  {nil, map[string]any{}, true},
	"logging/setLevel":      {[]string{"logging"}, map[string]any{}, true},
	"completion/complete":   {[]string{"completions"}, map[string]any{"completion": map[string]any{"values": []string{"live"}}}, false},
	"resources/read":        {[]string{"resources"}, map[string]any{"contents": []any{}}, false},
	"resources/subscribe":   {[]string{"resources", "subscribe"}, map[string]any{}, true},
	"resources/unsubscribe": {[]string{"resources", "subscribe"}, map[string]any{}, true},
	"prompts/get":           {[]string{"prompts"}, map[string]any{"messages": []any{}}, false},
}

// call answers with what it got, so that the test sees what arrived.
func (s *server) call(m message) error {
	if !s.offer.has("tools") {
		return s.fail(m, methodNotFound, "method not found")
	}
	if !s.offer.names("tools", m.Params.Name) {
		return s.fail(m, invalidParams, "unknown tool "+strconv.Quote(m.Params.Name))
	}
	text := fmt.Sprintf("%s %s", m.Params.Name, m.Params.Arguments)
	return s.result(m, map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}})
}

// listen grants what is asked for and holds the request until it is cancelled.
func (s *server) listen(m message) error {
	if !m.modern() {
		return s.fail(m, methodNotFound, "method not found")
	}
	s.listens[string(m.ID)] = m.ID
	return s.write(map[string]any{"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": map[string]any{
		"_meta":         map[string]any{"io.modelcontextprotocol/subscriptionId": m.ID},
		"notifications": m.Params.Notifications,
	}})
}

func (s *server) cancel(m message) error {
	id, open := s.listens[string(m.Params.RequestID)]
	if !open {
		return nil
	}
	delete(s.listens, string(id))
	return s.write(map[string]any{"jsonrpc": "2.0", "id": id, "result": map[string]any{
		"resultType": "complete", "_meta": map[string]any{"io.modelcontextprotocol/subscriptionId": id},
	}})
}

// info is the serverInfo: the version is the process id.
func info() map[string]any {
	return map[string]any{"name": "startserver", "version": strconv.Itoa(os.Getpid())}
}

// result answers m. Every result names the process.
func (s *server) result(m message, result map[string]any) error {
	result = maps.Clone(result)
	result["_meta"] = map[string]any{"io.modelcontextprotocol/serverInfo": info()}
	if m.modern() {
		result["resultType"] = "complete"
	}
	return s.write(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": result})
}

func (s *server) fail(m message, code int, text string) error {
	return s.failWith(m, code, text, map[string]any{})
}

// failWith answers m with an error, whose data name the process.
func (s *server) failWith(m message, code int, text string, data map[string]any) error {
	data["serverInfo"] = info()
	return s.write(map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": map[string]any{"code": code, "message": text, "data": data}})
}

func (s *server) write(v map[string]any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = s.out.Write(append(line, '\n'))
	return err
}
