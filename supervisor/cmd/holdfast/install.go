package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-mcp/holdfast/supervisor/internal/config"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/editor"
)

const installHelp = `install puts a server behind holdfast into the configuration of an MCP client:
a new one with --name, or one that the client has already with --wrap, which
keeps its env, cwd and other keys. Nothing else in the file changes, comments
and layout included, and nothing is run. "holdfast uninstall" restores the file.

  CLIENT is one of
    claude-code      Claude Code       --user --project --local
    claude-desktop   Claude Desktop    --user
    cursor           Cursor            --user --project
    vscode           VS Code           --user --project
    codex            Codex             --user --project
    gemini           Gemini CLI        --user --project
    zed              Zed               --user --project

  --user is the default: all projects of this user. --project is the file in
  the working directory that is shared with the project, --local what Claude
  Code keeps for this user and project. --wrap looks in all of them.

Flags of "holdfast run" may be given as well, and become part of the entry;
"holdfast run --help" lists them. --env becomes the env of the entry. Paths are
written in full, since clients start servers in folders of their own.`

// scopeFlags choose one of the places of a client.
type scopeFlags struct{ user, project, local bool }

func (f *scopeFlags) register(flags *pflag.FlagSet) {
	flags.BoolVar(&f.user, "user", false, "the servers of this user in all projects")
	flags.BoolVar(&f.project, "project", false, "the file in the working directory that is shared with the project")
	flags.BoolVar(&f.local, "local", false, "the servers of this user in this project (Claude Code)")
}

// scopes returns the scopes that were asked for, nil for none.
func (f *scopeFlags) scopes(c editor.Client) ([]editor.Scope, error) {
	var chosen []editor.Scope
	for _, s := range []struct {
		set   bool
		scope editor.Scope
	}{{f.user, editor.User}, {f.project, editor.Project}, {f.local, editor.Local}} {
		if s.set {
			chosen = append(chosen, s.scope)
		}
	}
	if len(chosen) > 1 {
		return nil, usageError{errors.New("give one of --user, --project and --local")}
	}
	for _, s := range chosen {
		if !slices.Contains(c.Scopes(), s) {
			return nil, usageError{fmt.Errorf("%s has no servers for --%s", c.Title, s)}
		}
	}
	return chosen, nil
}

// installation is what install was called with.
type installation struct {
	scopeFlags

	name, wrap                         string
	list, json, dryRun, force, asGiven bool
	config                             config.Config
	run                                *pflag.FlagSet // the flags of run
	given                              *pflag.FlagSet // those of install
}

func newInstall() *cobra.Command {
	in := &installation{config: config.Default(), run: pflag.NewFlagSet("run", pflag.ContinueOnError)}
	cmd := &cobra.Command{
		Use:   "install CLIENT --name NAME [flags] -- COMMAND ARGS...",
		Short: "Put a server behind holdfast into the configuration of a client",
		Long:  installHelp,
		Example: `  holdfast install claude-code --name notes -- node ~/notes/server.js
  holdfast install cursor --wrap notes --hang-timeout 30s --dry-run
  holdfast install --list`,
		RunE: func(cmd *cobra.Command, args []string) error {
			dash := cmd.ArgsLenAtDash()
			if dash < 0 {
				dash = len(args)
			}
			e, err := newEditor()
			if err != nil {
				return err
			}
			if in.list {
				return in.printList(cmd, e, args)
			}
			return in.install(cmd, e, args[:dash], args[dash:])
		},
	}
	in.given = cmd.Flags()
	in.given.SortFlags = false
	in.given.StringVar(&in.name, "name", "", "`NAME` of a new entry")
	in.given.StringVar(&in.wrap, "wrap", "", "`NAME` of an entry that the client has, to put holdfast in front of")
	in.register(in.given)
	in.given.BoolVar(&in.force, "force", false, "overwrite an entry of that name")
	in.given.BoolVar(&in.asGiven, "as-given", false, "write COMMAND and holdfast without their paths, for a file that others use too")
	in.given.BoolVar(&in.dryRun, "dry-run", false, "show what would change, and change nothing")
	in.given.BoolVar(&in.list, "list", false, "show the servers of all clients, or of CLIENT, and which are behind holdfast")
	in.given.BoolVar(&in.json, "json", false, "print the list as JSON")
	addRunFlags(in.run, &in.config)
	in.run.VisitAll(func(f *pflag.Flag) { f.Hidden = true })
	in.given.AddFlagSet(in.run)
	return cmd
}

func newEditor() (editor.Editor, error) {
	host, err := editor.ThisHost()
	return editor.Editor{Host: host}, err
}

// clientNamed returns the client that a person means.
func clientNamed(name string) (editor.Client, error) {
	c, ok := editor.ByName(name)
	if ok {
		return c, nil
	}
	var names []string
	for _, c := range editor.Clients() {
		names = append(names, c.Name)
	}
	return c, usageError{fmt.Errorf("no client %q; known are %s", name, strings.Join(names, ", "))}
}

func (in *installation) install(cmd *cobra.Command, e editor.Editor, args, command []string) error {
	switch {
	case len(args) != 1:
		return usageError{errors.New("install needs one CLIENT, and COMMAND behind --; see `holdfast install --help`")}
	case (in.name == "") == (in.wrap == ""):
		return usageError{errors.New("install needs either --name or --wrap; see `holdfast install --help`")}
	case in.json:
		return usageError{errors.New("--json belongs to --list")}
	case in.wrap != "" && (len(command) > 0 || in.config.Worker != "" || in.force):
		return usageError{errors.New("--wrap takes its command from the entry, without --worker and --force")}
	}
	client, err := clientNamed(args[0])
	if err != nil {
		return err
	}
	scopes, err := in.scopes(client)
	if err != nil {
		return err
	}
	notes := &notes{}
	change, err := in.change(e, client, scopes, command, notes)
	if err != nil {
		return err
	}
	if in.dryRun {
		notes.print(cmd.ErrOrStderr())
		return printDiff(cmd.OutOrStdout(), change.Diff())
	}
	if err := change.Apply(); err != nil {
		return err
	}
	was := "there was no such file"
	if change.Backup != "" {
		was = "the file as it was: " + change.Backup
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %s is behind holdfast now, in %s\n", client.Title, change.Name, change.Place.File)
	fmt.Fprintf(cmd.OutOrStdout(), "  undo: holdfast uninstall %s %s --%s (%s)\n", client.Name, change.Name, change.Place.Scope, was)
	notes.add("%s", client.Hint)
	if change.Place.Scope == editor.Project && client.ProjectHint != "" {
		notes.add("%s", client.ProjectHint)
	}
	notes.print(cmd.ErrOrStderr())
	return nil
}

// change computes the change.
func (in *installation) change(e editor.Editor, c editor.Client, scopes []editor.Scope, command []string, notes *notes) (*editor.Change, error) {
	w, err := newWriter(in, c, notes)
	if err != nil {
		return nil, err
	}
	if in.wrap != "" {
		place, err := choose(e, c, in.wrap, scopes, editor.ErrWrapped, func(s editor.Server) bool { return !s.Supervised() })
		if err != nil {
			return nil, err
		}
		return e.Wrap(place, in.wrap, func(s editor.Server) (string, []string, error) {
			if err := in.check([]string{s.Command}); err != nil {
				return "", nil, err
			}
			return w.holdfast, w.around(s), nil
		})
	}
	if err := checkName(in.name); err != nil {
		return nil, err
	}
	if err := in.check(command); err != nil {
		return nil, err
	}
	scope := editor.User
	if len(scopes) > 0 {
		scope = scopes[0]
	}
	place, err := c.Place(e.Host, scope)
	if err != nil {
		return nil, err
	}
	change, err := e.Install(place, w.entry(command), in.force)
	if errors.Is(err, editor.ErrExists) {
		return nil, fmt.Errorf("%w; --wrap %s puts holdfast in front of it, --force overwrites it", err, in.name)
	}
	return change, err
}

// choose returns the one place where a client has an entry that fits; without
// such a one, what says why.
func choose(
	e editor.Editor, c editor.Client, name string, scopes []editor.Scope, otherwise error, fits func(editor.Server) bool,
) (editor.Place, error) {
	if len(scopes) == 0 {
		scopes = c.Scopes()
	}
	found, err := e.Find(c, name, scopes)
	if err != nil {
		return editor.Place{}, err
	}
	if len(found) == 0 {
		return editor.Place{}, fmt.Errorf("%s: %q: %w; `holdfast install --list` shows what there is", c.Title, name, editor.ErrNotFound)
	}
	fitting := slices.DeleteFunc(found, func(f editor.Found) bool { return !fits(f.Server) })
	switch len(fitting) {
	case 0:
		return editor.Place{}, fmt.Errorf("%s: %q: %w", c.Title, name, otherwise)
	case 1:
		return fitting[0].Place, nil
	}
	var flags []string
	for _, f := range fitting {
		flags = append(flags, "--"+string(f.Place.Scope))
	}
	return editor.Place{}, usageError{fmt.Errorf("%s has several servers %q; choose by %s", c.Title, name, strings.Join(flags, " or "))}
}

func newUninstall() *cobra.Command {
	var chosen scopeFlags
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "uninstall CLIENT NAME",
		Short: "Undo what install did",
		Long: `uninstall undoes "holdfast install". If the file is still as install left it,
it gets the bytes that it had before. Otherwise the entry is taken out, or gets
its own command back if it was wrapped, and the rest stays as it is now. An
entry that starts holdfast and was written by hand keeps its server as well.`,
		Example: `  holdfast uninstall claude-code notes
  holdfast uninstall cursor notes --project --dry-run`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageError{errors.New("uninstall needs CLIENT and NAME; see `holdfast uninstall --help`")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := clientNamed(args[0])
			if err != nil {
				return err
			}
			scopes, err := chosen.scopes(client)
			if err != nil {
				return err
			}
			e, err := newEditor()
			if err != nil {
				return err
			}
			place, err := choose(e, client, args[1], scopes, editor.ErrNotOurs, editor.Server.Supervised)
			if err != nil {
				return err
			}
			change, err := e.Uninstall(place, args[1])
			if err != nil {
				return err
			}
			return finishUndo(cmd, change, dryRun)
		},
	}
	cmd.Flags().SortFlags = false
	chosen.register(cmd.Flags())
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would change, and change nothing")
	return cmd
}

func finishUndo(cmd *cobra.Command, change *editor.Change, dryRun bool) error {
	notes := &notes{}
	if len(change.Dropped) > 0 {
		notes.add("what %s gave the server is not in the entry any more", strings.Join(change.Dropped, " and "))
	}
	if dryRun {
		notes.print(cmd.ErrOrStderr())
		return printDiff(cmd.OutOrStdout(), change.Diff())
	}
	if err := change.Apply(); err != nil {
		return err
	}
	what := "is taken out of"
	if change.Unwrapped {
		what = "has its own command again, in"
	}
	how := "the rest of the file stays as it is now"
	switch {
	case change.Removes:
		how = "the file is removed, since there was none before"
	case change.Exact:
		how = "the file is as it was before"
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %s %s %s; %s\n", change.Place.Client.Title, change.Name, what, change.Place.File, how)
	notes.print(cmd.ErrOrStderr())
	return nil
}
