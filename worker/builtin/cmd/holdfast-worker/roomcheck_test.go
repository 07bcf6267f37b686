package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeNotebooks makes a directory of files by name and goes there.
func writeNotebooks(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

const (
	goodNotebook = `{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}`
	oddNotebook  = `{"cells": [{"cell_type": "raw", "metadata": {}, "source": ""}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}`
	oldNotebook  = "{\n \"metadata\": {},\n \"nbformat\": 3,\n \"nbformat_minor\": 0,\n \"worksheets\": []\n}\n"
	cutNotebook  = "{\n \"cells\": [\n  {\n   \"cell_type\": \"co"
)

// ROOM-3: files that are refused are refused with a position and a hint, and
// left as they are.
func TestRoomCheck(t *testing.T) {
	files := map[string]string{"good.ipynb": goodNotebook, "odd.ipynb": oddNotebook, "old.ipynb": oldNotebook, "cut.ipynb": cutNotebook, "empty.ipynb": ""}
	writeNotebooks(t, files)
	for _, test := range []struct {
		args string
		code int
		out  []string // the beginnings of the lines
	}{
		{"good.ipynb", 0, []string{"good.ipynb: ok, nbformat 4.5, cells: 0"}},
		{"odd.ipynb", 0, []string{`odd.ipynb:1:12: warning: cells[0]: "id" is missing (`, "odd.ipynb: ok, nbformat 4.5, cells: 1"}},
		{"old.ipynb good.ipynb", 1, []string{"old.ipynb:3:14: nbformat: the file is of nbformat 3, want 4 (convert it: ", "good.ipynb: ok"}},
		{"cut.ipynb", 1, []string{"cut.ipynb:4:20: cells[0].cell_type: the file ends, want the end of a string (the file was cut off;"}},
		{"empty.ipynb", 1, []string{"empty.ipynb:1:1: the file is empty (an empty file is no notebook;"}},
		{"none.ipynb good.ipynb", 1, []string{"none.ipynb: ", "good.ipynb: ok"}},
	} {
		t.Run(test.args, func(t *testing.T) {
			code, stdout, stderr := roomCheck(t, strings.Fields(test.args)...)
			lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
			if code != test.code || stderr != "" || len(lines) != len(test.out) {
				t.Fatalf("code %d, stdout %q, stderr %q", code, stdout, stderr)
			}
			for i, want := range test.out {
				if !strings.HasPrefix(lines[i], want) {
					t.Errorf("line %q, want %q", lines[i], want)
				}
			}
		})
	}
	for name, text := range files {
		if got, err := os.ReadFile(name); err != nil || string(got) != text {
			t.Errorf("%s changed: %q, %v", name, got, err)
		}
	}
	if code, _, stderr := roomCheck(t); code != 2 || !strings.Contains(stderr, "no file given") {
		t.Errorf("without files: code %d, stderr %q", code, stderr)
	}
}

func TestRoomCheckJSON(t *testing.T) {
	writeNotebooks(t, map[string]string{"odd.ipynb": oddNotebook, "old.ipynb": oldNotebook, "cut.ipynb": cutNotebook})
	code, stdout, _ := roomCheck(t, "--json", "odd.ipynb", "old.ipynb", "cut.ipynb", "none.ipynb")
	var got checkedFiles
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != 1 || len(got.Files) != 4 {
		t.Fatalf("code %d, %v:\n%s", code, err, stdout)
	}
	odd, old, cut, none := got.Files[0], got.Files[1], got.Files[2], got.Files[3]
	if !odd.OK || odd.Format != "4.5" || odd.Cells != 1 || odd.Error != nil || len(odd.Warnings) != 1 || odd.Warnings[0].Kind != "invalid" {
		t.Errorf("odd: %+v", odd)
	}
	if e := old.Error; old.OK || e == nil || e.Kind != "format" || e.Line != 3 || e.Column != 14 || e.Offset != strings.Index(oldNotebook, "3,") || e.Path != "nbformat" || e.Hint == "" {
		t.Errorf("old: %+v", e)
	}
	if e := cut.Error; cut.OK || e == nil || e.Kind != "syntax" || e.Offset != len(cutNotebook) {
		t.Errorf("cut: %+v", e)
	}
	if e := none.Error; none.OK || e == nil || e.Kind != "unreadable" || e.Problem == "" {
		t.Errorf("none: %+v", e)
	}
}

func roomCheck(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var out strings.Builder
	code = run(context.Background(), append([]string{"room", "check"}, args...), nil, &out, file)
	text, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return code, out.String(), string(text)
}
