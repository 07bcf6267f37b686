// Package integration proves holdfast from the outside: real processes, real
// signals, and oracles that nobody here wrote. Its tests know the commands,
// their flags and the wire, and import nothing internal.
//
// The tests need what `make deps` installs; without it they are skipped with
// a line that says so, in CI they fail.
package integration
