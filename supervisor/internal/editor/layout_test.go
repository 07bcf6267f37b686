package editor

import "testing"

// What goes with an entry, and what stays, where it stands beside others in
// ways in which holdfast would not have put it.
func TestRemove(t *testing.T) {
	for _, tt := range []struct{ client, before, after string }{
		{"cursor", `{"mcpServers": {"b": 1, /* of b */ "a": 2}}`, `{"mcpServers": {"b": 1 /* of b */ }}`},
		{"cursor", `{"mcpServers": {"b": 1, /* of b */ "a": 2,}}`, `{"mcpServers": {"b": 1, /* of b */ }}`},
		{"cursor", `{"mcpServers": {"a": 2, /* of b */ "b": 1}}`, `{"mcpServers": {/* of b */ "b": 1}}`},
		{"cursor", "{\"mcpServers\": {\n  \"b\": 1, // of b\n  \"a\": 2 }}", "{\"mcpServers\": {\n  \"b\": 1 // of b\n   }}"},
		{"cursor", "{\"mcpServers\": {\n  // of a\n  \"a\": 2 // too\n}}", "{\"mcpServers\": {\n  // of a\n}}"},
		{"cursor", "{\"mcpServers\": {\"a\": /* x */ 2 }}", "{\"mcpServers\": {}}"},
		{"codex", "[c]\n\n[mcp_servers.a]\nx = 1\n# of b\n[b]\n", "[c]\n\n# of b\n[b]\n"},
		{"codex", "[c]\n[mcp_servers.a]\nx = 1\n\n[b]\n[mcp_servers.a.env]\n", "[c]\n\n[b]\n"},
		{"codex", "[mcp_servers.a]\n[b]\n", "[b]\n"},
		{"codex", "[mcp_servers]\na.x = 1\nb.x = 2\na.y = 3\n", "[mcp_servers]\nb.x = 2\n"},
		{"codex", "mcp_servers = { a = { x = 1 }, b = { x = 2 } }\n", "mcp_servers = { b = { x = 2 } }\n"},
		{"codex", "mcp_servers = { b = { x = 2 }, a = { x = 1 } }", "mcp_servers = { b = { x = 2 } }"},
		{"codex", "mcp_servers = { a = { x = 1 } }", "mcp_servers = {}"},
	} {
		parse := parserOf(t, tt.client)
		d, err := parse([]byte(tt.before))
		if err != nil {
			t.Fatal(err)
		}
		edits, err := d.remove("a", 1)
		if err != nil {
			t.Errorf("%q: %v", tt.before, err)
			continue
		}
		if out, _, err := rewrite(d, []byte(tt.before), "a", edits, parse); err != nil || string(out) != tt.after {
			t.Errorf("%q became %q, %v, want %q", tt.before, out, err, tt.after)
		}
	}
}

// A string over several lines may end in quotes of its own, and have anything
// that is syntax elsewhere.
func TestTOMLStrings(t *testing.T) {
	for _, value := range []string{`"""x""""`, `"""x"""""`, `'''x''''`, `"""\""" """`, `"a\"}"`, `'\'`, "'''\n]}'''", `"""a""b"""`} {
		src := []byte("mcp_servers.a = { env = { A = " + value + `, B = "}" }, command = "old" }` + "\n")
		d, err := parserOf(t, "codex")(src)
		if err != nil {
			t.Fatalf("%v in %s", err, src)
		}
		if c, _, err := d.command("a"); err != nil || string(src[c.start:c.end]) != `"old"` {
			t.Errorf("%s: %v, %v", src, c, err)
		}
	}
}
