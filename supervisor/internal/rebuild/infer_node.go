package rebuild

import (
	"bytes"
	"encoding/json"
	"path"
	"slices"
	"strings"
)

// nodePrograms run JavaScript or TypeScript.
var nodePrograms = []string{
	"node", "nodejs", "tsx", "ts-node", "ts-node-esm", "bun", "bunx", "deno", "npx", "npm", "pnpm", "yarn", "fastmcp-ts",
}

// nodeSources are the extensions of what they read.
const nodeSources = "**/*.{js,mjs,cjs,jsx,ts,mts,cts,tsx,json}"

// outputDirs are where builds of Node.js projects write to, if nothing says
// otherwise. In lib there are sources as often as not.
var outputDirs = []string{"dist", "build", "out", "output"}

func isNode(program string) bool { return slices.Contains(nodePrograms, program) }

// node: sources are read at each start, unless the command runs what a build
// has written.
func (p project) node() Defaults {
	d := Defaults{Kind: "Node.js", From: "package.json", Watch: []string{nodeSources}}
	if !p.has("package.json") {
		d.From = p.command[0]
		return d
	}
	if p.builtInPlace() {
		d.Watch = []string{"**/*.{ts,mts,cts,tsx,json}"}
		d.Build = p.nodeBuild()
		return d
	}
	outDir := p.outDir()
	for _, dir := range append([]string{outDir}, outputDirs...) {
		if dir != "" && !slices.Contains(d.Watch, "!"+dir) && (dir == outDir || p.runsFrom(dir)) {
			d.Watch = append(d.Watch, "!"+dir)
		}
	}
	if len(d.Watch) == 1 {
		return d // nothing is built, or its result is not run
	}
	if !p.runsAnyOf(d.Watch[1:]) {
		return d
	}
	if d.Build = p.nodeBuild(); d.Build == "" {
		d.Missing = "how to build " + p.script() + ": give --build"
	}
	return d
}

// nodeBuild returns the command that builds the project, empty if none is known.
func (p project) nodeBuild() string {
	switch {
	case p.hasScript("build"):
		return p.packageManager() + " run build"
	case p.has("tsconfig.json"):
		return "npx --no-install tsc"
	}
	return ""
}

// builtInPlace reports whether the command runs JavaScript that stands beside
// the TypeScript it is made from.
func (p project) builtInPlace() bool {
	rel, ok := p.rel(p.script())
	stem := strings.TrimSuffix(rel, path.Ext(rel))
	return ok && p.has("tsconfig.json") && p.nodeBuild() != "" &&
		p.hasAny([]string{stem + ".ts", stem + ".mts", stem + ".cts"}) != "" && p.script() != ""
}

// script returns the file that the command runs, as it stands there, empty if
// it runs none.
func (p project) script() string {
	for _, word := range p.command[1:] {
		switch path.Ext(word) {
		case ".js", ".mjs", ".cjs":
			return word
		}
	}
	if p.inside(p.command[0]) {
		return p.command[0]
	}
	return ""
}

// runsFrom reports whether the command runs a file in a directory of the
// project.
func (p project) runsFrom(dir string) bool {
	rel, ok := p.rel(p.script())
	return ok && p.script() != "" && strings.HasPrefix(rel, dir+"/")
}

func (p project) runsAnyOf(without []string) bool {
	return slices.ContainsFunc(without, func(w string) bool { return p.runsFrom(strings.TrimPrefix(w, "!")) })
}

// outDir returns where the TypeScript compiler writes to, relative to the
// project, empty if that is beside the sources, or unknown.
func (p project) outDir() string {
	var config struct {
		CompilerOptions struct {
			OutDir string `json:"outDir"`
		} `json:"compilerOptions"`
	}
	if json.Unmarshal(withoutComments(p.read("tsconfig.json")), &config) != nil {
		return ""
	}
	rel, ok := p.rel(config.CompilerOptions.OutDir)
	if !ok || rel == "." {
		return ""
	}
	return rel
}

func (p project) hasScript(name string) bool {
	var pkg struct {
		Scripts map[string]json.RawMessage `json:"scripts"`
	}
	return json.Unmarshal(p.read("package.json"), &pkg) == nil && pkg.Scripts[name] != nil
}

// packageManager returns the program that the lock file is of.
func (p project) packageManager() string {
	for _, m := range [][2]string{{"pnpm-lock.yaml", "pnpm"}, {"yarn.lock", "yarn"}, {"bun.lockb", "bun"}, {"bun.lock", "bun"}} {
		if p.has(m[0]) {
			return m[1]
		}
	}
	return "npm"
}

// withoutComments turns the JSON of tsconfig.json, which may have comments and
// commas before a closing bracket, into plain JSON.
func withoutComments(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '"':
			end := endOfString(text, i)
			out = append(out, text[i:end]...)
			i = end - 1
		case hasPrefixAt(text, i, "//"):
			for i < len(text) && text[i] != '\n' {
				i++
			}
		case hasPrefixAt(text, i, "/*"):
			for i += 2; i < len(text) && !hasPrefixAt(text, i, "*/"); i++ {
			}
			i++
		case text[i] == ']' || text[i] == '}':
			if last := len(bytes.TrimRight(out, " \t\r\n")) - 1; last >= 0 && out[last] == ',' {
				out[last] = ' '
			}
			out = append(out, text[i])
		default:
			out = append(out, text[i])
		}
	}
	return out
}

// endOfString returns the index behind the string that begins at i.
func endOfString(text []byte, i int) int {
	for i++; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return min(i+1, len(text))
}

func hasPrefixAt(text []byte, i int, prefix string) bool {
	return len(text)-i >= len(prefix) && string(text[i:i+len(prefix)]) == prefix
}
