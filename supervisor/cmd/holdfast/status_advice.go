package main

import (
	"fmt"
	"strings"

	"github.com/holdfast-mcp/holdfast/supervisor/internal/control"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/rebuild"
)

// build writes what is built, and why it is not.
func (p *page) build(b *rebuild.Status) {
	if b == nil {
		return
	}
	switch b.State {
	case rebuild.Building:
		p.colouredRow("build", yellow, "runs for "+p.since(b.Since))
	case rebuild.Waiting:
		p.colouredRow("build", yellow, fmt.Sprintf("waits for %s, for another holdfast that builds the same", p.since(b.Since)))
	case rebuild.Settling:
		p.colouredRow("build", yellow, "waits until files no longer change")
	case rebuild.Idle:
		if b.Command != "" {
			p.row("build", "not yet: the first request that needs the server, or a swap, begins it")
		}
	case rebuild.OK:
		p.colouredRow("build", green, fmt.Sprintf("ok, %s ago, took %s", p.since(b.Since), span(b.Took)))
	case rebuild.Failed:
		times := ""
		if b.Failures > 1 {
			times = fmt.Sprintf(", %d times in a row", b.Failures)
		}
		p.colouredRow("build", red, fmt.Sprintf("failed %s ago%s", p.since(b.Since), times))
	}
	if b.Error != "" {
		lines := strings.Split(b.Error, "\n")
		p.row("", lines[0])
		p.quoted(lines[1:])
	}
	p.quoted(b.Output)
}

// advice writes what to do about what is wrong.
func (p *page) advice(s control.Status) {
	this := s.Name
	if this == "" {
		this = fmt.Sprint(s.Pid)
	}
	if s.Build != nil && s.Build.State == rebuild.Failed {
		p.next("mend the sources: the next change builds again; `holdfast logs " + this + "` has the whole output")
	}
	switch s.Worker.State {
	case givenUp:
		p.next("`holdfast logs " + this + "` shows what the server printed; `holdfast swap " + this + "` tries again now")
	case backoff:
		p.next("`holdfast logs " + this + "` shows what the server printed")
	}
	if s.Worker.Outdated {
		p.next("`holdfast swap " + this + "` starts the server's new file")
	}
	if s.Outdated {
		p.next("the new holdfast is used when the client starts the server again: reconnect it there")
	}
	if len(s.Client.Lacking) > 0 {
		p.next("the client believes that the server offers " + strings.Join(s.Client.Lacking, ", ") +
			", which it does no longer: reconnect it in the client")
	}
}

func (p *page) next(text string) { p.row("next", text) }
