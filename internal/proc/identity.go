package proc

// Identity names one process for good: a pid is used again, a pid with its
// start time is not.
type Identity struct {
	Pid int
	// Start is the start time in the system's own unit: clock ticks since boot
	// on Linux, microseconds since 1970 on macOS, 100 ns since 1601 on
	// Windows. It is meant for comparison alone.
	Start uint64
}

// Alive reports whether the process exists and has not ended.
func (id Identity) Alive() bool {
	now, err := Identify(id.Pid)
	return err == nil && now == id && !ended(id.Pid)
}
