package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-mcp/holdfast/supervisor/internal/control"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/generation"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/proxy"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/supervise"
)

func newStatus() *cobra.Command {
	var pid int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what running supervisors do",
		Long: `status shows what each running supervisor of this user does: which worker
serves, what is under way, how much of the crash budget is used, and how the
last workers ended.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			instances := control.Instances(cmd.Context())
			if pid != 0 {
				one, err := control.Choose(instances, pid)
				if err != nil {
					return err
				}
				instances = []control.Instance{one}
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), instances)
			}
			if len(instances) == 0 {
				return control.ErrNone
			}
			for _, i := range instances {
				printStatus(cmd.OutOrStdout(), i.Status)
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&pid, "pid", 0, "only the supervisor with this process id")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newSwap() *cobra.Command {
	var pid int
	cmd := &cobra.Command{
		Use:   "swap",
		Short: "Replace the worker of a running supervisor",
		Long: `swap starts a new worker, from what the command is now, and lets it take over
when it is ready. Calls under way end on the old one. The client notices
nothing. A worker that cannot be started changes nothing.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			one, err := control.Choose(control.Instances(cmd.Context()), pid)
			if err != nil {
				return err
			}
			result, err := one.Swap(cmd.Context())
			switch {
			case err != nil:
				return fmt.Errorf("swap: %w", err)
			case result.Error != "" && result.Generation != 0:
				return fmt.Errorf("generation %d still serves: %s", result.Generation, result.Error)
			case result.Error != "":
				return errors.New(result.Error)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "generation %d serves\n", result.Generation)
			return nil
		},
	}
	cmd.Flags().IntVar(&pid, "pid", 0, "process id of the supervisor, if several run")
	return cmd
}

func printJSON(w io.Writer, instances []control.Instance) error {
	statuses := make([]control.Status, 0, len(instances))
	for _, i := range instances {
		statuses = append(statuses, i.Status)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(statuses)
}

func printStatus(w io.Writer, s control.Status) {
	fmt.Fprintf(w, "%s\n", s.Command)
	fmt.Fprintf(w, "  supervisor  pid %d, up %s%s\n", s.Pid, ago(s.Started), outdated(s.Outdated))
	k := s.Worker
	switch {
	case k.Generation != 0:
		fmt.Fprintf(w, "  worker      %s, generation %d, pid %d, up %s%s\n", k.State, k.Generation, k.Pid, ago(k.Since), outdated(k.Outdated))
	case k.State == "resting":
		fmt.Fprintln(w, "  worker      none: the first request that needs one starts it")
	case k.Reason != "":
		fmt.Fprintf(w, "  worker      none: %s; next try in %s, or now with `holdfast swap --pid %d`\n", k.Reason, until(k.RetryAt), s.Pid)
	default:
		fmt.Fprintf(w, "  worker      %s\n", k.State)
	}
	if s.Build != nil {
		printBuild(w, *s.Build)
	}
	fmt.Fprintf(w, "  charged     %d crashes, %d upgrades\n", k.Crashes, k.Handoffs)
	for _, c := range s.Client.Calls {
		fmt.Fprintf(w, "  under way   %s %s for %s\n", c.Method, c.ID, c.Age.Round(time.Millisecond))
	}
	for _, e := range k.Exits {
		fmt.Fprintf(w, "  ended       generation %d after %s: %s\n", e.Generation, e.Uptime.Round(time.Millisecond), e.Cause.Message)
		for _, l := range e.Cause.StderrTail {
			fmt.Fprintf(w, "                %s\n", l)
		}
	}
}

func outdated(yes bool) string {
	if yes {
		return " (its file has been replaced since)"
	}
	return ""
}

func ago(t time.Time) string   { return time.Since(t).Round(time.Second).String() }
func until(t time.Time) string { return max(0, time.Until(t)).Round(time.Second).String() }

// target is a running supervisor as its control socket sees it.
type target struct {
	*supervise.Supervisor

	started  time.Time
	edge     *proxy.Proxy
	command  generation.Command
	version  string
	self     generation.File
	settings map[string]control.Setting
	swap     swapper
	shop     *workshop
}

// Swap replaces the worker.
func (t target) Swap(ctx context.Context) (supervise.Outcome, error) { return t.swap(ctx) }

// Status returns what the supervisor tells of itself.
func (t target) Status() control.Status {
	return control.Status{
		Pid: os.Getpid(), Version: t.version, Started: t.started, Outdated: t.self.Replaced(),
		Command: t.command.String(), Dir: t.command.Dir, Settings: t.settings,
		Worker: t.Supervisor.Status(), Client: t.edge.Status(), Build: t.shop.status(),
	}
}
