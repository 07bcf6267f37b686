package rebuild

import (
	"bytes"
	"context"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

const (
	// looks is the time between the two looks at a file that have to show the
	// same.
	looks = 20 * time.Millisecond
	// wholeTimeout is how long a file may take to become whole.
	wholeTimeout = 2 * time.Second
)

// ErrIncomplete is wrapped by errors of an executable that is not whole: it is
// being written, or what wrote it was interrupted.
var ErrIncomplete = errors.New("is not complete")

// kind is what a file is, as far as it matters how it is started.
type kind uint8

const (
	script kind = iota // or anything else that is not native
	native
)

// awaitWhole waits until the executable no longer changes and has all that its
// headers say (SUP-10).
func awaitWhole(ctx context.Context, path string) (kind, os.FileInfo, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, wholeTimeout, nil)
	defer cancel()
	before, err := os.Stat(path)
	if err != nil {
		return script, nil, err
	}
	for {
		select {
		case <-time.After(looks):
		case <-ctx.Done():
			if err == nil {
				err = errors.New("changes all the time")
			}
			return script, nil, fmt.Errorf("%s: %w", path, err)
		}
		var now os.FileInfo
		if now, err = os.Stat(path); err != nil {
			return script, nil, err
		}
		if sameFile(before, now) {
			var k kind
			if k, err = inspect(path, now.Size()); err == nil {
				return k, now, nil
			}
		}
		before = now
	}
}

// sameFile reports whether two looks at a path have shown the same content, as
// far as that can be told without reading it.
func sameFile(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// inspect tells what kind of file an executable is, and whether it is whole.
func inspect(path string, size int64) (kind, error) {
	f, err := os.Open(path)
	if err != nil {
		return script, err
	}
	defer f.Close()
	return inspectContent(f, size)
}

// inspectContent is inspect of what is read at f.
func inspectContent(f io.ReaderAt, size int64) (kind, error) {
	head := make([]byte, 4)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return script, err
	}
	head = head[:n]
	var end int64
	switch {
	case n == 0:
		return script, ErrIncomplete
	case bytes.HasPrefix(head, []byte(elf.ELFMAG)):
		end, err = elfEnd(f)
	case bytes.HasPrefix(head, []byte("MZ")):
		end, err = peEnd(f)
	case slices.Contains(machOMagics, string(head)):
		end, err = machoEnd(f)
	default:
		return script, nil
	}
	switch {
	case err != nil:
		return native, fmt.Errorf("%w: %w", ErrIncomplete, err)
	case end > size:
		return native, fmt.Errorf("%w: it has %d of at least %d bytes", ErrIncomplete, size, end)
	}
	return native, nil
}

func elfEnd(f io.ReaderAt) (end int64, err error) {
	x, err := elf.NewFile(f)
	if err != nil {
		return 0, err
	}
	for _, s := range x.Sections {
		if s.Type != elf.SHT_NOBITS {
			end = max(end, int64(s.Offset)+int64(s.FileSize))
		}
	}
	for _, p := range x.Progs {
		end = max(end, int64(p.Off)+int64(p.Filesz))
	}
	return end, nil
}

func peEnd(f io.ReaderAt) (end int64, err error) {
	x, err := pe.NewFile(f)
	if err != nil {
		return 0, err
	}
	for _, s := range x.Sections {
		end = max(end, int64(s.Offset)+int64(s.Size))
	}
	return end, nil
}

// machOMagics begin a Mach-O file, thin in both orders of bytes or fat.
var machOMagics = []string{"\xfe\xed\xfa\xce", "\xfe\xed\xfa\xcf", "\xce\xfa\xed\xfe", "\xcf\xfa\xed\xfe", "\xca\xfe\xba\xbe"}

func machoEnd(f io.ReaderAt) (end int64, err error) {
	if fat, err := macho.NewFatFile(f); err == nil {
		for _, a := range fat.Arches {
			end = max(end, int64(a.Offset)+int64(a.Size))
		}
		return end, nil
	}
	x, err := macho.NewFile(f)
	if err != nil {
		return 0, err
	}
	for _, l := range x.Loads {
		if s, ok := l.(*macho.Segment); ok {
			end = max(end, int64(s.Offset)+int64(s.Filesz))
		}
	}
	return end, nil
}
