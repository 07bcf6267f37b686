package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/holdfast-mcp/holdfast/protocol"
)

// build is what is known of how this program was built.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	// Wire has the versions of the worker protocol.
	Wire wireVersions `json:"wire"`
}

type wireVersions struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

func thisBuild() build {
	b := build{
		Version: "unknown", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Wire: wireVersions{protocol.WireVersionMin, protocol.WireVersion},
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	b.Version = info.Main.Version
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
		if b.Revision != "" {
			b.Version = b.Revision
		}
	}
	return b
}

// version returns the module version or the VCS revision of this build.
func version() string { return thisBuild().Version }

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of holdfast and how it was built",
		Long: `version prints which holdfast this is: its version, the revision of its sources
and when that was made, the Go version and system that it was built with and
for, and the versions of the worker protocol that it speaks.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := thisBuild()
			if asJSON {
				return printJSON(cmd.OutOrStdout(), b)
			}
			fmt.Fprintln(cmd.OutOrStdout(), "holdfast", b.Version)
			if b.Revision != "" {
				modified := ""
				if b.Modified {
					modified = ", modified since"
				}
				fmt.Fprintf(cmd.OutOrStdout(), "  revision  %s of %s%s\n", b.Revision, b.Time, modified)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "  built     with %s for %s/%s\n", b.Go, b.OS, b.Arch)
			fmt.Fprintf(cmd.OutOrStdout(), "  wire      %d to %d\n", b.Wire.Min, b.Wire.Max)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
