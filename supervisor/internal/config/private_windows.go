package config

import "io/fs"

// checkPrivate accepts all: the user's configuration directory is protected by
// its access control list.
func checkPrivate(string, fs.FileInfo) error { return nil }
