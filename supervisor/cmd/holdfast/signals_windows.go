package main

import (
	"os"
	"syscall"
)

// swapSignal does not exist on Windows: no process can send it.
const swapSignal = syscall.Signal(-1)

// handled are the signals that a supervisor acts upon: Ctrl-C, Ctrl-Break, and
// the end of the console or the session.
func handled() []os.Signal { return []os.Signal{os.Interrupt, syscall.SIGTERM} }
