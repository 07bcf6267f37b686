package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/holdfast-mcp/holdfast/supervisor/internal/control"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/proxy"
)

// How often a watched status is asked for.
const (
	redrawEvery = time.Second
	lookEvery   = 250 * time.Millisecond
)

// viewer shows the status of supervisors.
type viewer struct {
	by               string // which of them
	json, watch, all bool
}

func newStatus() *cobra.Command {
	var v viewer
	cmd := &cobra.Command{
		Use:   "status [NAME|PID|DIR]",
		Short: "Show what running supervisors do",
		Long: `status shows what the running supervisors of this user do: which worker serves,
what is under way, how much of the crash budget is used, how the last workers
ended, what was built, and what to do about what is wrong. If several run, each
gets one line, and what is known of one is shown when it is chosen.

  state       the worker
  resting     none yet: the first request that needs one starts it
  starting    is being started; requests wait
  serving     answers
  swapping    answers, and a new one is being started
  backoff     has ended, and is started again after a pause
  open        has ended too often: calls are answered with the cause

--json prints an array with everything that is known; times in fields that end
in _ns are nanoseconds. With --watch it is printed again, on one line, whenever
something has changed.
` + which,
		Example: `  holdfast status
  holdfast status notes --watch
  holdfast status --json | jq '.[].worker.state'`,
		Args: atMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			v.by = meant(args)
			switch {
			case v.watch && v.json:
				return v.watchJSON(cmd.Context(), cmd.OutOrStdout())
			case v.watch:
				return v.watchPage(cmd.Context(), cmd.OutOrStdout())
			}
			return v.show(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&v.json, "json", false, "print JSON")
	cmd.Flags().BoolVar(&v.watch, "watch", false, "go on, and show it again as it changes")
	cmd.Flags().BoolVar(&v.all, "all", false, "show everything of each: all settings, and what each worker printed at its end")
	return cmd
}

// show shows the status once.
func (v viewer) show(ctx context.Context, w io.Writer) error {
	all := control.Instances(ctx)
	found := control.Matching(all, v.by)
	if len(found) == 0 && (v.by != "" || !v.json) {
		_, err := control.Choose(all, v.by) // which says why
		return err
	}
	if v.json {
		return printJSON(w, statuses(found))
	}
	p := newPage(w)
	v.write(p, found)
	_, err := io.WriteString(w, p.out.String())
	return err
}

// write writes a page on each instance, or a line if there are several.
func (v viewer) write(p *page, found []control.Instance) {
	if len(found) > 1 && !v.all {
		p.overview(found)
		return
	}
	for n, i := range found {
		if n > 0 {
			p.out.WriteByte('\n')
		}
		p.instance(i.Status, v.all)
	}
}

// watchPage draws the page again and again, in place if it is on a terminal;
// otherwise whenever it says something else, times apart.
func (v viewer) watchPage(ctx context.Context, w io.Writer) error {
	inPlace := onTerminal(w)
	var last []byte
	for next := range ticks(ctx, redrawEvery) {
		found := control.Matching(control.Instances(ctx), v.by)
		if ctx.Err() != nil {
			return nil
		}
		now, err := lasting(found)
		if err != nil {
			return err
		}
		if !inPlace && bytes.Equal(now, last) {
			continue
		}
		p := newPage(w)
		if p.now = next; len(found) == 0 {
			p.title("nothing runs", "")
		}
		v.write(p, found)
		text := p.out.String() + "\n"
		if inPlace {
			text = redrawn(p.out.String(), height(w), last == nil)
		}
		last = now
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	return nil
}

// redrawn is a page over what was drawn before, as far as the terminal has lines.
func redrawn(page string, height int, first bool) string {
	lines := strings.Split(strings.TrimSuffix(page, "\n"), "\n")
	if height > 2 && len(lines) > height-1 {
		lines = append(lines[:height-2:height-2], "...")
	}
	begin := "\x1b[H"
	if first {
		begin += "\x1b[2J"
	}
	return begin + strings.Join(lines, "\x1b[K\n") + "\x1b[K\n\x1b[J"
}

func height(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	_, height, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return height
}

// watchJSON prints the statuses whenever something in them has changed, but the
// ages of calls.
func (v viewer) watchJSON(ctx context.Context, w io.Writer) error {
	var last []byte
	for range ticks(ctx, lookEvery) {
		found := control.Matching(control.Instances(ctx), v.by)
		if ctx.Err() != nil {
			return nil
		}
		now, err := lasting(found)
		if err != nil {
			return err
		}
		if bytes.Equal(now, last) {
			continue
		}
		last = now
		if err := json.NewEncoder(w).Encode(statuses(found)); err != nil {
			return err
		}
	}
	return nil
}

// ticks yields the time at once and then at an interval, until ctx ends.
func ticks(ctx context.Context, every time.Duration) func(yield func(time.Time) bool) {
	return func(yield func(time.Time) bool) {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for now := time.Now(); yield(now); {
			select {
			case now = <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}
}

func statuses(found []control.Instance) []control.Status {
	all := make([]control.Status, 0, len(found))
	for _, i := range found {
		all = append(all, i.Status)
	}
	return all
}

// lasting is what of the statuses does not change by the time alone.
func lasting(found []control.Instance) ([]byte, error) {
	all := statuses(found)
	for n := range all {
		calls := slices.Clone(all[n].Client.Calls)
		for c := range calls {
			calls[c].Age = 0
		}
		slices.SortFunc(calls, func(a, b proxy.Call) int { return strings.Compare(a.ID, b.ID) })
		all[n].Client.Calls = calls
	}
	b, err := json.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	return b, nil
}
