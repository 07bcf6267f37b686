package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-mcp/holdfast/internal/proc"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/control"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/editor"
)

// instances looks at the supervisors that run.
func (d *doctor) instances(ctx context.Context) {
	all := control.Instances(ctx)
	some := control.Matching(all, d.by)
	if len(some) == 0 && d.by != "" {
		_, err := control.Choose(all, d.by)
		d.fail("running", err.Error(), "`holdfast status` lists those that run")
		return
	}
	if len(some) == 0 {
		d.ok("running", "none")
	}
	for _, i := range some {
		check := fmt.Sprintf("running %s, pid %d", cmp.Or(i.Status.Name, "holdfast"), i.Status.Pid) // a silent one has no name
		wrong := advise(i.Status)
		for _, a := range wrong {
			if a.grave {
				d.fail(check, a.wrong, a.text)
			} else {
				d.warn(check, a.wrong, a.text)
			}
		}
		if len(wrong) == 0 {
			d.ok(check, "%s", briefly(i.Status.Worker))
		}
	}
}

// clients looks at the entries of MCP clients that start holdfast.
func (d *doctor) clients() {
	e, err := newEditor()
	if err != nil {
		d.warn("clients", err.Error(), "set HOME, and try again in a directory that exists")
		return
	}
	found := 0
	for _, l := range e.List(editor.Clients()) {
		client := l.Place.Client
		if l.Err != nil {
			d.warn(client.Title, l.Err.Error(), "mend the file, or move it away: "+client.Title+" may ignore it as well")
			continue
		}
		for _, s := range l.Servers {
			if !s.Supervised() {
				continue
			}
			found++
			check := fmt.Sprintf("%s, %s", client.Title, s.Name)
			if err := startable(client, s, e.Host.Dir); err != nil {
				d.fail(check, err.Error(), fmt.Sprintf("write the entry again: `holdfast uninstall %s %s --%s`, then `holdfast install %s`",
					client.Name, s.Name, l.Place.Scope, client.Name))
				continue
			}
			d.ok(check, "starts %s", s.Command)
		}
	}
	if found == 0 {
		d.ok("clients", "none starts holdfast; `holdfast install` puts a server behind it")
	}
}

// startable reports whether a client can find the program of an entry.
func startable(client editor.Client, s editor.Server, here string) error {
	dir := here
	if filepath.IsAbs(s.Dir) {
		dir = s.Dir
	}
	env := os.Environ()
	if client.Desktop {
		env = append(env, "PATH="+desktopPath())
	}
	for _, v := range s.Env {
		if v.Name == "PATH" && !strings.Contains(v.Value, "$") {
			env = append(env, "PATH="+v.Value)
		}
	}
	_, err := proc.LookPath(s.Command, dir, env)
	return err
}
