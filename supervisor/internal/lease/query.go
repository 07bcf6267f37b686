package lease

// Watches reports whether the connection has a lease of a URI, or has asked for
// one.
func (t *Table) Watches(uri string) bool { return t.connection.leases[uri] != nil }

// Waiting reports whether Next has something to tell.
func (t *Table) Waiting() bool { return len(t.queue) > 0 }

// Used returns how many leases there are, of all holders.
func (t *Table) Used() int { return t.used }
