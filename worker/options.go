package worker

import (
	"log/slog"
	"math"
	"runtime/debug"
	"time"

	"github.com/holdfast-mcp/holdfast/protocol"
)

// Options configure [Serve]. The zero value and nil mean the defaults.
type Options struct {
	// Name and Version of the worker, for people who read logs and status.
	// Default: path and version of the main module.
	Name, Version string

	// MaxFrame is the largest JSON-RPC message, in bytes, that the server sends
	// under a supervisor. An answer beyond it reaches the client as an error
	// that says so. Default: the supervisor's limit, which holds in any case.
	// On plain stdio it is the SDK's MaxLineLength, with its default.
	MaxFrame int

	// HandoffGrace bounds how long Serve may take to return after [Handoff],
	// and how long calls under way may take to end after the end of Serve's
	// context. Default: 10 s.
	HandoffGrace time.Duration

	// TuneGC lets Serve set the garbage collector of the program for this kind
	// of load (GOGC 400, a soft memory limit that follows the largest message
	// in flight), unless GOGC or GOMEMLIMIT are set. It applies under a
	// supervisor only.
	TuneGC bool

	// Logger gets what the package itself has to say, which is little: messages
	// that it had to drop. Default: none.
	Logger *slog.Logger
}

const defaultHandoffGrace = 10 * time.Second

// withDefaults returns a copy with every default in place but MaxFrame, whose
// default depends on how the process was started.
func (o *Options) withDefaults() Options {
	var opts Options
	if o != nil {
		opts = *o
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		if opts.Name == "" {
			opts.Name = info.Path
		}
		if opts.Version == "" {
			opts.Version = info.Main.Version
		}
	}
	if opts.HandoffGrace <= 0 {
		opts.HandoffGrace = defaultHandoffGrace
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return opts
}

// frameLimit returns the limit of what is sent, given that of the supervisor,
// 0 if it has none.
func (o Options) frameLimit(supervisor uint64) int64 {
	limit := int64(protocol.DefaultMaxFrame)
	if supervisor > 0 {
		limit = int64(min(supervisor, math.MaxInt32))
	}
	if o.MaxFrame > 0 {
		limit = min(limit, int64(o.MaxFrame))
	}
	return limit
}
