package nbrun

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/ipynb"
	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/replace"
)

// The tags of cells that nbclient knows.
const (
	tagSkip   = "skip-execution"
	tagRaises = "raises-exception"
)

// defaultKernel is that of notebooks which name none.
const defaultKernel = "python3"

// notebook is the file, and where the results go.
type notebook struct {
	*ipynb.Notebook

	file, output string
	read         replace.Version
	changed      bool
}

func open(file, output string) (*notebook, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	parsed, err := ipynb.Read(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNotebook, file, err)
	}
	n := &notebook{Notebook: parsed, file: file, output: output, read: replace.VersionOf(data)}
	if n.output == "" {
		n.output = file
	}
	// Better now than after hours.
	if err := replace.Check(n.output); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSave, err)
	}
	return n, nil
}

// inPlace reports whether the results go into the file that was read.
func (n *notebook) inPlace() bool {
	if n.file == n.output {
		return true
	}
	a, errA := os.Stat(n.file)
	b, errB := os.Stat(n.output)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// kernel is the name of the notebook's kernel.
func (n *notebook) kernel() (string, error) {
	var metadata struct {
		Kernelspec struct {
			Name string `json:"name"`
		} `json:"kernelspec"`
	}
	if err := json.Unmarshal(n.Metadata(), &metadata); err != nil {
		return "", fmt.Errorf("%w: %s: its metadata does not say which kernel: %w", ErrNotebook, n.file, err)
	}
	if metadata.Kernelspec.Name == "" {
		return defaultKernel, nil
	}
	return metadata.Kernelspec.Name, nil
}

// plan lists the cells of code, those that are not to be executed as skipped.
func (n *notebook) plan() []task {
	var tasks []task
	i := -1
	for c := range n.Cells() {
		i++
		if c.Type != ipynb.Code {
			continue
		}
		var metadata struct {
			Tags []string `json:"tags"`
		}
		_ = json.Unmarshal(c.Metadata, &metadata) // without tags, then
		t := task{Cell: Cell{Index: i, ID: c.ID, Source: c.Source, State: Cancelled}}
		if strings.TrimSpace(c.Source) == "" || slices.Contains(metadata.Tags, tagSkip) {
			t.State, t.Count = Skipped, c.ExecutionCount
		}
		t.raises = slices.Contains(metadata.Tags, tagRaises)
		tasks = append(tasks, t)
	}
	return tasks
}

// set puts the results of a cell into the notebook.
func (n *notebook) set(id string, outputs []byte, count *int) error {
	n.changed = true
	if err := n.SetOutputs(id, outputs); err != nil {
		return fmt.Errorf("outputs of cell %s: %w", id, err)
	}
	if err := n.SetExecutionCount(id, count); err != nil {
		return fmt.Errorf("count of cell %s: %w", id, err)
	}
	return nil
}

// save saves the notebook and returns where. Results are not lost to a file
// that was changed meanwhile: they go beside it.
func (n *notebook) save() (saved string, err error) {
	if !n.changed && n.inPlace() {
		return "", nil
	}
	var content bytes.Buffer
	if _, err := n.WriteTo(&content); err != nil {
		return "", fmt.Errorf("%w: %w", ErrSave, err)
	}
	var was *replace.Version
	if n.inPlace() {
		was = &n.read
	}
	err = replace.File(n.output, content.Bytes(), was)
	if err == nil {
		return n.output, nil
	}
	if !errors.Is(err, replace.ErrChanged) {
		return "", fmt.Errorf("%w: %w", ErrSave, err)
	}
	other, otherErr := beside(n.output, content.Bytes())
	if otherErr != nil {
		return "", fmt.Errorf("%w: %w; and beside it: %w", ErrSave, err, otherErr)
	}
	return other, fmt.Errorf("%w: %w; they are in %s", ErrSave, err, other)
}

// beside saves content under a new name.
func beside(name string, content []byte) (string, error) {
	stem := strings.TrimSuffix(name, filepath.Ext(name))
	for i := 1; ; i++ {
		other := fmt.Sprintf("%s.run-%d%s", stem, i, filepath.Ext(name))
		file, err := os.OpenFile(other, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		file.Close() // it is ours
		return other, replace.File(other, content, nil)
	}
}
