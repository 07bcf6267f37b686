package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

const (
	ours   = "github.com/holdfast-mcp/holdfast/"
	mcpSDK = "github.com/modelcontextprotocol/go-sdk"
	plugin = "github.com/hashicorp/go-plugin"
	grpc   = "google.golang.org/grpc"
	zap    = "go.uber.org/zap"
)

// rule says what the packages below a path must never import: forbidden also
// through others, direct only by themselves. A path that ends in /... stands
// for all below it. Rules for packages that do not exist yet say what they
// will have to keep.
type rule struct {
	packages, except  []string
	forbidden, direct []string
	reason            string
}

func rules() []rule {
	pure := []string{"os", "os/exec", "net", "log", "log/slog", grpc, zap}
	return []rule{
		{
			packages: []string{"protocol/..."}, forbidden: []string{ours + "supervisor", ours + "worker", ours + "internal", mcpSDK, zap},
			reason: "the contract knows neither side, reads no MCP and does not log",
		},
		{
			packages: []string{"protocol/workerv1", "protocol/roomv1"}, forbidden: []string{ours},
			reason: "generated code stands alone",
		},
		{
			packages: []string{"internal/line", "internal/envelope", "internal/ring", "internal/logging"}, forbidden: []string{ours},
			reason: "a leaf package needs nothing of ours",
		},
		{
			packages: []string{"internal/proc"}, forbidden: []string{grpc, mcpSDK},
			reason: "process trees know nothing of what the processes say",
		},
		{
			packages: []string{"supervisor/internal/session", "supervisor/internal/lease"}, direct: pure,
			reason: "decisions are pure: no I/O, no wire, no logger",
		},
		{
			packages: []string{"supervisor/internal/restart"}, direct: pure, forbidden: []string{ours + "supervisor", ours + "worker"},
			reason: "the restart policy is a function of events and time",
		},
		{
			packages: []string{"supervisor/internal/catalog"}, forbidden: []string{grpc},
			reason: "digests and diffs do not know the wire",
		},
		{
			packages: []string{"supervisor/internal/cache"}, forbidden: []string{ours + "supervisor", grpc},
			reason: "the cache keeps answers and knows neither clients, workers nor the wire",
		},
		{
			packages: []string{"supervisor/internal/config", "supervisor/internal/editor"}, forbidden: []string{ours + "supervisor/internal/proxy", ours + "supervisor/internal/generation"}, direct: []string{grpc},
			reason: "configuration is read before anything runs",
		},
		{
			packages: []string{"supervisor/internal/editor"}, forbidden: []string{ours},
			reason: "the files of foreign programs need nothing of ours",
		},
		{
			packages: []string{"supervisor/..."}, except: []string{"supervisor/internal/generation"}, direct: []string{plugin},
			reason: "generation alone knows how a worker is started",
		},
		{
			packages: []string{"supervisor/internal/generation"}, forbidden: []string{ours + "supervisor/internal/session", ours + "internal/line"},
			reason: "a worker's life knows no client and no lines",
		},
		{
			packages: []string{"supervisor/internal/supervise"}, direct: []string{ours + "internal/line", ours + "internal/envelope", grpc, plugin},
			reason: "which generation serves is decided without looking at messages",
		},
		{
			packages: []string{"supervisor/internal/upstream", "supervisor/internal/control"}, direct: []string{ours + "internal/line"},
			reason: "only the client's edge speaks lines",
		},
		{
			packages: []string{"supervisor/internal/proxy"}, direct: []string{plugin, "os", "os/exec"},
			reason: "the proxy moves frames and decides nothing",
		},
		{
			packages: []string{"supervisor/internal/rebuild"}, forbidden: []string{grpc},
			reason: "builds know no worker",
		},
		{
			packages: []string{"supervisor/..."}, forbidden: []string{ours + "worker", mcpSDK},
			reason: "the supervisor meets workers in the contract only, and passes MCP through without an SDK",
		},
		{
			packages: []string{"worker"}, forbidden: []string{ours + "supervisor", ours + "worker/builtin", zap},
			reason: "a worker needs no supervisor, no worker in the box and no logger of ours to build",
		},
		{
			packages: []string{"worker/builtin/..."}, forbidden: []string{ours + "supervisor"},
			reason: "workers meet the supervisor in the contract only",
		},
		{
			packages: []string{"worker/builtin/internal/attach", "worker/builtin/internal/observe"}, forbidden: []string{ours + "worker/builtin/internal/jupyter", grpc},
			reason: "handles and journals know no kernel",
		},
		{
			packages: []string{"worker/builtin/internal/document"}, direct: []string{"os", "os/exec", "net"}, forbidden: []string{grpc},
			reason: "the document is pure",
		},
		{
			packages: []string{"worker/builtin/internal/room", "worker/builtin/internal/jupyter"}, forbidden: []string{mcpSDK},
			reason: "rooms outlive MCP connections and know none",
		},
		{
			packages: []string{"worker/builtin/internal/ipynb"}, forbidden: []string{ours},
			reason: "a file format needs nothing of ours",
		},
		{
			packages: []string{"worker/builtin/internal/zmtp", "worker/builtin/internal/outputs"}, forbidden: []string{ours},
			reason: "a wire protocol and a pure assembly need nothing of ours",
		},
		{
			packages: []string{"worker/builtin/internal/outputs"}, direct: []string{"os", "os/exec", "net", "time"},
			reason: "outputs are a function of messages",
		},
		{
			packages: []string{"worker/builtin/internal/jupyter"}, forbidden: []string{ours + "worker/builtin/internal/ipynb", ours + "worker/builtin/internal/outputs"},
			reason: "kernels know no notebooks",
		},
		{
			packages: []string{"integration/..."}, direct: []string{ours + "supervisor", ours + "internal", ours + "worker/builtin"},
			reason: "seen from the outside only",
		},
	}
}

// purePackages have no clock and start no goroutine.
var purePackages = []string{"supervisor/internal/session", "supervisor/internal/lease", "supervisor/internal/restart", "worker/builtin/internal/document"}

// listed is a package as go list tells it.
type listed struct {
	ImportPath, Dir        string
	GoFiles, Imports, Deps []string
}

func (p listed) path() string { return strings.TrimPrefix(p.ImportPath, ours) }

// TestDependencyRules: the architecture is what docs/architecture.md says.
func TestDependencyRules(t *testing.T) {
	packages := listPackages(t)
	applied := 0
	for _, r := range rules() {
		for _, p := range packages {
			if !matches(r.packages, p.path()) || matches(r.except, p.path()) {
				continue
			}
			applied++
			for _, bad := range violations(r, p) {
				t.Errorf("%s must not import %s: %s", p.path(), bad, r.reason)
			}
		}
	}
	for _, p := range packages {
		if slices.Contains(purePackages, p.path()) {
			checkPure(t, p)
		}
	}
	if applied < 15 {
		t.Errorf("only %d rules met a package", applied)
	}
}

func violations(r rule, p listed) []string {
	var bad []string
	for _, dep := range p.Deps {
		if within(r.forbidden, dep) && !strings.HasPrefix(dep, p.ImportPath) {
			bad = append(bad, dep)
		}
	}
	for _, dep := range p.Imports {
		if within(r.direct, dep) {
			bad = append(bad, dep)
		}
	}
	return bad
}

// within reports whether a package is one of the roots or below one.
func within(roots []string, dep string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		return dep == root || strings.HasPrefix(dep, strings.TrimSuffix(root, "/")+"/") && strings.Contains(root, ".")
	})
}

func matches(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		base, all := strings.CutSuffix(pattern, "/...")
		return path == base || all && strings.HasPrefix(path, base+"/")
	})
}

// checkPure fails for each go statement and each look at the clock.
func checkPure(t *testing.T, p listed) {
	t.Helper()
	for _, name := range p.GoFiles {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			what := ""
			switch n := n.(type) {
			case *ast.GoStmt:
				what = "starts a goroutine"
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" &&
					slices.Contains([]string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep"}, n.Sel.Name) {
					what = fmt.Sprintf("uses time.%s", n.Sel.Name)
				}
			}
			if what != "" {
				t.Errorf("%s: a pure package %s", set.Position(n.Pos()), what)
			}
			return true
		})
	}
}

func listPackages(t *testing.T) []listed {
	t.Helper()
	args := []string{"list", "-json=ImportPath,Dir,GoFiles,Imports,Deps"}
	for _, module := range []string{"protocol", "internal", "supervisor", "worker", "worker/builtin", "integration"} {
		args = append(args, ours+module+"/...")
	}
	var packages []listed
	for d := json.NewDecoder(strings.NewReader(harness.Go(t, harness.Workspace(t), args...))); ; {
		var p listed
		switch err := d.Decode(&p); {
		case errors.Is(err, io.EOF):
			return packages
		case err != nil:
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}
