package main

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/holdfast-mcp/holdfast/internal/logging"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/config"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/control"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/generation"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/proxy"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/supervise"
)

// target is a running supervisor as its control socket sees it.
type target struct {
	*supervise.Supervisor

	started  time.Time
	edge     *proxy.Proxy
	config   config.Config
	command  generation.Command
	version  string
	self     generation.File
	settings map[string]control.Setting
	swap     swapper
	shop     *workshop
	recent   *logging.Recent
	stop     *stopper
}

// Swap replaces the worker.
func (t target) Swap(ctx context.Context) (supervise.Outcome, error) { return t.swap(ctx) }

// Stop has the session end.
func (t target) Stop() { t.stop.stop() }

// Log returns the last lines of the log.
func (t target) Log() *logging.Recent { return t.recent }

// Status returns what the supervisor tells of itself.
func (t target) Status() control.Status {
	worker := t.Supervisor.Status()
	if worker.State == "" {
		worker.State = starting // it has not come to that yet
	}
	s := control.Status{
		Name: t.config.Called(), Pid: os.Getpid(), Version: t.version, Started: t.started, Outdated: t.self.Replaced(),
		Command: t.command.String(), Dir: t.command.Dir, Settings: t.settings,
		Crashes:  control.BudgetOf(t.config.Restart.Crash, worker.Crashes),
		Handoffs: control.BudgetOf(t.config.Restart.Handoff, worker.Handoffs),
		Worker:   worker, Client: t.edge.Status(), Build: t.shop.status(),
	}
	if t.config.Dev != nil {
		s.Project = t.config.Dev.Project
	}
	return s
}

// stopper is asked once to end the session.
type stopper struct {
	asked chan struct{}
	once  sync.Once
}

func newStopper() *stopper { return &stopper{asked: make(chan struct{})} }

func (s *stopper) stop() { s.once.Do(func() { close(s.asked) }) }
