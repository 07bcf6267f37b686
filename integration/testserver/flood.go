package main

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// flood is the input of the tool of that name.
type flood struct {
	// URI is said to change so often a second, for so many milliseconds.
	URI       string `json:"uri"`
	PerSecond int    `json:"per_second"`
	Millis    int    `json:"ms"`
	// Quiet lists resources that change once each, spread over that time.
	Quiet []string `json:"quiet,omitempty"`
}

// addUpdates adds the tool that says that resources have changed.
func addUpdates(m *mcp.Server) {
	add(m, "flood", "says many times that a resource has changed, and of others once; tells how often", func(ctx context.Context, _ *mcp.CallToolRequest, in flood) (*mcp.CallToolResult, error) {
		updates, err := in.run(ctx, m)
		return text("%d", updates), err
	})
}

// run returns how often URI was said to have changed: less often than is asked
// if the peer does not take so many.
func (f flood) run(ctx context.Context, m *mcp.Server) (updates int, err error) {
	clock := time.NewTicker(time.Millisecond)
	defer clock.Stop()
	touched := 0
	total := time.Duration(f.Millis) * time.Millisecond
	for began := time.Now(); ; {
		past := min(time.Since(began), total)
		for ; touched < int(time.Duration(len(f.Quiet))*past/max(total, 1)); touched++ {
			if err := updated(ctx, m, f.Quiet[touched]); err != nil {
				return updates, err
			}
		}
		for due := int(time.Duration(f.PerSecond) * past / time.Second); updates < due && time.Since(began) <= total; updates++ {
			if err := updated(ctx, m, f.URI); err != nil {
				return updates, err
			}
		}
		if past == total {
			return updates, nil
		}
		select {
		case <-clock.C:
		case <-ctx.Done():
			return updates, context.Cause(ctx)
		}
	}
}

func updated(ctx context.Context, m *mcp.Server, uri string) error {
	return m.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: uri})
}
