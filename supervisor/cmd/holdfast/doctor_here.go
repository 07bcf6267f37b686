package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/holdfast-mcp/holdfast/supervisor/internal/cache"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/config"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/generation"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/rundir"
)

// settings looks at the configuration file and HOLDFAST_* variables, and takes
// what they say of the server. It reports whether they can be used.
func (d *doctor) settings() bool {
	_, err := config.Load(d.flags, os.Environ())
	if err == nil {
		c := d.config
		if c.Worker == "" && len(c.Args) == 0 {
			c.Args = []string{"server"} // the settings alone are looked at
		}
		err = c.Validate()
	}
	if err == nil {
		d.dir, err = d.config.WorkDir()
	}
	if err == nil {
		d.env, d.secrets, err = d.config.Environment(os.Environ())
	}
	if err != nil {
		d.fail("settings", err.Error(), "mend the setting; `holdfast run --help` describes all")
		return false
	}
	path := d.flags.Lookup("config").Value.String()
	if dir, err := os.UserConfigDir(); err == nil && path == "" {
		path = filepath.Join(dir, "holdfast", "config.toml")
	}
	if path == "" {
		d.ok("settings", "no configuration file, since it is not known where it would be")
		return true
	}
	if _, err := os.Stat(path); err != nil {
		d.ok("settings", "no configuration file %s, which is fine", path)
		return true
	}
	d.ok("settings", "%s is readable, and nobody else can write it", path)
	return true
}

// holdfast looks at the two programs.
func (d *doctor) holdfast(ctx context.Context) {
	self, err := os.Executable()
	if err != nil {
		self = err.Error()
	}
	d.ok("holdfast", "%s, version %s", self, version())
	bridge, err := generation.Command{Dir: filepath.Dir(self)}.FindBridge()
	if err != nil {
		d.fail("holdfast-worker", err.Error(), "install it: go install github.com/holdfast-mcp/holdfast/worker/builtin/cmd/holdfast-worker@latest")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, bridge, "version").Output()
	if err != nil {
		d.fail("holdfast-worker", bridge+" cannot be run: "+err.Error(), "install it again")
		return
	}
	said := strings.Trim(strings.TrimPrefix(string(out), generation.BridgeName), " \r\n()")
	if said != version() {
		d.warn("holdfast-worker", bridge+" has version "+said+", holdfast "+version(), "install both of one version")
		return
	}
	d.ok("holdfast-worker", "%s, the same version", bridge)
}

// sockets looks for a place for sockets, and returns the directory there.
func (d *doctor) sockets() *rundir.Dir {
	dir, err := rundir.New()
	if err != nil {
		d.fail("sockets", err.Error(), "set TMPDIR to a directory of yours with a short path")
		return nil
	}
	if len(dir.PassedOver) == 0 {
		d.ok("sockets", "are made in %s", filepath.Dir(dir.Path))
		return dir
	}
	for _, err := range dir.PassedOver {
		d.warn("sockets", err.Error()+"; "+filepath.Dir(dir.Path)+" is used in its place", "set TMPDIR to a directory of yours with a short path")
	}
	return dir
}

// cache looks at where answers of servers are kept.
func (d *doctor) cache() {
	const without = "without it slow servers keep clients waiting at each start"
	base, err := os.UserCacheDir()
	if err != nil {
		d.warn("cache", err.Error(), "set HOME; "+without)
		return
	}
	base = filepath.Join(base, "holdfast")
	c, err := cache.Open(base, zap.NewNop())
	if err != nil {
		d.warn("cache", err.Error(), "make "+base+" yours, with mode 0700; "+without)
		return
	}
	_ = c.Close() // nothing was written
	d.ok("cache", "%s is usable", base)
}
