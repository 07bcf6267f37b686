// Package ipynb reads and writes Jupyter notebook files of nbformat 4.0 to 4.5
// without losing a byte.
//
// A [Notebook] is the text of its file with the places of its cells. [Read]
// takes the text apart, edits replace the text of what they are about, and
// [Notebook.Bytes] puts it together: what was not edited stays as it was
// written, with its order of keys, indentation, escapes, numbers, unknown
// fields, line ends, byte order mark and last newline. What is written anew is
// written in the manner of the file, and in that of nbformat where the file
// shows none.
//
//	nb, err := ipynb.Read(data)
//	for cell := range nb.Cells() { ... }
//	err = nb.SetSource(id, "print(1)\n")
//	err = os.WriteFile(name, nb.Bytes(), 0o644)
//
// # Cells and ids
//
// Cells are named by id. A cell without one gets one that is derived from its
// content, so it is the same each time the file is read as long as the cell is
// the same; so does the second cell of two with one id. Format 4.5 demands ids:
// there a cell that is edited is written with the id it goes by. In older
// formats, which allow none, ids stay in memory.
//
// # What is refused
//
// [Read] refuses what is no JSON, no notebook, or of another format, with the
// place and a hint, see [Error]. What nbformat objects to and nothing depends on
// (unknown fields, odd metadata, missing and repeated ids) is kept, and told by
// [Notebook.Faults]. Edits refuse what would make the file invalid.
//
// # Texts
//
// Sources are strings of UTF-8, but for lone surrogates, which a file may hold
// as \ud83d: each is the three bytes that UTF-8 would have for it, if it had
// any, and becomes the same escape again. JSON handed out is that of the file.
// It may hold NaN, Infinity and -Infinity, which nbformat reads and writes and
// encoding/json does not.
//
// # Limits
//
// A Notebook is for one goroutine at a time. It keeps the data given to Read,
// which must not change. Reading and writing take time in proportion to the
// text, and memory for the places of cells and their fields, not for what is in
// them. The package opens no files, runs nothing and converts no older formats.
package ipynb
