// Command tidy runs "go mod tidy" in each module of the workspace.
//
//	tidy [-check] WORKSPACE
//
// The modules require each other at a version that is released later, which
// go mod tidy cannot find: it runs on copies that see the work tree as such a
// release (package modproxy). Lines of go.sum about our own modules are left
// out, since the release does not exist. With -check nothing is written; what
// differs is named, and the exit code is 1.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/holdfast-mcp/holdfast/integration/modproxy"
)

func main() {
	check := flag.Bool("check", false, "only say what is not tidy")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *check); err != nil {
		fmt.Fprintln(os.Stderr, "tidy:", err)
		os.Exit(1)
	}
}

func run(workspace string, check bool) (err error) {
	dir, err := os.MkdirTemp("", "tidy-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	proxy, err := modproxy.Publish(workspace, filepath.Join(dir, "proxy"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, proxy.Close()) }()
	var errs []error
	for i, m := range proxy.Modules {
		if err := tidy(proxy, m, filepath.Join(dir, fmt.Sprint(i)), check); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.Path, err))
		}
	}
	return errors.Join(errs...)
}

// tidy tidies a copy of the module, and the module after it.
func tidy(proxy *modproxy.Proxy, m modproxy.Module, tree string, check bool) error {
	if err := modproxy.CopyModule(tree, m.Dir); err != nil {
		return err
	}
	file := filepath.Join(tree, "go.mod")
	mod, err := proxy.AtVersion(file)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, mod, 0o600); err != nil {
		return err
	}
	cmd := exec.Command("go", "mod", "tidy")
	cmd.Dir = tree
	cmd.Env = append(os.Environ(), proxy.Env()...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go mod tidy: %w\n%s", err, stderr.Bytes())
	}
	if mod, err = modproxy.AtReleased(file); err != nil {
		return err
	}
	sum, err := foreignSums(filepath.Join(tree, "go.sum"))
	if err != nil {
		return err
	}
	return errors.Join(
		settle(filepath.Join(m.Dir, "go.mod"), mod, check),
		settle(filepath.Join(m.Dir, "go.sum"), sum, check))
}

// foreignSums returns a go.sum file without the lines of our own modules.
func foreignSums(file string) ([]byte, error) {
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var out bytes.Buffer
	for line := range strings.Lines(string(b)) {
		if !strings.HasPrefix(line, modproxy.Prefix) {
			out.WriteString(line)
		}
	}
	return out.Bytes(), nil
}

// settle makes a file be what it should be, or says that it is not.
func settle(file string, want []byte, check bool) error {
	have, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	switch {
	case bytes.Equal(have, want):
		return nil
	case check:
		return fmt.Errorf("%s is not tidy: run make fix", filepath.Base(file))
	}
	return os.WriteFile(file, want, 0o644)
}
