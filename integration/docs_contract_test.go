package integration

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/integration/harness"
)

var updateContract = flag.Bool("update-contract", false, "write the tests that name a row into docs/contract.md")

// contractRows says how many rows each group of the contract has, from 1 on.
var contractRows = []struct {
	group string
	rows  int
}{
	{"SUP", 23},
	{"EDGE", 15},
	{"LEASE", 8},
	{"CAT", 7},
	{"NB", 18},
	{"OBS", 8},
	{"REC", 7},
	{"ROOM", 16},
	{"PEER", 14},
	{"SESS", 9},
	{"SEC", 7},
}

// requiredCases are the cases from the field that this release has tests for.
var requiredCases = []string{
	"C01", "C02", "C03", "C05", "C06", "C09", "C11", "C12", "C13", "C15", "C16", "C18", "C19", "C21", "C23", "C24", "C26", "C27", "C28", "C29", "C31", "C33", "C34", "C35",
	"C37", "C39", "C41", "C43", "C44", "C45", "C46", "C48", "C50", "C51", "C52", "C53",
}

// TestContractTable: no promise gets lost. docs/contract.md has every row of
// the contract exactly once, and says truly which tests prove it: those that
// carry its id in their name, the first line of their comment, or the name of
// a subtest. `go test ./integration -run TestContractTable -update-contract`
// writes what the tests say into the table.
func TestContractTable(t *testing.T) {
	top := harness.Workspace(t)
	path := filepath.Join(top, "docs", "contract.md")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	claims := readClaims(t, top)
	lines := strings.Split(string(b), "\n")
	seen := map[string]int{}
	for i, l := range lines {
		id, ok := rowID(l)
		if !ok {
			continue
		}
		seen[id]++
		cells := strings.Split(strings.Trim(l, "|"), " | ")
		if len(cells) != 3 {
			t.Errorf("row %s has %d cells, want 3", id, len(cells))
			continue
		}
		proof := strings.TrimSpace(cells[2])
		if *updateContract {
			proof = updated(proof, claims[id])
			lines[i] = "|" + cells[0] + " | " + cells[1] + " | " + proof + " |"
		}
		checkProof(t, id, proof, claims[id])
	}
	if *updateContract {
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	wanted := slices.Clone(requiredCases)
	for _, g := range contractRows {
		for n := range g.rows {
			wanted = append(wanted, g.group+"-"+strconv.Itoa(n+1))
		}
	}
	for _, id := range wanted {
		if seen[id] == 0 {
			t.Errorf("row %s is missing", id)
		}
	}
	for id, n := range seen {
		if n > 1 {
			t.Errorf("row %s occurs %d times", id, n)
		}
		if !slices.Contains(wanted, id) && !strings.HasPrefix(id, "C") {
			t.Errorf("the contract has no row %s", id)
		}
	}
	for id, tests := range claims {
		if seen[id] == 0 {
			t.Errorf("tests name %s, which has no row: %s", id, quotedNames(tests))
		}
	}
}

// rowID returns the id in the first cell of a table row.
func rowID(line string) (string, bool) {
	m := regexp.MustCompile(`^\| ([A-Z]+-\d+|C\d\d) \|`).FindStringSubmatch(line)
	if m == nil {
		return "", false
	}
	return m[1], true
}

// What the last cell of a row says if no test proves the row. A row that is
// proved in part has its tests, "; open: " and what is missing.
const (
	proofOpen     = "open"
	proofUnproven = "implemented, unproven"
	partlyOpen    = "; open: "
)

func checkProof(t *testing.T, id, proof string, claimed []string) {
	t.Helper()
	tests, _, _ := strings.Cut(proof, partlyOpen)
	if len(claimed) == 0 {
		if tests != proofOpen && tests != proofUnproven {
			t.Errorf("row %s says %q, but no test names it: want %q or %q", id, tests, proofOpen, proofUnproven)
		}
		return
	}
	if tests != quotedNames(claimed) {
		t.Errorf("row %s says %q, tests that name it: %s", id, tests, quotedNames(claimed))
	}
}

func updated(proof string, claimed []string) string {
	tests, missing, partly := strings.Cut(proof, partlyOpen)
	switch {
	case len(claimed) > 0 && partly:
		return quotedNames(claimed) + partlyOpen + missing
	case len(claimed) > 0:
		return quotedNames(claimed)
	case tests == proofUnproven:
		return proof
	}
	return proofOpen
}

func quotedNames(tests []string) string {
	quoted := make([]string, len(tests))
	for i, name := range tests {
		quoted[i] = "`" + name + "`"
	}
	return strings.Join(quoted, ", ")
}

// readClaims returns, by row id, the tests of all modules that name the row.
func readClaims(t *testing.T, top string) map[string][]string {
	t.Helper()
	sets := map[string]map[string]bool{}
	claim := func(test, text string) {
		for _, id := range idsIn(text) {
			if sets[id] == nil {
				sets[id] = map[string]bool{}
			}
			sets[id][test] = true
		}
	}
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != top:
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("read the tests: %w", err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && isTest(f.Name.Name) {
				claimsOf(f, claim)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	claims := map[string][]string{}
	for id, tests := range sets {
		claims[id] = slices.Sorted(maps.Keys(tests))
	}
	return claims
}

func isTest(name string) bool {
	return name != "TestMain" && (strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") || strings.HasPrefix(name, "Example"))
}

func claimsOf(f *ast.FuncDecl, claim func(test, text string)) {
	name := f.Name.Name
	claim(name, strings.NewReplacer("Test", " ", "Fuzz", " ", "Example", " ", "_", " ").Replace(name))
	doc, _, _ := strings.Cut(f.Doc.Text(), "\n")
	claim(name, doc)
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != "Run" {
			return true
		}
		if lit, ok := call.Args[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if sub, err := strconv.Unquote(lit.Value); err == nil {
				claim(name+"/"+sub, sub)
			}
		}
		return true
	})
}

var (
	groupPattern = func() string {
		var groups []string
		for _, g := range contractRows {
			groups = append(groups, g.group)
		}
		return strings.Join(groups, "|")
	}()
	// "SUP-1, 5 and 7" is one row and not three: a test names each in full.
	rowPattern  = regexp.MustCompile(`(` + groupPattern + `)-?(\d+)`)
	casePattern = regexp.MustCompile(`(?:^|[^A-Z])(C\d\d)(?:\D|$)`)
)

// idsIn returns the row and case ids in a text, in which SUP-1 may be written
// SUP1.
func idsIn(text string) []string {
	var ids []string
	for _, m := range rowPattern.FindAllStringSubmatch(text, -1) {
		ids = append(ids, m[1]+"-"+m[2])
	}
	// Neighbours share the byte between them, so each is looked for alone.
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" ,.:;()/", r) }) {
		for _, m := range casePattern.FindAllStringSubmatch(word, -1) {
			ids = append(ids, m[1])
		}
	}
	return ids
}

// TestIDsIn: what counts as naming a row.
func TestIDsIn(t *testing.T) {
	for text, want := range map[string][]string{
		"failpoints: SUP-16, SUP-3, C05, C33.":  {"SUP-16", "SUP-3", "C05", "C33"},
		"LookPath EDGE11":                       {"EDGE-11"},
		"PeekC26Spans":                          {"C26"},
		"ISO8601 SPEC2 C1 C123 ABC12 exits SUP": nil,
	} {
		got := idsIn(text)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%q names %v, want %v", text, got, want)
		}
	}
}
