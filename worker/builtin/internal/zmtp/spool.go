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

// spool is a queue of messages that takes as many as come: the first in memory,
// and where they get too many in a file, until the reader has taken all.
//
//	put ---> head, in memory, while that is enough -------------------> next
//	  +----> tail, in memory --- spill ---> file, behind the head ------> next
//
// Who puts never waits for the file, which may take its time while others
// write to the same disk: only when the tail has grown beyond all measure.
type spool struct {
	dir    string
	memory int
	fail   func(error)   // told once when the file cannot be written
	ready  chan struct{} // holds one token after a change that next waits for
	spills sync.WaitGroup

	mu            sync.Mutex
	room          sync.Cond // the tail has been taken
	head          []Message
	headBytes     int
	stored        int // messages in the file, from read to written
	read, written int64
	file          *os.File
	spilling      bool // what was in the tail is on its way to the file
	tail          []Message
	tailBytes     int
	memoryOnly    bool  // the file has failed
	closed        error // set when no more come
	discarded     bool
}

// maxTail is how many bytes may wait for the file. Beyond it nothing more is
// taken from the socket, and a publisher begins to lose messages.
const maxTail = 512 << 20

func newSpool(dir string, memory int, fail func(error)) *spool {
	s := &spool{dir: dir, memory: memory, fail: fail, ready: make(chan struct{}, 1)}
	s.room.L = &s.mu
	return s
}

func (s *spool) put(m Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.tailBytes > maxTail && s.closed == nil {
		s.room.Wait()
	}
	if s.closed != nil {
		return s.closed
	}
	if s.stored == 0 && !s.spilling && s.headBytes+m.size() <= s.memory {
		s.head = append(s.head, m)
		s.headBytes += m.size()
		s.wake()
		return nil
	}
	s.tail = append(s.tail, m)
	s.tailBytes += m.size()
	if !s.spilling {
		s.spilling = true
		s.spills.Go(s.spill) // ends when the tail is empty
	}
	return nil
}

// spill moves the tail to the file, batch by batch.
func (s *spool) spill() {
	for {
		s.mu.Lock()
		batch := s.tail
		if len(batch) == 0 || s.discarded {
			s.spilling = false
			s.wake()
			s.mu.Unlock()
			return
		}
		s.tail, s.tailBytes = nil, 0
		s.room.Broadcast()
		file, at := s.file, s.written
		s.mu.Unlock()

		file, n, end, err := store(file, s.dir, at, batch)
		s.mu.Lock()
		s.file, s.stored, s.written = file, s.stored+n, end
		if err != nil {
			// What is here already stays in memory; more is not taken.
			s.memoryOnly, s.spilling = true, false
			s.tail = append(batch[n:], s.tail...)
			s.closeLocked(fmt.Errorf("%w: %w", ErrSpool, err))
		}
		s.wake()
		s.mu.Unlock()
		if err != nil {
			s.fail(fmt.Errorf("%w: %w", ErrSpool, err))
			return
		}
	}
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

// take returns the next message, nil if there is none now.
func (s *spool) take() (Message, error) {
	s.mu.Lock()
	if len(s.head) == 0 && s.stored == 0 && s.memoryOnly {
		s.head, s.tail = s.tail, nil
	}
	switch {
	case s.discarded:
		s.mu.Unlock()
		return nil, ErrClosed
	case len(s.head) > 0:
		defer s.mu.Unlock()
		m := s.head[0]
		s.head[0] = nil
		if s.head = s.head[1:]; len(s.head) == 0 {
			s.head = nil // what it grew to is not kept
		}
		s.headBytes -= m.size()
		return m, nil
	case s.stored > 0:
		file, at := s.file, s.read
		s.mu.Unlock()
		return s.takeStored(file, at)
	case s.spilling:
		s.mu.Unlock()
		return nil, nil
	}
	defer s.mu.Unlock()
	return nil, s.closed
}

// takeStored returns the first message in the file. The lock is not held while
// the disk works.
func (s *spool) takeStored(file *os.File, at int64) (Message, error) {
	m, end, err := load(file, at)
	s.mu.Lock()
	if s.discarded {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	if err != nil {
		s.mu.Unlock()
		return nil, fmt.Errorf("%w: %w", ErrSpool, err)
	}
	s.read = end
	s.stored--
	var drained *os.File
	if s.stored == 0 && !s.spilling {
		drained, s.file, s.read, s.written = s.file, nil, 0, 0
	}
	s.mu.Unlock()
	remove(drained)
	return m, nil
}

func (s *spool) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.head) + s.stored + len(s.tail)
	if s.spilling {
		n++ // at least: what is on its way
	}
	return n
}

// close tells that no more messages come, and why.
func (s *spool) close(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeLocked(err)
}

func (s *spool) closeLocked(err error) {
	if s.closed == nil {
		s.closed = err
	}
	s.room.Broadcast()
	s.wake()
}

// discard drops what has not been taken.
func (s *spool) discard() {
	s.mu.Lock()
	s.discarded = true
	s.head, s.tail, s.stored = nil, nil, 0
	s.closeLocked(ErrClosed)
	s.mu.Unlock()
	s.spills.Wait() // no longer than one batch takes to be written
	s.mu.Lock()
	defer s.mu.Unlock()
	remove(s.file)
	s.file = nil
}

func (s *spool) wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// largeFrame is from where on a frame is written by itself, without a copy.
const largeFrame = 16 << 10

// store appends messages to the file, which it creates if there is none, and
// returns how many it has written and where the file ends. A record is the size
// of the rest, the number of frames, the lengths of all, and the frames.
func store(file *os.File, dir string, at int64, batch []Message) (_ *os.File, n int, end int64, err error) {
	if file == nil {
		if file, err = os.CreateTemp(dir, "holdfast-spool-"); err != nil {
			return nil, 0, at, err
		}
		if runtime.GOOS != "windows" {
			os.Remove(file.Name()) // it lives as long as it is open
		}
	}
	var buffer []byte
	for i, m := range batch {
		buffer = append(buffer[:0], make([]byte, 8)...)
		buffer = binary.AppendUvarint(buffer, uint64(len(m)))
		for _, f := range m {
			buffer = binary.AppendUvarint(buffer, uint64(len(f)))
		}
		size := len(buffer) - 8
		for _, f := range m {
			size += len(f)
		}
		binary.LittleEndian.PutUint64(buffer, uint64(size))
		end := at
		for _, f := range m {
			if len(f) < largeFrame {
				buffer = append(buffer, f...)
				continue
			}
			if end, err = write(file, end, buffer, f); err != nil {
				return file, i, at, err
			}
			buffer = buffer[:0]
		}
		if end, err = write(file, end, buffer); err != nil {
			return file, i, at, err
		}
		at = end
	}
	return file, len(batch), at, nil
}

func write(file *os.File, at int64, parts ...[]byte) (end int64, err error) {
	for _, part := range parts {
		if _, err := file.WriteAt(part, at); err != nil {
			return at, err
		}
		at += int64(len(part))
	}
	return at, nil
}

func load(file *os.File, at int64) (m Message, end int64, err error) {
	var size [8]byte
	if _, err := file.ReadAt(size[:], at); err != nil {
		return nil, 0, err
	}
	record := make([]byte, binary.LittleEndian.Uint64(size[:]))
	if _, err := file.ReadAt(record, at+8); err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, err
	}
	end = at + 8 + int64(len(record))
	count, n := binary.Uvarint(record)
	record = record[n:]
	lengths := make([]int, count)
	for i := range lengths {
		length, n := binary.Uvarint(record)
		lengths[i], record = int(length), record[n:]
	}
	m = make(Message, count)
	for i, length := range lengths {
		m[i], record = record[:length:length], record[length:]
	}
	return m, end, nil
}

// remove closes a file that is not needed any more; on Windows only then can it
// go.
func remove(file *os.File) {
	if file == nil {
		return
	}
	file.Close()
	if runtime.GOOS == "windows" {
		os.Remove(file.Name())
	}
}

// size is what a message counts for.
func (m Message) size() int {
	n := 0
	for _, f := range m {
		n += len(f) + frameCost
	}
	return n
}
