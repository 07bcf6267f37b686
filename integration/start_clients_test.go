package integration

import (
	"maps"
	"time"
)

// clientKind is a client whose first messages are known. Where it is not told
// otherwise they were recorded from the client itself; VS Code and what clients
// do beyond their health check are from their source.
type clientKind struct {
	name     string // in the table
	clientID string // as it calls itself
	version  string // that its initialize asks for
	// capabilities are those that it declares.
	capabilities map[string]any
	// patience is how long it waits for an answer.
	patience time.Duration
	// relists: it lists again when it is told that a list has changed.
	relists bool
	// play sends the first messages and reports whether there is a session.
	play func(*player) bool
}

func (k *clientKind) info() map[string]any {
	return map[string]any{"name": k.clientID, "version": "1"}
}

// hello are the params of its initialize.
func (k *clientKind) hello() map[string]any {
	return map[string]any{"protocolVersion": k.version, "capabilities": k.caps(), "clientInfo": k.info()}
}

func (k *clientKind) caps() map[string]any {
	if k.capabilities == nil {
		return map[string]any{}
	}
	return k.capabilities
}

// envelope are the params of a request of the modern era.
func (k *clientKind) envelope(params map[string]any) map[string]any {
	all := map[string]any{"_meta": map[string]any{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientCapabilities": k.caps(),
		"io.modelcontextprotocol/clientInfo":         k.info(),
	}}
	maps.Copy(all, params)
	return all
}

// Params of lists in both eras.
func noParams() map[string]any { return map[string]any{} }

func (k *clientKind) modernParams() map[string]any { return k.envelope(nil) }

// forEver stands for clients without a limit of their own.
const forEver = time.Hour

var (
	anyElicitation = map[string]any{"form": map[string]any{}, "url": map[string]any{}}
	changingRoots  = map[string]any{"listChanged": true}

	startClients = []*clientKind{
		{"Claude Code", "claude-code", "2025-11-25", map[string]any{"roots": changingRoots, "elicitation": anyElicitation}, 30 * time.Second, true, playClaude},
		{"Codex", "codex-mcp-client", "2025-06-18", map[string]any{"elicitation": anyElicitation}, 10 * time.Second, false, playCodex},
		{"Gemini CLI", "gemini-cli-mcp-client", "2025-06-18", nil, 5 * time.Second, true, playGemini},
		{"VS Code", "Visual Studio Code", "2025-11-25", map[string]any{"roots": changingRoots, "elicitation": anyElicitation}, forEver, true, playVSCode},
		{"TypeScript SDK v1", "ts-v1", "2025-11-25", nil, time.Minute, true, playLegacy},
		{"TypeScript SDK v2 legacy", "ts-v2", "2025-11-25", nil, time.Minute, true, playLegacy},
		{"TypeScript SDK v2 auto", "ts-v2", "2025-11-25", nil, time.Minute, true, playAuto},
		{"TypeScript SDK v2 pinned", "ts-v2", "", nil, time.Minute, true, playPinned},
		{"go-sdk", "mcp-client", "2025-11-25", map[string]any{"roots": changingRoots}, forEver, true, playGo},
	}
)

// playClaude probes, and falls back to initialize on the same pipe 3 s after it
// has started the process.
func playClaude(p *player) bool {
	const probe = `"server-discover-probe-1"`
	_, agreed := p.probe(probe, 3*time.Second-time.Since(p.started))
	again := "0"
	if !agreed {
		if p.initialize("0") {
			p.initialized()
			p.list("1", noParams)
			return true
		}
		// A probe that is answered late counts if initialize is refused.
		again = ""
		late := false
		for _, f := range p.Frames() {
			late = late || string(f.ID) == probe && f.Result != nil
		}
		if !late {
			return false
		}
	}
	p.listen()
	if _, agreed := p.probe(again, p.kind.patience); !agreed {
		return false
	}
	p.list("1", p.kind.modernParams)
	return true
}

// playCodex asks for the other lists at the same time; its progress tokens
// begin at 0.
func playCodex(p *player) bool {
	if !p.initialize("0") {
		return false
	}
	p.initialized()
	token := -1
	p.list("1", func() map[string]any {
		token++
		return map[string]any{"_meta": map[string]any{"progressToken": token}}
	}, "resources/templates/list", "resources/list")
	return true
}

// playGemini gives up on initialize by cancelling it and by TERM.
func playGemini(p *player) bool {
	if !p.initialize("0") {
		p.Notify("notifications/cancelled", map[string]any{"requestId": 0, "reason": "timeout"})
		p.Signal(p.t, "TERM")
		return false
	}
	p.initialized()
	if _, err := p.RequestID("1", "ping", nil).Within(p.kind.patience); err != nil {
		p.t.Errorf("ping: %v", err)
	}
	// For anything but initialize and ping it waits ten minutes.
	patient := *p.kind
	patient.patience = 10 * time.Minute
	p.kind = &patient
	p.list("2", noParams, "prompts/list", "resources/list")
	return true
}

// playVSCode sets the log level, if it can, before it says initialized.
func playVSCode(p *player) bool {
	if !p.initialize("1") {
		return false
	}
	level := p.ask("2", "setLevel", "logging/setLevel", map[string]any{"level": "info"})
	p.initialized()
	p.list("3", noParams, "prompts/list", "resources/list", "resources/templates/list")
	if _, err := level.Answer(); err != nil {
		p.t.Errorf("setLevel: %v", err)
	}
	return true
}

func playLegacy(p *player) bool {
	if !p.initialize("0") {
		return false
	}
	p.initialized()
	p.list("1", noParams, "prompts/list", "resources/list")
	return true
}

// playAuto probes with a process of its own and falls back to initialize.
func playAuto(p *player) bool {
	if !p.sibling() {
		return playLegacy(p)
	}
	return playModern(p)
}

// playPinned insists on the modern era.
func playPinned(p *player) bool { return p.sibling() && playModern(p) }

// playModern is a session that begins without a word on versions.
func playModern(p *player) bool {
	p.listen()
	p.list("0", p.kind.modernParams, "prompts/list", "resources/list")
	return true
}

// playGo probes in place; any answer but agreement means initialize.
func playGo(p *player) bool {
	if _, agreed := p.probe("1", p.kind.patience); agreed {
		p.list("2", p.kind.modernParams)
		return true
	}
	if !p.initialize("2") {
		return false
	}
	p.Notify("notifications/initialized", map[string]any{})
	p.list("3", noParams)
	return true
}
