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

// advice is what to do about something that is wrong.
type advice struct {
	wrong, text string
	grave       bool // clients notice
}

// advise says what is wrong with a supervisor.
func advise(s control.Status) []advice {
	this := s.Name
	if this == "" {
		this = fmt.Sprint(s.Pid)
	}
	var all []advice
	add := func(grave bool, wrong, format string, args ...any) {
		all = append(all, advice{wrong, fmt.Sprintf(format, args...), grave})
	}
	if s.Silent {
		add(true, "does not answer", "it may be stopped (kill -CONT %d lets it go on) or overloaded", s.Pid)
		return all
	}
	if s.Build != nil && s.Build.State == rebuild.Failed {
		add(false, "its build failed", "mend the sources: the next change builds again; `holdfast logs %s` has the whole output", this)
	}
	switch s.Worker.State {
	case givenUp:
		add(true, "its server is given up", "`holdfast logs %s` shows what the server printed; `holdfast swap %s` tries again now", this, this)
	case backoff:
		add(true, "its server has died", "`holdfast logs %s` shows what the server printed", this)
	}
	if s.Worker.Outdated {
		add(false, "its server is older than the file", "`holdfast swap %s` starts the server's new file", this)
	}
	if s.Outdated {
		add(false, "it is older than the file of holdfast", "the new holdfast is used when the client starts the server again: reconnect it there")
	}
	if len(s.Client.Lacking) > 0 {
		add(false, "its client was told of more than the server offers",
			"the client believes that the server offers %s, which it does no longer: reconnect it in the client", strings.Join(s.Client.Lacking, ", "))
	}
	return all
}

// advice writes what to do about what is wrong.
func (p *page) advice(s control.Status) {
	for _, a := range advise(s) {
		p.row("next", a.text)
	}
}
