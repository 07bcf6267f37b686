package logging

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
)

// What is kept is the end of the log, as JSON, from info on even where stderr is
// to be quiet.
func TestRecentLevels(t *testing.T) {
	for level, want := range map[string]string{
		"off": "info warn error", "error": "info warn error", "info": "info warn error", "debug": "debug info warn error",
	} {
		recent := NewRecent(0, 0)
		logger, closeLog := open(t, Options{Level: level, Recent: recent})
		logger.Debug("debug", zap.Int(FieldCount, 1))
		logger.Info("info")
		logger.Warn("warn")
		logger.Error("error")
		closeLog()
		lines, next, missed, _ := recent.Since(0)
		var got []string
		for _, raw := range lines {
			var line struct{ Msg, Level, Time string }
			if err := json.Unmarshal(raw, &line); err != nil || line.Msg != line.Level || line.Time == "" {
				t.Errorf("%s: %v", raw, err)
			}
			got = append(got, line.Msg)
		}
		if strings.Join(got, " ") != want || next != uint64(len(got)) || missed != 0 {
			t.Errorf("level %s: %q, next %d, missed %d", level, got, next, missed)
		}
	}
}

// Lines and bytes are bounded; who comes back late learns how many are missing.
func TestRecentBounds(t *testing.T) {
	r := NewRecent(10, 100)
	write := func(line string) {
		if n, err := r.Write([]byte(line + "\n")); n != len(line)+1 || err != nil {
			t.Fatal(n, err)
		}
	}
	for i := range 25 {
		write(fmt.Sprint(i))
	}
	lines, next, missed, _ := r.Since(3)
	if len(lines) != 10 || string(lines[0]) != "15" || next != 25 || missed != 12 {
		t.Errorf("%d lines from %s, next %d, missed %d", len(lines), lines[0], next, missed)
	}
	write(strings.Repeat("x", 95))
	if lines, next, _, _ = r.Since(20); len(lines) != 3 || next != 26 { // 23, 24, and 95 bytes
		t.Errorf("%q, next %d", lines, next)
	}
	write(strings.Repeat("y", 101))
	lines, _, _, _ = r.Since(26)
	var told struct{ Msg string }
	if len(lines) != 1 || json.Unmarshal(lines[0], &told) != nil || !strings.Contains(told.Msg, "101 bytes") {
		t.Errorf("a line that is too long: %q", lines)
	}
	if lines, next, missed, _ := r.Since(99); len(lines) != 0 || next != 27 || missed != 0 {
		t.Errorf("beyond the end: %q, %d, %d", lines, next, missed)
	}
}

// A reader that waits for more gets every line once, in order, whatever the
// writer does meanwhile.
func TestRecentFollow(t *testing.T) {
	const lines = 5000
	r := NewRecent(lines, 1<<20)
	var group sync.WaitGroup
	group.Go(func() { // ends when all is written
		for i := range lines {
			if _, err := r.Write(fmt.Append(nil, i)); err != nil {
				t.Error(err)
			}
		}
	})
	for at := uint64(0); at < lines; {
		got, next, missed, more := r.Since(at)
		for i, line := range got {
			if string(line) != fmt.Sprint(at+uint64(i)) {
				t.Fatalf("line %d is %s", at+uint64(i), line)
			}
		}
		if missed != 0 {
			t.Fatalf("%d missed", missed)
		}
		if at = next; at < lines {
			<-more
		}
	}
	group.Wait()
}
