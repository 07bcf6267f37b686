package httpbridge

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"
)

// child is one life of the server.
type child struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	session string // of the legacy era, else empty
	shared  bool   // ids and tokens are replaced
	done    chan struct{}

	write sync.Mutex // one line at a time on stdin

	mu    sync.Mutex // guards what follows
	next  int
	open  []*exchange          // requests without an answer, oldest first
	past  map[string]*exchange // all requests, by the id that the child knows
	get   *stream              // the open GET, if any
	queue []json.RawMessage    // for the next GET
	dead  bool
	said  bool // it has written something
	users int  // open HTTP requests of the session
	// expiry ends the session after patience without users; nil if it stays.
	expiry   *time.Timer
	patience time.Duration
}

func startChild(command, env []string, shared bool) (*child, error) {
	c := &child{shared: shared, done: make(chan struct{}), past: map[string]*exchange{}}
	c.cmd = exec.Command(command[0], command[1:]...)
	c.cmd.Env = append(os.Environ(), env...)
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.stdin = stdin
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go c.read(stdout) // ends with the child
	return c, nil
}

func (c *child) read(stdout io.Reader) {
	r := bufio.NewReader(stdout)
	for {
		line, err := r.ReadBytes('\n')
		if m, parseErr := parse(bytes.TrimSpace(line)); parseErr == nil && m != nil {
			c.receive(m)
		}
		if err != nil {
			break
		}
	}
	_ = c.cmd.Wait() // the suite sees by its answers how the child ended
	c.mu.Lock()
	c.dead = true
	open, get := c.open, c.get
	c.open, c.get = nil, nil
	c.mu.Unlock()
	for _, e := range open {
		e.stream.end()
	}
	if get != nil {
		get.end()
	}
	close(c.done)
}

// send writes one message.
func (c *child) send(m object) {
	c.write.Lock()
	defer c.write.Unlock()
	_, _ = c.stdin.Write(append(m.bytes(), '\n')) // a dead child ends its exchanges in read
}

// begin registers a request and sends it.
func (c *child) begin(m object, s *stream) *exchange {
	meta := m.at("params", "_meta")
	e := &exchange{
		id: m["id"], wireID: m["id"], method: m.text("method"), stream: s,
		modern: meta.has(versionKey), token: meta["progressToken"],
	}
	c.mu.Lock()
	if c.shared {
		c.next++
		e.wireID = json.RawMessage(fmt.Sprint(c.next))
		m["id"] = e.wireID
		if e.token != nil {
			e.wireToken = json.RawMessage(fmt.Sprintf(`"b%d"`, c.next))
			m.set(e.wireToken, "params", "_meta", "progressToken")
		}
	}
	if e.wireToken == nil {
		e.wireToken = e.token
	}
	c.open = append(c.open, e)
	c.past[string(e.wireID)] = e
	c.mu.Unlock()
	if e.isListen() {
		s.open()
	}
	c.send(m)
	return e
}

// abandon tells the child that a client no longer waits.
func (c *child) abandon(e *exchange) {
	if c.remove(string(e.wireID)) == nil || !c.shared {
		return
	}
	c.send(object{
		"jsonrpc": json.RawMessage(`"2.0"`), "method": json.RawMessage(`"notifications/cancelled"`),
		"params": object{"requestId": e.wireID, "reason": json.RawMessage(`"http client went away"`)}.bytes(),
	})
}

// remove takes an open exchange out; nil if it is not open.
func (c *child) remove(wireID string) *exchange {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, e := range c.open {
		if string(e.wireID) == wireID {
			c.open = append(c.open[:i:i], c.open[i+1:]...)
			return e
		}
	}
	return nil
}

// receive gives a message of the child to whom it belongs.
func (c *child) receive(m object) {
	c.mu.Lock()
	c.said = true
	c.mu.Unlock()
	if !m.has("method") {
		if e := c.remove(string(m["id"])); e != nil {
			m["id"] = e.id
			c.restoreSubscription(m, "result")
			e.reply(m)
		}
		return
	}
	to := c.owner(m)
	c.restoreSubscription(m, "params")
	if to != nil {
		to.event(m.bytes())
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.get == nil {
		c.queue = append(c.queue, m.bytes())
		return
	}
	c.get.event(m.bytes())
}

// owner finds the exchange to which a message of the child belongs, and
// restores the client's progress token in it.
func (c *child) owner(m object) *stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	subscription := m.at("params", "_meta")[subscriptionKey]
	token := m.at("params")["progressToken"]
	for _, e := range c.open {
		switch {
		case subscription != nil && string(e.wireID) == string(subscription):
			return e.stream
		case token != nil && m.text("method") == "notifications/progress" && string(e.wireToken) == string(token):
			m.set(e.token, "params", "progressToken")
			return e.stream
		}
	}
	for _, e := range slices.Backward(c.open) {
		if !e.isListen() {
			return e.stream
		}
	}
	return nil
}

// restoreSubscription puts the client's own id in place of the child's.
func (c *child) restoreSubscription(m object, member string) {
	id := m.at(member, "_meta")[subscriptionKey]
	if id == nil {
		return
	}
	c.mu.Lock()
	e := c.past[string(id)]
	c.mu.Unlock()
	if e != nil {
		m.set(e.id, member, "_meta", subscriptionKey)
	}
}

// attach makes s the stream of what belongs to no request.
func (c *child) attach(s *stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.get = s
	for _, m := range c.queue {
		s.event(m)
	}
	c.queue = nil
}

func (c *child) detach(s *stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.get == s {
		c.get = nil
	}
}

// enter and leave surround an HTTP request of the session.
func (c *child) enter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users++
}

func (c *child) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users--
	if c.users == 0 && c.expiry != nil {
		c.expiry.Reset(c.patience)
	}
}

func (c *child) inUse() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.users > 0
}

// signal sends a signal if the child is up, and reports whether it is.
func (c *child) signal(s os.Signal) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.said && !c.dead && c.cmd.Process.Signal(s) == nil
}

func (c *child) isDead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead
}

// stop ends the child: end of stdin, then a kill, which is far beyond what
// any server under test needs.
func (c *child) stop() {
	_ = c.stdin.Close()
	select {
	case <-c.done:
	case <-time.After(10 * time.Second):
		_ = c.cmd.Process.Kill()
		<-c.done
	}
}
