package zmtp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
)

// spool is a queue of messages that takes as many as come: the first in
// memory, and from where they get too many in a file, until the reader has
// taken all of that.
//
//	put -->  file [ read ..... written ]  -->  memory [ head .... ]  --> next
//	         used while it holds messages       filled while the file is empty
type spool struct {
	dir    string
	memory int
	ready  chan struct{} // holds one token after a change that next waits for

	mu            sync.Mutex
	queue         []Message
	bytes         int // of the queue
	file          *os.File
	stored        int // messages in the file
	read, written int64
	closed        error // set when no more come
	discarded     bool
}

func newSpool(dir string, memory int) *spool {
	return &spool{dir: dir, memory: memory, ready: make(chan struct{}, 1)}
}

func (s *spool) put(m Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed != nil {
		return s.closed
	}
	if s.stored > 0 || s.bytes+m.size() > s.memory {
		if err := s.storeLocked(m); err != nil {
			return fmt.Errorf("%w: %w", ErrSpool, err)
		}
	} else {
		s.queue = append(s.queue, m)
		s.bytes += m.size()
	}
	s.wake()
	return nil
}

// next waits for a message. One that is there is returned even if the context
// has ended.
func (s *spool) next(ctx context.Context) (Message, error) {
	for {
		if m, err := s.take(); m != nil || err != nil {
			return m, err
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
			if m, err := s.take(); m != nil || err != nil {
				return m, err
			}
			return nil, context.Cause(ctx)
		}
	}
}

func (s *spool) take() (Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.discarded:
		return nil, ErrClosed
	case len(s.queue) > 0:
		m := s.queue[0]
		s.queue[0] = nil
		if s.queue = s.queue[1:]; len(s.queue) == 0 {
			s.queue = nil // what it grew to is not kept
		}
		s.bytes -= m.size()
		return m, nil
	case s.stored > 0:
		m, err := s.loadLocked()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSpool, err)
		}
		return m, nil
	}
	return nil, s.closed
}

func (s *spool) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue) + s.stored
}

// close tells that no more messages come, and why.
func (s *spool) close(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed == nil {
		s.closed = err
	}
	s.wake()
}

// discard drops what has not been taken.
func (s *spool) discard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.discarded = true
	if s.closed == nil {
		s.closed = ErrClosed
	}
	s.queue, s.bytes, s.stored = nil, 0, 0
	s.wake()
	s.removeLocked()
}

func (s *spool) wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// storeLocked appends a record to the file: its size, then the number of
// frames, then each with its length before it.
func (s *spool) storeLocked(m Message) error {
	if s.file == nil {
		file, err := os.CreateTemp(s.dir, "holdfast-spool-")
		if err != nil {
			return err
		}
		if runtime.GOOS != "windows" {
			os.Remove(file.Name()) // it lives as long as it is open
		}
		s.file = file
	}
	record := make([]byte, 8, 8+m.size())
	record = binary.AppendUvarint(record, uint64(len(m)))
	for _, f := range m {
		record = binary.AppendUvarint(record, uint64(len(f)))
		record = append(record, f...)
	}
	binary.LittleEndian.PutUint64(record, uint64(len(record)-8))
	if _, err := s.file.WriteAt(record, s.written); err != nil {
		return err
	}
	s.written += int64(len(record))
	s.stored++
	return nil
}

func (s *spool) loadLocked() (Message, error) {
	var size [8]byte
	if _, err := s.file.ReadAt(size[:], s.read); err != nil {
		return nil, err
	}
	record := make([]byte, binary.LittleEndian.Uint64(size[:]))
	if _, err := s.file.ReadAt(record, s.read+8); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	s.read += int64(8 + len(record))
	if s.stored--; s.stored == 0 {
		s.read, s.written = 0, 0
		if err := s.file.Truncate(0); err != nil {
			return nil, err
		}
	}
	count, n := binary.Uvarint(record)
	record = record[n:]
	m := make(Message, count)
	for i := range m {
		size, n := binary.Uvarint(record)
		m[i] = record[n : n+int(size) : n+int(size)]
		record = record[n+int(size):]
	}
	return m, nil
}

func (s *spool) removeLocked() {
	if s.file == nil {
		return
	}
	s.file.Close()
	if runtime.GOOS == "windows" {
		os.Remove(s.file.Name())
	}
	s.file = nil
}

// size is what a message counts for.
func (m Message) size() int {
	n := 0
	for _, f := range m {
		n += len(f) + frameCost
	}
	return n
}
