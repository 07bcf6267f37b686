package rebuild

import (
	"encoding/json"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const (
	mainGo = "// Command x.\npackage main // serves\n"
	source = "**/*.{js,mjs,cjs,jsx,ts,mts,cts,tsx,json}"
)

func TestInfer(t *testing.T) {
	tsconfig := `{ // where it goes
		"compilerOptions": { "outDir": "./compiled", /* "x" */ "strict": true, },
	}`
	builds := `{"scripts": {"build": "tsc"}}`
	goWatch := []string{"**/*.go", "!**/*_test.go", "go.mod"}
	for _, tt := range []struct {
		name    string
		files   map[string]string
		command string
		native  bool
		want    Defaults
	}{
		{
			"go, package of the name",
			map[string]string{"go.mod": "", "cmd/notes/main.go": mainGo, "cmd/other/main.go": mainGo, "main.go": mainGo},
			"bin/notes --fast", false,
			Defaults{Kind: "Go", From: "go.mod", Watch: goWatch, Build: "go build -o bin/notes ./cmd/notes"},
		},
		{
			"go, the project",
			map[string]string{"go.mod": "", "go.sum": "", "x_test.go": "package x", "main.go": mainGo},
			"./server", true,
			Defaults{Kind: "Go", From: "go.mod", Watch: append(slices.Clone(goWatch), "go.sum"), Build: "go build -o server ."},
		},
		{
			"go, the only package",
			map[string]string{"go.mod": "", "cmd/notes/main.go": mainGo, "lib.go": "package lib"},
			"bin/my\u00a0server", false,
			Defaults{Kind: "Go", From: "go.mod", Watch: goWatch, Build: "go build -o " + quote("bin/my\u00a0server") + " ./cmd/notes"},
		},
		{
			"go, unknown package",
			map[string]string{"go.mod": "", "cmd/a/main.go": mainGo, "cmd/b/main.go": mainGo},
			"bin/notes", false,
			Defaults{Kind: "Go", From: "go.mod", Watch: goWatch, Missing: "which package bin/notes is built from: give --build 'go build -o bin/notes PACKAGE'"},
		},
		{
			"go run",
			map[string]string{"go.mod": "", "main.go": mainGo},
			"go run .", false,
			Defaults{Kind: "Go", From: "go.mod", Watch: goWatch},
		},
		{
			"go, elsewhere",
			map[string]string{"go.mod": "", "main.go": mainGo},
			"gopls mcp", false,
			Defaults{Kind: "Go", From: "go.mod", Watch: goWatch, Missing: "how to build gopls, which lies outside the project: give --build"},
		},
		{
			"node, sources",
			map[string]string{"package.json": builds},
			"node server.js", false,
			Defaults{Kind: "Node.js", From: "package.json", Watch: []string{source}},
		},
		{
			"node, TypeScript",
			map[string]string{"package.json": builds, "tsconfig.json": tsconfig, "src/a.ts": ""},
			"npx tsx src/a.ts", false,
			Defaults{Kind: "Node.js", From: "package.json", Watch: []string{source, "!compiled"}},
		},
		{
			"node, compiled",
			map[string]string{"package.json": builds, "tsconfig.json": tsconfig, "pnpm-lock.yaml": ""},
			"node --enable-source-maps compiled/a.js", false,
			Defaults{Kind: "Node.js", From: "package.json", Watch: []string{source, "!compiled"}, Build: "pnpm run build"},
		},
		{
			"node, compiled without a script",
			map[string]string{"package.json": "{}", "tsconfig.json": tsconfig},
			"node compiled/a.js", false,
			Defaults{Kind: "Node.js", From: "package.json", Watch: []string{source, "!compiled"}, Build: "npx --no-install tsc"},
		},
		{
			"node, bundled",
			map[string]string{"package.json": builds, "yarn.lock": ""},
			"node dist/a.js", false,
			Defaults{Kind: "Node.js", From: "package.json", Watch: []string{source, "!dist"}, Build: "yarn run build"},
		},
		{
			"node, bundled nobody knows how",
			map[string]string{"package.json": "{}", "dist/a.js": ""},
			"node dist/a.js", false,
			Defaults{Kind: "Node.js", From: "package.json", Watch: []string{source, "!dist"}, Missing: "how to build dist/a.js: give --build"},
		},
		{
			"node, compiled in place",
			map[string]string{"package.json": "{}", "tsconfig.json": "{}", "a.ts": ""},
			"node a.js", false,
			Defaults{Kind: "Node.js", From: "package.json", Watch: []string{"**/*.{ts,mts,cts,tsx,json}"}, Build: "npx --no-install tsc"},
		},
		{
			"node, broken files",
			map[string]string{"package.json": "{", "tsconfig.json": `{"a": "`},
			"node a.js", false,
			Defaults{Kind: "Node.js", From: "package.json", Watch: []string{source}},
		},
		{"node alone", nil, "node a.js", false, Defaults{Kind: "Node.js", From: "node", Watch: []string{source}}},
		{
			"python",
			map[string]string{"pyproject.toml": "", "package.json": "{}", "go.mod": ""},
			"/usr/bin/python3.12 -m server", false,
			Defaults{Kind: "Python", From: "pyproject.toml", Watch: []string{"**/*.py", "pyproject.toml"}},
		},
		{
			"python by its files",
			map[string]string{"requirements.txt": ""},
			"sh run.sh", false,
			Defaults{Kind: "Python", From: "requirements.txt", Watch: []string{"**/*.py", "requirements.txt"}},
		},
		{"python alone", nil, "python server.py", false, Defaults{Kind: "Python", From: "python", Watch: []string{"**/*.py"}}},
		{"executable", map[string]string{"bin/server": ""}, "bin/server", false, Defaults{From: "its executable", Watch: []string{"bin/server"}}},
		{"no executable", nil, "bin/server", false, Defaults{Missing: "what to watch: give --watch PATH"}},
		{"nothing", nil, "server", false, Defaults{Missing: "what to watch: give --watch PATH"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if runtime.GOOS == "windows" && strings.HasPrefix(tt.command, "/") {
				t.Skip("a path of Unix")
			}
			dir := t.TempDir()
			for name, text := range tt.files {
				write(t, filepath.Join(dir, filepath.FromSlash(name)), []byte(text))
			}
			got := Infer(dir, strings.Split(tt.command, " "), tt.native, false)
			if got.Kind != tt.want.Kind || got.From != tt.want.From || !slices.Equal(got.Watch, tt.want.Watch) ||
				got.Build != tt.want.Build || got.Missing != tt.want.Missing {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

// A project of an unknown kind that is built is watched as a whole.
func TestInferUnknownBuilt(t *testing.T) {
	if got := Infer(t.TempDir(), []string{"target/debug/server"}, false, true); !slices.Equal(got.Watch, everything) || got.Missing != "" {
		t.Errorf("got %+v", got)
	}
}

// FuzzWithoutComments: what is JSON stays what it is.
func FuzzWithoutComments(f *testing.F) {
	for _, seed := range []string{`{"a": "//", "b": ["/*", "\"", 1]}`, `[1,]`, `{"a": 1, // x` + "\n}", `/* * / **/ "x"`, `"\`, `/`, `/*`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := withoutComments([]byte(text))
		var want any
		if json.Unmarshal([]byte(text), &want) == nil && string(got) != text {
			t.Errorf("%q became %q", text, got)
		}
	})
}
