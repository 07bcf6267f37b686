package main

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-mcp/holdfast/worker"
)

func serve(ctx context.Context, m *mcp.Server) error { return worker.Serve(ctx, m, nil) }
