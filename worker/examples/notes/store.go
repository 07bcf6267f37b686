package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
)

// Note is one note.
type Note struct {
	ID   int    `json:"id"` // its place in the file
	Text string `json:"text"`
}

// Store keeps notes in a file, one JSON string a line. It holds nothing in
// memory: while a worker is replaced, two of them use the file. It is safe for
// concurrent use.
type Store struct {
	path string
	mu   sync.Mutex // one Add at a time
}

// Add returns the new note once it is on disk.
func (s *Store) Add(text string) (Note, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line, err := json.Marshal(text)
	if err != nil {
		return Note{}, fmt.Errorf("adding a note: %w", err)
	}
	file, err := os.OpenFile(s.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return Note{}, fmt.Errorf("adding a note: %w", err)
	}
	// The line end comes first, so that a line cut off by a crash spoils nothing.
	_, err = file.Write(append([]byte{'\n'}, line...))
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return Note{}, fmt.Errorf("adding a note: %w", err)
	}
	notes, err := s.Search("")
	if err != nil || len(notes) == 0 {
		return Note{}, err
	}
	return notes[len(notes)-1], nil
}

// Search returns the notes that contain query, oldest first; all if it is empty.
func (s *Store) Search(query string) ([]Note, error) {
	data, err := os.ReadFile(s.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the notes: %w", err)
	}
	found, id := []Note{}, 0
	for line := range bytes.Lines(data) {
		var text string
		if json.Unmarshal(line, &text) != nil {
			continue // cut off by a crash
		}
		id++
		if strings.Contains(strings.ToLower(text), strings.ToLower(query)) {
			found = append(found, Note{id, text})
		}
	}
	return found, nil
}
