//go:build !linux

package check

import "errors"

// errLinuxOnly: returned where processes cannot be looked at.
var errLinuxOnly = errors.New("processes are looked at on Linux only")

// member is a process below a worker.
type member struct{ pid, parent, group int }

func descendants(int) ([]member, error) { return nil, errLinuxOnly }

func environOf(int) ([]string, error) { return nil, errLinuxOnly }

func awaitGroupGone(int) {}
