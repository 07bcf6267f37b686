package cache

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"
)

// A file of the cache is
//
//	holdfast-cache <version> <SHA-256>\n
//	<JSON without white space>\n
//
// The checksum is over the file's own name too: one under another name is none.
// It finds what a crash of the system has left half written, so that nothing
// waits for a disk.
const (
	magic   = "holdfast-cache"
	version = 1
)

// record is what a file holds.
type record interface{ check() error }

// load returns the record of a name, or a zero one if there is none. Why a file
// is not used is told in the log.
func load[T record](c *Cache, name string) T {
	var none T
	content, err := c.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return none
	}
	var v T
	if err == nil {
		v, err = decode[T](name, content)
	}
	if err != nil {
		c.ignored(name, err)
		return none
	}
	now := time.Now()
	_ = c.root.Chtimes(name, now, now) // a disk that takes no writes has an order of its own
	return v
}

// save writes the record of a name, unless it is there.
func save[T record](c *Cache, name string, v T) error {
	content, err := encode(name, v)
	if errors.Is(err, ErrTooLarge) {
		if gone := c.root.Remove(name); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	if err != nil {
		return fmt.Errorf("save in the cache: %w", err)
	}
	if old, err := c.read(name); err == nil && bytes.Equal(old, content) {
		return nil
	}
	if err := c.write(name, content); err != nil {
		return fmt.Errorf("save in the cache: %w", err)
	}
	if err := c.evict(name); err != nil {
		return fmt.Errorf("clear the cache: %w", err)
	}
	return nil
}

// encode returns the content of a file.
func encode[T record](name string, v T) ([]byte, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false) // answers are given as they came
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	content := append(head(name, body.Bytes()), body.Bytes()...)
	if len(content) > maxFile {
		return nil, ErrTooLarge
	}
	return content, nil
}

func head(name string, body []byte) []byte {
	d := newDigest("file")
	d.text(name)
	d.bytes(body)
	sum := d.sum()
	return fmt.Appendf(nil, "%s %d %s\n", magic, version, hex.EncodeToString(sum[:]))
}

// decode returns the record in the content of a file.
func decode[T record](name string, content []byte) (T, error) {
	var none, v T
	first, body, _ := bytes.Cut(content, []byte{'\n'})
	if of, ok := formatOf(first); ok && of > version {
		return none, ErrNewer
	}
	want := head(name, body)
	if !bytes.Equal(first, want[:len(want)-1]) {
		return none, ErrDamaged
	}
	// A line break in an answer would be two messages to a client.
	if bytes.IndexByte(body, '\n') != len(body)-1 {
		return none, fmt.Errorf("%w: not one line", ErrDamaged)
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return none, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return v, v.check()
}

// formatOf returns the version that the first line of a file names.
func formatOf(line []byte) (of int, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte(magic+" "))
	if !ok {
		return 0, false
	}
	digits, _, _ := bytes.Cut(rest, []byte{' '})
	of, err := strconv.Atoi(string(digits))
	return of, err == nil
}
