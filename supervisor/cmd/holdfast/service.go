package main

import (
	"context"
	"os"
	"sync"
	"time"

	oklog "github.com/oklog/run"
	"go.uber.org/zap"

	"github.com/holdfast-mcp/holdfast/internal/gctune"
	"github.com/holdfast-mcp/holdfast/internal/logging"
	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/config"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/control"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/generation"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/proxy"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/rundir"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/session"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/supervise"
)

// service is what one client is served with.
type service struct {
	config   config.Config
	settings map[string]control.Setting
	log      *zap.Logger
	recent   *logging.Recent
	memories *memories
	shop     *workshop
	worker   generation.Config
}

// run serves the client until it ends, or a signal or a person ends the session.
func (s service) run(std streams, signals <-chan os.Signal) error {
	s.log.Info("supervising", zap.String(logging.FieldCommand, s.worker.Command.String()), zap.String(logging.FieldPath, s.worker.Command.Dir))
	var supervisor *supervise.Supervisor
	var t target
	client := s.client(std, func() { supervisor.Demand() })
	client.Control = func(ctx context.Context, tool string, arguments []byte) (string, bool) {
		return t.controlTool(ctx, tool, arguments)
	}
	edge := proxy.New(client)
	supervisor = supervise.New(s.supervision(edge))
	swap, stop := s.shop.swap(supervisor), newStopper()
	t = target{
		Supervisor: supervisor, started: time.Now(), edge: edge, config: s.config, command: s.worker.Command, version: s.worker.Version,
		self: self(), settings: s.settings, swap: swap, shop: s.shop, recent: s.recent, stop: stop,
	}
	endControl := s.serveControl(t)
	defer endControl()
	ctx, cancel := context.WithCancel(context.Background())
	var group oklog.Group
	group.Add(func() error { return s.shop.run(ctx) }, func(error) { cancel() })
	group.Add(func() error { return supervisor.Run(ctx) }, func(error) { cancel() })
	group.Add(func() error { return edge.Run(ctx) }, func(error) { cancel() })
	group.Add(func() error { return obey(ctx, signals, stop, swap, s.log) }, func(error) { cancel() })
	return group.Run()
}

// client is how the client is served; demand asks for a worker.
func (s service) client(std streams, demand func()) proxy.Config {
	c := s.config
	return proxy.Config{
		Tuner: gctune.Start(), Demand: demand,
		In: std.in, Out: std.out, MaxFrame: int(c.MaxFrame), EOFGrace: c.EOFGrace, Version: s.worker.Version, Log: s.log,
		Memory: s.memories.now(s.worker.Command), Began: began,
		Limits: session.Limits{
			StartTimeout: c.StartTimeout, InitializeTimeout: c.InitializeTimeout, DiscoverTimeout: c.DiscoverTimeout,
			Controls: c.ControlTools, Leases: c.MaxLeases, ChainTimeout: c.ChainTimeout,
			ForwardStale: c.StaleSchema == config.ForwardStale,
			HoldTimeout:  c.HoldTimeout, HoldRequests: c.HoldMax, HoldBytes: config.HoldBytes,
			ReplayAnnotated: c.ReplayAnnotated, Lazy: s.shop.builds(),
		},
	}
}

// supervision is how workers come and go.
func (s service) supervision(edge *proxy.Proxy) supervise.Config {
	c := s.config
	return supervise.Config{
		Command: s.worker.Command.Program(),
		Edge:    edgeOf{edge, s.memories}, Log: s.log, Policy: c.Restart, Mode: supervise.Mode(c.Swap), HideStderr: c.NoStderrInErrors,
		StartTimeout: c.StartTimeout, DrainTimeout: c.DrainTimeout, HangTimeout: c.HangTimeout, Lazy: s.shop.builds(),
		Start: func(ctx context.Context, n uint64, resolved func()) (supervise.Worker, error) {
			if err := s.shop.ready(ctx); err != nil {
				return nil, err
			}
			g := s.worker
			g.Resolved = resolved
			w, err := generation.Start(ctx, n, g)
			if err != nil {
				return nil, err
			}
			return w, nil
		},
	}
}

// serveControl serves the control socket until end is called, which is when all
// else has ended: who follows the log gets it to its end. A supervisor that
// cannot have a socket serves its client all the same.
func (s service) serveControl(t target) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() { // ends with ctx
		defer close(served)
		if err := control.Serve(ctx, rundir.Control(s.worker.SocketDir), t); err != nil {
			s.log.Warn("no control socket", zap.Error(err))
		}
	}()
	return func() {
		cancel()
		<-served
	}
}

// self returns the file of this program.
func self() generation.File {
	path, err := os.Executable()
	if err != nil {
		return generation.File{}
	}
	return generation.FileNow(path)
}

// swapper replaces the worker, building the new one first where that is how it
// is made.
type swapper func(context.Context) (supervise.Outcome, error)

// obey acts on signals until one ends the session, or a person does.
func obey(ctx context.Context, signals <-chan os.Signal, stop *stopper, swap swapper, log *zap.Logger) error {
	var swaps sync.WaitGroup
	defer swaps.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-stop.asked:
			log.Info("ended by holdfast stop")
			return nil
		case s := <-signals:
			if s != swapSignal {
				log.Info("ended by a signal", zap.String(logging.FieldReason, s.String()))
				return nil
			}
			swaps.Go(func() { // ends with the swap, or with the supervisor
				if o, err := swap(ctx); err == nil && o.Err != nil {
					log.Warn("swap failed", zap.Error(o.Err))
				}
			})
		}
	}
}

// edgeOf is the client edge as supervise wants it.
type edgeOf struct {
	*proxy.Proxy
	remembered *memories
}

func (e edgeOf) Attach(w supervise.Worker) (supervise.Conn, error) {
	g := w.(*generation.Generation) // the only kind of worker that serve starts
	stream, err := g.Open()
	if err != nil {
		return nil, err
	}
	return e.Proxy.Attach(stream, proxy.Worker{
		Generation: g.Number(), Memory: e.remembered.of(g.Server()), Multi: g.Takes(protocol.FeatureMultiSession),
		Open: func() (proxy.Stream, error) { return g.Open() },
	}), nil
}
