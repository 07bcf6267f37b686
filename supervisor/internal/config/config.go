// Package config holds the settings of a supervisor in one struct, checks them,
// and reads the forms that people write them in. Nothing below the command
// line reads flags or the environment.
package config

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/restart"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/supervise"
)

// Config has the settings of one supervisor.
type Config struct {
	// Name is by what people choose this supervisor; empty: see Called.
	Name string
	// Worker is the path of a native worker; empty for a stdio MCP server,
	// which is run through the bridge.
	Worker string
	// Args are the arguments of the worker, or the server's command line.
	Args []string
	// Dir is the working directory of the server; relative paths in the
	// command count from it. Empty: where holdfast was started.
	Dir string
	// Env has NAME=VALUE entries for the server, EnvFile a file of them.
	// Entries win over the file, the file over what holdfast inherited.
	Env     []string
	EnvFile string

	LogFile  string
	LogLevel string

	// MaxFrame is the limit of one message in bytes (EDGE-4).
	MaxFrame Size
	// EOFGrace is how long requests may take after the client's EOF (EDGE-8).
	EOFGrace time.Duration
	// StartTimeout is how long a worker may take to become ready (SUP-8).
	StartTimeout time.Duration
	// InitializeTimeout and DiscoverTimeout are how long a client waits for the
	// answer to its first message if the server is not ready and nothing is
	// remembered of it (CAT-3, EDGE-7).
	InitializeTimeout time.Duration
	DiscoverTimeout   time.Duration
	// NoCache keeps what servers answer out of the user's cache.
	NoCache bool
	// HoldTimeout is how long a request waits for a worker, HoldMax how many
	// may wait at one time (SUP-23).
	HoldTimeout time.Duration
	HoldMax     int
	// Restart says when a worker that ended is started again (SUP-2, SUP-3).
	Restart restart.Policy
	// DrainTimeout is how long a replaced worker may take to answer what it
	// has (SUP-9).
	DrainTimeout time.Duration
	// MaxLeases is how many resources a client may watch (LEASE-5).
	MaxLeases int
	// ChainTimeout is how long a replaced worker waits for the client's next
	// request of a chain that it has begun.
	ChainTimeout time.Duration
	// HangTimeout is how long a worker may be silent while requests wait; 0:
	// for ever (SUP-11).
	HangTimeout time.Duration
	// Swap is how a worker is replaced.
	Swap Swap
	// ReplayAnnotated lets calls of tools annotated readOnlyHint count as
	// reads, which are asked once more (SUP-16).
	ReplayAnnotated bool
	// StaleSchema is what becomes of calls by a schema that no longer holds.
	StaleSchema Stale
	// ControlTools gives the client's model tools of ours beside those of the
	// server (SUP-4, SEC-5).
	ControlTools bool
	// NoStderrInErrors keeps the server's stderr out of what the client is
	// told (SEC-3).
	NoStderrInErrors bool

	// Dev is nil unless the server is built anew while somebody edits it.
	Dev *Dev
}

// Dev has the settings of a supervisor that builds its server while somebody
// edits it.
type Dev struct {
	// Project is the directory with the sources, as it was named; empty: the
	// working directory of the server.
	Project string
	// Watch has paths and globs, relative to the project; those that start
	// with ! are left out.
	Watch []string
	// Build is the command that builds the server, run by a shell.
	Build string
	// Shadow is auto, off, or the directory for copies of the executable.
	Shadow string
	// Kind is what kind of project it was taken for, Missing what could not be
	// guessed; both are for people.
	Kind, Missing string
}

// HoldBytes bounds the size of all requests that wait at one time.
const HoldBytes = 64 << 20

// Default returns the settings that hold where none are given.
func Default() Config {
	return Config{
		LogLevel:     "info",
		MaxFrame:     protocol.DefaultMaxFrame,
		EOFGrace:     2 * time.Second,
		StartTimeout: 60 * time.Second,

		InitializeTimeout: 4 * time.Second,
		DiscoverTimeout:   2 * time.Second,

		HoldTimeout:  8 * time.Second,
		HoldMax:      1024,
		Restart:      restart.Default(),
		DrainTimeout: 10 * time.Second,
		MaxLeases:    128,
		ChainTimeout: 60 * time.Second,
		Swap:         Swap(supervise.Overlap),
		StaleSchema:  RefuseStale,
	}
}

// ErrNoCommand is returned by Validate when there is nothing to run.
var ErrNoCommand = errors.New("no server given: `holdfast run -- COMMAND ARGS...`, or `holdfast run --worker PATH`")

// Validate reports the first setting that makes no sense.
func (c Config) Validate() error {
	switch {
	case c.Worker == "" && len(c.Args) == 0:
		return ErrNoCommand
	case c.MaxFrame < 64<<10:
		return fmt.Errorf("--max-frame %v: must be at least 64KiB", c.MaxFrame)
	case c.MaxFrame > 1<<30:
		return fmt.Errorf("--max-frame %v: must be at most 1GiB", c.MaxFrame)
	}
	if err := c.validateTimes(); err != nil {
		return err
	}
	if err := CheckName(c.Name); err != nil {
		return err
	}
	for _, kv := range c.Env {
		if name, _, ok := strings.Cut(kv, "="); !ok || name == "" {
			return fmt.Errorf("--env %q: must be NAME=VALUE", kv)
		}
	}
	return nil
}

// validateTimes reports the first duration or number that makes no sense.
func (c Config) validateTimes() error {
	for _, positive := range []struct {
		flag  string
		value time.Duration
	}{
		{"start-timeout", c.StartTimeout},
		{"initialize-timeout", c.InitializeTimeout},
		{"discover-timeout", c.DiscoverTimeout},
		{"hold-timeout", c.HoldTimeout},
		{"crash-cooldown", c.Restart.Cooldown},
	} {
		if positive.value <= 0 {
			return fmt.Errorf("--%s %v: must be positive", positive.flag, positive.value)
		}
	}
	switch {
	case c.HoldMax <= 0:
		return fmt.Errorf("--hold-max %d: must be positive", c.HoldMax)
	case c.MaxLeases <= 0:
		return fmt.Errorf("--max-leases %d: must be positive", c.MaxLeases)
	case c.ChainTimeout < 0:
		return fmt.Errorf("--chain-timeout %v: must not be negative", c.ChainTimeout)
	case c.EOFGrace < 0:
		return fmt.Errorf("--eof-grace %v: must not be negative", c.EOFGrace)
	case c.DrainTimeout < 0:
		return fmt.Errorf("--drain-timeout %v: must not be negative", c.DrainTimeout)
	case c.HangTimeout < 0:
		return fmt.Errorf("--hang-timeout %v: must not be negative; 0 turns it off", c.HangTimeout)
	}
	return nil
}

// WorkDir returns the absolute working directory of the server.
func (c Config) WorkDir() (string, error) { return Directory("--cwd", c.Dir) }

// Directory returns the directory that a setting names as an absolute path. An
// empty path is where holdfast was started.
func Directory(setting, path string) (string, error) {
	dir, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", setting, path, err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return "", fmt.Errorf("%s: %w", setting, err)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("%s %s: not a directory", setting, dir)
	}
	return dir, nil
}

// Environment returns the environment of the server, made of what holdfast
// inherited without holdfast's own settings, and what is configured. The
// second result has the configured entries alone: their values may be secret.
func (c Config) Environment(inherited []string) (all, configured []string, err error) {
	if c.EnvFile != "" {
		if configured, err = readEnvFile(c.EnvFile); err != nil {
			return nil, nil, err
		}
	}
	configured = append(configured, c.Env...)
	all = protocol.StripHandshake(protocol.StripSettings(inherited))
	return append(all, configured...), configured, nil
}

// readEnvFile reads NAME=VALUE lines; blank lines and those that start with #
// are skipped, `export ` before a name and quotes around a value are dropped.
func readEnvFile(path string) ([]string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--env-file: %w", err)
	}
	var env []string
	n := 0
	for text := range strings.Lines(strings.TrimPrefix(string(content), "\uFEFF")) {
		n++
		text = strings.TrimPrefix(strings.TrimSpace(text), "export ")
		if text == "" || text[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(text, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || name == "" {
			return nil, fmt.Errorf("--env-file %s: line %d is not NAME=VALUE", path, n)
		}
		if q := len(value) - 1; q > 0 && (value[0] == '"' || value[0] == '\'') && value[q] == value[0] {
			value = value[1:q]
		}
		env = append(env, name+"="+value)
	}
	return env, nil
}

// Swap is how a worker is replaced. It is a flag value.
type Swap supervise.Mode

// Set parses s.
func (s *Swap) Set(text string) error {
	switch supervise.Mode(text) {
	case supervise.Overlap, supervise.Sequential:
		*s = Swap(text)
		return nil
	}
	return fmt.Errorf("must be overlap or sequential")
}

func (s Swap) String() string { return string(s) }

// Type names the kind of value in help texts.
func (s Swap) Type() string { return "overlap|sequential" }

// Stale is what becomes of a call by a schema that no longer holds. It is a
// flag value.
type Stale string

// What becomes of such calls (CAT-4).
const (
	RefuseStale  Stale = "refuse"
	ForwardStale Stale = "forward"
)

// Set parses text.
func (s *Stale) Set(text string) error {
	switch Stale(text) {
	case RefuseStale, ForwardStale:
		*s = Stale(text)
		return nil
	}
	return fmt.Errorf("must be refuse or forward")
}

func (s Stale) String() string { return string(s) }

// Type names the kind of value in help texts.
func (s Stale) Type() string { return "refuse|forward" }

// Size is a number of bytes that people write as 512KiB or 64MiB. It is a
// flag value.
type Size int

var units = []struct {
	suffix string
	bytes  int
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}, {"B", 1}, {"", 1}}

// Set parses s.
func (s *Size) Set(text string) error {
	for _, u := range units {
		digits, ok := strings.CutSuffix(text, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.Atoi(digits)
		if err != nil || n < 0 || n > math.MaxInt/u.bytes {
			break
		}
		*s = Size(n * u.bytes)
		return nil
	}
	return fmt.Errorf("must be a size such as 512KiB or 64MiB")
}

func (s Size) String() string {
	for _, u := range units[:3] {
		if s > 0 && int(s)%u.bytes == 0 {
			return strconv.Itoa(int(s)/u.bytes) + u.suffix
		}
	}
	return strconv.Itoa(int(s))
}

// Type names the kind of value in help texts.
func (s Size) Type() string { return "size" }
