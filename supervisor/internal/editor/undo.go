package editor

import (
	"fmt"
	"slices"
	"strings"
)

// Uninstall undoes [Editor.Install] or [Editor.Wrap]. If the file is what they
// wrote, it gets the bytes that it had before, or is removed if there was
// none. Otherwise only the entry is taken out, or gets its own command back.
//
// An entry that starts holdfast and was not made here gets its own command: a
// server is never lost.
func (e Editor) Uninstall(p Place, name string) (*Change, error) {
	c, doc, err := e.begin(p, name)
	if err != nil {
		return nil, err
	}
	s, err := find(doc, name)
	if err == nil && !s.Supervised() {
		err = ErrNotOurs
	}
	if err != nil {
		return nil, c.failed(err)
	}
	c.record = nil
	r, err := c.store.load(p, name)
	if err != nil {
		return nil, err
	}
	c.Unwrapped = r == nil || r.Wrapped
	if r != nil && r.After == hash(c.from.text) {
		c.to, c.Removes, c.Exact = r.before, !r.Existed, true
		return c, nil
	}
	var edits []edit
	if c.Unwrapped {
		edits, err = c.unwrap(doc, s, r)
	} else {
		edits, err = doc.remove(name, r.Depth)
	}
	if err != nil {
		return nil, c.failed(err)
	}
	if c.to, _, err = rewrite(doc, c.from.text, name, edits, p.parse); err != nil {
		return nil, c.failed(err)
	}
	return c, nil
}

// unwrap gives an entry the command that is in its arguments, in the words of
// the record if they still say the same.
func (c *Change) unwrap(doc document, s Server, r *record) ([]edit, error) {
	command, prefix, err := s.behind()
	if err != nil {
		return nil, err
	}
	words, noArgs := doc.quote(command), false
	switch {
	case r != nil && r.Behind == command:
		words, noArgs = r.Command, r.NoArgs
	case r == nil:
		c.Dropped = dropped(s.Args[1:prefix])
	}
	c.Server = s
	c.Server.Command, c.Server.Args = command, s.Args[prefix:]
	return unwrap(doc, c.from.text, s.Name, words, prefix, noArgs)
}

// dropped returns flags whose loss changes what the server gets.
func dropped(flags []string) []string {
	var lost []string
	for _, f := range flags {
		name, _, _ := strings.Cut(f, "=")
		switch name {
		case "--cwd", "--env", "--env-file":
			lost = append(lost, name)
		}
	}
	return lost
}

// Found is a place and an entry in it.
type Found struct {
	Place  Place
	Server Server
}

// Find returns the entries of a name in some scopes of a client. A file that
// cannot be read is an error.
func (e Editor) Find(c Client, name string, scopes []Scope) ([]Found, error) {
	var found []Found
	for _, p := range e.places(c, scopes) {
		l := e.look(p)
		if l.Err != nil {
			return nil, l.Err
		}
		for _, s := range l.Servers {
			if s.Name == name {
				found = append(found, Found{p, s})
			}
		}
	}
	return found, nil
}

// Listing is what a client has in one place.
type Listing struct {
	Place   Place
	Exists  bool
	Servers []Server
	// Err says why the file cannot be read.
	Err error
}

// List returns what clients have in all their places.
func (e Editor) List(clients []Client) []Listing {
	var all []Listing
	for _, c := range clients {
		for _, p := range e.places(c, c.Scopes()) {
			all = append(all, e.look(p))
		}
	}
	return all
}

// places returns the places of some scopes that the client has. In the user's
// home, the file of the project may be that of the user, and is left out.
func (e Editor) places(c Client, scopes []Scope) []Place {
	var places []Place
	for _, scope := range scopes {
		p, err := c.Place(e.Host, scope)
		if err == nil && !slices.ContainsFunc(places, p.same) {
			places = append(places, p)
		}
	}
	return places
}

func (e Editor) look(p Place) Listing {
	l := Listing{Place: p}
	c, err := p.read()
	if err != nil {
		l.Err = err
		return l
	}
	l.Exists = c.exists
	doc, err := p.parse(c.text)
	if err == nil {
		l.Servers, err = doc.servers()
	}
	if err != nil {
		l.Err = fmt.Errorf("%s: %w", p.File, err)
	}
	return l
}
