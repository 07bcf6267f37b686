package jupyter

import (
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-mcp/holdfast/internal/proc"
)

// Errors of a kernel's life.
var (
	// ErrDied is returned when the kernel has ended, whoever ended it.
	ErrDied = errors.New("kernel died")
	// ErrNotReady is returned when a kernel has not answered within the time
	// of its start.
	ErrNotReady = errors.New("the kernel was not ready in time")
	// ErrPort is returned when a port that a kernel was to listen on was taken
	// by somebody else each time.
	ErrPort = errors.New("a port of the kernel is taken")
	// ErrStuck is the cause when a kernel lived but answered no heartbeat.
	ErrStuck = errors.New("it answered no heartbeat")
	// ErrDisconnected is the cause when a kernel lived but closed a socket.
	ErrDisconnected = errors.New("it closed its connection")
	// ErrEnded is the cause when the kernel was ended from this side.
	ErrEnded = errors.New("it was ended")
	// ErrInterrupt is returned when a kernel did not answer a request to
	// interrupt, and lives on.
	ErrInterrupt = errors.New("the kernel did not answer the interrupt request")
)

// EndError tells how a kernel ended. It is [ErrDied], and its cause.
type EndError struct {
	Exit proc.Exit
	// Cause is why it was ended, nil if it ended by itself.
	Cause error
	// Output are the last lines that it wrote outside of messages.
	Output []string
}

func (e *EndError) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%v: %v", ErrDied, e.Cause)
	}
	return fmt.Sprintf("%v: %v%s", ErrDied, e.Exit, lastLine(e.Output))
}

// Is reports whether target is [ErrDied].
func (e *EndError) Is(target error) bool { return target == ErrDied }

// Unwrap returns the cause.
func (e *EndError) Unwrap() error { return e.Cause }

// StartError tells why a kernel could not be started.
type StartError struct {
	// Kernel is its name, Command what was executed, if it came to that.
	Kernel  string
	Command []string
	// Err is the cause: a [*EndError] if it ended, [ErrNotReady], [ErrSpec], or
	// one of the system.
	Err error
	// Output are the last lines that it wrote.
	Output []string
}

func (e *StartError) Error() string {
	output := ""
	if _, ended := errors.AsType[*EndError](e.Err); !ended {
		output = lastLine(e.Output)
	}
	return fmt.Sprintf("start kernel %s: %v%s", e.Kernel, e.Err, output)
}

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

func lastLine(output []string) string {
	if len(output) == 0 {
		return ""
	}
	return ": " + strings.TrimSpace(output[len(output)-1])
}
