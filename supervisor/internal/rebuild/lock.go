package rebuild

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// ErrNotPrivate is wrapped by errors of directories that belong to others, or
// that others can use.
var ErrNotPrivate = errors.New("is no private directory of this user")

// lockPoll is how often a lock that another process has is tried again.
const lockPoll = 20 * time.Millisecond

// lockFor returns the advisory lock of a command in a directory, the same for
// all processes of this user (SEC-7). The system frees it when its holder dies.
func lockFor(command, dir string) (*flock.Flock, error) {
	base, err := privateDir("builds")
	if err != nil {
		return nil, err
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	sum := sha256.Sum256([]byte(command + "\x00" + dir))
	return flock.New(filepath.Join(base, hex.EncodeToString(sum[:16])+".lock"), flock.SetPermissions(0o600)), nil
}

// lock takes the lock, and calls waits first if another process has it. A lock
// that cannot be had at all is reported by its error.
func lock(ctx context.Context, l *flock.Flock, waits func()) error {
	ok, err := l.TryLock()
	if ok || err != nil {
		return err
	}
	waits()
	_, err = l.TryLockContext(ctx, lockPoll)
	return err
}

// privateDir returns a directory below the user's cache that nobody else can
// use, and makes it where it does not exist (SEC-4).
func privateDir(name string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, "holdfast", name)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", err
	}
	return path, checkPrivate(path)
}

func checkPrivate(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() || !isPrivate(info) {
		return fmt.Errorf("%s: %w", path, ErrNotPrivate)
	}
	return nil
}
