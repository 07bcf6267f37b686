package ipynb

import (
	"slices"
	"strings"
)

// since is a field of metadata that nbformat describes from a minor version on.
type since struct {
	minor int
	field
}

var (
	notebookMetadata = []since{
		{0, field{"kernelspec", "", (*checker).kernelspec}},
		{0, field{"language_info", "", (*checker).language}},
		{0, field{"orig_nbformat", "", (*checker).original}},
		{2, field{"title", "", (*checker).str}},
		{2, field{"authors", "", (*checker).list}},
	}
	cellMetadata = []since{
		{0, field{"name", "", (*checker).name}},
		{0, field{"tags", "", (*checker).tags}},
		{3, field{"jupyter", "", (*checker).object}},
	}
	rawMetadata = append([]since{
		{0, field{"format", "", (*checker).str}},
	}, cellMetadata...)
	codeMetadata = append([]since{
		{0, field{"collapsed", "", (*checker).boolean}},
		{0, field{"scrolled", "", (*checker).scrolled}},
		{4, field{"execution", "", (*checker).times}},
	}, cellMetadata...)
)

// metadata checks an object that may hold anything, but a few things in one
// form only. Those are faults, since every reader gets along without them.
func (c *checker) metadata(at span, path string, described []since) *Error {
	if err := c.object(at, path); err != nil {
		return err
	}
	for _, d := range described {
		if d.minor <= c.minor {
			c.fault(c.fields(at, path, []field{d.field}, false))
		}
	}
	return nil
}

func (c *checker) notebookMetadata(at span, path string) *Error {
	return c.metadata(at, path, notebookMetadata)
}

func (c *checker) markdownMetadata(at span, path string) *Error {
	return c.metadata(at, path, cellMetadata)
}

func (c *checker) rawMetadata(at span, path string) *Error { return c.metadata(at, path, rawMetadata) }

func (c *checker) codeMetadata(at span, path string) *Error {
	return c.metadata(at, path, codeMetadata)
}

func (c *checker) kernelspec(at span, path string) *Error {
	return c.fields(at, path, []field{
		{"name", `""`, (*checker).str},
		{"display_name", `""`, (*checker).str},
	}, false)
}

func (c *checker) language(at span, path string) *Error {
	return c.fields(at, path, []field{
		{"name", `""`, (*checker).str},
		{"codemirror_mode", "", (*checker).mode},
		{"file_extension", "", (*checker).str},
		{"mimetype", "", (*checker).str},
		{"pygments_lexer", "", (*checker).str},
	}, false)
}

func (c *checker) mode(at span, path string) *Error {
	v := at.of(c.text)
	return c.want(isString(v) || isObject(v), at, path, "a string or an object")
}

func (c *checker) original(at span, path string) *Error {
	v := at.of(c.text)
	return c.want(isInteger(v) && v[0] != '-' && v[0] != '0', at, path, "a version from 1 on")
}

func (c *checker) list(at span, path string) *Error {
	return c.want(isList(at.of(c.text)), at, path, "a list")
}

func (c *checker) boolean(at span, path string) *Error {
	return c.want(isBool(at.of(c.text)), at, path, "true or false")
}

func (c *checker) scrolled(at span, path string) *Error {
	v := at.of(c.text)
	return c.want(isBool(v) || isString(v) && decode(v) == "auto", at, path, `true, false or "auto"`)
}

func (c *checker) times(at span, path string) *Error {
	if err := c.object(at, path); err != nil {
		return err
	}
	for m := range members(c.text, at.from) {
		if err := c.str(m.value, join(path, step(m.name))); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) name(at span, path string) *Error {
	if err := c.str(at, path); err != nil {
		return err
	}
	name := strings.TrimSuffix(decode(at.of(c.text)), "\n")
	return c.want(name != "" && !strings.Contains(name, "\n"), at, path, "a name in one line")
}

func (c *checker) tags(at span, path string) *Error {
	if err := c.strs(at, path); err != nil {
		return err
	}
	var tags []string
	for e := range elements(c.text, at.from) {
		tag := decode(e.of(c.text))
		if tag == "" || strings.Contains(tag, ",") || slices.Contains(tags, tag) {
			return c.fail(e.from, join(path, element(len(tags))), "a tag is empty, repeated or has a comma", "")
		}
		tags = append(tags, tag)
	}
	return nil
}
