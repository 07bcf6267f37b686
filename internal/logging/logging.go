// Package logging gives a process its one zap core: lines for people on
// stderr, JSON lines in a file, and bridges for the logging interfaces of
// libraries.
//
//	logger, closeLog, err := logging.New(logging.Options{Level: "info", Stderr: os.Stderr, File: path})
//	defer closeLog()
//	mcpLogger := logging.Slog(logger)  // for go-sdk
//	pluginLogger := logging.HclogOff() // for go-plugin
//
// stdout belongs to the protocol and is never written to. stderr is a pipe that
// the client may never read or may have closed: log calls put their line into a
// bounded queue in front of it and never wait; what does not fit is dropped and
// counted, what cannot be written is forgotten (SUP-13, EDGE-9).
//
// The last lines can be kept in memory as well, in a [Recent].
//
// Loggers may be used from any goroutine. There is one goroutine, which writes
// to stderr until the log is closed. Log text is no interface: tests and other
// code subscribe to events instead.
package logging

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"
)

// Names of fields, the same in all log lines.
const (
	FieldGeneration = "generation" // number of a worker's life
	FieldSession    = "session"    // one MCP connection to a worker
	FieldRequestID  = "request_id" // raw JSON-RPC id
	FieldMethod     = "method"     // JSON-RPC method
	FieldPid        = "pid"
	FieldExit       = "exit"    // how a process ended
	FieldReason     = "reason"  // why something was done
	FieldCommand    = "command" // name or path of an executable
	FieldPath       = "path"    // file
	FieldDuration   = "duration"
	FieldBytes      = "bytes"
	FieldCount      = "count"
	FieldLine       = "line" // a line of a worker's stderr
)

// Defaults of [Options].
const (
	DefaultMaxBytes = 10 << 20
	DefaultKeep     = 3
)

// Options of a log.
type Options struct {
	// Level is the least level that is logged, see [ParseLevel]; empty: info.
	Level string
	// Name is put before the message of each line; may be empty.
	Name string
	// Stderr gets lines for people; nil: none. They are coloured if it is a
	// terminal and NO_COLOR is not set.
	Stderr io.Writer
	// File gets JSON lines; empty: none. It is created with mode 0600, missing
	// directories with 0700.
	File string
	// Recent, if set, gets JSON lines: those of Level, but all from info on
	// whatever that is.
	Recent *Recent
	// MaxBytes is the size at which File is renamed to File.1, the former
	// File.1 to File.2 and so on; 0: [DefaultMaxBytes].
	MaxBytes int64
	// Keep is the number of files kept in all; 0: [DefaultKeep].
	Keep int
}

// New opens a log. The function it returns closes the log: it waits for stderr
// for at most 100 ms. From the first call on, the end of a reader of stdout or
// stderr is an error of the write, and no SIGPIPE that ends this process.
func New(opts Options) (*zap.Logger, func() error, error) {
	level, err := ParseLevel(opts.Level)
	if err != nil {
		return nil, nil, err
	}
	surviveBrokenPipes()

	var cores []zapcore.Core
	var closers []func() error
	// What zap itself has to say, such as that the file cannot be written.
	complaints := zapcore.AddSync(io.Discard)

	if opts.File != "" {
		f, err := openFile(opts.File, orDefault(opts.MaxBytes, DefaultMaxBytes), orDefault(opts.Keep, DefaultKeep))
		if err != nil {
			return nil, nil, err
		}
		cores = append(cores, zapcore.NewCore(zapcore.NewJSONEncoder(fileEncoding()), f, level))
		closers = append(closers, f.Close)
	}
	if opts.Recent != nil {
		cores = append(cores, zapcore.NewCore(zapcore.NewJSONEncoder(fileEncoding()), opts.Recent, recentLevel(level)))
	}
	if opts.Stderr != nil {
		q := newQueue(opts.Stderr)
		complaints = q
		cores = append(cores, zapcore.NewCore(zapcore.NewConsoleEncoder(consoleEncoding(opts.Stderr)), q, level))
		closers = append(closers, q.Close)
	}
	logger := zap.New(zapcore.NewTee(cores...), zap.ErrorOutput(complaints)).Named(opts.Name)
	closeAll := func() error {
		var errs []error
		for _, c := range closers {
			errs = append(errs, c())
		}
		return errors.Join(errs...)
	}
	return logger, closeAll, nil
}

// ParseLevel returns the level of a name: debug, info, warn, error or off.
func ParseLevel(name string) (zapcore.LevelEnabler, error) {
	switch name {
	case "debug":
		return zapcore.DebugLevel, nil
	case "", "info":
		return zapcore.InfoLevel, nil
	case "warn":
		return zapcore.WarnLevel, nil
	case "error":
		return zapcore.ErrorLevel, nil
	case "off":
		return zapcore.InvalidLevel, nil
	}
	return nil, fmt.Errorf("unknown log level %q: must be one of debug, info, warn, error, off", name)
}

// recentLevel is the level of what people ask for who look into a process: one
// that is quiet on its stderr has the more to tell.
func recentLevel(level zapcore.LevelEnabler) zapcore.LevelEnabler {
	if level.Enabled(zapcore.DebugLevel) {
		return zapcore.DebugLevel
	}
	return zapcore.InfoLevel
}

// Slog returns a slog logger that writes to the same core.
func Slog(logger *zap.Logger) *slog.Logger {
	return slog.New(zapslog.NewHandler(logger.Core(),
		zapslog.WithName(logger.Name()),
		zapslog.AddStacktraceAt(slog.Level(math.MaxInt))))
}

// HclogOff returns a logger at level Off. go-plugin must get no other: at any
// other level it parses what a worker prints on stderr, and one crafted line
// ends the process in a panic.
func HclogOff() hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Level: hclog.Off, Output: io.Discard})
}

func fileEncoding() zapcore.EncoderConfig {
	return zapcore.EncoderConfig{
		TimeKey: "time", LevelKey: "level", NameKey: "logger", MessageKey: "msg",
		LineEnding:     zapcore.DefaultLineEnding,
		EncodeTime:     zapcore.RFC3339NanoTimeEncoder,
		EncodeLevel:    zapcore.LowercaseLevelEncoder,
		EncodeDuration: zapcore.StringDurationEncoder,
	}
}

func consoleEncoding(stderr io.Writer) zapcore.EncoderConfig {
	c := fileEncoding()
	c.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
	c.ConsoleSeparator = " "
	c.EncodeLevel = zapcore.CapitalLevelEncoder
	if os.Getenv("NO_COLOR") == "" && isTerminal(stderr) {
		c.EncodeLevel = zapcore.CapitalColorLevelEncoder
	}
	return c
}

// isTerminal reports whether w is a terminal that understands colours without
// being told first, as the Windows console is not.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || runtime.GOOS == "windows" {
		return false
	}
	conn, err := f.SyscallConn() // not Fd, which would make the file blocking
	if err != nil {
		return false
	}
	terminal := false
	_ = conn.Control(func(fd uintptr) { terminal = term.IsTerminal(int(fd)) })
	return terminal
}

func orDefault[T int | int64](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

// surviveBrokenPipes keeps the Go runtime from ending the process when a write
// to stdout or stderr finds no reader. The signal is caught and not ignored,
// since children would inherit that.
var surviveBrokenPipes = sync.OnceFunc(func() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
})
