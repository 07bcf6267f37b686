package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// errBadAnswer is returned when an answer is not the one to its request.
var errBadAnswer = errors.New("bad answer")

// answer is what a call is answered with. Params are those of the request,
// which cat sends back.
type answer struct {
	ID     json.RawMessage `json:"id"`
	Result struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		IsError bool `json:"isError"`
	} `json:"result"`
	Params struct {
		Arguments struct {
			Text string `json:"text"`
		} `json:"arguments"`
	} `json:"params"`
	Error *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func decode(line []byte) (answer, error) {
	var a answer
	if err := json.Unmarshal(line, &a); err != nil {
		return a, fmt.Errorf("%w: %w in %s", errBadAnswer, err, shorten(line))
	}
	return a, nil
}

func (a answer) text() string {
	if len(a.Result.Content) == 1 {
		return a.Result.Content[0].Text
	}
	return a.Params.Arguments.Text
}

// checkID checks that line answers the request id with a result.
func checkID(line []byte, id int) error {
	a, err := decode(line)
	if err != nil {
		return err
	}
	if string(a.ID) != strconv.Itoa(id) || a.Error != nil || a.Result.IsError {
		return fmt.Errorf("%w to request %d: %s", errBadAnswer, id, shorten(line))
	}
	return nil
}

// checkEcho checks that line answers the request id with text.
func checkEcho(line []byte, id int, text string) error {
	if err := checkID(line, id); err != nil {
		return err
	}
	a, err := decode(line)
	if err != nil {
		return err
	}
	if a.text() != text {
		return fmt.Errorf("%w to request %d: %d bytes of text instead of %d, or others", errBadAnswer, id, len(a.text()), len(text))
	}
	return nil
}

// checkAll checks that lines answer the requests of the ids from first on,
// each once, in any order.
func checkAll(lines [][]byte, first int, text func(id int) string) error {
	seen := make([]bool, len(lines))
	for _, line := range lines {
		a, err := decode(line)
		if err != nil {
			return err
		}
		id, err := strconv.Atoi(string(a.ID))
		if err != nil || id < first || id >= first+len(lines) || seen[id-first] {
			return fmt.Errorf("%w: id %s was not asked or is answered twice", errBadAnswer, a.ID)
		}
		seen[id-first] = true
		if err := checkEcho(line, id, text(id)); err != nil {
			return err
		}
	}
	if i := slices.Index(seen, false); i >= 0 {
		return fmt.Errorf("%w: none to request %d", errBadAnswer, first+i)
	}
	return nil
}

func shorten(line []byte) string {
	s := strings.TrimSuffix(string(line), "\n")
	return s[:min(len(s), 300)]
}
