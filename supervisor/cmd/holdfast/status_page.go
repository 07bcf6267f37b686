package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-mcp/holdfast/supervisor/internal/config"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/control"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/session"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/supervise"
)

// States of a worker.
const (
	resting  = "resting"
	starting = "starting"
	serving  = "serving"
	swapping = "swapping"
	backoff  = "backoff"
	givenUp  = "open"
)

var stateColours = map[string]string{
	serving: green, starting: yellow, swapping: yellow, backoff: yellow, givenUp: red,
}

// overview writes a line for each of several instances.
func (p *page) overview(found []control.Instance) {
	width := 4
	for _, i := range found {
		width = max(width, len(i.Status.Name))
	}
	for _, i := range found {
		s := i.Status
		state, text := s.Worker.State, briefly(s.Worker)
		if s.Silent {
			state, text = givenUp, "does not answer"
		}
		lines := wrap(oneLine(text+wrongIn(s)), p.width, width+9+2)
		lines[0] = p.firstWord(stateColours[state], lines[0])
		fmt.Fprintf(&p.out, "%s%-*s  %-7d  %s\n", p.paint(bold, oneLine(s.Name)), width-len(s.Name), "", s.Pid,
			strings.Join(lines, "\n"+strings.Repeat(" ", width+11)))
	}
	fmt.Fprintln(&p.out)
	for _, line := range wrap("`holdfast status NAME` (or PID) tells more of one, `holdfast status --all` of each", p.width, 0) {
		fmt.Fprintln(&p.out, line)
	}
}

// briefly is the state of a worker in a few words.
func briefly(k supervise.Status) string {
	switch {
	case k.Generation != 0:
		return k.State + ", generation " + strconv.FormatUint(k.Generation, 10)
	case k.State == givenUp:
		return "given up: " + k.Reason
	case k.State == backoff:
		return "down, and started again soon"
	}
	return k.State
}

// wrongIn names what is wrong, for the overview.
func wrongIn(s control.Status) string {
	var wrong []string
	if s.Build != nil && s.Build.Error != "" {
		wrong = append(wrong, "the build failed")
	}
	if s.Worker.Outdated {
		wrong = append(wrong, "the server's file is newer")
	}
	if s.Outdated {
		wrong = append(wrong, "holdfast's file is newer")
	}
	if len(wrong) == 0 {
		return ""
	}
	return "; " + strings.Join(wrong, ", ")
}

// instance writes all of one instance that matters now, or all that is known.
func (p *page) instance(s control.Status, all bool) {
	if s.Silent {
		p.title("holdfast", fmt.Sprintf(", pid %d", s.Pid))
		p.colouredRow("supervisor", red, "silent: it runs and does not answer")
		p.advice(s)
		return
	}
	p.title(s.Name, fmt.Sprintf(", pid %d, up %s", s.Pid, p.since(s.Started)))
	p.row("command", s.Command)
	p.row("directory", s.Dir)
	if s.Project != "" && s.Project != s.Dir {
		p.row("project", s.Project)
	}
	if s.Outdated || all {
		p.row("holdfast", s.Version+outdated(s.Outdated))
	}
	p.worker(s.Worker)
	p.build(s.Build)
	p.row("budget", fmt.Sprintf("%d of %d crashes within %s, %d of %d upgrades within %s",
		s.Crashes.Used, s.Crashes.Limit, span(s.Crashes.Window), s.Handoffs.Used, s.Handoffs.Limit, span(s.Handoffs.Window)))
	p.client(s)
	p.calls(s)
	p.exits(s.Worker.Exits, all)
	p.settings(s.Settings, all)
	p.advice(s)
}

func (p *page) worker(k supervise.Status) {
	text := k.State
	switch {
	case k.Generation != 0:
		text = fmt.Sprintf("%s, generation %d, pid %d, up %s%s", k.State, k.Generation, k.Pid, p.since(k.Since), outdated(k.Outdated))
	case k.State == resting:
		text += ", the first request that needs a worker starts it"
	case k.State == givenUp:
		text += fmt.Sprintf(", %s; next try in %s", k.Reason, p.until(k.RetryAt))
	case k.State == backoff:
		text += ", started again in " + p.until(k.RetryAt)
	}
	p.colouredRow("worker", stateColours[k.State], text)
	if k.State == swapping {
		p.row("", "a new one is being started")
	}
	for _, n := range k.Draining {
		p.row("", fmt.Sprintf("generation %d still answers what it had", n))
	}
}

func outdated(yes bool) string {
	if yes {
		return " (its file has been replaced since)"
	}
	return ""
}

func (p *page) client(s control.Status) {
	c := s.Client
	told := "not initialized"
	switch {
	case c.Protocol != "":
		told = "MCP " + c.Protocol
	case len(c.Lists) > 0 || len(c.Calls) > 0:
		told = "MCP without initialize"
	}
	switch c.Early {
	case session.EarlyNot:
	case session.EarlyMemory:
		told += ", answered from memory until the worker is ready"
	case session.EarlyMinimal:
		told += ", answered by holdfast until the worker is ready"
	}
	p.row("client", told)
	for _, l := range c.Lists {
		text := fmt.Sprintf("%d %s", l.Items, l.Kind)
		if l.Digest != "" {
			text += ", digest " + l.Digest[:min(12, len(l.Digest))]
		}
		if l.Partly {
			text += ", not all pages"
		}
		p.row("", text)
	}
	if c.Leases > 0 {
		p.row("", fmt.Sprintf("watches %d of %s resources", c.Leases, s.Settings["max-leases"].Value))
	}
}

func (p *page) calls(s control.Status) {
	label := "under way"
	for _, c := range s.Client.Calls {
		where := "waits for a worker"
		if c.Generation != 0 {
			where = fmt.Sprintf("generation %d", c.Generation)
		}
		p.row(label, fmt.Sprintf("%s %s for %s, %s", c.Method, c.ID, span(c.Age), where))
		label = ""
	}
}

// exits writes the last ends, and what the last worker printed.
func (p *page) exits(exits []supervise.Ended, all bool) {
	label := "ended"
	for n, e := range slices.Backward(exits) {
		p.row(label, fmt.Sprintf("generation %d, %s ago, after %s: %s", e.Generation, p.since(e.At), span(e.Uptime), e.Cause.Message))
		if all || n == len(exits)-1 {
			p.quoted(e.Cause.StderrTail)
		}
		label = ""
	}
}

// settings writes those that somebody has chosen, or all.
func (p *page) settings(settings map[string]control.Setting, all bool) {
	label := "settings"
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		set := settings[name]
		if chosen := set.Origin != config.OriginDefault; name != "name" && (chosen || all && set.Value != "") {
			p.row(label, fmt.Sprintf("%s %s (%s)", name, set.Value, set.Origin))
			label = ""
		}
	}
}
