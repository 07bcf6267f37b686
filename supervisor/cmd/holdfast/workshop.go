package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"go.uber.org/zap"

	"github.com/holdfast-mcp/holdfast/internal/logging"
	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/config"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/generation"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/rebuild"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/supervise"
)

// workshop is where the server is built. All methods may be called on nil, which
// is that of a supervisor that builds nothing.
type workshop struct {
	*rebuild.Rebuilder

	watcher    *rebuild.Watcher // nil if nothing is watched
	shadows    *rebuild.Shadows
	builder    bool
	supervisor *supervise.Supervisor
	log        *zap.Logger
}

// openWorkshop returns the workshop for a server, nil if it is not developed.
func openWorkshop(c config.Config, command generation.Command, mask []string, log *zap.Logger) (*workshop, error) {
	d := c.Dev
	if d == nil {
		return nil, nil //nolint:nilnil // nil is a workshop
	}
	w := &workshop{builder: d.Build != "", log: log}
	var err error
	if w.shadows, err = openShadows(d, log); err != nil {
		return nil, err
	}
	var changes <-chan string
	if len(d.Watch) > 0 {
		if w.watcher, err = rebuild.NewWatcher(d.Project, d.Watch, w.own(c, command)); err != nil {
			return nil, err
		}
		changes = w.watcher.Changes()
	}
	log.Info("developing", zap.String("project", d.Project), zap.String("kind", d.Kind),
		zap.Strings("watch", d.Watch), zap.String("build", d.Build))
	if d.Missing != "" {
		log.Warn("cannot guess " + d.Missing)
	}
	w.Rebuilder = rebuild.New(rebuild.Config{
		Dir: d.Project, Command: d.Build, Env: command.Env, Mask: mask, Watch: d.Watch, Changes: changes,
		Executable: func() (string, error) {
			file, err := command.Server()
			return file.Path(), err
		},
		Shadows: w.shadows, Replace: w.replace, Log: log,
	})
	return w, nil
}

// openShadows opens the place for copies. Without one that nobody asked for by
// name, the executable itself is started.
func openShadows(d *config.Dev, log *zap.Logger) (*rebuild.Shadows, error) {
	s, err := rebuild.NewShadows(d.Shadow, d.Project)
	if err != nil && d.Shadow == "auto" {
		log.Warn("no copies of the executable are made", zap.Error(err))
		return rebuild.NewShadows("off", d.Project)
	}
	return s, err
}

// own are the files that are written on our behalf.
func (w *workshop) own(c config.Config, command generation.Command) []string {
	var own []string
	if base := w.shadows.Base(); base != "" {
		own = append(own, base)
	}
	if path, err := filepath.Abs(c.LogFile); err == nil && c.LogFile != "" {
		own = append(own, path)
		for i := range logging.DefaultKeep {
			own = append(own, fmt.Sprint(path, ".", i+1)) // as it is rotated
		}
	}
	if w.builder {
		own = append(own, command.Place())
	}
	return slices.DeleteFunc(own, func(path string) bool { return path == "" })
}

// Close removes what was kept on disk.
func (w *workshop) Close() {
	if w != nil {
		w.shadows.Close()
	}
}

// builds reports whether there is something to start only after a build.
func (w *workshop) builds() bool { return w != nil && w.builder }

func (w *workshop) stand() func(string) (string, os.FileInfo, error) {
	if w == nil {
		return nil
	}
	return w.Stand
}

func (w *workshop) status() *rebuild.Status {
	if w == nil {
		return nil
	}
	return new(w.Status())
}

// unbuilt is the error of a start that has nothing to start.
type unbuilt struct{ error }

func (unbuilt) Is(target error) bool { return target == supervise.ErrNotBuilt }

// ready returns when there is something to start.
func (w *workshop) ready(ctx context.Context) error {
	if w == nil {
		return nil
	}
	err := w.Ready(ctx)
	if failed, ok := errors.AsType[*rebuild.Error](err); ok {
		return unbuilt{failed}
	}
	return err
}

// swap returns how a worker of the supervisor is replaced.
func (w *workshop) swap(supervisor *supervise.Supervisor) swapper {
	if w == nil {
		return supervisor.Swap
	}
	w.supervisor = supervisor
	return func(ctx context.Context) (supervise.Outcome, error) {
		o, err := w.Swap(ctx)
		return supervise.Outcome(o), err
	}
}

// replace is what follows a build.
func (w *workshop) replace(ctx context.Context, notBuilt error) rebuild.Outcome {
	var o supervise.Outcome
	var err error
	if notBuilt == nil {
		o, err = w.supervisor.Swap(ctx)
	} else {
		o, err = w.supervisor.NotBuilt(ctx, protocol.NewError(protocol.WorkerUnavailable, notBuilt.Error()))
	}
	if err != nil {
		o.Err = err
	}
	return rebuild.Outcome(o)
}

// run watches and builds until ctx ends.
func (w *workshop) run(ctx context.Context) error {
	if w == nil {
		<-ctx.Done()
		return nil
	}
	if w.watcher != nil {
		watched := make(chan struct{})
		defer func() { <-watched }()
		go func() { // ends with ctx
			defer close(watched)
			w.watcher.Run(ctx, func(err error) { w.log.Warn("not watched", zap.Error(err)) })
		}()
		w.log.Debug("watching", zap.Int(logging.FieldCount, w.watcher.Dirs()))
	}
	return w.Run(ctx)
}
