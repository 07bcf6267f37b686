package httpbridge

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

const sessionHeader = "Mcp-Session-Id"

// Codes of the errors that HTTP adds.
const (
	codeHeaderMismatch = -32020
	codeNoSession      = -32001
	codeNotAllowed     = -32000
)

// Bridge is a listening HTTP server with the children behind it.
type Bridge struct {
	// URL is where it listens, on localhost.
	URL string

	command  []string
	env      []string
	idle     time.Duration
	listener net.Listener
	server   *http.Server
	served   chan struct{}

	mu       sync.Mutex // guards what follows
	sessions map[string]*child
	shared   *child
	started  int
}

// Listen starts a bridge on a free port of localhost. The command is started,
// with env added to the environment, when a client needs it. A session of the legacy era ends after it had no
// open HTTP request for as long as idle says; never if idle is zero.
func Listen(command, env []string, idle time.Duration) (*Bridge, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return nil, err
	}
	b := &Bridge{
		URL: "http://localhost:" + port, command: command, env: env, idle: idle, listener: l,
		served: make(chan struct{}), sessions: map[string]*child{},
	}
	b.server = &http.Server{Handler: http.HandlerFunc(b.handle)}
	go func() { // ends with Close
		defer close(b.served)
		if err := b.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			b.closeChildren()
		}
	}()
	return b, nil
}

// Started returns how many times the command was started.
func (b *Bridge) Started() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.started
}

// Signal sends a signal to each child that has answered something, and
// returns to how many.
func (b *Bridge) Signal(signal os.Signal) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, c := range b.childrenLocked() {
		if c.signal(signal) {
			n++
		}
	}
	return n
}

// childrenLocked returns all children. Callers hold the mutex.
func (b *Bridge) childrenLocked() []*child {
	children := slices.Collect(maps.Values(b.sessions))
	if b.shared != nil {
		children = append(children, b.shared)
	}
	return children
}

// Close ends the children and all responses.
func (b *Bridge) Close() error {
	b.closeChildren()
	err := b.server.Close()
	<-b.served
	return err
}

func (b *Bridge) closeChildren() {
	b.mu.Lock()
	children := b.childrenLocked()
	b.sessions, b.shared = map[string]*child{}, nil
	b.mu.Unlock()
	var stops sync.WaitGroup
	for _, c := range children {
		stops.Go(c.stop) // ends with the child
	}
	stops.Wait()
}

func (b *Bridge) handle(w http.ResponseWriter, r *http.Request) {
	if !isLocal(r.Host) || !isLocal(r.Header.Get("Origin")) {
		refuse(w, http.StatusForbidden, -32600, "forbidden host", nil)
		return
	}
	id := r.Header.Get(sessionHeader)
	session := b.use(id)
	if session != nil {
		defer session.leave()
	}
	if id != "" && session == nil && r.Method != http.MethodPost {
		refuse(w, http.StatusNotFound, codeNoSession, "session not found", nil)
		return
	}
	switch {
	case r.Method == http.MethodPost:
		b.post(w, r, id, session)
	case r.Method == http.MethodDelete && session != nil:
		b.mu.Lock()
		delete(b.sessions, id)
		b.mu.Unlock()
		session.stop()
	case r.Method == http.MethodGet && session != nil:
		s := newStream(w, id)
		s.open()
		session.attach(s)
		select {
		case <-s.done:
		case <-r.Context().Done():
			session.detach(s)
			s.end()
		}
	default:
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func (b *Bridge) post(w http.ResponseWriter, r *http.Request, id string, session *child) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m, err := parse(body)
	if err != nil || m == nil {
		refuse(w, http.StatusBadRequest, -32700, "parse error", nil)
		return
	}
	version := m.at("params", "_meta").text(versionKey)
	modern := r.Header.Get("MCP-Protocol-Version") >= "2026" || m.at("params", "_meta").has(versionKey)
	switch {
	case modern:
		if what := mismatch(r, m, version); what != "" {
			refuse(w, http.StatusBadRequest, codeHeaderMismatch, what+" header mismatch", m["id"])
			return
		}
		session, err = b.sharedChild()
	case m.text("method") == "initialize":
		if session, err = b.newSession(); err == nil {
			defer session.leave()
		}
	case id == "":
		refuse(w, http.StatusBadRequest, codeNotAllowed, sessionHeader+" required", m["id"])
		return
	case session == nil || session.isDead():
		refuse(w, http.StatusNotFound, codeNoSession, "session not found", m["id"])
		return
	}
	if err != nil {
		refuse(w, http.StatusBadGateway, -32603, err.Error(), m["id"])
		return
	}
	exchangeWith(session, w, r, m)
}

// exchangeWith sends a message to the child and, if it is a request, waits
// for the answer.
func exchangeWith(c *child, w http.ResponseWriter, r *http.Request, m object) {
	if !m.isRequest() {
		c.send(m)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	s := newStream(w, c.session)
	e := c.begin(m, s)
	select {
	case <-s.done:
	case <-r.Context().Done():
		c.abandon(e)
		s.end()
	}
}

// use returns the session, nil if there is none, for a request that leaves it
// when it ends.
func (b *Bridge) use(id string) *child {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.sessions[id]
	if c != nil {
		c.enter()
	}
	return c
}

func (b *Bridge) newSession() (*child, error) {
	c, err := startChild(b.command, b.env, false)
	if err != nil {
		return nil, err
	}
	c.session = rand.Text()
	c.enter() // by the request that opens it
	if b.idle > 0 {
		c.expiry = time.AfterFunc(b.idle, func() { b.expire(c) })
		c.patience = b.idle
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.started++
	b.sessions[c.session] = c
	return c, nil
}

// expire ends a session that no request uses.
func (b *Bridge) expire(c *child) {
	b.mu.Lock()
	used := c.inUse()
	if !used {
		delete(b.sessions, c.session)
	}
	b.mu.Unlock()
	if !used {
		c.stop()
	}
}

func (b *Bridge) sharedChild() (*child, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shared != nil && !b.shared.isDead() {
		return b.shared, nil
	}
	c, err := startChild(b.command, b.env, true)
	if err != nil {
		return nil, err
	}
	b.started++
	b.shared = c
	return c, nil
}

// mismatch names the header that contradicts the body of a modern request.
func mismatch(r *http.Request, m object, version string) string {
	if !m.has("id") {
		return ""
	}
	method, params := m.text("method"), m.at("params")
	switch {
	case params.at("_meta").has(versionKey) && r.Header.Get("MCP-Protocol-Version") != version:
		return "MCP-Protocol-Version"
	case r.Header.Get("Mcp-Method") != method:
		return "Mcp-Method"
	}
	name := params.text("name")
	if method == "resources/read" {
		name = params.text("uri")
	}
	switch method {
	case "tools/call", "prompts/get", "resources/read":
		if name != "" && decodeHeader(r.Header.Get("Mcp-Name")) != name {
			return "Mcp-Name"
		}
	}
	return ""
}

// decodeHeader undoes the encoding of header values that are not plain ASCII.
func decodeHeader(v string) string {
	inner, ok := strings.CutPrefix(v, "=?base64?")
	inner, closed := strings.CutSuffix(inner, "?=")
	if ok && closed {
		if b, err := base64.StdEncoding.DecodeString(inner); err == nil {
			return string(b)
		}
	}
	return v
}

var localHost = regexp.MustCompile(`^(https?://)?(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$`)

func isLocal(host string) bool { return host == "" || localHost.MatchString(host) }

func refuse(w http.ResponseWriter, status, code int, text string, id json.RawMessage) {
	if id == nil {
		id = json.RawMessage("null")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{ // a client that is gone needs no answer
		"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": text},
	})
}
