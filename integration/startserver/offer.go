package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// offer is what the server has.
type offer struct {
	Capabilities map[string]any `json:"capabilities"`
	// Lists has the items by the name of the member that lists them.
	Lists map[string][]json.RawMessage `json:"lists"`
	// Page is how many items a page has; 0: all.
	Page int `json:"page"`
	// Version is the only one that its initialize agrees to; "": any.
	Version string `json:"version"`
	// Broken: only the first page of each list can be had.
	Broken bool `json:"broken"`
}

// readOffer reads a file, or returns an offer of a little of everything.
func readOffer(path string) (offer, error) {
	if path == "" {
		changes := map[string]any{"listChanged": true}
		item := func(text string) []json.RawMessage { return []json.RawMessage{json.RawMessage(text)} }
		return offer{
			Capabilities: map[string]any{"tools": changes, "prompts": changes, "resources": changes, "logging": map[string]any{}},
			Lists: map[string][]json.RawMessage{
				"tools":             item(`{"name":"pid","inputSchema":{"type":"object"}}`),
				"prompts":           item(`{"name":"greeting"}`),
				"resources":         item(`{"name":"counter","uri":"test://counter"}`),
				"resourceTemplates": item(`{"name":"any","uriTemplate":"test://{x}"}`),
			},
		}, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return offer{}, err
	}
	var o offer
	if err := json.Unmarshal(b, &o); err != nil {
		return offer{}, fmt.Errorf("%s: %w", path, err)
	}
	return o, nil
}

// has reports whether a capability is declared; it is a path.
func (o offer) has(capability ...string) bool {
	var at any = o.Capabilities
	for _, name := range capability {
		members, _ := at.(map[string]any)
		v, ok := members[name]
		if !ok || v == false {
			return false
		}
		at = v
	}
	return true
}

// names reports whether an item of the list has the name.
func (o offer) names(list, name string) bool {
	return slices.ContainsFunc(o.Lists[list], func(raw json.RawMessage) bool {
		var item struct{ Name string }
		return json.Unmarshal(raw, &item) == nil && item.Name == name
	})
}

// kind is one of the lists of MCP.
type kind struct{ member, capability string }

func kindOf(method string) (kind, bool) {
	k, ok := map[string]kind{
		"tools/list":               {"tools", "tools"},
		"prompts/list":             {"prompts", "prompts"},
		"resources/list":           {"resources", "resources"},
		"resources/templates/list": {"resourceTemplates", "resources"},
	}[method]
	return k, ok
}

// list answers a request for a page. A cursor is of its own process: one of
// another life is refused.
func (s *server) list(m message, k kind) error {
	if !s.offer.has(k.capability) {
		return s.fail(m, methodNotFound, "method not found")
	}
	items, first := s.offer.Lists[k.member], 0
	prefix := strconv.Itoa(os.Getpid()) + "-" + k.member + "-"
	if m.Params.Cursor != "" {
		at, ours := strings.CutPrefix(m.Params.Cursor, prefix)
		n, err := strconv.Atoi(at)
		if !ours || err != nil || n < 0 || n > len(items) {
			return s.fail(m, invalidParams, "invalid cursor")
		}
		first = n
		if s.offer.Broken {
			return s.fail(m, internalError, "no more pages today")
		}
	}
	items = items[first:]
	result := map[string]any{"ttlMs": 0, "cacheScope": "private"}
	if s.offer.Page > 0 && len(items) > s.offer.Page {
		items = items[:s.offer.Page]
		result["nextCursor"] = prefix + strconv.Itoa(first+s.offer.Page)
	}
	result[k.member] = append([]json.RawMessage{}, items...) // [], not null
	return s.result(m, result)
}
