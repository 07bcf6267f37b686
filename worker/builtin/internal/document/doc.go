// Package document decides what becomes of a notebook that several authors
// edit: cells by id, a history of revisions, and what happens to an edit whose
// author has not seen the latest one.
//
// A [Document] has one authority, which calls it. Each edit is a [Mutation]: it
// names the revision its author saw, an id of its own, and changes that are
// made together or not at all. Prepare decides, and returns an [Entry]; Commit
// takes it into the document. In between the authority can make it durable.
//
//	entry, fresh, err := doc.Prepare(mutation, time.Now())
//	if fresh {
//		err = journal.Append(entry)
//		...
//		err = doc.Commit(entry)
//	}
//	answer(entry.Revision, entry.Merged)
//
// The entries committed in order to a document that was made alike give the
// same document: a journal is replayed by Commit.
//
// # History
//
// A [Revision] is a hash of the one before it and of what was changed, down to
// the first, which is a hash of the document's id, its epoch and its content. So
// equal revisions mean equal histories, revisions of another document are never
// taken for one of this, and a damaged journal does not replay.
//
// # Edits that are late
//
//	what changed since               the edit               then
//	another cell, or its place       any                    made
//	the same cell, to the same       any                    made; changes nothing
//	its place                        a move                 made: the last one counts
//	its source, in other lines       its source             merged by line
//	its source, in the same lines    its source             conflict
//	its source or type               its type, a deletion   conflict
//	its type                         its source             conflict
//	it was deleted                   any but a deletion     conflict
//	metadata under the same key      metadata               conflict
//	metadata                         a deletion             conflict
//	the cell it should follow went   an insertion, a move   behind the nearest cell before that
//
// A [ConflictError] has the three texts and changes nothing. A revision that is
// unknown or forgotten is ErrStaleBase.
//
// The package is pure: it has no clock, starts nothing, reads and writes nothing.
// A Document is for one goroutine at a time; a [State] is never changed. Outputs
// are no part of the document, since they belong to executions.
package document
