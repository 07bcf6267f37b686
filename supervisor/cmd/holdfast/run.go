package main

import (
	"errors"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"golang.org/x/term"

	"github.com/holdfast-mcp/holdfast/internal/logging"
	"github.com/holdfast-mcp/holdfast/internal/proc"
	"github.com/holdfast-mcp/holdfast/internal/ring"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/config"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/control"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/generation"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/rundir"
)

func newRun(std streams, signals <-chan os.Signal) *cobra.Command {
	c := config.Default()
	cmd := &cobra.Command{
		Use:         "run [flags] -- COMMAND ARGS...",
		Short:       "Serve one MCP client on stdin and stdout through a supervised server",
		Long:        runHelp,
		Annotations: map[string]string{serves: "run"},
		Example: `  holdfast run -- npx -y @modelcontextprotocol/server-everything
  holdfast run --cwd ~/project --env API_KEY=... -- ./server --verbose
  holdfast run --worker ./my-worker -- --flag-of-the-worker`,
		RunE: func(cmd *cobra.Command, args []string) error {
			origins, err := config.Load(cmd.Flags(), os.Environ())
			if err != nil {
				return usageError{err}
			}
			c.Args = args
			return serve(c, settings(cmd.Flags(), origins), std, signals)
		},
	}
	addRunFlags(cmd.Flags(), &c)
	return cmd
}

func addRunFlags(flags *pflag.FlagSet, c *config.Config) {
	flags.SetInterspersed(false) // what follows the command belongs to it
	flags.SortFlags = false
	flags.StringVar(&c.Name, "name", "", "by which `NAME` status, swap and logs find it (default: that of the server's program)")
	flags.StringVar(&c.Worker, "worker", "", "native worker to run `PATH` instead of a stdio server")
	flags.StringVar(&c.Dir, "cwd", "", "working directory `DIR` of the server; relative paths count from it (default: where holdfast was started)")
	flags.StringArrayVar(&c.Env, "env", nil, "environment `NAME=VALUE` for the server; may be repeated")
	flags.StringVar(&c.EnvFile, "env-file", "", "`FILE` with NAME=VALUE lines for the server")
	flags.DurationVar(&c.StartTimeout, "start-timeout", c.StartTimeout, "how long the server may take to become ready")
	flags.DurationVar(&c.InitializeTimeout, "initialize-timeout", c.InitializeTimeout,
		"how long the client waits for the answer to initialize if nothing is remembered of the server")
	flags.DurationVar(&c.DiscoverTimeout, "discover-timeout", c.DiscoverTimeout,
		"how long the client waits for the answer to server/discover, likewise")
	flags.BoolVar(&c.NoCache, "no-cache", false, "remember nothing of the server's answers for later starts")
	flags.DurationVar(&c.HoldTimeout, "hold-timeout", c.HoldTimeout, "how long a request waits for a server that is not ready")
	flags.IntVar(&c.HoldMax, "hold-max", c.HoldMax, "how many requests may wait at one time")
	flags.Var(&c.Restart.Crash, "crash-budget", "how many crashes are followed by a restart, in which period")
	flags.Var(&c.Restart.Backoff, "backoff", "pauses between restarts, from the second one on")
	flags.DurationVar(&c.Restart.Cooldown, "crash-cooldown", c.Restart.Cooldown, "how long a server beyond its budget is left alone; doubles to 10m")
	flags.Var(&c.Restart.Handoff, "handoff-budget", "how many upgrades (exit code 75) are followed at once, in which period")
	flags.Var(&c.Swap, "swap", "how the server is replaced: overlap, or sequential for one that holds what only one process can hold")
	flags.DurationVar(&c.DrainTimeout, "drain-timeout", c.DrainTimeout, "how long a replaced server may take to answer what it has")
	flags.DurationVar(&c.HangTimeout, "hang-timeout", c.HangTimeout, "how long a server may be silent while requests wait; 0 for ever")
	flags.BoolVar(&c.ReplayAnnotated, "replay-annotated", false, "ask tools annotated readOnlyHint once more when the server was lost")
	flags.IntVar(&c.MaxLeases, "max-leases", c.MaxLeases, "how many resources a client may watch at one time")
	flags.DurationVar(&c.ChainTimeout, "chain-timeout", c.ChainTimeout,
		"how long a replaced server waits for what it has asked the client for (input_required)")
	flags.Var(&c.StaleSchema, "stale-schema", "what becomes of calls with an argument that the tool no longer knows and required when it was listed")
	flags.BoolVar(&c.ControlTools, "control-tools", c.ControlTools, "give the client's model tools to see, replace and read the log of the server")
	flags.DurationVar(&c.EOFGrace, "eof-grace", c.EOFGrace, "how long requests may take after the client has closed its end")
	flags.Var(&c.MaxFrame, "max-frame", "largest message in either direction")
	flags.BoolVar(&c.NoStderrInErrors, "no-stderr-in-errors", false, "keep what the server prints on stderr out of errors")
	flags.StringVar(&c.LogFile, "log-file", "", "also write the log to `FILE`, as JSON lines")
	flags.StringVar(&c.LogLevel, "log-level", c.LogLevel, "how much to log: debug, info, warn, error or off")
	flags.String("config", "", "configuration `FILE` (default: holdfast/config.toml in the user's configuration directory)")
}

// began is when this process did, about: clients count from there.
var began = time.Now()

// settings tells the value and origin of each setting. Those of --env may be
// secret and are left out.
func settings(flags *pflag.FlagSet, origins config.Origins) map[string]control.Setting {
	all := make(map[string]control.Setting)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "env" && f.Name != "help" {
			all[f.Name] = control.Setting{Value: f.Value.String(), Origin: origins[f.Name]}
		}
	})
	return all
}

// serve serves one client until it ends.
func serve(c config.Config, settings map[string]control.Setting, std streams, signals <-chan os.Signal) error {
	if err := c.Validate(); err != nil {
		return usageError{err}
	}
	if term.IsTerminal(int(std.in.Fd())) {
		return usageError{errors.New("it speaks MCP on stdin and is started by an MCP client, not from a terminal; " +
			"README.md shows how to add it to one")}
	}
	dir, err := c.WorkDir()
	if err != nil {
		return usageError{err}
	}
	env, secrets, err := c.Environment(os.Environ())
	if err != nil {
		return err
	}
	recent := logging.NewRecent(0, 0)
	log, closeLog, err := logging.New(logging.Options{Level: c.LogLevel, Stderr: std.err, File: c.LogFile, Recent: recent})
	if err != nil {
		return usageError{err}
	}
	defer func() { _ = closeLog() }() // what could not be written cannot be told either
	if err := proc.BecomeSubreaper(); err != nil {
		log.Warn("cannot adopt what servers leave behind", zap.Error(err))
	}
	defer proc.Sweep()
	dirs, err := rundir.New()
	if err != nil {
		return err
	}
	defer dirs.Remove()
	for _, err := range dirs.PassedOver {
		log.Warn("sockets are elsewhere", zap.String(logging.FieldPath, dirs.Path), zap.Error(err))
	}

	command := generation.Command{Worker: c.Worker, Args: c.Args, Dir: dir, Env: env}
	if err := command.CheckBridge(); err != nil {
		return err
	}
	shop, err := openWorkshop(c, command, values(secrets), log)
	if err != nil {
		return usageError{err}
	}
	defer shop.Close()
	command.Stand = shop.stand()
	var remembered *memories
	if !c.NoCache {
		remembered = openMemories(command, secrets, log)
		defer remembered.Close()
	}
	return service{
		config: c, settings: settings, log: log, recent: recent, memories: remembered, shop: shop,
		worker: generation.Config{
			Command: command, StartTimeout: c.StartTimeout, MaxFrame: int(c.MaxFrame), SocketDir: dirs.Path, Version: version(),
			Stderr: ring.Options{Mask: values(secrets), Sink: func(line string) {
				log.Info("server", zap.String(logging.FieldLine, line))
			}},
		},
	}.run(std, signals)
}

// values returns the values of NAME=VALUE entries.
func values(env []string) []string {
	out := make([]string, 0, len(env))
	for _, kv := range env {
		_, v, _ := strings.Cut(kv, "=")
		out = append(out, v)
	}
	return out
}
