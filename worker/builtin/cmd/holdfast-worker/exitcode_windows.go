package main

import "github.com/holdfast-mcp/holdfast/internal/proc"

// exitCode is that of the server.
func exitCode(exit proc.Exit) int { return exit.Code }
