// Command holdfast-worker holds the workers that come with holdfast. They are
// started by a supervisor, see holdfast run.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}
