package main

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// chainRounds is how often the tool deploy asks before it does something.
const chainRounds = 2

// addChain adds a tool that asks first. What it has heard so far is in the
// requestState, signed with a key that is new in each process.
func addChain(m *mcp.Server) {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	add(m, "deploy", "asks twice, and tells the process id", func(_ context.Context, r *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, error) {
		round, err := verify(key, r.Params.RequestState)
		if err != nil {
			return nil, err
		}
		if round == chainRounds {
			return text("deployed by %d", os.Getpid()), nil
		}
		return &mcp.CallToolResult{
			RequestState: sign(key, round+1),
			InputRequests: mcp.InputRequestMap{"sure": &mcp.ElicitParams{
				Message:         "sure?",
				RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}},
			}},
		}, nil
	})
}

func sign(key []byte, round int) string {
	mac := hmac.New(sha256.New, key)
	fmt.Fprint(mac, round)
	return fmt.Sprintf("%d.%s", round, hex.EncodeToString(mac.Sum(nil)))
}

// verify returns the round that a requestState is of, 0 for none.
func verify(key []byte, state string) (int, error) {
	if state == "" {
		return 0, nil
	}
	var round int
	if _, err := fmt.Sscanf(state, "%d.", &round); err != nil || !hmac.Equal([]byte(sign(key, round)), []byte(state)) {
		return 0, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "invalid requestState: tampered"}
	}
	return round, nil
}
