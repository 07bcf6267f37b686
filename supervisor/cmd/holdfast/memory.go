package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sync"

	"go.uber.org/zap"

	"github.com/holdfast-mcp/holdfast/internal/logging"
	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/cache"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/catalog"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/generation"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/proxy"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/session"
)

// memories are what the cache has of one command, by the executable that it was.
type memories struct {
	cache   *cache.Cache
	command cache.Command
	log     *zap.Logger

	mu    sync.Mutex
	known map[string]proxy.Memory
}

// openMemories opens the user's cache. Without one, starts are slower and
// nothing else: nil is returned.
func openMemories(command generation.Command, configured []string, log *zap.Logger) *memories {
	base, err := os.UserCacheDir()
	if err != nil {
		log.Debug("no cache", zap.Error(err))
		return nil
	}
	c, err := cache.Open(filepath.Join(base, "holdfast"), log)
	if err != nil {
		log.Warn("no cache", zap.Error(err))
		return nil
	}
	argv := command.Args
	if command.Worker != "" {
		argv = append([]string{command.Worker}, command.Args...)
	}
	return &memories{
		cache: c, log: log, known: make(map[string]proxy.Memory),
		command: cache.Command{
			Argv: argv, Dir: command.Dir, Configured: configured,
			Inherited: protocol.StripHandshake(protocol.StripSettings(os.Environ())),
		},
	}
}

// Close lets go of the cache. It may be called on nil.
func (m *memories) Close() {
	if m != nil {
		_ = m.cache.Close() // nothing was written through it that is not on disk
	}
}

// now returns what is known of the command as it is now, nil if nothing can be.
func (m *memories) now(command generation.Command) proxy.Memory {
	if m == nil {
		return nil
	}
	file, err := command.Server()
	if err != nil {
		return nil
	}
	return m.of(file)
}

// of returns what is known of the command with this executable, nil if nothing
// can be: also if it has been replaced meanwhile.
func (m *memories) of(file generation.File) proxy.Memory {
	if m == nil || file.Replaced() {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.known[file.Identity()]; ok {
		return known
	}
	command := m.command
	command.Executable = file.Path()
	store, err := m.cache.For(command)
	if err != nil {
		m.log.Debug("no cache", zap.String(logging.FieldPath, file.Path()), zap.Error(err))
		return nil
	}
	memory := &memory{store, m.log}
	m.known[file.Identity()] = memory
	return memory
}

// memory is a store as the client edge wants it.
type memory struct {
	store *cache.Store
	log   *zap.Logger
}

var answers = [...]cache.Answer{session.Unknown: cache.Unknown, session.Yes: cache.Yes, session.No: cache.No}

func (m *memory) Traits() session.Traits {
	t := m.store.Traits()
	known := map[cache.Answer]session.Known{cache.Yes: session.Yes, cache.No: session.No}
	return session.Traits{Legacy: known[t.Legacy], Modern: known[t.Modern], DiesOfProbe: t.DiesOfProbe}
}

func (m *memory) Recall(of session.Shape) session.Memory {
	e := m.store.Entry(clientOf(of))
	recalled := session.Memory{Initialize: e.Initialize, Discover: e.Discover}
	for k := range recalled.Lists {
		recalled.Lists[k] = e.Lists[catalog.Kind(k).Method()]
	}
	return recalled
}

func (m *memory) Remember(of session.Shape, what session.Memory, traits session.Traits) {
	e := cache.Entry{Initialize: what.Initialize, Discover: what.Discover, Lists: make(map[string]json.RawMessage)}
	for k, list := range what.Lists {
		if list != nil {
			e.Lists[catalog.Kind(k).Method()] = list
		}
	}
	if err := m.store.Save(clientOf(of), e); err != nil {
		m.log.Warn("answers are not remembered", zap.Error(err))
	}
	if err := m.store.SaveTraits(merged(m.store.Traits(), traits)); err != nil {
		m.log.Warn("the kind of server is not remembered", zap.Error(err))
	}
}

// merged returns what was known before, and what is known now in its place.
func merged(before cache.Traits, now session.Traits) cache.Traits {
	if now.Legacy != session.Unknown {
		before.Legacy = answers[now.Legacy]
	}
	if now.Modern != session.Unknown {
		before.Modern = answers[now.Modern]
	}
	before.DiesOfProbe = before.DiesOfProbe || now.DiesOfProbe
	return before
}

func clientOf(s session.Shape) cache.Client {
	era := "legacy"
	if s.Modern {
		era = "modern"
	}
	return cache.Client{Era: era, Version: s.Version, Capabilities: []byte(s.Capabilities), Name: s.Name}
}
