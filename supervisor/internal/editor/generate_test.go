package editor

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"
)

// layout is how a generated file is written.
type layout struct {
	t     *rapid.T
	nl    string
	unit  string
	wild  bool // blanks, line ends and comments anywhere
	jsonc bool
}

func drawLayout(t *rapid.T, jsonc bool) layout {
	return layout{
		t:     t,
		nl:    rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "line end"),
		unit:  rapid.SampledFrom([]string{"  ", "    ", "\t", " "}).Draw(t, "indent"),
		wild:  rapid.Bool().Draw(t, "wild"),
		jsonc: jsonc,
	}
}

func (l layout) chance(what string) bool { return rapid.IntRange(0, 3).Draw(l.t, what) == 0 }

// gap is what stands between two tokens.
func (l layout) gap(otherwise string) string {
	if !l.wild {
		return otherwise
	}
	gaps := []string{"", " ", "\t", l.nl, l.nl + l.unit, "  " + l.nl}
	if l.jsonc {
		gaps = append(gaps, "/* , } */", " // ]{\"x"+l.nl, "/*"+l.nl+"*/", " // /* "+l.nl)
	}
	return rapid.SampledFrom(gaps).Draw(l.t, "gap")
}

// comment is one that may stand alone on a line.
func (l layout) comment(indent string) string {
	if !l.jsonc || !l.chance("comment") {
		return ""
	}
	return rapid.SampledFrom([]string{"// \"mcpServers\": {}", "/* one */", "/* two" + l.nl + "lines */"}).Draw(l.t, "comment text") + l.nl + indent
}

// list writes values in brackets.
func (l layout) list(open, end string, items []string, indent string) string {
	var b strings.Builder
	b.WriteString(open)
	inner := l.nl + indent + l.unit
	for i, item := range items {
		b.WriteString(l.gap(inner))
		if !l.wild {
			b.WriteString(l.comment(indent + l.unit))
		}
		b.WriteString(item + l.gap(""))
		if i < len(items)-1 || l.jsonc && l.chance("trailing comma") {
			b.WriteString(",")
		}
		if !l.wild && l.jsonc && l.chance("remark") {
			b.WriteString(" // remark")
		}
	}
	if len(items) > 0 {
		b.WriteString(l.gap(l.nl + indent))
	} else {
		b.WriteString(l.gap(""))
	}
	return b.String() + end
}

func (l layout) member(key, value string) string {
	return fmt.Sprintf("%q%s:%s%s", key, l.gap(""), l.gap(" "), value)
}

// drawServer writes an entry; its command is old.
func (l layout) server(indent string) string {
	members := []string{l.member("command", `"old \u0063ommand"`)}
	if rapid.Bool().Draw(l.t, "has args") {
		var args []string
		for range rapid.IntRange(0, 3).Draw(l.t, "args") {
			args = append(args, rapid.SampledFrom([]string{`"a"`, `""`, `"[],{}//"`}).Draw(l.t, "arg"))
		}
		members = append(members, l.member("args", l.list("[", "]", args, indent+l.unit)))
	}
	if rapid.Bool().Draw(l.t, "has env") {
		members = append(members, l.member("env", `{"TOKEN": "}"}`), l.member("disabled", "false"))
	}
	if rapid.Bool().Draw(l.t, "args first") {
		members[0], members[len(members)-1] = members[len(members)-1], members[0]
	}
	return l.list("{", "}", members, indent)
}

// drawJSON writes a file with the servers named, if it has the key for them.
func drawJSON(t *rapid.T, l layout, names ...string) string {
	members := []string{}
	for i := range rapid.IntRange(0, 2).Draw(t, "settings") {
		members = append(members, l.member(fmt.Sprintf("setting%d", i), rapid.SampledFrom([]string{"1", `"x"`, "null", `{"a": [1, 2]}`, "[]"}).Draw(t, "value")))
	}
	if len(names) > 0 || rapid.Bool().Draw(t, "has servers") {
		servers := []string{}
		for _, n := range names {
			servers = append(servers, l.member(n, l.server(l.unit+l.unit)))
		}
		members = append(members, l.member("mcpServers", l.list("{", "}", servers, l.unit)))
		if rapid.Bool().Draw(t, "servers first") {
			members[0], members[len(members)-1] = members[len(members)-1], members[0]
		}
	}
	start := rapid.SampledFrom([]string{"", byteOrderMark}).Draw(t, "byte order mark")
	return start + l.list("{", "}", members, "") + rapid.SampledFrom([]string{"", l.nl}).Draw(t, "end")
}

// drawTOML writes a file in TOML with the servers named.
func drawTOML(t *rapid.T, names ...string) string {
	nl := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "line end")
	pick := func(what string, from ...string) string { return rapid.SampledFrom(from).Draw(t, what) }
	remark := func() string { return pick("remark", "", "", " # remark", "  ") }
	lines := []string{}
	for i := range rapid.IntRange(0, 2).Draw(t, "settings") {
		lines = append(lines, pick("between", "# [mcp_servers.x]", "", "  "),
			fmt.Sprintf("setting%d = %s", i, pick("value", "1", `"]#"`, `'''`+nl+`[mcp_servers.x]'''`, "[1, # one"+nl+"2]", "1979-05-27 07:32:00", `{ a = "}" }`, `"""a""\""""""`))+remark())
	}
	var later []string
	for _, n := range names {
		args := pick("args", "", `["a"]`, `[]`, `[ "a", 'b' ]`, "["+nl+"  \"a\", # first"+nl+"  \"b\","+nl+"]")
		switch form := pick("form", "table", "inline", "dotted"); form {
		case "table":
			later = append(later, pick("between", "", "# comment", nl), "["+pick("header", "mcp_servers."+n, `mcp_servers . "`+n+`"`)+"]"+remark(), pick("key", "command", `"command"`)+` = "old \u0063ommand"`+remark())
			if args != "" {
				later = append(later, "args = "+args+remark())
			}
			if rapid.Bool().Draw(t, "has env") {
				later = append(later, pick("between", "", "enabled = true"), "[mcp_servers."+n+".env]", `TOKEN = "x"`)
			}
		default:
			if args != "" {
				args = ", args = " + args
			}
			value := `{ command = 'old'` + args + `, env = { TOKEN = "}" } }`
			if form == "dotted" {
				lines = append(lines, "mcp_servers."+n+".command = 'old'"+remark())
			} else {
				lines = append(lines, "mcp_servers."+n+" = "+value+remark())
			}
		}
	}
	lines = append(lines, later...)
	if rapid.Bool().Draw(t, "more tables") {
		lines = append(lines, "", "# about tables", "[other]"+remark(), `x = "y"`, "[[list]]", "z = 1")
	}
	text := strings.Join(lines, nl)
	if text != "" && rapid.Bool().Draw(t, "end") {
		text += nl + pick("blank end", "", "", nl)
	}
	return pick("byte order mark", "", byteOrderMark) + text
}
