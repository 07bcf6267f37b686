package ipynb_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/ipynb"
)

// notebookOf puts cells, as JSON, into a notebook of nbformat 4.5.
func notebookOf(cells string) string {
	return `{"cells": [` + cells + `], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}`
}

func codeCell(outputs string) string {
	return notebookOf(`{"cell_type": "code", "id": "a", "metadata": {}, "source": "", "execution_count": null, "outputs": [` + outputs + `]}`)
}

// TestRefusedFiles: ROOM-3, what cannot be read is refused with its place. The
// place is where ~ stands in the text.
func TestRefusedFiles(t *testing.T) {
	for _, test := range []struct {
		text          string
		kind          error
		path, problem string
		hint          string
	}{
		{"~", ipynb.ErrSyntax, "", "empty", "backup"},
		{"~ \n\t", ipynb.ErrSyntax, "", "empty", "backup"},
		{"~\ufeff", ipynb.ErrSyntax, "", "empty", "backup"},
		{"~\xff\xfe{\x00}\x00", ipynb.ErrSyntax, "", "UTF-16", "UTF-8"},
		{"{\"a\": \"é~\xe9\"}", ipynb.ErrSyntax, "", "0xe9", "UTF-8"},
		{"{\"a\": \"~\xed\xa0\xbd\"}", ipynb.ErrSyntax, "", "0xed", "UTF-8"},
		{"~\x00\x00\x00", ipynb.ErrSyntax, "", `'\x00'`, "crash"},
		{"~hello", ipynb.ErrSyntax, "", `found 'h', want a value`, ""},
		{"{\"cells\": [\n{}, {\"source\": ~", ipynb.ErrSyntax, "cells[1].source", "the file ends", "cut off"},
		{`{"a": "b~`, ipynb.ErrSyntax, "a", "the end of a string", "cut off"},
		{`{"a": "b\~`, ipynb.ErrSyntax, "a", "the file ends", "cut off"},
		{"{\"a\": \"b~\n\"}", ipynb.ErrSyntax, "a", `found '\n' in a string`, "quote"},
		{`{"a": "b~\x"}`, ipynb.ErrSyntax, "a", "escape", "backslash"},
		{`{"a": "b~\u12g4"}`, ipynb.ErrSyntax, "a", "escape", "backslash"},
		{`{"a": 1~, }`, ipynb.ErrSyntax, "", "comma", "remove"},
		{`{"a": [1~,]}`, ipynb.ErrSyntax, "a", "comma", "remove"},
		{`{"a": 1 ~"b": 2}`, ipynb.ErrSyntax, "", `found '"', want a comma or '}'`, ""},
		{`{"a" ~1}`, ipynb.ErrSyntax, "", "a colon", ""},
		{`{~'a': 1}`, ipynb.ErrSyntax, "", "a key in double quotes", "double quotes"},
		{`{"a": ~'b'}`, ipynb.ErrSyntax, "a", "a value", "double quotes"},
		{`{"a": 1} ~// more`, ipynb.ErrSyntax, "", "the end of the file", "no comments"},
		{`{"a": [~01]}`, ipynb.ErrSyntax, "a[0]", "leading zero", "remove"},
		{`{"a": [-~]}`, ipynb.ErrSyntax, "a[0]", "a digit", ""},
		{`{"a": [1.~]}`, ipynb.ErrSyntax, "a[0]", "a digit", ""},
		{`{"a": [1e+~]}`, ipynb.ErrSyntax, "a[0]", "a digit", ""},
		{`{"a": ~True}`, ipynb.ErrSyntax, "a", "found 'T'", ""},
		{"{\n \"cells\": [\n~<<<<<<< HEAD\n", ipynb.ErrSyntax, "cells[0]", "conflict marker", "merge conflict"},
		{`{"a": {"b c": [~}]}`, ipynb.ErrSyntax, `a["b c"][0]`, "found '}'", ""},
		{strings.Repeat("[", 10000) + "~[", ipynb.ErrSyntax, "*", "nested deeper", ""},

		{`~[1]`, ipynb.ErrInvalid, "", "want an object, found a list", ""},
		{` ~{}`, ipynb.ErrInvalid, "", `"nbformat" is missing`, "not a notebook"},
		{`{"worksheets": [], "nbformat": ~3, "nbformat_minor": 0}`, ipynb.ErrFormat, "nbformat", "nbformat 3, want 4", "nbconvert"},
		{`{"nbformat": ~2}`, ipynb.ErrFormat, "nbformat", "nbformat 2", "nbconvert"},
		{`{"nbformat": ~5, "nbformat_minor": 0}`, ipynb.ErrFormat, "nbformat", "the number 5", ""},
		{`{"nbformat": ~"4", "nbformat_minor": 0}`, ipynb.ErrFormat, "nbformat", "a string", ""},
		{`{"nbformat": 4, "nbformat_minor": ~6}`, ipynb.ErrFormat, "nbformat_minor", "4.6, want at most 4.5", "older"},
		{`{"nbformat": 4, "nbformat_minor": ~1.0}`, ipynb.ErrInvalid, "nbformat_minor", "the number 1.0", ""},
		{`~{"nbformat": 4}`, ipynb.ErrInvalid, "", `"nbformat_minor" is missing`, "add"},
		{`~{"nbformat": 4, "nbformat_minor": 5, "cells": []}`, ipynb.ErrInvalid, "", `"metadata" is missing`, `add "metadata": {}`},
		{`~{"nbformat": 4, "nbformat_minor": 5, "metadata": {}}`, ipynb.ErrInvalid, "", `"cells" is missing`, `add "cells": []`},
		{`{"nbformat": 4, "nbformat_minor": 5, "metadata": ~null, "cells": []}`, ipynb.ErrInvalid, "metadata", "found null", ""},
		{`{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": ~{}}`, ipynb.ErrInvalid, "cells", "a list of cells", ""},

		{notebookOf(`~1`), ipynb.ErrInvalid, "cells[0]", "an object", ""},
		{notebookOf(`~{}`), ipynb.ErrInvalid, "cells[0]", `"cell_type" is missing`, ""},
		{notebookOf(`{"cell_type": ~"heading"}`), ipynb.ErrInvalid, "cells[0].cell_type", `no cell_type "heading"`, ""},
		{notebookOf(`{"cell_type": ~7}`), ipynb.ErrInvalid, "cells[0].cell_type", "a string", ""},
		{notebookOf(`~{"cell_type": "raw", "source": ""}`), ipynb.ErrInvalid, "cells[0]", `"metadata" is missing`, "add"},
		{notebookOf(`{"cell_type": "raw", "metadata": {}, "source": ["", ~1]}`), ipynb.ErrInvalid, "cells[0].source[1]", "the number 1", ""},
		{notebookOf(`{"cell_type": "raw", "metadata": {}, "source": ~null}`), ipynb.ErrInvalid, "cells[0].source", "found null", ""},
		{notebookOf(`{"cell_type": "raw", "metadata": {}, "source": "", "id": ~"a b"}`), ipynb.ErrInvalid, "cells[0].id", "64 letters", "another id"},
		{notebookOf(`{"cell_type": "raw", "metadata": {}, "source": "", "attachments": {"x": ~[]}}`), ipynb.ErrInvalid, "cells[0].attachments.x", "an object", ""},
		{notebookOf(`~{"cell_type": "code", "metadata": {}, "source": "", "outputs": []}`), ipynb.ErrInvalid, "cells[0]", `"execution_count" is missing`, `add "execution_count": null`},
		{notebookOf(`{"cell_type": "code", "metadata": {}, "source": "", "outputs": [], "execution_count": ~-1}`), ipynb.ErrInvalid, "cells[0].execution_count", "the number -1", ""},
		{codeCell(`~{}`), ipynb.ErrInvalid, "cells[0].outputs[0]", `"output_type" is missing`, ""},
		{codeCell(`{"output_type": ~"pyout"}`), ipynb.ErrInvalid, "cells[0].outputs[0].output_type", "pyout", ""},
		{codeCell(`~{"output_type": "stream", "text": ""}`), ipynb.ErrInvalid, "cells[0].outputs[0]", `"name" is missing`, "stdout"},
		{codeCell(`{"output_type": "error", "ename": "", "evalue": "", "traceback": ~""}`), ipynb.ErrInvalid, "cells[0].outputs[0].traceback", "a list of strings", ""},
		{codeCell(`{"output_type": "display_data", "metadata": {}, "data": {"text/plain": ~{}}}`), ipynb.ErrInvalid, `cells[0].outputs[0].data["text/plain"]`, "a list of strings", ""},
	} {
		text := strings.Replace(test.text, "~", "", 1)
		nb, err := ipynb.Read([]byte(text))
		got, ok := errors.AsType[*ipynb.Error](err)
		if !ok || nb != nil {
			t.Errorf("%q is read: %v", clip(test.text), err)
			continue
		}
		offset := strings.Index(test.text, "~")
		if !errors.Is(err, test.kind) || got.Offset != offset || got.Path != test.path && test.path != "*" ||
			!strings.Contains(got.Problem, test.problem) || !strings.Contains(got.Hint, test.hint) {
			t.Errorf("%q: offset %d, %v, %+v", clip(test.text), offset, got, got)
		}
		before := strings.Split(strings.TrimPrefix(text[:offset], "\ufeff"), "\n")
		line, column := len(before), len([]rune(before[len(before)-1]))+1
		if got.Line != line || got.Column != column || !strings.HasPrefix(err.Error(), fmt.Sprintf("line %d, column %d", line, column)) {
			t.Errorf("%q: %d:%d, want %d:%d", clip(test.text), got.Line, got.Column, line, column)
		}
	}
}

func clip(s string) string { return s[max(0, len(s)-200):] }

// TestFaults: what nbformat objects to and nothing depends on is kept and told.
func TestFaults(t *testing.T) {
	cell := func(kind, metadata, more string) string {
		if kind == "code" {
			more += `, "outputs": [], "execution_count": null`
		}
		return notebookOf(fmt.Sprintf(`{"cell_type": %q, "id": "a", "source": "", "metadata": %s%s}`, kind, metadata, more))
	}
	for _, test := range []struct{ text, path, problem string }{
		{cell("raw", `{"tags": ["a", "a"]}`, ""), "cells[0].metadata.tags[1]", "repeated"},
		{cell("raw", `{"tags": "a"}`, ""), "cells[0].metadata.tags", "a list of strings"},
		{cell("markdown", `{"name": ""}`, ""), "cells[0].metadata.name", "a name in one line"},
		{cell("markdown", `{"jupyter": 1}`, ""), "cells[0].metadata.jupyter", "an object"},
		{cell("raw", `{"format": 1}`, ""), "cells[0].metadata.format", "a string"},
		{cell("code", `{"collapsed": "no"}`, ""), "cells[0].metadata.collapsed", "true or false"},
		{cell("code", `{"scrolled": "no"}`, ""), "cells[0].metadata.scrolled", "auto"},
		{cell("code", `{"execution": {"x": 1}}`, ""), "cells[0].metadata.execution.x", "a string"},
		{cell("code", `{}`, `, "transient": {}`), "cells[0].transient", "does not have this field"},
		{cell("code", `{}`, `, "attachments": {}`), "cells[0].attachments", "does not have this field"},
		{codeCell(`{"output_type": "stream", "name": "", "text": "", "x": 1}`), "cells[0].outputs[0].x", "does not have this field"},
		{strings.Replace(notebookOf(""), `"metadata": {}`, `"metadata": {"kernelspec": {"name": "x"}}`, 1), "metadata.kernelspec", `"display_name" is missing`},
		{strings.Replace(notebookOf(""), `"metadata": {}`, `"metadata": {"language_info": {"name": "x", "codemirror_mode": 1}}`, 1), "metadata.language_info.codemirror_mode", "a string or an object"},
		{strings.Replace(notebookOf(""), `"metadata": {}`, `"metadata": {"title": 1}`, 1), "metadata.title", "a string"},
		{strings.Replace(notebookOf(""), `"metadata": {}`, `"metadata": {"authors": {}}`, 1), "metadata.authors", "a list"},
		{strings.Replace(notebookOf(""), `"metadata": {}`, `"metadata": {"orig_nbformat": 0}`, 1), "metadata.orig_nbformat", "a version"},
	} {
		nb := read(t, []byte(test.text))
		if faults := nb.Faults(); len(faults) != 1 || faults[0].Path != test.path || !strings.Contains(faults[0].Problem, test.problem) {
			t.Errorf("%s: %v", test.text, faults)
		}
		if string(nb.Bytes()) != test.text {
			t.Errorf("%s: written otherwise", test.text)
		}
	}
	many := notebookOf(strings.Repeat(`{"cell_type": "raw", "metadata": {}, "source": ""},`, 150) + `{"cell_type": "raw", "metadata": {}, "source": ""}`)
	if n := len(read(t, []byte(many)).Faults()); n != 100 {
		t.Errorf("%d faults", n)
	}
}
