// Package usercache gives a process a cache directory that is not the user's.
// What earlier sessions of a server have left there decides how holdfast
// starts, so every test, demonstration and measurement brings its own.
//
//	cmd.Env = append(os.Environ(), usercache.Env(dir)...)
//
// It changes nothing but variables, and knows nothing of what holdfast keeps
// in the directory.
package usercache

import (
	"errors"
	"os"
	"runtime"
	"strings"
)

// Env returns the variables that make dir, or a folder below it, what
// os.UserCacheDir returns.
func Env(dir string) []string {
	switch runtime.GOOS {
	case "windows":
		return []string{"LocalAppData=" + dir}
	case "darwin", "ios":
		return []string{"HOME=" + dir}
	}
	return []string{"XDG_CACHE_HOME=" + dir}
}

// Isolate gives this process, and all that it starts from now on, an empty
// cache directory. The caller calls remove when they have ended.
func Isolate() (remove func() error, err error) {
	dir, err := os.MkdirTemp("", "usercache-")
	if err != nil {
		return nil, err
	}
	for _, variable := range Env(dir) {
		name, value, _ := strings.Cut(variable, "=")
		if err := os.Setenv(name, value); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	return func() error { return os.RemoveAll(dir) }, nil
}
