package rebuild

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// executable returns the path of a native executable that is small enough to be
// copied often: the test binary, or its beginning.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o700); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// SUP-10: a part of an executable is not taken for one.
func TestInspect(t *testing.T) {
	whole := read(t, self(t))
	for _, n := range []int{4, 64, 1000, len(whole) / 2, len(whole) - 1} {
		if k, err := inspectContent(bytes.NewReader(whole[:n]), int64(n)); k != native || !errors.Is(err, ErrIncomplete) {
			t.Errorf("%d of %d bytes: %v, %v", n, len(whole), k, err)
		}
	}
	if k, err := inspectContent(bytes.NewReader(whole), int64(len(whole))); k != native || err != nil {
		t.Errorf("all of it: %v, %v", k, err)
	}
	for _, text := range []string{"#!/bin/sh\n", "print(1)", "x"} {
		if k, err := inspectContent(strings.NewReader(text), int64(len(text))); k != script || err != nil {
			t.Errorf("%q: %v, %v", text, k, err)
		}
	}
	if _, err := inspectContent(strings.NewReader(""), 0); !errors.Is(err, ErrIncomplete) {
		t.Errorf("an empty file: %v", err)
	}
}

// FuzzInspect: whatever stands in a file, it is looked at without a panic, and
// no more of a file is needed than there is.
func FuzzInspect(f *testing.F) {
	for _, seed := range []string{"\x7fELF\x02\x01\x01", "MZ\x90\x00", "\xcf\xfa\xed\xfe\x07\x00\x00\x01", "\xca\xfe\xba\xbe\x00\x00\x00\x02", "#!/bin/sh"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		k, err := inspectContent(bytes.NewReader(content), int64(len(content)))
		if k == script && err != nil && len(content) > 0 {
			t.Errorf("a script is refused: %v", err)
		}
	})
}

// SUP-10: an executable that is being written is waited for.
func TestAwaitWhole(t *testing.T) {
	whole := read(t, self(t))
	path := filepath.Join(t.TempDir(), "server")
	write(t, path, whole[:len(whole)/3])
	done := make(chan error, 1)
	go func() { // ends when the file is whole
		_, info, err := awaitWhole(t.Context(), path)
		if err == nil && info.Size() != int64(len(whole)) {
			err = errors.New("it was not whole")
		}
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("a third of it was taken: %v", err)
	case <-time.After(5 * looks):
	}
	write(t, path, whole)
	if err := <-done; err != nil {
		t.Error(err)
	}

	write(t, path, whole[:len(whole)/3])
	ctx, cancel := context.WithTimeout(t.Context(), 5*looks)
	defer cancel()
	if _, _, err := awaitWhole(ctx, path); !errors.Is(err, ErrIncomplete) || !strings.Contains(err.Error(), path) {
		t.Errorf("of a third that stays: %v", err)
	}
	if _, _, err := awaitWhole(t.Context(), path+".none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of no file: %v", err)
	}
}
