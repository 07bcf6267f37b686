package main

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func serve(ctx context.Context, m *mcp.Server) error {
	return m.Run(ctx, &mcp.StdioTransport{})
}
