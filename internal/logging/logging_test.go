package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"go.uber.org/zap"
)

const roleEnv = "LOGGING_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleEnv) == "broken stderr" {
		logger, closeLog, err := New(Options{Stderr: os.Stderr})
		if err != nil {
			panic(err)
		}
		for range 1000 {
			logger.Error("nobody reads this")
		}
		closeLog()
		fmt.Println("survived")
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// buffer is a stderr that can be read while it is written to.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func open(t *testing.T, opts Options) (*zap.Logger, func()) {
	t.Helper()
	logger, closeLog, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return logger, func() {
		t.Helper()
		if err := closeLog(); err != nil {
			t.Error(err)
		}
	}
}

func TestLevels(t *testing.T) {
	names := []string{"debug", "info", "warn", "error"}
	for i, level := range append(names, "off", "") {
		var stderr buffer
		file := filepath.Join(t.TempDir(), "log")
		logger, closeLog := open(t, Options{Level: level, Stderr: &stderr, File: file})
		logger.Debug("a debug line")
		logger.Info("a info line")
		logger.Warn("a warn line")
		logger.Error("a error line")
		closeLog()
		inFile, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if level == "" {
			i = 1
		}
		for j, name := range names {
			for where, text := range map[string]string{"stderr": stderr.String(), "file": string(inFile)} {
				if got, want := strings.Contains(text, "a "+name+" line"), j >= i; got != want {
					t.Errorf("level %q: %s line in %s: %v, want %v", level, name, where, got, want)
				}
			}
		}
	}
	_, _, err := New(Options{Level: "verbose"})
	const want = `unknown log level "verbose": must be one of debug, info, warn, error, off`
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestLinesForPeople(t *testing.T) {
	var stderr buffer
	logger, closeLog := open(t, Options{Name: "holdfast", Stderr: &stderr})
	logger.With(zap.Uint64(FieldGeneration, 2)).Warn("worker lost", zap.String(FieldExit, "killed by SIGKILL"))
	closeLog()
	line := stderr.String()
	want := regexp.MustCompile(`^\d\d:\d\d:\d\d\.\d{3} WARN holdfast worker lost \{"generation": 2, "exit": "killed by SIGKILL"\}\n$`)
	if !want.MatchString(line) {
		t.Errorf("line %q", line)
	}
}

func TestFileIsPrivateJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "dir", "log")
	logger, closeLog := open(t, Options{File: file})
	logger.Info("line one\nline two", zap.Duration(FieldDuration, time.Second))
	closeLog()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var line map[string]any
	if err := json.Unmarshal(raw, &line); err != nil {
		t.Fatalf("%v: %q", err, raw)
	}
	if line["msg"] != "line one\nline two" || line["level"] != "info" || line["duration"] != "1s" || line["time"] == "" {
		t.Errorf("line %v", line)
	}
	if runtime.GOOS == "windows" {
		return // no modes
	}
	for path, want := range map[string]fs.FileMode{file: 0o600, filepath.Dir(file): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("mode of %s: %v (%v), want %v", path, info.Mode(), err, want)
		}
	}
}

func TestFileError(t *testing.T) {
	if _, _, err := New(Options{File: t.TempDir()}); err == nil || !strings.HasPrefix(err.Error(), "log file: ") {
		t.Errorf("a directory as log file: %v", err)
	}
}

func TestRotationIsBounded(t *testing.T) {
	const maxBytes, keep, lines = 4096, 3, 1000
	dir := t.TempDir()
	file := filepath.Join(dir, "log")
	// Two logs of one file, as two supervisors with the same arguments have.
	one, closeOne := open(t, Options{File: file, MaxBytes: maxBytes, Keep: keep})
	two, closeTwo := open(t, Options{File: file, MaxBytes: maxBytes, Keep: keep})
	for i := range lines {
		one.Info("one", zap.Int(FieldCount, i))
		two.Info("two", zap.Int(FieldCount, i))
	}
	closeOne()
	closeTwo()
	one.Info("after the end")

	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		if info, err := e.Info(); err != nil || info.Size() > maxBytes || info.Size() < maxBytes/2 && e.Name() != "log" {
			t.Errorf("%s has %d bytes (%v), limit %d", e.Name(), info.Size(), err, maxBytes)
		}
	}
	if got := strings.Join(names, " "); got != "log log.1 log.2" {
		t.Errorf("files %s", got)
	}
	// What is kept is the end, whole and in order.
	var all []byte
	for _, name := range []string{"log.2", "log.1", "log"} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, raw...)
	}
	kept := strings.Split(strings.TrimSuffix(string(all), "\n"), "\n")
	for i, text := range kept {
		var line struct {
			Msg   string
			Count int
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%v: %q", err, text)
		}
		n := 2*lines - len(kept) + i
		if want := []string{"one", "two"}[n%2]; line.Count != n/2 || line.Msg != want {
			t.Fatalf("line %d of %d is %s %d, want %s %d", i, len(kept), line.Msg, line.Count, want, n/2)
		}
	}
}

// A stderr that nobody reads costs its own lines and nothing else.
func TestUnreadStderr_SUP13_C45(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "log")
	logger, closeLog := open(t, Options{Stderr: w, File: file, MaxBytes: 1 << 30})
	const lines = 100_000
	begin := time.Now()
	for i := range lines {
		logger.Info("a line that is lost", zap.Int(FieldCount, i))
	}
	t.Logf("%d lines in %v", lines, time.Since(begin))
	begin = time.Now()
	closeLog()
	if took := time.Since(begin); took < closeTimeout || took > 20*closeTimeout {
		t.Errorf("close took %v, its limit is %v", took, closeTimeout)
	}
	raw, err := os.ReadFile(file)
	if n := bytes.Count(raw, []byte("\n")); err != nil || n != lines {
		t.Errorf("%d lines in the file (%v), want %d", n, err, lines)
	}
	r.Close() // ends the queue's goroutine
	w.Close()
}

// blocked is a stderr whose reader comes late.
type blocked struct {
	buffer
	entered chan struct{} // gets a token for each write that begins
	release chan struct{} // closed when the reader comes
}

func (b *blocked) Write(p []byte) (int, error) {
	b.entered <- struct{}{}
	<-b.release
	return b.buffer.Write(p)
}

// What was dropped is told once the reader is back, in its place.
func TestDroppedLinesAreCounted_SUP13(t *testing.T) {
	stderr := &blocked{entered: make(chan struct{}, 100), release: make(chan struct{})}
	q := newQueue(stderr)
	line := []byte(strings.Repeat("x", 1023) + "\n")
	q.Write(line)
	<-stderr.entered // the goroutine is blocked with the first line
	fit := queueBytes / len(line)
	const tooMany = 7
	for range fit + tooMany {
		q.Write(line)
	}
	q.Write([]byte("short\n")) // would fit, but would be out of order
	close(stderr.release)
	<-stderr.entered
	q.Close()
	want := strings.Repeat(string(line), 1+fit) + fmt.Sprintf("... %d lines dropped: stderr is not read fast enough\n", tooMany+1)
	if got := stderr.String(); got != want {
		t.Errorf("%d bytes, want %d; end %q", len(got), len(want), got[len(got)-80:])
	}
	q.Write([]byte("after the end\n"))
	if got := stderr.String(); got != want {
		t.Error("a line after the end was written")
	}
}

// broken is a stderr that fails.
type broken struct{ writes int }

func (b *broken) Write([]byte) (int, error) {
	b.writes++
	return 0, errors.New("broken")
}

func TestBrokenStderr_EDGE9(t *testing.T) {
	stderr := &broken{}
	logger, closeLog := open(t, Options{Stderr: stderr})
	logger.Error("one line")
	closeLog()
	if stderr.writes != 1 {
		t.Errorf("%d writes for one line", stderr.writes)
	}
}

// A closed stderr must not end the process by SIGPIPE.
func TestClosedStderr_EDGE9(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleEnv+"=broken stderr")
	cmd.Stderr = w
	out, err := cmd.Output()
	if err != nil || string(out) != "survived\n" {
		t.Errorf("%v, output %q", err, out)
	}
}

func TestSlog(t *testing.T) {
	var stderr buffer
	logger, closeLog := open(t, Options{Level: "warn", Name: "holdfast", Stderr: &stderr})
	s := Slog(logger.With(zap.Int(FieldGeneration, 1)))
	s.Info("too low")
	s.Error("from slog", slog.String(FieldMethod, "tools/call"))
	closeLog()
	got := stderr.String()
	if !strings.HasSuffix(got, "ERROR holdfast from slog {\"generation\": 1, \"method\": \"tools/call\"}\n") || strings.Count(got, "\n") != 1 {
		t.Errorf("%q, want one line without a stack", got)
	}
}

func TestHclogOff(t *testing.T) {
	l := HclogOff()
	if l.GetLevel() != hclog.Off || l.Named("child").GetLevel() != hclog.Off || l.IsError() {
		t.Error("the logger is not off")
	}
}

func TestColour(t *testing.T) {
	var stderr buffer
	t.Setenv("NO_COLOR", "")
	logger, closeLog := open(t, Options{Stderr: &stderr})
	logger.Info("a line")
	closeLog()
	if strings.Contains(stderr.String(), "\x1b") {
		t.Errorf("colour without a terminal: %q", stderr.String())
	}
}
