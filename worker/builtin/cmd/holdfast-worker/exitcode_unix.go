//go:build unix

package main

import (
	"golang.org/x/sys/unix"

	"github.com/holdfast-mcp/holdfast/internal/proc"
)

// exitCode is that of the server, or as a shell has it, 128 and the signal
// that ended it.
func exitCode(exit proc.Exit) int {
	if exit.Signal != "" {
		return 128 + int(unix.SignalNum(exit.Signal))
	}
	return exit.Code
}
