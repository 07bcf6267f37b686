package ipynb_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/ipynb"
)

// TestEditedText: ROOM-3, what is written anew looks like what was there. Each
// edit replaces one piece of the text by another.
func TestEditedText(t *testing.T) {
	for _, test := range []struct {
		name, file, old, new string
		edit                 func(nb *ipynb.Notebook) error
	}{
		{
			"a line of a list", "full-4.5", "\"math.pi\"\n", "\"math.e\\n\",\n    \"☃\"\n",
			func(nb *ipynb.Notebook) error { return nb.SetSource("calc_1", "import math\nmath.e\n☃") },
		},
		{
			"no line left", "full-4.5", "[\n    \"import math\\n\",\n    \"math.pi\"\n   ]", "[]",
			func(nb *ipynb.Notebook) error { return nb.SetSource("calc_1", "") },
		},
		{
			"the first line", "full-4.5", "    \"import math\\n\",\n", "",
			func(nb *ipynb.Notebook) error { return nb.SetSource("calc_1", "math.pi") },
		},
		{
			"more lines in front", "full-4.5", "    \"import math\\n\",\n", "    \"\\n\",\n    \"import math\\n\",\n",
			func(nb *ipynb.Notebook) error { return nb.SetSource("calc_1", "\nimport math\nmath.pi") },
		},
		{
			"lines where there were none", "full-4.5", "\"source\": []", "\"source\": [\n    \"a\\n\",\n    \"b\"\n   ]",
			func(nb *ipynb.Notebook) error { return nb.SetSource(strings.Repeat("e", 64), "a\nb") },
		},
		{
			"outputs in the form of nbformat", "full-4.5", "\"outputs\": []", "\"outputs\": [\n    {\n     \"name\": \"stdout\",\n     \"output_type\": \"stream\",\n     \"text\": [\n      \"a\\n\",\n      \"<b>\"\n     ]\n    }\n   ]",
			func(nb *ipynb.Notebook) error {
				return nb.SetOutputs(strings.Repeat("e", 64), []byte(`[{"output_type":"stream","name":"stdout","text":"a\n\u003cb\u003e"}]`))
			},
		},
		{
			"a new key in its order", "full-4.5", "    \"scrolled\": true,\n", "    \"scrolled\": true,\n    \"slideshow\": {\n     \"a\": 1.0,\n     \"b\": []\n    },\n",
			func(nb *ipynb.Notebook) error {
				return nb.SetCellMetadata("calc_1", "slideshow", []byte(`{"b":[],"a":1.0}`))
			},
		},
		{
			"the first key", "full-4.5", "   \"metadata\": {\n    \"scrolled\"", "   \"metadata\": {\n    \"a\": 1,\n    \"scrolled\"",
			func(nb *ipynb.Notebook) error { return nb.SetCellMetadata("calc_1", "a", []byte(`1`)) },
		},
		{
			"the only key", "full-4.5", "{\n    \"format\": \"text/restructuredtext\"\n   }", "{}",
			func(nb *ipynb.Notebook) error { return nb.SetCellMetadata("raw-1", "format", nil) },
		},
		{
			"a key in an empty object", "full-4.5", "   \"id\": \"intro\",\n   \"metadata\": {},", "   \"id\": \"intro\",\n   \"metadata\": {\n    \"a\": 1\n   },",
			func(nb *ipynb.Notebook) error { return nb.SetCellMetadata("intro", "a", []byte(`1`)) },
		},
		{
			"metadata of the notebook", "full-4.5", "  },\n  \"language_info\"", "  },\n  \"l\": null,\n  \"language_info\"",
			func(nb *ipynb.Notebook) error { return nb.SetMetadata("l", []byte("null")) },
		},
		{
			"a cell in an empty file", "empty-4.5", "[]", "[\n  {\n   \"cell_type\": \"markdown\",\n   \"id\": \"x\",\n   \"metadata\": {},\n   \"source\": [\n    \"é\"\n   ]\n  }\n ]",
			func(nb *ipynb.Notebook) error {
				return nb.Insert("", ipynb.Cell{ID: "x", Type: ipynb.Markdown, Source: "é"})
			},
		},
		{
			"escapes where the file has them", "ascii-tabs-4.0", `"print('\u00e9')\n"` + "\n", `"print('\u00e9')\n",` + "\n\t\t\t\t" + `"\ud834\udd1e\u007f"` + "\n",
			func(nb *ipynb.Notebook) error { return nb.SetSource(nth(nb, 1), "print('é')\n𝄞\x7f") },
		},
		{
			"a string in one line", "one-line-strings-4.4", `"a = 1\nb = 2"`, `"a = 2"`,
			func(nb *ipynb.Notebook) error { return nb.SetSource(nth(nb, 0), "a = 2") },
		},
		{
			"a cell in one line", "one-line-strings-4.4", `,{"cell_type":"markdown"`, `,{"attachments":{},"cell_type":"raw","metadata":{"a":[1,2]},"source":"x\ny"},{"cell_type":"markdown"`,
			func(nb *ipynb.Notebook) error {
				return nb.Insert(nth(nb, 0), ipynb.Cell{ID: "x", Type: ipynb.Raw, Source: "x\ny", Metadata: []byte(` {"a": [1, 2]}`), Attachments: []byte("{}")})
			},
		},
		{
			"another type", "one-line-strings-4.4", `{"cell_type":"code","execution_count":null,"metadata":{},"outputs":[],"source"`, `{"cell_type":"markdown","metadata":{},"source"`,
			func(nb *ipynb.Notebook) error { return nb.SetType(nth(nb, 0), ipynb.Markdown) },
		},
		{
			"and back", "one-line-strings-4.4", `{"cell_type":"markdown","metadata":{},"source":""`, `{"cell_type":"code","execution_count":null,"metadata":{},"outputs":[],"source":""`,
			func(nb *ipynb.Notebook) error { return nb.SetType(nth(nb, 1), ipynb.Code) },
		},
		{
			"a list that is not of lines", "strange-4.5", `"sec", "ond\n" ]`, `"second\n", "third\\\ud83d" ]`,
			func(nb *ipynb.Notebook) error {
				return nb.SetSource("twice", "first = '"+loneHigh+"'\nsecond\nthird\\"+loneHigh)
			},
		},
		{
			"a number for a number", "strange-4.5", "99999999999999999999", "1",
			func(nb *ipynb.Notebook) error { return nb.SetExecutionCount("twice", new(1)) },
		},
		{
			"the last of two keys", "strange-4.5", `"a": 1e5`, `"a": [0.10]`,
			func(nb *ipynb.Notebook) error { return nb.SetCellMetadata("twice", "a", []byte("[0.10]")) },
		},
		{
			"CRLF, and keys without order", "unsorted-crlf-bom-4.2", "\"scrolled\": true\r\n      },", "\"scrolled\": true,\r\n        \"b\": [\r\n          1\r\n        ]\r\n      },",
			func(nb *ipynb.Notebook) error { return nb.SetCellMetadata(nth(nb, 1), "b", []byte("[1]")) },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata", test.file+".ipynb"))
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(data), test.old); n != 1 {
				t.Fatalf("%d times %q", n, test.old)
			}
			nb := read(t, data)
			if err := test.edit(nb); err != nil {
				t.Fatal(err)
			}
			if got, want := string(nb.Bytes()), strings.Replace(string(data), test.old, test.new, 1); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func nth(nb *ipynb.Notebook, n int) string {
	for cell := range nb.Cells() {
		if n--; n < 0 {
			return cell.ID
		}
	}
	return ""
}

// TestRequiredIDs: format 4.5 wants ids, so an edited cell gets the one it goes
// by; others stay without.
func TestRequiredIDs(t *testing.T) {
	data, err := os.ReadFile("testdata/strange-4.5.ipynb")
	if err != nil {
		t.Fatal(err)
	}
	nb := read(t, data)
	for n := range 3 {
		if err := nb.SetSource(nth(nb, n), "edited"); err != nil {
			t.Fatal(err)
		}
	}
	for _, fault := range read(t, nb.Bytes()).Faults() {
		if strings.Contains(fault.Problem, "id") && !strings.Contains(fault.Problem, "field") {
			t.Error(fault)
		}
	}
	if again := read(t, nb.Bytes()); nth(again, 0) != "twice" || nth(again, 1) != nth(nb, 1) || nth(again, 2) != nth(nb, 2) {
		t.Errorf("ids %s %s %s", nth(again, 0), nth(again, 1), nth(again, 2))
	}
	if a, b := read(t, data), read(t, data); nth(a, 2) != nth(b, 2) {
		t.Errorf("ids differ from reading to reading: %s %s", nth(a, 2), nth(b, 2))
	}
}

// TestRefusedEdits: an edit that would make the file invalid changes nothing.
func TestRefusedEdits(t *testing.T) {
	data, err := os.ReadFile("testdata/full-4.5.ipynb")
	if err != nil {
		t.Fatal(err)
	}
	nb := read(t, data)
	for name, test := range map[string]struct {
		err  error
		want error
	}{
		"no such cell":          {nb.SetSource("nope", ""), ipynb.ErrNoCell},
		"no UTF-8":              {nb.SetSource("intro", "\xff"), ipynb.ErrText},
		"no such type":          {nb.SetType("intro", "heading"), ipynb.ErrInvalid},
		"outputs of markdown":   {nb.SetOutputs("intro", []byte("[]")), ipynb.ErrInvalid},
		"no list of outputs":    {nb.SetOutputs("calc_1", []byte("{}")), ipynb.ErrInvalid},
		"no JSON":               {nb.SetOutputs("calc_1", []byte("[")), ipynb.ErrSyntax},
		"transient":             {nb.SetOutputs("calc_1", []byte(`[{"output_type":"display_data","data":{},"metadata":{},"transient":{}}]`)), ipynb.ErrInvalid},
		"negative count":        {nb.SetExecutionCount("calc_1", new(-1)), ipynb.ErrInvalid},
		"tags":                  {nb.SetCellMetadata("intro", "tags", []byte(`["a,b"]`)), ipynb.ErrInvalid},
		"key":                   {nb.SetCellMetadata("intro", "\xff", []byte(`1`)), ipynb.ErrText},
		"kernelspec":            {nb.SetMetadata("kernelspec", []byte(`{}`)), ipynb.ErrInvalid},
		"two values":            {nb.SetMetadata("x", []byte(`1 2`)), ipynb.ErrSyntax},
		"id of another cell":    {nb.Insert("", ipynb.Cell{ID: "intro", Type: ipynb.Raw}), ipynb.ErrID},
		"no id":                 {nb.Insert("", ipynb.Cell{Type: ipynb.Raw}), ipynb.ErrID},
		"behind none":           {nb.Insert("nope", ipynb.Cell{ID: "x", Type: ipynb.Raw}), ipynb.ErrNoCell},
		"no type":               {nb.Insert("", ipynb.Cell{ID: "x"}), ipynb.ErrInvalid},
		"outputs in raw":        {nb.Insert("", ipynb.Cell{ID: "x", Type: ipynb.Raw, Outputs: []byte("[]")}), ipynb.ErrInvalid},
		"smuggled in":           {nb.Insert("", ipynb.Cell{ID: "x", Type: ipynb.Raw, Metadata: []byte(`{}, "source": "y"`)}), ipynb.ErrSyntax},
		"source without UTF-8":  {nb.Insert("", ipynb.Cell{ID: "x", Type: ipynb.Raw, Source: "\xff"}), ipynb.ErrText},
		"delete no such cell":   {nb.Delete("nope"), ipynb.ErrNoCell},
		"move no such cell":     {nb.Move("nope", ""), ipynb.ErrNoCell},
		"move behind none":      {nb.Move("intro", "nope"), ipynb.ErrNoCell},
		"metadata of no cell":   {nb.SetCellMetadata("nope", "a", nil), ipynb.ErrNoCell},
		"type of no cell":       {nb.SetType("nope", ipynb.Raw), ipynb.ErrNoCell},
		"count of no cell":      {nb.SetExecutionCount("nope", nil), ipynb.ErrNoCell},
		"outputs of no cell":    {nb.SetOutputs("nope", []byte("[]")), ipynb.ErrNoCell},
		"the cell of no cell":   {second(nb.Cell("nope")), ipynb.ErrNoCell},
		"metadata without JSON": {nb.SetMetadata("x", []byte(``)), ipynb.ErrSyntax},
	} {
		if !errors.Is(test.err, test.want) {
			t.Errorf("%s: %v, want %v", name, test.err, test.want)
		}
	}
	if string(nb.Bytes()) != string(data) {
		t.Errorf("changed:\n%s", nb.Bytes())
	}
}

func second(_ ipynb.Cell, err error) error { return err }
