package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mcp/holdfast/integration/harness"
	"github.com/holdfast-mcp/holdfast/integration/httpbridge"
)

// checksFloor is what a run has to say at least, so that nothing never equals
// nothing.
const checksFloor = 250

// TestConformance: the client edge is transparent. The official conformance
// suites see the same server with and without holdfast, check for check.
func TestConformance(t *testing.T) {
	server := harness.Everything(t)
	direct := conformance(t, harness.Direct(server))
	if len(direct) <= checksFloor {
		t.Fatalf("%d checks without holdfast, want more than %d", len(direct), checksFloor)
	}
	t.Logf("%d checks without holdfast", len(direct))
	for name, command := range map[string][]string{
		"bridged": harness.Bridged(t, nil, server),
		"native":  harness.Native(t, nil, harness.EverythingWorker(t)),
	} {
		t.Run(name, func(t *testing.T) {
			got := conformance(t, command)
			if diff := cmp.Diff(direct, got); diff != "" {
				t.Errorf("checks without and with holdfast (-direct +supervised):\n%s", diff)
			}
			t.Logf("%d checks", len(got))
		})
	}
}

// suite is one run of a conformance suite.
type suite struct{ name, set, version string }

func suites() []suite {
	return []suite{
		{"0.1.16", "clients", ""},
		{"0.2.0-2025-11-25", "conformance2", "2025-11-25"},
		{"0.2.0-2026-07-28", "conformance2", "2026-07-28"},
	}
}

// conformance runs the suites against a stdio command and returns a line
// "SUITE SCENARIO CHECK STATUS" for each check, sorted.
func conformance(t *testing.T, command []string) []string {
	t.Helper()
	bridge, err := httpbridge.Listen(command, harness.ColdCache(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := bridge.Close(); err != nil {
			t.Error(err)
		}
	}()
	return runSuites(t, bridge)
}

func runSuites(t *testing.T, bridge *httpbridge.Bridge) []string {
	t.Helper()
	node := harness.RequireNode(t)
	var lines []string
	for _, s := range suites() {
		out := t.TempDir()
		args := []string{harness.RequireConformance(t, s.set), "server", "--url", bridge.URL, "--suite", "all", "-o", out}
		if s.version != "" {
			args = append(args, "--spec-version", s.version)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		cmd := exec.CommandContext(ctx, node, args...)
		cmd.Dir = out
		log, err := cmd.CombinedOutput()
		cancel()
		// The suites exit with 1 when a check fails, and some fail on any
		// stdio server: what counts is whether they fail alike.
		if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != 1) {
			t.Fatalf("suite %s: %v\n%s", s.name, err, log)
		}
		checks := readChecks(t, s.name, out)
		if len(checks) == 0 {
			t.Fatalf("suite %s checked nothing:\n%s", s.name, log)
		}
		lines = append(lines, checks...)
	}
	slices.Sort(lines)
	return lines
}

// untestable stands before the reason why a suite could not tell.
const untestable = " untestable: "

// runStamp is what the suites append to the name of a scenario.
var runStamp = regexp.MustCompile(`-\d{4}-\d\d-\d\dT.*$`)

func readChecks(t *testing.T, suite, dir string) []string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "checks.json" {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var checks []struct {
			ID, Status string
			Details    json.RawMessage
		}
		if err := json.Unmarshal(b, &checks); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		scenario, err := filepath.Rel(dir, filepath.Dir(path))
		if err != nil {
			return err
		}
		scenario = strings.TrimPrefix(runStamp.ReplaceAllString(scenario, ""), "server-")
		for _, c := range checks {
			line := strings.Join([]string{suite, scenario, c.ID, c.Status}, " ")
			var details struct {
				Untestable bool
				Reason     string
			}
			_ = json.Unmarshal(c.Details, &details) // checks have details of any kind
			if details.Untestable {
				line += untestable + details.Reason
			}
			lines = append(lines, line)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}
