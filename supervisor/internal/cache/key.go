package cache

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/gowebpki/jcs"
)

// Command is how a server is started: all of it on which its answers may depend
// and that is the same at each start.
type Command struct {
	// Argv has the name and the arguments, resolved.
	Argv []string
	// Dir is the absolute working directory.
	Dir string
	// Executable is the absolute path of the program. Its size and time of
	// modification count too.
	Executable string
	// Configured is the environment NAME=VALUE that the user gave it. Of two
	// entries with one name the last one counts.
	Configured []string
	// Inherited is the rest of its environment. Variables that do not look like
	// credentials are left out: many are others at each start.
	Inherited []string
}

// Client is what a server may make its answers depend on. Clients that differ in
// anything get nothing of each other's answers.
type Client struct {
	Era          string // "legacy" or "modern"
	Version      string // protocol version that was told, or asked for
	Capabilities []byte // raw JSON
	Name         string
}

// maxCanonical bounds client capabilities that are compared in canonical form:
// the form takes time, and stack for each level of nesting.
const maxCanonical = 64 << 10

// sum returns the identity of the command, with the executable as it is now.
func (c Command) sum(key []byte) ([sha256.Size]byte, error) {
	program, err := os.Stat(c.Executable)
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	d := newDigest("command")
	d.number(int64(len(c.Argv)))
	for _, arg := range c.Argv {
		d.bytes(sealed(key, arg))
	}
	d.text(c.Dir)
	d.text(c.Executable)
	d.number(program.Size())
	d.number(program.ModTime().UnixNano())
	vars := c.variables()
	d.number(int64(len(vars)))
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		d.text(name)
		d.bytes(sealed(key, vars[name]))
	}
	return d.sum(), nil
}

// variables returns what counts of the environment as the server sees it.
func (c Command) variables() map[string]string {
	vars := make(map[string]string)
	for _, entry := range c.Inherited {
		if name, value, _ := strings.Cut(entry, "="); isCredential(name) {
			vars[name] = value
		}
	}
	for _, entry := range c.Configured {
		name, value, _ := strings.Cut(entry, "=")
		vars[name] = value
	}
	return vars
}

func isCredential(name string) bool {
	name = strings.ToUpper(name)
	return slices.ContainsFunc([]string{"TOKEN", "KEY", "SECRET", "PASS"}, func(word string) bool {
		return strings.Contains(name, word)
	})
}

// sealed returns what stands for a value that may be secret, and that cannot be
// guessed from the names of files.
func sealed(key []byte, value string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(value))
	return h.Sum(nil)
}

// sum returns the identity of this kind of client at a command.
func (c Client) sum(command [sha256.Size]byte) [sha256.Size]byte {
	d := newDigest("client")
	d.bytes(command[:])
	d.text(c.Era)
	d.text(c.Version)
	d.bytes(canonical(c.Capabilities))
	d.text(c.Name)
	return d.sum()
}

// canonical returns JSON in canonical form. What has none stands for itself.
func canonical(raw []byte) []byte {
	if len(raw) > maxCanonical {
		return raw
	}
	if c, err := jcs.Transform(raw); err == nil {
		return c
	}
	return raw
}

// digest is a hash over fields that each have their length before them, so that
// no two lists of fields have the same bytes.
type digest struct{ hash hash.Hash }

func newDigest(label string) digest {
	d := digest{sha256.New()}
	d.text(label)
	return d
}

func (d digest) number(n int64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	d.hash.Write(b[:])
}

func (d digest) bytes(b []byte) {
	d.number(int64(len(b)))
	d.hash.Write(b)
}

func (d digest) text(s string) { d.bytes([]byte(s)) }

func (d digest) sum() [sha256.Size]byte { return [sha256.Size]byte(d.hash.Sum(nil)) }
