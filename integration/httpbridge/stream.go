package httpbridge

import (
	"encoding/json"
	"net/http"
	"sync"
)

// exchange is one request of a client.
type exchange struct {
	id, wireID       json.RawMessage // the client's, the child's
	token, wireToken json.RawMessage // of progress, nil if none
	method           string
	modern           bool
	stream           *stream
}

func (e *exchange) isListen() bool { return e.method == "subscriptions/listen" }

// reply ends the exchange with its answer.
func (e *exchange) reply(m object) {
	status := http.StatusOK
	switch code := m.errorCode(); {
	case !e.modern:
	case code == -32601:
		status = http.StatusNotFound
	case badRequest(code):
		status = http.StatusBadRequest
	}
	e.stream.reply(status, m.bytes())
}

func (s *stream) event(m []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.openLocked()
	s.eventLocked(m)
}

// stream is one HTTP response: a JSON body, or server-sent events.
type stream struct {
	session string
	done    chan struct{} // closed by end

	mu     sync.Mutex // guards what follows
	w      http.ResponseWriter
	opened bool // headers are out, events may follow
	ended  bool
}

func newStream(w http.ResponseWriter, session string) *stream {
	return &stream{w: w, session: session, done: make(chan struct{})}
}

// open sends the headers of an event stream.
func (s *stream) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.openLocked()
}

func (s *stream) openLocked() {
	if s.opened || s.ended {
		return
	}
	s.opened = true
	s.headers("text/event-stream")
	s.w.WriteHeader(http.StatusOK)
	s.flushLocked()
}

func (s *stream) headers(contentType string) {
	s.w.Header().Set("Content-Type", contentType)
	s.w.Header().Set("Cache-Control", "no-cache")
	if s.session != "" {
		s.w.Header().Set(sessionHeader, s.session)
	}
}

func (s *stream) eventLocked(m []byte) {
	if s.ended {
		return
	}
	_, _ = s.w.Write([]byte("event: message\ndata: " + string(m) + "\n\n")) // a client that is gone ends the handler
	s.flushLocked()
}

func (s *stream) flushLocked() {
	if f, ok := s.w.(http.Flusher); ok {
		f.Flush()
	}
}

// reply sends the last message and ends the response.
func (s *stream) reply(status int, m []byte) {
	s.mu.Lock()
	switch {
	case s.ended:
	case s.opened:
		s.eventLocked(m)
	default:
		s.headers("application/json")
		s.w.WriteHeader(status)
		_, _ = s.w.Write(m) // a client that is gone ends the handler
		s.opened = true
	}
	s.mu.Unlock()
	s.end()
}

// end lets the handler return. Nothing is written afterwards.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	if !s.opened {
		s.w.WriteHeader(http.StatusBadGateway)
	}
	close(s.done)
}
