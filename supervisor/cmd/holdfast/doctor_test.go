package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/supervisor/internal/editor"
)

// A script that env has run needs its interpreter on the PATH of the client.
func TestInterpreterOf(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"#!/usr/bin/env node\nx":              "node",
		"#! /usr/bin/env -S python3 -u\n":     "python3",
		"#!/usr/bin/env -S A=b deno run":      "deno",
		"#!/usr/bin/env":                      "",
		"#!/bin/sh\n":                         "",
		"#!/opt/env.d/x node\n":               "",
		"\x7fELF\x02\x01":                     "",
		"":                                    "",
		"#!" + strings.Repeat("/x", 4<<10):    "",
		"a line\n#!/usr/bin/env node\n":       "",
		"#!/usr/bin/env\tnode\r\nconsole.log": "node",
	} {
		path := filepath.Join(dir, "script")
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		if got := interpreterOf(path); got != want {
			t.Errorf("%.40q: %q, want %q", text, got, want)
		}
	}
	if got := interpreterOf(filepath.Join(dir, "none")); got != "" {
		t.Errorf("no file: %q", got)
	}
}

// Whether a client finds the holdfast of an entry: with its own PATH, which for
// desktop programs is short, or with that of the entry.
func TestStartable(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("skipped: executables have other names on Windows")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "holdfast")
	if err := os.WriteFile(program, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	client := func(name string) editor.Client {
		c, ok := editor.ByName(name)
		if !ok {
			t.Fatal(name)
		}
		return c
	}
	inEnv := []editor.Variable{{Name: "PATH", Value: dir}}
	for _, tt := range []struct {
		client string
		server editor.Server
		good   bool
	}{
		{"codex", editor.Server{Command: program}, true},
		{"codex", editor.Server{Command: program + "-gone"}, false},
		{"codex", editor.Server{Command: "holdfast"}, true},
		{"cursor", editor.Server{Command: "holdfast"}, false},
		{"cursor", editor.Server{Command: "holdfast", Env: inEnv}, true},
		{"cursor", editor.Server{Command: "./holdfast", Dir: dir}, true},
		{"codex", editor.Server{Command: "./holdfast"}, false},
	} {
		if err := startable(client(tt.client), tt.server, "/"); (err == nil) != tt.good {
			t.Errorf("%s, %+v: %v", tt.client, tt.server, err)
		}
	}
}

// What is found is told as it is found, or all of it as JSON; without its worker
// holdfast is not well.
func TestDoctorReport(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	config := func(home string) {
		dir := filepath.Join(home, "holdfast")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte("max-frame = \"1\"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, stdout, stderr := callIn(t, config, "doctor", "--json", "--", "server")
	var all []finding
	if err := json.Unmarshal([]byte(stdout), &all); err != nil || code != exitFailure || stderr != "" {
		t.Fatalf("exit code %d, %q: %v in %s", code, stderr, err, stdout)
	}
	verdicts := map[string]string{}
	for _, f := range all {
		verdicts[f.Check] = f.Verdict
		if f.Text == "" || (f.Next == "") != (f.Verdict == good) {
			t.Errorf("%+v", f)
		}
	}
	if verdicts["settings"] != bad || verdicts["holdfast-worker"] != bad || verdicts["sockets"] != good || verdicts["clients"] != good {
		t.Errorf("verdicts %v", verdicts)
	}
	if _, ok := verdicts["command"]; ok {
		t.Error("a server is looked at with settings that cannot be used")
	}
	code, stdout, _ = call(t, "doctor", "--", "server")
	if code != exitFailure || !strings.Contains(stdout, "\nfail  holdfast-worker: ") || !strings.Contains(stdout, "\n      next: install it") ||
		!strings.Contains(stdout, "\nfail  command: ") {
		t.Errorf("exit code %d:\n%s", code, stdout)
	}
	if code, _, stderr = call(t, "doctor", "a", "b"); code != exitUsage {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if code, stdout, _ = call(t, "doctor", "nobody-has-this-name"); code != exitFailure || !strings.Contains(stdout, "fail  running: ") {
		t.Errorf("exit code %d:\n%s", code, stdout)
	}
}
