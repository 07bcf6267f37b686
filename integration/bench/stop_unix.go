//go:build unix

package main

import "syscall"

// stopPID lets a process hang.
func stopPID(pid int) error { return syscall.Kill(pid, syscall.SIGSTOP) }
