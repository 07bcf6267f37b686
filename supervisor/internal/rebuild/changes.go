package rebuild

import "time"

// maxCancels is how many builds in a row are ended by a change: a file that
// each build writes would end all of them.
const maxCancels = 3

// maxPause bounds the pause before a build that follows another because of what
// was written during that one.
const maxPause = time.Minute

// changes tells what people write from what builds write, which no system tells
// of a file. It is a matter of when:
//
//	no build runs           somebody edits; the file counts as edited
//	a build runs            an edited file: somebody goes on editing, and the
//	                        build is out of date
//	                        another: perhaps it is the build's; once it has
//	                        ended, one more build is due if the content is new
//
// A file that a build has written with the content that it had is an output, for
// as long as each build writes it. While it keeps its content it is nobody's
// edit, whoever wrote it: another window may build the same project.
//
// So a build that writes into what is watched costs one more build and no
// endless loop; one whose output is different each time is repeated after
// pauses that double. The zero value is ready. It has no clock and no
// goroutine, and reads files by digest alone.
type changes struct {
	edited  map[string]bool   // changed while no build ran, and during none that ended since
	written map[string]string // digests of what builds may have written
	outputs map[string]bool   // in written, and proven to be a build's own
	during  map[string]bool   // changed during the build that runs
	lost    bool              // something unknown did
	cancels int               // builds in a row that a change ended
	repeats int               // builds in a row whose reason is what changed during the one before
}

// digest identifies the content of a file, of a missing one too.
type digest func(path string) string

// outside notes a change while no build runs, and reports whether it is one. An
// empty path stands for any file.
func (c *changes) outside(path string, content digest) bool {
	c.init()
	if known, ok := c.written[path]; ok {
		now := content(path)
		if known == now {
			return false
		}
		c.written[path] = now
	}
	c.edited[path] = true
	delete(c.outputs, path)
	c.repeats = 0
	return true
}

// inside notes a change while a build runs, and reports whether that build is
// out of date.
func (c *changes) inside(path string) bool {
	c.init()
	if path == "" {
		c.lost = true
		return false
	}
	c.during[path] = true
	return c.edited[path] && c.cancels < maxCancels
}

// cancelled notes that the build has been ended by a change; another follows.
func (c *changes) cancelled(content digest) {
	c.cancels++
	for path := range c.during {
		if _, ok := c.written[path]; ok {
			c.written[path] = content(path)
		}
	}
	clear(c.during)
	c.lost = false
}

// ended notes the end of a build, and reports whether another is due for what
// changed meanwhile, and after which pause.
func (c *changes) ended(content digest) (again bool, pause time.Duration) {
	c.init()
	again, c.lost, c.cancels = c.lost, false, 0
	for path := range c.outputs {
		if !c.during[path] {
			delete(c.outputs, path)
		}
	}
	for path := range c.during {
		now := content(path)
		known, ok := c.written[path]
		c.written[path] = now
		delete(c.edited, path)
		switch {
		case c.outputs[path]:
		case ok && known == now:
			c.outputs[path] = true
		default:
			again = true
		}
	}
	clear(c.during)
	if !again {
		return false, 0
	}
	if c.repeats > 0 {
		pause = min(time.Second<<min(c.repeats-1, 10), maxPause)
	}
	c.repeats++
	return true, pause
}

func (c *changes) init() {
	if c.edited == nil {
		c.edited, c.written = make(map[string]bool), make(map[string]string)
		c.outputs, c.during = make(map[string]bool), make(map[string]bool)
	}
}
