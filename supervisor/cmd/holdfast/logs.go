package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-mcp/holdfast/internal/logging"
)

func newLogs() *cobra.Command {
	var follow, asJSON bool
	last := 100
	cmd := &cobra.Command{
		Use:   "logs [NAME|PID|DIR]",
		Short: "Show the log of a running supervisor, and what its server prints on stderr",
		Long: `logs shows the last lines of a supervisor's log, with what the server and a
build have printed. Lines of them have "|" before the text. A supervisor keeps
2000 lines or 1 MiB of them in memory, from level info on whatever --log-level
is; what shall outlive it goes to --log-file of "holdfast run".

Values given by --env and --env-file are masked, and control characters are
shown as escapes. With -f it goes on until the supervisor ends.
` + choosing,
		Example: `  holdfast logs
  holdfast logs notes -f -n 0
  holdfast logs 4711 --json | jq -r 'select(.level == "warn") | .msg'`,
		Args: atMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			one, err := chosen(cmd, args)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			p := newPainter(out)
			err = one.Logs(cmd.Context(), last, follow, func(line []byte) error {
				if asJSON {
					_, err := fmt.Fprintf(out, "%s\n", line)
					return err
				}
				_, err := io.WriteString(out, p.logLine(line)+"\n")
				return err
			})
			switch {
			case cmd.Context().Err() != nil:
				err = nil // it was interrupted, which is how it is ended
			case err == nil && follow:
				fmt.Fprintf(cmd.ErrOrStderr(), "%s (pid %d) has ended\n", one.Status.Name, one.Status.Pid)
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&follow, "follow", "f", false, "go on with what comes, until the supervisor ends")
	flags.IntVarP(&last, "lines", "n", last, "how many of the last `LINES` to show first; -1 for all that are kept")
	flags.BoolVar(&asJSON, "json", false, "print each line as a JSON object")
	return cmd
}

// printed has the messages under which the lines of other programs are logged.
var printed = map[string]bool{"server": true, "build": true}

// logLine is a line of the log for people. What is no such line stays as it is.
func (p painter) logLine(line []byte) string {
	fields, err := members(line)
	if err != nil {
		return readable(string(line))
	}
	var at, level, message, text string
	var rest []string
	for _, f := range fields {
		switch f.name {
		case "time":
			at = clock(f.text())
		case "level":
			level = f.text()
		case "msg":
			message = f.text()
		case logging.FieldLine:
			text = f.text()
		default:
			rest = append(rest, f.name+"="+f.short())
		}
	}
	out := []string{oneLine(at), p.paint(levelColours[level], oneLine(fmt.Sprintf("%-5s", strings.ToUpper(level))))}
	if printed[message] {
		message += " | " + text
	}
	out = append(out, oneLine(message))
	if len(rest) > 0 {
		out = append(out, p.paint(grey, oneLine(strings.Join(rest, " "))))
	}
	return strings.Join(out, " ")
}

func clock(stamp string) string {
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		return stamp
	}
	return at.Local().Format("15:04:05.000")
}

// member is one member of a JSON object, in the order of the text.
type member struct {
	name  string
	value json.RawMessage
}

func (m member) text() string {
	var s string
	if json.Unmarshal(m.value, &s) == nil {
		return s
	}
	return string(m.value)
}

// short is the value without quotes where it needs none.
func (m member) short() string {
	if s := m.text(); s != "" && !strings.ContainsAny(s, " \t\"=") {
		return s
	}
	return string(m.value)
}

func members(object []byte) ([]member, error) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.Join(err, errors.New("not an object"))
	}
	var all []member
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		m := member{name: fmt.Sprint(name)}
		if err := dec.Decode(&m.value); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}
