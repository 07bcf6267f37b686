package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
)

// era is a way to begin an MCP connection.
type era int

const (
	none era = iota
	legacy
	modern
)

const (
	legacyVersion = "2025-11-25"
	modernVersion = "2026-07-28"

	methodInitialize  = "initialize"
	methodDiscover    = "server/discover"
	methodPing        = "ping"
	methodInitialized = "notifications/initialized"
)

// discoverPatience is how long supervisors wait for the answer to
// server/discover before they let the client fall back to the legacy era.
const discoverPatience = 2 * time.Second

var clientInfo = map[string]any{"name": "holdfast-worker check", "version": "1"}

// initialize begins a connection of the legacy era and returns the version
// that the server chose.
func (s *session) initialize(ctx context.Context) (version string, err error) {
	m, err := s.call(ctx, methodInitialize, map[string]any{
		"protocolVersion": legacyVersion, "capabilities": map[string]any{}, "clientInfo": clientInfo,
	})
	if err != nil {
		return "", fmt.Errorf("initialize: %w", err)
	}
	if m.Error != nil {
		return "", fmt.Errorf("initialize: %w: %v", errRefused, m)
	}
	var result struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	if err := json.Unmarshal(m.Result, &result); err != nil || result.ProtocolVersion == "" {
		return "", fmt.Errorf("initialize: a result without protocolVersion: %.80q", m.Result)
	}
	return result.ProtocolVersion, s.frame(ctx, &workerv1.Frame{
		Kind: workerv1.Frame_KIND_NOTIFICATION, Payload: []byte(`{"jsonrpc":"2.0","method":"` + methodInitialized + `"}`),
	})
}

// errRefused: returned when a request was answered with an error.
var errRefused = errors.New("refused")

// discover tries the modern era.
func (s *session) discover(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, discoverPatience)
	defer cancel()
	m, err := s.call(ctx, methodDiscover, modernParams())
	switch {
	case err != nil:
		return fmt.Errorf("server/discover: %w", err)
	case m.Error != nil:
		return fmt.Errorf("server/discover: %w: %v", errRefused, m)
	}
	return nil
}

func modernParams() map[string]any {
	return map[string]any{"_meta": map[string]any{
		"io.modelcontextprotocol/protocolVersion":    modernVersion,
		"io.modelcontextprotocol/clientInfo":         clientInfo,
		"io.modelcontextprotocol/clientCapabilities": map[string]any{},
	}}
}

// params returns the smallest params of a request in the era of the worker.
func (c *checker) params() map[string]any {
	if c.era == modern {
		return modernParams()
	}
	return map[string]any{}
}

// harmless is a request that every server of the era answers with a result.
func (c *checker) harmless() string {
	if c.era == modern {
		return methodDiscover
	}
	return methodPing
}

// serves makes sure that the session still answers.
func (c *checker) serves(ctx context.Context, s *session) error {
	m, err := s.call(ctx, c.harmless(), c.params())
	if err == nil && m.Error != nil {
		err = fmt.Errorf("%s: %w: %v", c.harmless(), errRefused, m)
	}
	return err
}
