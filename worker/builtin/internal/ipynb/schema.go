package ipynb

import (
	"fmt"
	"slices"
	"strings"
)

// The kinds of cells.
const (
	Code     = "code"
	Markdown = "markdown"
	Raw      = "raw"
)

// lastMinor is the newest nbformat 4 there is. Cells have ids since idMinor.
const (
	lastMinor = 5
	idMinor   = 5
)

// checker finds out whether text that is JSON is what nbformat allows. What is
// wrong beyond doubt is an error; what readers put up with is a fault, and only
// noted.
type checker struct {
	text   []byte
	minor  int
	faults []*Error
}

// check looks at a value; path leads to it.
type check func(c *checker, at span, path string) *Error

// field is a member that an object may have. Required ones say what to write
// where they are missing.
type field struct {
	name, missing string
	check         check
}

var (
	cellFields = map[string][]field{
		Code: {
			{"cell_type", `"code"`, (*checker).str},
			{"metadata", "{}", (*checker).codeMetadata},
			{"source", "[]", (*checker).multiline},
			{"outputs", "[]", (*checker).outputs},
			{"execution_count", "null", (*checker).count},
		},
		Markdown: {
			{"cell_type", `"markdown"`, (*checker).str},
			{"metadata", "{}", (*checker).markdownMetadata},
			{"source", "[]", (*checker).multiline},
			{"attachments", "", (*checker).attachments},
		},
		Raw: {
			{"cell_type", `"raw"`, (*checker).str},
			{"metadata", "{}", (*checker).rawMetadata},
			{"source", "[]", (*checker).multiline},
			{"attachments", "", (*checker).attachments},
		},
	}
	outputFields = map[string][]field{
		"stream": {
			{"output_type", `"stream"`, (*checker).str},
			{"name", `"stdout"`, (*checker).str},
			{"text", "[]", (*checker).multiline},
		},
		"display_data": {
			{"output_type", `"display_data"`, (*checker).str},
			{"data", "{}", (*checker).bundle},
			{"metadata", "{}", (*checker).object},
		},
		"execute_result": {
			{"output_type", `"execute_result"`, (*checker).str},
			{"data", "{}", (*checker).bundle},
			{"metadata", "{}", (*checker).object},
			{"execution_count", "null", (*checker).count},
		},
		"error": {
			{"output_type", `"error"`, (*checker).str},
			{"ename", `""`, (*checker).str},
			{"evalue", `""`, (*checker).str},
			{"traceback", "[]", (*checker).strs},
		},
	}
)

func (c *checker) fail(at int, path, problem, hint string) *Error {
	return errorAt(c.text, at, ErrInvalid, path, problem, hint)
}

// fault notes what is put up with.
func (c *checker) fault(err *Error) {
	const most = 100 // more says nothing new, and a file may be all faults
	if err != nil && len(c.faults) < most {
		c.faults = append(c.faults, err)
	}
}

func (c *checker) want(ok bool, at span, path, what string) *Error {
	if ok {
		return nil
	}
	return c.fail(at.from, path, fmt.Sprintf("want %s, found %s", what, kindOf(at.of(c.text))), "")
}

// fields checks an object and its members. In a closed object, members beside
// the fields are faults.
func (c *checker) fields(at span, path string, fields []field, closed bool) *Error {
	if err := c.object(at, path); err != nil {
		return err
	}
	found := make([]member, len(fields))
	for m := range members(c.text, at.from) {
		known := false
		for i, f := range fields {
			if f.name == m.name {
				found[i], known = m, true
			}
		}
		if closed && !known {
			c.fault(c.fail(m.key.from, join(path, step(m.name)), "nbformat does not have this field here", "it is kept as it is"))
		}
	}
	for i, f := range fields {
		m := found[i]
		if m.key == (span{}) {
			if f.missing == "" {
				continue
			}
			return c.fail(at.from, path, fmt.Sprintf("%q is missing", f.name), fmt.Sprintf("add %q: %s", f.name, f.missing))
		}
		if err := f.check(c, m.value, join(path, step(f.name))); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) object(at span, path string) *Error {
	return c.want(isObject(at.of(c.text)), at, path, "an object")
}

func (c *checker) str(at span, path string) *Error {
	return c.want(isString(at.of(c.text)), at, path, "a string")
}

// strs checks a list of strings.
func (c *checker) strs(at span, path string) *Error {
	if err := c.want(isList(at.of(c.text)), at, path, "a list of strings"); err != nil {
		return err
	}
	i := 0
	for e := range elements(c.text, at.from) {
		if !isString(e.of(c.text)) {
			return c.str(e, join(path, element(i)))
		}
		i++
	}
	return nil
}

// multiline checks a text, which is a string or a list of strings.
func (c *checker) multiline(at span, path string) *Error {
	if isString(at.of(c.text)) {
		return nil
	}
	if isList(at.of(c.text)) {
		return c.strs(at, path)
	}
	return c.want(false, at, path, "a string or a list of strings")
}

func (c *checker) count(at span, path string) *Error {
	v := at.of(c.text)
	return c.want(isNull(v) || isInteger(v) && (v[0] != '-' || string(v) == "-0"), at, path, "a whole number or null")
}

// bundle checks data by MIME type: texts, and anything below JSON types.
func (c *checker) bundle(at span, path string) *Error {
	if err := c.object(at, path); err != nil {
		return err
	}
	for m := range members(c.text, at.from) {
		if isJSONType(m.name) {
			continue
		}
		if err := c.multiline(m.value, join(path, step(m.name))); err != nil {
			return err
		}
	}
	return nil
}

func isJSONType(mime string) bool {
	sub, ok := strings.CutPrefix(mime, "application/")
	return ok && (sub == "json" || strings.HasSuffix(sub, "+json"))
}

func (c *checker) attachments(at span, path string) *Error {
	if err := c.object(at, path); err != nil {
		return err
	}
	for m := range members(c.text, at.from) {
		if err := c.bundle(m.value, join(path, step(m.name))); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) outputs(at span, path string) *Error {
	if err := c.want(isList(at.of(c.text)), at, path, "a list of outputs"); err != nil {
		return err
	}
	i := 0
	for e := range elements(c.text, at.from) {
		if err := c.typed(e, join(path, element(i)), "output_type", outputFields, nil); err != nil {
			return err
		}
		i++
	}
	return nil
}

// cell checks a cell. Whether ids are unique is not the matter of one cell.
func (c *checker) cell(at span, path string) *Error {
	var ids []field
	if c.minor >= idMinor {
		ids = []field{{"id", "", (*checker).id}}
	}
	return c.typed(at, path, "cell_type", cellFields, ids)
}

// typed checks an object that says of which type it is, and so what it holds.
func (c *checker) typed(at span, path, key string, types map[string][]field, more []field) *Error {
	if err := c.object(at, path); err != nil {
		return err
	}
	var kind member
	for m := range members(c.text, at.from) {
		if m.name == key {
			kind = m
		}
	}
	if kind.key == (span{}) {
		return c.fail(at.from, path, fmt.Sprintf("%q is missing", key), "")
	}
	if err := c.str(kind.value, join(path, step(key))); err != nil {
		return err
	}
	name := decode(kind.value.of(c.text))
	fields, ok := types[name]
	if !ok {
		return c.fail(kind.value.from, join(path, step(key)), fmt.Sprintf("nbformat 4 has no %s %q", key, clip(name)), "")
	}
	return c.fields(at, path, slices.Concat(more, fields), true)
}

func (c *checker) id(at span, path string) *Error {
	v := at.of(c.text)
	if err := c.str(at, path); err != nil {
		return err
	}
	if !validID(decode(v)) {
		return c.fail(at.from, path, "the id is not of 1 to 64 letters, digits, hyphens and underscores", "give the cell another id")
	}
	return nil
}
