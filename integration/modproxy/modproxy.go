// Package modproxy publishes the modules of the workspace, as they are in the
// work tree, in a module proxy made of files: what the go command would fetch
// of a release is known before there is one.
//
//	p, err := modproxy.Publish(workspace, dir)
//	defer p.Close()
//	run "go get module@"+p.Version with p.Env() in the environment
//
// The version is a new one with each Publish, and the modules require each
// other at that version, so that nothing stale in the module cache is ever
// taken for it. Close removes the version from the module cache again. The
// package runs the go command; it starts nothing else and keeps no state.
package modproxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// Prefix starts the paths of our modules.
const Prefix = "github.com/holdfast-mcp/holdfast/"

// Released is the version at which the modules require each other.
const Released = "v0.1.0"

// Module is one module of the workspace.
type Module struct{ Path, Dir string }

// Proxy is a folder that serves as GOPROXY.
type Proxy struct {
	Version string
	Modules []Module

	dir, cache, upstream string
}

// Publish packs the modules of the workspace into dir.
func Publish(workspace, dir string) (*Proxy, error) {
	modules, err := Modules(workspace)
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		Version: fmt.Sprintf("%s-tree.%d", Released, time.Now().UnixNano()),
		Modules: modules, dir: dir,
	}
	out, err := goTool(workspace, "env", "-json", "GOMODCACHE", "GOPROXY")
	if err != nil {
		return nil, err
	}
	var env struct{ GOMODCACHE, GOPROXY string }
	if err := json.Unmarshal(out, &env); err != nil {
		return nil, err
	}
	p.cache, p.upstream = env.GOMODCACHE, env.GOPROXY
	for _, m := range modules {
		if err := p.pack(m); err != nil {
			return nil, fmt.Errorf("pack %s: %w", m.Path, err)
		}
	}
	return p, nil
}

// Modules lists the modules of the workspace.
func Modules(workspace string) ([]Module, error) {
	out, err := goTool(workspace, "list", "-m", "-json=Path,Dir")
	if err != nil {
		return nil, err
	}
	var modules []Module
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var m Module
		switch err := d.Decode(&m); {
		case errors.Is(err, io.EOF):
			return modules, nil
		case err != nil:
			return nil, err
		}
		modules = append(modules, m)
	}
}

func goTool(dir string, args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}

// Env returns the variables under which the go command fetches the modules
// from here and everything else from where it always does.
func (p *Proxy) Env() []string {
	return []string{
		"GOWORK=off",
		"GOPROXY=file://" + filepath.ToSlash(p.dir) + "," + p.upstream,
		"GONOSUMDB=" + Prefix + "*", "GOPRIVATE=", "GONOPROXY=", "GOFLAGS=-modcacherw",
	}
}

// pack writes the files that a proxy serves for one version of a module.
func (p *Proxy) pack(m Module) error {
	mod, err := p.AtVersion(filepath.Join(m.Dir, "go.mod"))
	if err != nil {
		return err
	}
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return err
	}
	dir := filepath.Join(p.dir, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info := fmt.Sprintf(`{"Version":%q,"Time":"2026-01-01T00:00:00Z"}`, p.Version)
	for name, content := range map[string][]byte{
		"list": []byte(p.Version + "\n"), p.Version + ".info": []byte(info), p.Version + ".mod": mod,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return p.zip(m, mod, filepath.Join(dir, p.Version+".zip"))
}

// zip packs the module from a copy in which go.mod is mod.
func (p *Proxy) zip(m Module, mod []byte, file string) (err error) {
	tree := file + ".tree"
	defer func() { err = errors.Join(err, os.RemoveAll(tree)) }()
	if err := CopyModule(tree, m.Dir); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(tree, "go.mod"), mod, 0o600); err != nil {
		return err
	}
	w, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	return zip.CreateFromDir(w, module.Version{Path: m.Path, Version: p.Version}, tree)
}

// CopyModule copies the files of the module in dir to target, leaving out the
// modules below it.
func CopyModule(target, dir string) error {
	return filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		to := filepath.Join(target, rel)
		if e.IsDir() {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != dir {
				return filepath.SkipDir
			}
			return os.MkdirAll(to, 0o700)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, b, 0o600)
	})
}

// AtVersion returns the go.mod file with our modules required at the version
// of the proxy.
func (p *Proxy) AtVersion(file string) ([]byte, error) { return require(file, p.Version) }

// AtReleased returns the go.mod file with our modules required at [Released].
func AtReleased(file string) ([]byte, error) { return require(file, Released) }

func require(file, version string) ([]byte, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	f, err := modfile.Parse(file, b, nil)
	if err != nil {
		return nil, err
	}
	for _, r := range f.Require {
		if strings.HasPrefix(r.Mod.Path, Prefix) {
			if err := f.AddRequire(r.Mod.Path, version); err != nil {
				return nil, err
			}
		}
	}
	f.Cleanup()
	return f.Format()
}

// Close removes what the go command took from here from the module cache.
func (p *Proxy) Close() error {
	var errs []error
	for _, m := range p.Modules {
		escaped, err := module.EscapePath(m.Path)
		if err != nil {
			return err
		}
		path := filepath.FromSlash(escaped)
		errs = append(errs, os.RemoveAll(filepath.Join(p.cache, path+"@"+p.Version)))
		files, err := filepath.Glob(filepath.Join(p.cache, "cache", "download", path, "@v", p.Version+".*"))
		if err != nil {
			return err
		}
		for _, file := range files {
			errs = append(errs, os.Remove(file))
		}
	}
	return errors.Join(errs...)
}
