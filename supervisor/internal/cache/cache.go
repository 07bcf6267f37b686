// Package cache keeps on disk what servers have answered, so that a client of a
// server that starts slowly gets an answer in time (CAT-3). It serves start-up
// alone and proves nothing: what it says is corrected by the worker.
//
//	c, err := cache.Open(dir, log)        // without a cache all goes on, later
//	store, err := c.For(cache.Command{...})
//	traits := store.Traits()              // what kind of server it is
//	entry := store.Entry(client)          // zero if nothing is known
//	...
//	err = store.Save(client, entry)       // from complete answers alone (CAT-6)
//
// The directory is private to one user (SEC-2):
//
//	key                  32 random bytes, for the names of the others
//	<SHA-256>.traits     Traits of a command
//	<SHA-256>.entry      Entry of a command and a kind of client
//	temp-<random>        a file that is being written
//
// Names are hashes of all that an answer may depend on. Of arguments and of
// values of the environment, which may be secret, they have an HMAC under the
// key. A file is one line with a version and a checksum, and one of JSON. One
// that is not what it should be is ignored, told in the log, and replaced by the
// next save.
//
// All methods may be called at the same time, and processes share a directory:
// files appear whole by a rename, nothing is locked, and the last one to save
// wins. The package knows neither workers nor messages, and does not decide when
// an answer is good enough to be used or saved.
package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/holdfast-mcp/holdfast/internal/envelope"
)

// Errors of a cache, and the reasons for which a file is ignored.
var (
	// ErrNotPrivate: returned when a directory or file belongs to another user
	// or is open to others.
	ErrNotPrivate = errors.New("not private to this user")
	// ErrNotRegular: returned when there is a link, or anything else that is not
	// a directory or file as it should be.
	ErrNotRegular = errors.New("a link or of a wrong kind")
	// ErrTooLarge: returned when a file is, or would be, larger than 4 MiB.
	ErrTooLarge = errors.New("larger than 4 MiB")
	// ErrDamaged: returned when a file is not as it was written, or is of
	// another name.
	ErrDamaged = errors.New("damaged")
	// ErrNewer: returned when a file is of a later version of holdfast.
	ErrNewer = errors.New("of a newer format")
	// ErrAnswer: returned when an answer is no JSON object, a list is only a
	// part of one, or a trait has no meaning.
	ErrAnswer = errors.New("no answer of a server")
)

// Cache is a directory with answers of many servers.
type Cache struct {
	root *os.Root
	log  *zap.Logger
	key  []byte // for HMACs of what may be secret
}

// Open opens the cache in a directory, which it makes if there is none. One that
// is a link, belongs to another user or is open to others is refused.
func Open(dir string, log *zap.Logger) (*Cache, error) {
	root, err := openPrivate(dir)
	if err != nil {
		return nil, fmt.Errorf("open the cache %s: %w", dir, err)
	}
	c := &Cache{root: root, log: log}
	if c.key, err = c.userKey(); err != nil {
		root.Close()
		return nil, fmt.Errorf("key of the cache %s: %w", dir, err)
	}
	return c, nil
}

// Close lets go of the directory.
func (c *Cache) Close() error { return c.root.Close() }

// Store is what the cache has of one command.
type Store struct {
	cache   *Cache
	command [sha256.Size]byte
}

// For returns what the cache has of a command whose executable is as it is now.
// For one that has been replaced since, it has to be called again.
func (c *Cache) For(command Command) (*Store, error) {
	sum, err := command.sum(c.key)
	if err != nil {
		return nil, fmt.Errorf("identity of a command: %w", err)
	}
	return &Store{c, sum}, nil
}

// Answer is what is known about a question with two answers.
type Answer string

// Answers.
const (
	Unknown Answer = ""
	Yes     Answer = "yes"
	No      Answer = "no"
)

// Traits tell what kind of server a command turned out to be. The zero value
// knows nothing.
type Traits struct {
	// Legacy and Modern: it has answered initialize, or server/discover, by a
	// result, or has refused to.
	Legacy Answer `json:"legacy,omitempty"`
	Modern Answer `json:"modern,omitempty"`
	// DiesOfProbe: a server/discover before initialize has ended it.
	DiesOfProbe bool `json:"dies_of_probe,omitempty"`
}

func (t Traits) check() error {
	for _, a := range []Answer{t.Legacy, t.Modern} {
		if a != Unknown && a != Yes && a != No {
			return fmt.Errorf("%w: %q", ErrAnswer, a)
		}
	}
	return nil
}

// Traits returns what is known of the command.
func (s *Store) Traits() Traits { return load[Traits](s.cache, s.traitsName()) }

// SaveTraits saves what is known of the command.
func (s *Store) SaveTraits(t Traits) error { return save(s.cache, s.traitsName(), t) }

func (s *Store) traitsName() string { return hex.EncodeToString(s.command[:]) + traitsSuffix }

// Entry has the answers that one kind of client got. Each is the result of a
// request as the server gave it, without white space; nil if there is none.
type Entry struct {
	Initialize json.RawMessage `json:"initialize,omitempty"`
	Discover   json.RawMessage `json:"discover,omitempty"`
	// Lists has by its method a result that has all items and no cursor.
	Lists map[string]json.RawMessage `json:"lists,omitempty"`
}

func (e Entry) check() error {
	for method, result := range map[string][]byte{"initialize": e.Initialize, "server/discover": e.Discover} {
		if result != nil && !isObject(result) {
			return fmt.Errorf("%w: %s", ErrAnswer, method)
		}
	}
	for method, result := range e.Lists {
		cursor, found := envelope.Find(result, "nextCursor")
		if !isObject(result) || found && cursor.Of(result)[0] == '"' {
			return fmt.Errorf("%w: %s", ErrAnswer, method)
		}
	}
	return nil
}

// isObject reports whether JSON is an object. That it is JSON is for the encoder
// and the decoder to say.
func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' && utf8.Valid(raw) }

// Entry returns the answers that a client of this kind got.
func (s *Store) Entry(client Client) Entry { return load[Entry](s.cache, s.entryName(client)) }

// Save replaces the answers for clients of this kind. What is on disk and equal
// stays as it is. Answers that are too large remove what is there, which they
// have proven wrong.
func (s *Store) Save(client Client, e Entry) error { return save(s.cache, s.entryName(client), e) }

func (s *Store) entryName(client Client) string {
	sum := client.sum(s.command)
	return hex.EncodeToString(sum[:]) + entrySuffix
}
