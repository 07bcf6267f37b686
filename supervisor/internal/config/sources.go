package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/toml/v2"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/rawbytes"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"

	"github.com/holdfast-mcp/holdfast/protocol"
)

// Origins of a setting.
const (
	OriginDefault     = "default"
	OriginFlag        = "flag"
	OriginEnvironment = "environment"
	OriginFile        = "file"
)

// Origins has the origin of each setting by the name of its flag.
type Origins map[string]string

// Flags that say where a configuration file is. projectFile is the name of the
// one in a project.
const (
	fileFlag    = "config"
	projectFlag = "project"
	projectFile = "holdfast.toml"
)

// ofDev are settings that not all commands have; a file may be for several.
var ofDev = []string{"watch", "build", "shadow"}

// Load completes flags that were not given from HOLDFAST_* variables and then
// from a file: that of --config or HOLDFAST_CONFIG, else config.toml in
// holdfast's folder of the user's configuration directory, if there is one. It
// never looks into the working directory; where --project names a directory, a
// holdfast.toml in it counts before the user's (SEC-1).
//
// A setting has the name of its flag; in the environment max-frame is
// HOLDFAST_MAX_FRAME, in the file it is
//
//	max-frame = "32MiB"
func Load(flags *pflag.FlagSet, environ []string) (Origins, error) {
	origins := make(Origins)
	flags.VisitAll(func(f *pflag.Flag) {
		origins[f.Name] = OriginDefault
		if f.Changed {
			origins[f.Name] = OriginFlag
		}
	})
	vars, err := fromEnvironment(environ)
	if err != nil {
		return nil, err
	}
	if err := apply(flags, origins, vars, OriginEnvironment, func(name string) string {
		return protocol.EnvPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
	}); err != nil {
		return nil, err
	}
	files, err := filePaths(flags)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		settings, err := fromFile(f.path, f.chosen)
		if err != nil {
			return nil, err
		}
		if err := apply(flags, origins, settings, OriginFile, func(name string) string { return f.path + ": " + name }); err != nil {
			return nil, err
		}
	}
	return origins, nil
}

// apply sets the flags that nothing before has set. where names a setting as
// it stands in this source, for errors.
func apply(flags *pflag.FlagSet, origins Origins, k *koanf.Koanf, origin string, where func(string) string) error {
	for _, name := range slices.Sorted(maps.Keys(k.All())) {
		f := flags.Lookup(name)
		if f == nil || name == "help" || origin == OriginFile && (name == fileFlag || name == projectFlag) {
			if origin == OriginFile && !slices.Contains(ofDev, name) {
				return fmt.Errorf("%s: no such setting; `holdfast run --help` lists them", where(name))
			}
			continue // HOLDFAST_* is also where workers and tests keep things
		}
		if origins[name] != OriginDefault {
			continue
		}
		for _, value := range valuesOf(k, name) {
			if err := flags.Set(name, value); err != nil {
				return fmt.Errorf("%s: %w", where(name), err)
			}
		}
		origins[name] = origin
	}
	return nil
}

func valuesOf(k *koanf.Koanf, name string) []string {
	if list := k.Strings(name); len(list) > 0 {
		return list
	}
	return []string{k.String(name)}
}

func fromEnvironment(environ []string) (*koanf.Koanf, error) {
	k := koanf.New(".")
	err := k.Load(env.Provider(".", env.Opt{
		Prefix:      protocol.EnvPrefix,
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(name, value string) (string, any) {
			name = strings.TrimPrefix(name, protocol.EnvPrefix)
			return strings.ToLower(strings.ReplaceAll(name, "_", "-")), value
		},
	}), nil)
	return k, err
}

// source is a configuration file, which has to exist if somebody chose it.
type source struct {
	path   string
	chosen bool
}

// filePaths returns the configuration files, the one that wins first.
func filePaths(flags *pflag.FlagSet) ([]source, error) {
	var files []source
	if path := valueOf(flags, fileFlag); path != "" {
		path, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		files = append(files, source{path, true})
	}
	if dir := valueOf(flags, projectFlag); dir != "" {
		path, err := filepath.Abs(filepath.Join(dir, projectFile))
		if err != nil {
			return nil, err
		}
		files = append(files, source{path: path})
	}
	if dir, err := os.UserConfigDir(); err == nil && valueOf(flags, fileFlag) == "" {
		files = append(files, source{path: filepath.Join(dir, "holdfast", "config.toml")})
	}
	return files, nil
}

func valueOf(flags *pflag.FlagSet, name string) string {
	f := flags.Lookup(name)
	if f == nil {
		return ""
	}
	return f.Value.String()
}

func fromFile(path string, chosen bool) (*koanf.Koanf, error) {
	k := koanf.New("/") // names have no separator
	text, err := readPrivate(path)
	if errors.Is(err, fs.ErrNotExist) && !chosen {
		return k, nil
	}
	if err != nil {
		return nil, fmt.Errorf("configuration file: %w", err)
	}
	if err := k.Load(rawbytes.Provider(text), toml.Parser()); err != nil {
		return nil, fmt.Errorf("configuration file %s: %w", path, err)
	}
	return k, nil
}

// readPrivate reads a file that nobody else may have written.
func readPrivate(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkPrivate(path, info); err != nil {
		return nil, err
	}
	text := make([]byte, min(info.Size(), maxFile)+1)
	n, err := io.ReadFull(f, text)
	if n > maxFile {
		return nil, fmt.Errorf("%s: larger than %v", path, Size(maxFile))
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil // the file is shorter than there is room for
	}
	return text[:n], err
}

// maxFile bounds the configuration file.
const maxFile = 1 << 20
