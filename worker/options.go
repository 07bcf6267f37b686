package worker

import (
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/holdfast-mcp/holdfast/protocol"
)

// Options configure [Serve]. The zero value and nil mean the defaults.
type Options struct {
	// Name and Version of the worker, for people who read logs and status.
	// Default: path and version of the main module.
	Name, Version string

	// MaxFrame is the largest JSON-RPC message, in bytes, that is taken or
	// sent under a supervisor; a supervisor with a smaller limit wins. An
	// answer beyond it reaches the client as an error that says so. Default:
	// 64 MiB. On plain stdio it is the SDK's MaxLineLength, with its default.
	MaxFrame int

	// HandoffGrace bounds how long calls that are under way may take to end
	// after [Handoff] or after the end of Serve's context. Default: 10 s.
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

func (o Options) maxFrame() int {
	if o.MaxFrame > 0 {
		return o.MaxFrame
	}
	return protocol.DefaultMaxFrame
}
