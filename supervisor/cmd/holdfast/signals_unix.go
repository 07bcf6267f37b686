//go:build unix

package main

import (
	"os"
	"syscall"
)

// swapSignal asks for a replacement of the worker.
const swapSignal = syscall.SIGUSR2

// handled are the signals that a supervisor acts upon.
func handled() []os.Signal {
	return []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, swapSignal}
}
