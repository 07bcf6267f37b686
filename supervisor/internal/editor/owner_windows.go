package editor

import (
	"io/fs"
	"os"
)

// keepOwner does nothing: a new file gets the access control list of its
// folder, as the old one did.
func keepOwner(*os.File, fs.FileInfo) error { return nil }

// checkPrivate accepts all: the user's folder for local data is protected by
// its access control list.
func checkPrivate(string, fs.FileInfo) error { return nil }
