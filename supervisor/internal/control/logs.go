package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-mcp/holdfast/internal/logging"
)

// keptHeader says how many of the lines were there before the request.
const keptHeader = "Holdfast-Kept"

// maxLogLine is beyond what a log keeps of a line.
const maxLogLine = 1 << 20

// kept answers with the lines of the log that are kept.
func kept(w http.ResponseWriter, log *logging.Recent) {
	lines, _, _, _ := log.Since(0)
	w.Header().Set(keptHeader, strconv.Itoa(len(lines)))
	writeLines(w, lines)
}

// follow answers with the lines that are kept and those to come, until ctx or
// the request ends. What comes faster than it is read is left out, and counted.
func follow(ctx context.Context, w http.ResponseWriter, r *http.Request, log *logging.Recent) {
	lines, next, _, more := log.Since(0)
	w.Header().Set(keptHeader, strconv.Itoa(len(lines)))
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	for last := false; ; {
		writeLines(w, lines)
		if out.Flush() != nil || last {
			return
		}
		select {
		case <-more:
		case <-r.Context().Done():
			return
		case <-ctx.Done():
			last = true // there may be a rest
		}
		var missed uint64
		lines, next, missed, more = log.Since(next)
		if missed > 0 {
			writeLines(w, [][]byte{missing(missed)})
		}
	}
}

func missing(lines uint64) []byte {
	return fmt.Appendf(nil, `{"level":"warn","time":%q,"msg":"%d lines are missing here: they came faster than they were read"}`,
		time.Now().Format(time.RFC3339Nano), lines)
}

func writeLines(w io.Writer, lines [][]byte) {
	for _, line := range lines {
		_, _ = w.Write(append(slices.Clip(line), '\n')) // a reader that is gone is seen when the answer is flushed
	}
}

// Logs calls each with every line of the instance's log, a JSON object, the
// oldest first: the last ones of those that are kept, all if last is negative;
// then, if it follows, those to come, until the supervisor ends.
func (i Instance) Logs(ctx context.Context, last int, follows bool, each func(line []byte) error) error {
	path := "/logs"
	if follows {
		path += "/follow"
	}
	resp, err := i.request(ctx, http.MethodGet, path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	skip := 0
	if kept, err := strconv.Atoi(resp.Header.Get(keptHeader)); err == nil && last >= 0 {
		skip = max(0, kept-last)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxLogLine)
	for lines.Scan() {
		if skip > 0 {
			skip--
			continue
		}
		if err := each(lines.Bytes()); err != nil {
			return err
		}
	}
	err = lines.Err()
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil // the supervisor ended without finishing its answer
	}
	return err
}
