package logging

import (
	"os"
	"strings"
	"testing"

	"go.uber.org/zap/zapcore"
)

func TestColourOnTerminal(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pseudo terminal: ", err)
	}
	defer terminal.Close()
	for noColor, want := range map[string]bool{"": true, "1": false} {
		t.Setenv("NO_COLOR", noColor)
		line, err := zapcore.NewConsoleEncoder(consoleEncoding(terminal)).EncodeEntry(zapcore.Entry{Message: "a line"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(line.String(), "\x1b["); got != want {
			t.Errorf("NO_COLOR=%q: coloured %v, want %v: %q", noColor, got, want, line)
		}
	}
}
