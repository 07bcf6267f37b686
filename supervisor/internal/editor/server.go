package editor

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Server is one entry of a client's file.
type Server struct {
	Name string
	// Command is empty for a remote server, and in forms of entries that are
	// not known.
	Command string
	Args    []string
	Env     []Variable
	// Dir is the working directory that the entry names; most have none.
	Dir string

	err error // why the entry cannot be read
}

// Variable is an environment variable.
type Variable struct{ Name, Value string }

// starts are the commands of holdfast that a client may be told to start.
var starts = []string{"run", "dev"}

// Supervised reports whether the entry starts holdfast.
func (s Server) Supervised() bool {
	program := path.Base(strings.ReplaceAll(s.Command, `\`, "/"))
	return strings.TrimSuffix(strings.ToLower(program), ".exe") == "holdfast" &&
		len(s.Args) > 0 && slices.Contains(starts, s.Args[0])
}

// behind is what an entry that starts holdfast has behind it: the command, and
// how many arguments in front of the command's own belong to holdfast.
func (s Server) behind() (command string, prefix int, err error) {
	dashes := slices.Index(s.Args, "--")
	flags := s.Args
	if dashes >= 0 {
		flags = s.Args[:dashes]
	}
	for i, flag := range flags {
		if worker, ok := strings.CutPrefix(flag, "--worker="); ok {
			return worker, min(len(flags)+1, len(s.Args)), nil
		}
		if flag == "--worker" && i+1 < len(flags) {
			return flags[i+1], min(len(flags)+1, len(s.Args)), nil
		}
	}
	if dashes < 0 || dashes+1 >= len(s.Args) {
		return "", 0, fmt.Errorf("%w behind a \"--\"", ErrNoCommand)
	}
	return s.Args[dashes+1], dashes + 2, nil
}

// check refuses what cannot be written into a file.
func (s Server) check() error {
	texts := append([]string{s.Name, s.Command}, s.Args...)
	for _, v := range s.Env {
		texts = append(texts, v.Name, v.Value)
	}
	for _, t := range texts {
		if !utf8.ValidString(t) || strings.ContainsRune(t, 0) {
			return fmt.Errorf("%q is no text that a configuration file can hold", t)
		}
	}
	if s.Name == "" || s.Command == "" {
		return errors.New("an entry needs a name and a command")
	}
	return nil
}

// same reports whether two entries start the same.
func (s Server) same(o Server) bool {
	byName := func(a, b Variable) int { return cmp.Compare(a.Name, b.Name) }
	return s.Name == o.Name && s.Command == o.Command && s.Dir == o.Dir && slices.Equal(s.Args, o.Args) &&
		slices.Equal(slices.SortedFunc(slices.Values(s.Env), byName), slices.SortedFunc(slices.Values(o.Env), byName))
}

// document is a parsed file, as one of the formats has it. Edits are for its
// text; where there are several, they may come in any order.
type document interface {
	// servers returns the entries.
	servers() ([]Server, error)
	// depth is how many of the keys above the entries exist.
	depth() (int, error)
	// add puts in an entry.
	add(Server) ([]edit, error)
	// remove takes out an entry, and the keys above it that are empty then and
	// deeper than keep.
	remove(name string, keep int) ([]edit, error)
	// command returns the spans of an entry's command and arguments; the
	// latter are nil if it has none.
	command(name string) (command, args *node, err error)
	// addArgs puts arguments behind the command.
	addArgs(name string, args []string) ([]edit, error)
	// removeArgs takes out the arguments with their key.
	removeArgs(name string) ([]edit, error)
	// next returns where the next thing is that is no blank and no comment.
	next(at int) int
	// quote writes a string.
	quote(string) string
	// others stands for everything in the file but the named entry.
	others(name string) (string, error)
}

// find returns the entry of a name.
func find(d document, name string) (Server, error) {
	servers, err := d.servers()
	if err != nil {
		return Server{}, err
	}
	i := slices.IndexFunc(servers, func(s Server) bool { return s.Name == name })
	if i < 0 {
		return Server{}, ErrNotFound
	}
	return servers[i], servers[i].err
}

// wrap puts a command and arguments in front of those of an entry.
func wrap(d document, src []byte, name, command string, prefix []string) ([]edit, error) {
	c, args, err := d.command(name)
	if err != nil {
		return nil, err
	}
	edits := []edit{{c.start, c.end, d.quote(command)}}
	if args == nil {
		more, err := d.addArgs(name, prefix)
		return append(edits, more...), err
	}
	return append(edits, prepend(d, src, args, prefix)), nil
}

// prepend puts elements in front of those of an array, in its style.
func prepend(d document, src []byte, a *node, elements []string) edit {
	at, last := a.start+1, ""
	separator := ", "
	if len(a.elements) > 0 {
		at = a.elements[0].start
		if start := lineStart(src, at); blank(src[start:at]) {
			separator = "," + lineBreak(src) + string(src[start:at])
		}
		last = separator
	}
	quoted := make([]string, 0, len(elements))
	for _, e := range elements {
		quoted = append(quoted, d.quote(e))
	}
	return edit{at, at, strings.Join(quoted, separator) + last}
}

// unwrap undoes wrap: it takes out arguments at the front, all of them with
// their key if there was none, and puts in the text of a command.
func unwrap(d document, src []byte, name, command string, prefix int, noArgs bool) ([]edit, error) {
	c, args, err := d.command(name)
	if err != nil {
		return nil, err
	}
	edits := []edit{{c.start, c.end, command}}
	switch {
	case args == nil || prefix > len(args.elements):
		return nil, fmt.Errorf("%w: its arguments are not those that holdfast wrote", ErrForm)
	case prefix < len(args.elements):
		edits = append(edits, edit{args.elements[0].start, args.elements[prefix].start, ""})
	case noArgs:
		more, err := d.removeArgs(name)
		if err != nil {
			return nil, err
		}
		edits = append(edits, more...)
	case prefix > 0:
		end := args.elements[prefix-1].end
		if comma := d.next(end); comma < len(src) && src[comma] == ',' {
			end = comma + 1
		}
		edits = append(edits, edit{args.elements[0].start, end, ""})
	}
	return edits, nil
}

// rewrite makes the edits of one entry, and checks that the text parses and
// everything else says what it said before.
func rewrite(d document, src []byte, name string, edits []edit, parse func([]byte) (document, error)) ([]byte, document, error) {
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(a.start, b.start) })
	for i := 1; i < len(edits); i++ {
		if edits[i].start < edits[i-1].end {
			return nil, nil, fmt.Errorf("%w: an entry is written in an unusual way", ErrForm)
		}
	}
	out := apply(src, edits)
	after, err := parse(out)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: what would come out is not valid: %w", ErrForm, err)
	}
	was, err := d.others(name)
	if err != nil {
		return nil, nil, err
	}
	if is, err := after.others(name); err != nil || is != was {
		return nil, nil, fmt.Errorf("%w: something else would change as well", ErrForm)
	}
	return out, after, nil
}
