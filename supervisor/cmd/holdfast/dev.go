package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-mcp/holdfast/supervisor/internal/config"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/rebuild"
)

// hangTimeoutOfDev is the default of --hang-timeout for native workers, which
// answer pings: somebody edits them, and an endless loop is easily written
// (SUP-11).
const hangTimeoutOfDev = "30s"

func newDev(std streams, signals <-chan os.Signal) *cobra.Command {
	c := config.Default()
	c.Dev, c.ControlTools = &config.Dev{Shadow: "auto"}, true
	cmd := &cobra.Command{
		Use:         "dev [flags] -- COMMAND ARGS...",
		Short:       "Serve one MCP client, and build and replace the server while you edit it",
		Long:        devHelp,
		Annotations: map[string]string{serves: "dev"},
		Example: `  holdfast dev --project ~/notes -- ./bin/notes
  holdfast dev --watch src --build 'cargo build' -- target/debug/server
  holdfast dev -- python3 server.py`,
		RunE: func(cmd *cobra.Command, args []string) error {
			origins, err := config.Load(cmd.Flags(), os.Environ())
			if err != nil {
				return usageError{err}
			}
			c.Args = args
			if err := completeDev(&c, cmd.Flags(), origins); err != nil {
				return usageError{err}
			}
			return serve(c, settings(cmd.Flags(), origins), std, signals)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&c.Dev.Project, "project", "", "`DIR` with the sources, and perhaps a holdfast.toml; also the default of --cwd (default: --cwd)")
	flags.StringArrayVar(&c.Dev.Watch, "watch", nil, "`PATH` or glob whose changes count, from the project on; !PATH leaves out; may be repeated (default: by the kind of project)")
	flags.StringVar(&c.Dev.Build, "build", "", "`COMMAND` that builds the server, run by a shell in the project (default: by the kind of project)")
	flags.StringVar(&c.Dev.Shadow, "shadow", c.Dev.Shadow, "whether workers are started from a copy of the executable, and where it is kept: `auto|off|DIR`")
	addRunFlags(flags, &c)
	return cmd
}

// completeDev sets what the project lets one guess.
func completeDev(c *config.Config, flags *pflag.FlagSet, origins config.Origins) error {
	if c.Worker == "" && len(c.Args) == 0 {
		return fmt.Errorf("no server given: `holdfast dev -- COMMAND ARGS...`, or `holdfast dev --worker PATH`")
	}
	if err := completeDirs(c); err != nil {
		return err
	}
	command := c.Args
	if c.Worker != "" {
		command = []string{c.Worker}
		if origins["hang-timeout"] == config.OriginDefault {
			if err := flags.Set("hang-timeout", hangTimeoutOfDev); err != nil {
				return err
			}
		}
	}
	guess := rebuild.Infer(c.Dev.Project, command, c.Worker != "", c.Dev.Build != "")
	if origins["watch"] == config.OriginDefault {
		c.Dev.Watch = guess.Watch
	}
	if origins["build"] == config.OriginDefault {
		c.Dev.Build, c.Dev.Missing = guess.Build, guess.Missing
	}
	switch {
	case len(c.Dev.Watch) == 0:
		c.Dev.Missing = guess.Missing
	case len(guess.Watch) == 0: // what was missing has been given
		c.Dev.Missing = ""
	}
	c.Dev.Kind = guess.Kind
	return nil
}

// completeDirs lets the project and the working directory stand for each other.
func completeDirs(c *config.Config) (err error) {
	if c.Dev.Project == "" {
		c.Dev.Project, err = c.WorkDir()
		return err
	}
	if c.Dev.Project, err = config.Directory("--project", c.Dev.Project); err != nil {
		return err
	}
	if c.Dir == "" {
		c.Dir = c.Dev.Project
	}
	_, err = c.WorkDir()
	return err
}
