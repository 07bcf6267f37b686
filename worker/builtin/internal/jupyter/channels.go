package jupyter

import (
	"context"
	"encoding/json"
	"time"
)

// listen starts the readers of the kernel's channels and its life.
func (k *Kernel) listen() {
	k.readers.Go(k.readOutput) // these end when their socket has ended and all it brought is taken, or dropped
	k.readers.Go(func() { k.read(shell, k.takeReply) })
	k.readers.Go(func() { k.read(control, k.takeReply) })
	k.readers.Go(func() { k.read(stdin, k.takeInput) })
	k.readers.Go(k.heartbeats) // ends with the kernel
	go k.live()                // ends with the kernel and its readers
}

// read gives each message of a socket to take, until it ends.
func (k *Kernel) read(socket int, take func(m Message, header json.RawMessage)) {
	for {
		frames, err := k.conns[socket].Receive(context.Background())
		if err != nil {
			return
		}
		m, header, err := k.session.decode(frames)
		if err != nil {
			k.forged.Add(1)
			continue
		}
		k.ledger.note(m.id)
		take(m, header)
	}
}

// readOutput reads what all executions publish, and hands each message to its
// execution when that takes it.
func (k *Kernel) readOutput() {
	k.read(iopub, func(m Message, _ json.RawMessage) {
		k.mu.Lock()
		k.noteLocked(m)
		run := k.runs[m.parent]
		k.mu.Unlock()
		if run == nil {
			return
		}
		k.handing.Store(true)
		select {
		case run.messages <- m:
		case <-run.left:
		case <-k.dropped:
		}
		k.handing.Store(false)
	})
}

// noteLocked keeps what a message says of the state of the kernel. k.mu is held.
func (k *Kernel) noteLocked(m Message) {
	switch m.Type {
	case "status":
		k.busy = statusOf(m.Content) == "busy"
		if k.probes[m.parent] {
			k.probes = nil
			close(k.heard)
		}
	case "execute_input":
		if _, open := k.open[m.parent]; open {
			k.open[m.parent] = true
			select {
			case k.computing <- struct{}{}:
			default:
			}
		}
	}
}

// takeReply gives a reply to who waits for it.
func (k *Kernel) takeReply(m Message, _ json.RawMessage) {
	k.mu.Lock()
	delete(k.open, m.parent)
	reply, run := k.replies[m.parent], k.runs[m.parent]
	k.mu.Unlock()
	if run != nil {
		reply = run.reply
	}
	select {
	case reply <- m: // has room for one
	default:
	}
}

// endOfInput is what a front end replies where there is no input: kernels take
// it for the end of the file.
const endOfInput = "\x04"

// takeInput answers a kernel that asks for input, or refuses; it never lets it
// wait for nobody.
func (k *Kernel) takeInput(m Message, header json.RawMessage) {
	if m.Type != "input_request" {
		return
	}
	k.mu.Lock()
	run := k.runs[m.parent]
	k.mu.Unlock()
	if run == nil || run.input == nil {
		k.reply(header, endOfInput)
		return
	}
	var content struct {
		Prompt   string `json:"prompt"`
		Password bool   `json:"password"`
	}
	_ = json.Unmarshal(m.Content, &content)
	ctx, stop := run.newQuestion()
	k.readers.Go(func() { // ends with the question
		select {
		case <-k.done:
			stop(ErrDied)
		case <-ctx.Done():
		}
	})
	k.readers.Go(func() { // ends with the answer, the next question, the execution or the kernel
		defer stop(nil)
		value, err := run.input(ctx, content.Prompt, content.Password)
		if err != nil {
			value = endOfInput
		}
		if ctx.Err() == nil {
			k.reply(header, value)
		}
	})
}

// reply sends an input_reply, for which a kernel that hangs gets no more than
// a moment.
func (k *Kernel) reply(header json.RawMessage, value string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, m, err := k.session.encode("input_reply", header, map[string]string{"value": value, "status": "ok"})
	if err == nil {
		_ = k.conns[stdin].Send(ctx, m) // the end of the connection is seen elsewhere
	}
}
