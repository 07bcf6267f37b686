// Package editor puts servers into the configuration files of MCP clients, and
// takes them out again. It knows where each client keeps its file and what an
// entry looks like there, and changes nothing else in it: files are parsed for
// the spans of their values, and text is put in or cut out between them, so
// comments, order, indentation and line ends stay.
//
//	e := editor.Editor{Host: editor.ThisHost()}
//	place, err := client.Place(e.Host, editor.User)
//	change, err := e.Install(place, server, false)
//	os.Stdout.Write(change.Diff())
//	err = change.Apply()
//
// A [Change] is computed without writing anything. Apply writes the file at
// once or not at all, and refuses if it is not what it was when it was read.
// What a file was before is kept in the user's state directory, so Uninstall
// can restore its bytes.
//
// Nothing here is ever run, and values of entries are not interpreted beyond
// command, args and the names of env. There are no goroutines; two changes of
// one file at one time are noticed by the later one, unless both write within
// the same instant.
package editor

import "errors"

// Errors of this package; they come wrapped, with the file they are about.
var (
	// ErrScope is returned when a client has no such scope.
	ErrScope = errors.New("no such scope")
	// ErrExists is returned when an entry would overwrite one of that name.
	ErrExists = errors.New("there is an entry of that name already")
	// ErrNotFound is returned when there is no entry of that name.
	ErrNotFound = errors.New("no entry of that name")
	// ErrNotOurs is returned when an entry to take out does not start holdfast.
	ErrNotOurs = errors.New("the entry does not start holdfast")
	// ErrWrapped is returned when an entry to wrap starts holdfast already.
	ErrWrapped = errors.New("the entry starts holdfast already")
	// ErrNoCommand is returned when an entry to wrap or unwrap has no command
	// that could be moved: it is a remote server, or of an unknown form.
	ErrNoCommand = errors.New("the entry has no command")
	// ErrChanged is returned when a file was changed by somebody else after it
	// was read.
	ErrChanged = errors.New("the file was changed meanwhile; nothing was written")
	// ErrForm is returned when a file is valid, but of a form in which an edit
	// would have to change more than its own entry.
	ErrForm = errors.New("cannot be edited")
	// ErrFile is returned for a file that is none, or is too large.
	ErrFile = errors.New("not a configuration file")
	// ErrState is returned when the directory for backups is not private.
	ErrState = errors.New("the directory for backups is not safe")
)
