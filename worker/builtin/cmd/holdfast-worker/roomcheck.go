package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/ipynb"
)

func roomCheckCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check [flags] FILE...",
		Short: "Say whether notebook files are valid, and where they are not",
		Long: "check reads notebook files of nbformat 4.0 to 4.5 and changes nothing. It says what is wrong, where, and what\n" +
			"to do about it. Warnings are about what nbformat objects to and nothing depends on. It exits with 0 if all\n" +
			"files can be used, 1 if one cannot, and 2 if there is nothing to check.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("room check: no file given, want: room check FILE [FILE...]")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var report checkedFiles
			for _, path := range args {
				report.Files = append(report.Files, checkNotebook(path))
			}
			return report.tell(cmd.OutOrStdout(), asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the results as one JSON object")
	return cmd
}

// checkedFiles is what room check prints with --json.
type checkedFiles struct {
	Files []checkedFile `json:"files"`
}

type checkedFile struct {
	File string `json:"file"`
	OK   bool   `json:"ok"`
	// Format and Cells are those of a file that is OK.
	Format   string    `json:"nbformat,omitempty"`
	Cells    int       `json:"cells"`
	Error    *finding  `json:"error,omitempty"`
	Warnings []finding `json:"warnings,omitempty"`
}

// finding is something about a file. Line and Column count from 1 and are 0 if
// the file could not be read; Offset counts bytes from 0.
type finding struct {
	Kind    string `json:"kind"` // unreadable, syntax, format or invalid
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Offset  int    `json:"offset"`
	Path    string `json:"path,omitempty"`
	Problem string `json:"problem"`
	Hint    string `json:"hint,omitempty"`
}

func checkNotebook(path string) checkedFile {
	data, err := os.ReadFile(path)
	if err != nil {
		return checkedFile{File: path, Error: new(newFinding(err))}
	}
	notebook, err := ipynb.Read(data)
	if err != nil {
		return checkedFile{File: path, Error: new(newFinding(err))}
	}
	checked := checkedFile{File: path, OK: true, Format: fmt.Sprintf("4.%d", notebook.Minor()), Cells: notebook.Len()}
	for _, fault := range notebook.Faults() {
		checked.Warnings = append(checked.Warnings, newFinding(fault))
	}
	return checked
}

func newFinding(err error) finding {
	e, ok := errors.AsType[*ipynb.Error](err)
	if !ok {
		problem := err.Error()
		if e, ok := errors.AsType[*os.PathError](err); ok {
			problem = e.Err.Error() // the path is said anyhow
		}
		return finding{Kind: "unreadable", Problem: problem}
	}
	kind := "invalid"
	switch {
	case errors.Is(err, ipynb.ErrSyntax):
		kind = "syntax"
	case errors.Is(err, ipynb.ErrFormat):
		kind = "format"
	}
	return finding{kind, e.Line, e.Column, e.Offset, e.Path, e.Problem, e.Hint}
}

// tell prints the results, as lines that editors can jump to or as JSON.
func (r checkedFiles) tell(stdout io.Writer, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(r); err != nil {
			return &exitError{exitFailure, err}
		}
	}
	failed := false
	for _, f := range r.Files {
		failed = failed || !f.OK
		if !asJSON {
			f.writeTo(stdout)
		}
	}
	if failed {
		return &exitError{code: exitFailure}
	}
	return nil
}

func (f checkedFile) writeTo(w io.Writer) {
	for _, warning := range f.Warnings {
		warning.writeTo(w, f.File, "warning: ")
	}
	if f.Error != nil {
		f.Error.writeTo(w, f.File, "")
		return
	}
	fmt.Fprintf(w, "%s: ok, nbformat %s, cells: %d\n", f.File, f.Format, f.Cells)
}

func (f finding) writeTo(w io.Writer, file, severity string) {
	fmt.Fprintf(w, "%s:", file)
	if f.Line > 0 {
		fmt.Fprintf(w, "%d:%d:", f.Line, f.Column)
	}
	fmt.Fprintf(w, " %s", severity)
	if f.Path != "" {
		fmt.Fprintf(w, "%s: ", f.Path)
	}
	fmt.Fprint(w, f.Problem)
	if f.Hint != "" {
		fmt.Fprintf(w, " (%s)", f.Hint)
	}
	fmt.Fprintln(w)
}
