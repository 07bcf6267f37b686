//go:build !unix

package main

import "errors"

// stopPID lets a process hang; there is no signal for that here.
func stopPID(int) error { return errors.ErrUnsupported }
