package document

import (
	"slices"
	"sort"
)

// Delta is what differs between two states. Its lists are of ids, in the order
// of the later state, or of the earlier one for what is removed.
type Delta struct {
	Added, Removed []string
	// Moved are cells, as few as possible, that stand elsewhere among those that
	// both states have.
	Moved []string
	// Changed are cells that both states have.
	Changed []Changed
	// Metadata are the keys of the notebook's metadata that differ.
	Metadata []string
}

// Changed says what of a cell differs.
type Changed struct {
	ID                        string
	Source, Type, Attachments bool
	Metadata                  []string // keys
}

// Compare returns what has to happen to a state to become another.
func Compare(from, to State) Delta {
	var d Delta
	old, present := byID(from), byID(to)
	for _, cell := range from.Cells {
		if _, ok := present[cell.ID]; !ok {
			d.Removed = append(d.Removed, cell.ID)
		}
	}
	var kept []string
	for _, cell := range to.Cells {
		i, ok := old[cell.ID]
		if !ok {
			d.Added = append(d.Added, cell.ID)
			continue
		}
		kept = append(kept, cell.ID)
		if before := from.Cells[i]; !cell.equal(before) {
			d.Changed = append(d.Changed, Changed{
				ID: cell.ID, Source: cell.Source != before.Source, Type: cell.Type != before.Type,
				Attachments: cell.Attachments != before.Attachments, Metadata: differing(before.Metadata, cell.Metadata),
			})
		}
	}
	d.Moved = moved(kept, old)
	d.Metadata = differing(from.Metadata, to.Metadata)
	return d
}

func byID(s State) map[string]int {
	all := make(map[string]int, len(s.Cells))
	for i, cell := range s.Cells {
		all[cell.ID] = i
	}
	return all
}

// differing returns the keys under which two maps differ, sorted.
func differing(a, b map[string]string) []string {
	var keys []string
	for key, value := range a {
		if other, ok := b[key]; !ok || other != value {
			keys = append(keys, key)
		}
	}
	for key := range b {
		if _, ok := a[key]; !ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// moved returns the ids that are not in a longest run of ids whose old places
// ascend: the fewest moves that explain the order.
func moved(ids []string, old map[string]int) []string {
	var ends []int // ends[n] is the index of the id with the lowest place that ends a run of n+1
	before := make([]int, len(ids))
	for i, id := range ids {
		n := sort.Search(len(ends), func(n int) bool { return old[ids[ends[n]]] > old[id] })
		before[i] = -1
		if n > 0 {
			before[i] = ends[n-1]
		}
		ends = append(ends[:n], append([]int{i}, ends[min(n+1, len(ends)):]...)...)
	}
	stays := map[string]bool{}
	if len(ends) > 0 {
		for i := ends[len(ends)-1]; i >= 0; i = before[i] {
			stays[ids[i]] = true
		}
	}
	var all []string
	for _, id := range ids {
		if !stays[id] {
			all = append(all, id)
		}
	}
	return all
}
