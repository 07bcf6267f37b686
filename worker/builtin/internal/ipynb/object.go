package ipynb

import (
	"slices"
	"strings"
)

// set returns the text of an object in which a member has another value, which
// write appends for the layout that it is given. A new member goes where the
// order of keys wants it, and to the end where there is none. alone is the
// layout of the object, for one that does not show any since it is empty.
func (s style) set(text []byte, name string, alone layout, write func(dst []byte, l layout) []byte) []byte {
	all := slices.Collect(members(text, 0))
	if m, ok := find(all, name); ok {
		value := write(nil, layoutOf(m.lead.of(text)))
		return splice(text, m.value, value)
	}
	if len(all) == 0 {
		return s.renderAll(nil, "{}", 1, alone, func(dst []byte, _ int, l layout) []byte {
			return write(append(appendString(dst, name, s.ascii), s.colon...), l)
		})
	}

	at := len(all)
	if sorted(all) {
		at, _ = slices.BinarySearchFunc(all, name, func(m member, name string) int { return strings.Compare(m.name, name) })
	}
	beside := all[max(at-1, 0)]
	lead := beside.lead.of(text)
	if len(all) > 1 && at < 2 {
		lead = all[1].lead.of(text) // not that of the brace
	}
	separator := "," + string(lead)
	if layoutOf(lead).nl == "" && len(all) == 1 {
		separator = "," + s.comma
	}
	added := appendString(nil, name, s.ascii)
	added = append(added, text[beside.key.to:beside.value.from]...)
	added = write(added, layoutOf(lead))
	if at == 0 {
		return splice(text, span{beside.key.from, beside.key.from}, append(added, separator...))
	}
	return splice(text, span{beside.value.to, beside.value.to}, append([]byte(separator), added...))
}

// drop returns the text of an object without the members of a name.
func drop(text []byte, name string) []byte {
	for {
		all := slices.Collect(members(text, 0))
		i := slices.IndexFunc(all, func(m member) bool { return m.name == name })
		switch {
		case i < 0:
			return text
		case len(all) == 1:
			return []byte("{}")
		case i > 0:
			text = splice(text, span{all[i-1].value.to, all[i].value.to}, nil)
		default:
			text = splice(text, span{all[0].key.from, all[1].key.from}, nil)
		}
	}
}

// splice returns a text in which a part is another; the given one stays.
func splice(text []byte, part span, with []byte) []byte {
	return slices.Concat(text[:part.from], with, text[part.to:])
}
