package editor

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

var ours = Server{
	Name: "notes", Command: "/opt/holdfast", Args: []string{"run", "--", "/usr/bin/node", `C:\n"x`, "é\t"},
	Env: []Variable{{"A", "1"}, {"B", "\n"}},
}

// parserOf reads texts as a client does.
func parserOf(t interface{ Fatalf(string, ...any) }, client string) func([]byte) (document, error) {
	c, ok := ByName(client)
	if !ok {
		t.Fatalf("no client %s", client)
	}
	return Place{Client: c, keys: c.keys}.parse
}

func must(t *rapid.T, src []byte, parse func([]byte) (document, error)) document {
	d, err := parse(src)
	if err != nil {
		t.Fatalf("%v in\n%s", err, src)
	}
	return d
}

// squeezed is a text without blanks and line ends.
func squeezed(text []byte) string {
	return strings.NewReplacer(" ", "", "\t", "", "\r", "", "\n", "").Replace(string(text))
}

// An entry that is put in can be taken out again, and what is left is what was
// there: the same bytes where values have lines of their own, and the same but
// for blanks however it is laid out.
func TestAddRemoveJSON(t *testing.T) {
	for _, client := range []string{"claude-desktop", "cursor"} {
		t.Run(client, func(t *testing.T) {
			parse := parserOf(t, client)
			rapid.Check(t, func(t *rapid.T) {
				l := drawLayout(t, client == "cursor")
				names := rapid.SampledFrom([][]string{nil, {"a"}, {"a", "b"}}).Draw(t, "servers")
				src := []byte(drawJSON(t, l, names...))
				added, removed := addRemove(t, src, parse)
				same := bytes.Equal(src, removed)
				if l.wild || len(names) == 0 { // blanks in empty brackets go
					same = squeezed(src) == squeezed(removed)
				}
				if !same {
					t.Fatalf("was\n%q\nbecame\n%q\nand then\n%q", src, added, removed)
				}
			})
		})
	}
}

func TestAddRemoveTOML(t *testing.T) {
	parse := parserOf(t, "codex")
	rapid.Check(t, func(t *rapid.T) {
		src := []byte(drawTOML(t, rapid.SampledFrom([][]string{nil, {"a"}, {"a", "b"}}).Draw(t, "servers")...))
		if added, removed := addRemove(t, src, parse); !bytes.Equal(src, removed) {
			t.Fatalf("was\n%q\nbecame\n%q\nand then\n%q", src, added, removed)
		}
	})
}

func addRemove(t *rapid.T, src []byte, parse func([]byte) (document, error)) (added, removed []byte) {
	d := must(t, src, parse)
	depth, err := d.depth()
	if err != nil {
		t.Fatal(err)
	}
	edits, err := d.add(ours)
	if err != nil {
		t.Fatalf("add: %v", err)
	}
	added, d, err = rewrite(d, src, ours.Name, edits, parse)
	if err != nil {
		t.Fatalf("add: %v to\n%s", err, src)
	}
	is, err := find(d, ours.Name)
	if err != nil || !is.same(ours) {
		t.Fatalf("%v, %+v in\n%s", err, is, added)
	}
	if edits, err = d.remove(ours.Name, depth); err != nil {
		t.Fatalf("remove: %v", err)
	}
	if removed, _, err = rewrite(d, added, ours.Name, edits, parse); err != nil {
		t.Fatalf("remove: %v from\n%s", err, added)
	}
	return added, removed
}

// A command that is put in front of another is taken away again, and the text
// is what it was.
func TestWrapUnwrap(t *testing.T) {
	for _, client := range []string{"claude-desktop", "cursor", "codex"} {
		t.Run(client, func(t *testing.T) {
			parse := parserOf(t, client)
			rapid.Check(t, func(t *rapid.T) {
				l := drawLayout(t, client == "cursor")
				var src []byte
				if client == "codex" {
					src = []byte(drawTOML(t, "a", "b"))
				} else {
					src = []byte(drawJSON(t, l, "a", "b"))
				}
				name := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name")
				wrapped, unwrapped := wrapUnwrap(t, src, name, parse)
				if same := bytes.Equal(src, unwrapped); !same && (!l.wild || squeezed(src) != squeezed(unwrapped)) {
					t.Fatalf("was\n%q\nbecame\n%q\nand then\n%q", src, wrapped, unwrapped)
				}
			})
		})
	}
}

func wrapUnwrap(t *rapid.T, src []byte, name string, parse func([]byte) (document, error)) (wrapped, unwrapped []byte) {
	d := must(t, src, parse)
	was, err := find(d, name)
	if err != nil {
		t.Fatal(err)
	}
	command, args, err := d.command(name)
	if err != nil {
		t.Fatal(err)
	}
	words := string(src[command.start:command.end])
	edits, err := wrap(d, src, name, ours.Command, []string{"run", "--", was.Command})
	if err != nil {
		t.Fatalf("wrap: %v", err)
	}
	wrapped, after, err := rewrite(d, src, name, edits, parse)
	if err != nil {
		t.Fatalf("wrap: %v in\n%s", err, src)
	}
	want := was
	want.Command, want.Args = ours.Command, append([]string{"run", "--", was.Command}, was.Args...)
	if is, err := find(after, name); err != nil || !is.same(want) {
		t.Fatalf("%v, %+v in\n%s", err, is, wrapped)
	}
	if edits, err = unwrap(after, wrapped, name, words, 3, args == nil); err != nil {
		t.Fatalf("unwrap: %v", err)
	}
	if unwrapped, _, err = rewrite(after, wrapped, name, edits, parse); err != nil {
		t.Fatalf("unwrap: %v in\n%s", err, wrapped)
	}
	return wrapped, unwrapped
}

// What holdfast writes is what the standard library reads.
func TestJSONReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := ours
		s.Args = rapid.SliceOf(rapid.String()).Draw(t, "args")
		d := must(t, nil, parserOf(t, "claude-code"))
		edits, err := d.add(s)
		if err != nil {
			t.Fatal(err)
		}
		var is struct {
			MCPServers map[string]struct {
				Type, Command string
				Args          []string
				Env           map[string]string
			}
		}
		text := apply(nil, edits)
		if err := json.Unmarshal(text, &is); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		got := is.MCPServers["notes"]
		if diff := cmp.Diff(s.Args, got.Args, cmpopts.EquateEmpty()); diff != "" || got.Type != "stdio" || got.Command != s.Command || len(got.Env) != 2 {
			t.Fatalf("%+v\n%s", got, diff)
		}
	})
}

// The same position and words, whoever asks.
func TestRefused(t *testing.T) {
	for _, tt := range []struct {
		name, client, text string
		line, column       int
		says               string
	}{
		{"cut off", "cursor", "{\n  \"mcpServers\": {", 2, 18, "the file ends"},
		{"no comma", "cursor", "{\"a\": 1 \"b\": 2}", 1, 9, "a comma"},
		{"two values", "cursor", "{}\n{}", 2, 1, "the end of the file"},
		{"no key", "cursor", "{a: 1}", 1, 2, "a key in double quotes"},
		{"no colon", "cursor", "{\"a\" 1}", 1, 6, "a colon"},
		{"no value", "cursor", "{\"é\": }", 1, 7, "a value"},
		{"bad number", "cursor", "{\"a\": 01}", 1, 7, "a value"},
		{"bad escape", "cursor", "{\"a\": \"\\x\"}", 1, 7, "not a string"},
		{"string over lines", "cursor", "{\"a\": \"b\n\"}", 1, 7, "a string without an end"},
		{"open comment", "cursor", "{\n/* }", 2, 1, "a comment without an end"},
		{"comment in JSON", "claude-code", "{\n  // x\n}", 2, 3, "a comment, which this client does not read"},
		{"comma in JSON", "claude-code", "{\"a\": 1,\n}", 1, 8, "a comma behind the last value"},
		{"comma in Gemini's JSON", "gemini", "{\"a\": [1,] // x\n}", 1, 9, "a comma behind the last value"},
		{"two commas", "cursor", "[1,,2]", 1, 4, "a value"},
		{"lone comma", "cursor", "{,}", 1, 2, "a key"},
		{"not UTF-8", "cursor", "{\"a\": \"\xff\"}", 1, 8, "not UTF-8"},
		{"array", "cursor", " []", 1, 2, "not an object"},
		{"servers no object", "cursor", "{\"mcpServers\": []}", 1, 16, "not an object"},
		{"servers null", "cursor", "{\"mcpServers\": null}", 1, 16, "not an object"},
		{"servers twice", "cursor", "{\"mcpServers\": {},\n\"mcpServers\": {}}", 2, 1, "twice"},
		{"deep", "cursor", strings.Repeat("[", 600), 1, 501, "nested too deep"},
		{"TOML", "codex", "a = 1\nb = \"x", 2, 6, "unterminated basic string"},
		{"TOML key twice", "codex", "a = 1\na = 2\n", 2, 1, "already defined"},
		{"TOML table twice", "codex", "[mcp_servers.a]\n[mcp_servers.a]\n", 2, 2, "already exists"},
		{"TOML not UTF-8", "codex", "a = 1\n# \xff", 2, 3, "not UTF-8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parserOf(t, tt.client)([]byte(tt.text))
			syntax, ok := errors.AsType[*SyntaxError](err)
			if !ok {
				t.Fatalf("error %v", err)
			}
			if syntax.Line != tt.line || syntax.Column != tt.column || !strings.Contains(syntax.Message, tt.says) {
				t.Errorf("%v, want line %d, column %d, %q", err, tt.line, tt.column, tt.says)
			}
		})
	}
}

// Only the entry that is asked for has to be in order.
func TestEntriesOutOfOrder(t *testing.T) {
	for _, tt := range []struct{ client, text string }{
		{"cursor", `{"mcpServers": {"good": {"command": "x"}, "twice": {"command": "x"}, "twice": {}, "args": {"command": "x", "args": "y"}, "arg": {"command": "x", "args": [1]}, "keys": {"command": "x", "command": "y"}}}`},
		{"codex", "[mcp_servers]\ngood.command = \"x\"\ntwice = 1\nargs = { command = \"x\", args = \"y\" }\narg = { command = \"x\", args = [1] }\nkeys = []\n"},
	} {
		d, err := parserOf(t, tt.client)([]byte(tt.text))
		if err != nil {
			t.Fatal(err)
		}
		if s, err := find(d, "good"); err != nil || s.Command != "x" {
			t.Errorf("%s: %+v, %v", tt.client, s, err)
		}
		for _, name := range []string{"twice", "args", "arg", "keys"} {
			if _, err := find(d, name); err == nil || errors.Is(err, ErrNotFound) {
				t.Errorf("%s: %s: %v", tt.client, name, err)
			}
		}
	}
}

// Edits that would do more than they should are refused, whatever made them.
func TestRewriteRefuses(t *testing.T) {
	const text = `{"x": 1, "mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}}`
	parse := parserOf(t, "cursor")
	d, err := parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	at := func(s string) int { return strings.Index(text, s) }
	for what, edits := range map[string][]edit{
		"a setting":      {{at("1"), at("1") + 1, "2"}},
		"another entry":  {{at(`"b"}`), at(`"b"}`) + 3, `"c"`}},
		"a key":          {{at(`"x"`), at(`"x"`) + 3, `"y"`}},
		"the syntax":     {{at("1"), at("1") + 1, ""}},
		"what overlaps":  {{0, 5, ""}, {3, 7, ""}},
		"all of a value": {{at(`{"a"`), len(text) - 1, "{}"}},
	} {
		if out, _, err := rewrite(d, []byte(text), "a", edits, parse); !errors.Is(err, ErrForm) {
			t.Errorf("%s: %s, %v", what, out, err)
		}
	}
	edits := []edit{{at(`"a"}`), at(`"a"}`) + 3, `"c"`}}
	if _, _, err := rewrite(d, []byte(text), "a", edits, parse); err != nil {
		t.Errorf("the entry itself: %v", err)
	}
}

func TestBehind(t *testing.T) {
	for _, tt := range []struct {
		args    string
		command string
		prefix  int
	}{
		{"run -- node x", "node", 3},
		{"run --cwd /x -- node -- x", "node", 5},
		{"run --worker w -- --verbose", "w", 4},
		{"run --worker=w", "w", 2},
		{"run --worker w", "w", 3},
		{"dev -- x", "x", 3},
		{"run --", "", 0},
		{"run node x", "", 0},
	} {
		s := Server{Command: `C:\bin\Holdfast.EXE`, Args: strings.Fields(tt.args)}
		command, prefix, err := s.behind()
		if command != tt.command || err == nil && prefix != tt.prefix || (err == nil) != (tt.command != "") {
			t.Errorf("%s: %q, %d, %v", tt.args, command, prefix, err)
		}
		if !s.Supervised() {
			t.Errorf("%s is not supervised", tt.args)
		}
	}
	for _, s := range []Server{
		{Command: "holdfast"},
		{Command: "holdfast", Args: []string{"status"}},
		{Command: "/bin/holdfast-worker", Args: []string{"run"}},
		{Command: "node", Args: []string{"run", "holdfast"}},
	} {
		if s.Supervised() {
			t.Errorf("%+v is supervised", s)
		}
	}
}

func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		"", "{}", "{\r\n}", byteOrderMark + `{"mcpServers": {}}`, `{"mcpServers": {"a": {"command": "x", "args": ["y",],},},}`,
		"// c\n", "{ /* c */ \"mcpServers\": { // d\n } }", `{"a": [1, {"b": "\u00e9"}], "mcpServers": {"notes": {}}}`,
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, src []byte, lenient bool) {
		client := "claude-code"
		if lenient {
			client = "zed"
		}
		fuzzDocument(t, src, parserOf(t, client))
		if root, err := parseJSON(src, dialect{}); err == nil && root != nil {
			if text := bytes.TrimPrefix(src, []byte(byteOrderMark)); !json.Valid(text) {
				t.Errorf("accepted %q", src)
			}
		}
	})
}

func FuzzTOML(f *testing.F) {
	for _, seed := range []string{
		"", "a = 1", "[mcp_servers.a]\ncommand = 'x'\r\nargs = [\n'y', # c\n]\n[mcp_servers.a.env]\nA = \"\"\"\n\"\"\"\"\"\n",
		"mcp_servers.a = { command = \"x\", args = [] }\n[[b]]\n[\"c\".'d']\n", byteOrderMark + "mcp_servers = {}\n", "a.\"b\\u0000\" = 1979-05-27 07:32:00 # x",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, src []byte) { fuzzDocument(t, src, parserOf(t, "codex")) })
}

// fuzzDocument checks that whatever parses can be listed, and that edits
// either are refused or do what they say.
func fuzzDocument(t *testing.T, src []byte, parse func([]byte) (document, error)) {
	t.Helper()
	d, err := parse(src)
	if err != nil {
		return
	}
	servers, err := d.servers()
	if err != nil {
		t.Fatalf("servers: %v", err)
	}
	for _, s := range servers {
		if edits, err := wrap(d, src, s.Name, "h", []string{"run", "--", s.Command}); err == nil && s.err == nil {
			text, after, err := rewrite(d, src, s.Name, edits, parse)
			if err != nil && !errors.Is(err, ErrForm) {
				t.Fatalf("wrap: %v", err)
			}
			if err == nil {
				want := s
				want.Command, want.Args = "h", slices.Concat([]string{"run", "--", s.Command}, s.Args)
				if is, err := find(after, s.Name); err != nil || !is.same(want) {
					t.Errorf("%q became %q: %+v, %v", src, text, is, err)
				}
			}
		}
		if edits, err := d.remove(s.Name, 1); err == nil && s.err == nil {
			if _, after, err := rewrite(d, src, s.Name, edits, parse); err == nil {
				if _, err := find(after, s.Name); !errors.Is(err, ErrNotFound) {
					t.Errorf("%q: not removed: %v", src, err)
				}
			}
		}
	}
	if _, err := find(d, ours.Name); err == nil || !errors.Is(err, ErrNotFound) {
		return
	}
	if edits, err := d.add(ours); err == nil {
		text, after, err := rewrite(d, src, ours.Name, edits, parse)
		if err != nil {
			if !errors.Is(err, ErrForm) {
				t.Fatalf("add: %v", err)
			}
			return
		}
		if is, err := find(after, ours.Name); err != nil || !is.same(ours) {
			t.Errorf("%q became %q: %+v, %v", src, text, is, err)
		}
	}
}
