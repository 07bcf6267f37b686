package rebuild

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// stamp is a file beside the lock of a build. Whoever has the lock notes there
// when the last build began that ended well, so that windows with the same
// project do not all build the same (SEC-7).
type stamp struct {
	path string // empty: there is none
	// key tells builds apart that the lock does not: the configured
	// environment, of which only a digest is written.
	key string
}

// stampOf returns the stamp beside the lock, which may be nil.
func (c command) stampOf(l *flock.Flock) stamp {
	if l == nil {
		return stamp{}
	}
	sum := sha256.Sum256([]byte(strings.Join(c.mask, "\x00")))
	return stamp{strings.TrimSuffix(l.Path(), ".lock") + ".built", hex.EncodeToString(sum[:8])}
}

// isSince reports whether a build has begun after that time, by the clock of
// the machine, and ended well. Without a time it has not.
func (s stamp) isSince(t time.Time) bool {
	text, err := os.ReadFile(s.path)
	key, nanos, ok := strings.Cut(string(text), " ")
	began, convErr := strconv.ParseInt(nanos, 10, 64)
	return err == nil && ok && convErr == nil && key == s.key && !t.IsZero() && began > t.UnixNano() && began < time.Now().UnixNano()
}

// note notes a build that ended well. Without the note, others build again.
func (s stamp) note(began time.Time) {
	if s.path != "" {
		_ = os.WriteFile(s.path, []byte(s.key+" "+strconv.FormatInt(began.UnixNano(), 10)), 0o600)
	}
}
