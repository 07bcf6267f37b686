package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-mcp/holdfast/supervisor/internal/control"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/editor"
)

// completeWithin bounds what somebody waits for who has pressed Tab.
const completeWithin = 500 * time.Millisecond

var shells = []string{"bash", "zsh", "fish", "powershell"}

func newCompletion(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a script that lets a shell complete commands and names",
		Long: `completion prints a script for bash, zsh, fish or powershell. With it the shell
completes commands, flags, the names of running supervisors and those of MCP
clients and their servers.

  bash        holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast
  zsh         holdfast completion zsh > "${fpath[1]}/_holdfast"
  fish        holdfast completion fish > ~/.config/fish/completions/holdfast.fish
  powershell  holdfast completion powershell >> $PROFILE

bash needs the package bash-completion, zsh "autoload -U compinit; compinit" in
~/.zshrc. A shell that is started then knows it.`,
		Example:   `  source <(holdfast completion bash)    # for this shell alone`,
		ValidArgs: shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return usageError{fmt.Errorf("completion needs one of %s", strings.Join(shells, ", "))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			default:
				return root.GenPowerShellCompletionWithDesc(out)
			}
		},
	}
}

// completed says how the arguments of commands are completed.
var completed = map[string]cobra.CompletionFunc{
	"status": instanceNames, "swap": instanceNames, "logs": instanceNames, "stop": instanceNames, "doctor": instanceThenCommand,
	"install": clientNames, "uninstall": clientEntries,
}

// addCompletions lets shells complete what commands take.
func addCompletions(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		if complete := completed[cmd.Name()]; complete != nil {
			cmd.ValidArgsFunction = complete
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if words := strings.Split(f.Value.Type(), "|"); len(words) > 1 {
				_ = cmd.RegisterFlagCompletionFunc(f.Name, fixed(words)) // fails for a flag that has one
			}
		})
	}
}

func fixed(words []string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// instanceNames completes the supervisor that is meant: by its name, or by its
// pid where several have that.
func instanceNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
	defer cancel()
	all := control.Instances(ctx)
	var names []string
	for _, i := range all {
		name := i.Status.Name
		same := control.Matching(all, name)
		if name == "" || len(same) > 1 {
			name = strconv.Itoa(i.Status.Pid)
		}
		names = append(names, described(name, fmt.Sprintf("pid %d, %s", i.Status.Pid, i.Status.Command)))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// instanceThenCommand completes an instance, and files for a command.
func instanceThenCommand(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return instanceNames(cmd, args, typed)
}

// clientNames completes a client, and files for a command.
func clientNames(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var names []string
	for _, c := range editor.Clients() {
		names = append(names, described(c.Name, c.Title))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// clientEntries completes a client, and then what it has behind holdfast.
func clientEntries(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return clientNames(cmd, args, typed)
	}
	client, ok := editor.ByName(args[0])
	e, err := newEditor()
	if !ok || err != nil || len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, l := range e.List([]editor.Client{client}) {
		for _, s := range l.Servers {
			if s.Supervised() {
				names = append(names, described(s.Name, string(l.Place.Scope)))
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// described is a word with what shells show beside it.
func described(word, text string) string { return oneLine(word) + "\t" + oneLine(text) }
