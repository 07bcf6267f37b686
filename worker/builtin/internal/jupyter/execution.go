package jupyter

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"
)

// tailTime is how long, after one of the two ends of an execution, reply and
// idle status, the other one is waited for while nothing else comes.
const tailTime = 5 * time.Second

// answerTime is how long a message may take longer than the idle status that
// was sent after it, on another channel.
const answerTime = 100 * time.Millisecond

// Outcome is how an execution ended.
type Outcome string

// The outcomes.
const (
	// OK: the code ran to its end.
	OK Outcome = "ok"
	// Failed: the code raised an error or was interrupted.
	Failed Outcome = "error"
	// Aborted: the code did not run, since one before it failed.
	Aborted Outcome = "aborted"
	// Died: the kernel ended before the execution did.
	Died Outcome = "died"
	// Unknown: the kernel lives and is idle but has not told the outcome.
	Unknown Outcome = "unknown"
)

// Request is code to be executed.
type Request struct {
	Code string
	// GoOn lets executions that are queued behind this one run even if it
	// fails.
	GoOn bool
	// Input answers the code when it asks for input; an error refuses. Its
	// context ends when nobody waits for the answer any more. Nil tells the
	// kernel that there is no input.
	Input func(ctx context.Context, prompt string, password bool) (string, error)
}

// Result tells how an execution ended.
type Result struct {
	Outcome Outcome
	// Count is the execution count of the reply, nil if it has none.
	Count *int
	// EName and EValue name the error of a failed execution.
	EName, EValue string
	// Cut tells that some of the output is missing: its end was not seen, or
	// the kernel has dropped some of it.
	Cut bool
	// Err is the [*EndError] of a kernel that died.
	Err error
}

// Execution is one execution of code, used once.
type Execution struct {
	kernel   *Kernel
	id       string
	input    func(ctx context.Context, prompt string, password bool) (string, error)
	messages chan Message
	reply    chan Message
	left     chan struct{} // closed when nobody reads it any more
	leaving  sync.Once

	mu   sync.Mutex
	done bool
	stop context.CancelCauseFunc // ends the question that is open

	// Known to the reader alone.
	result  Result
	replied bool
	idle    bool
	settled bool // nothing more is to come

	last      string // id of the idle status
	accounted bool
}

// Execute sends code to the kernel, which executes it when all that was sent
// before is done. Its messages must be read, or left.
func (k *Kernel) Execute(ctx context.Context, r Request) (*Execution, error) {
	id, m, err := k.session.encode("execute_request", nil, map[string]any{
		"code": r.Code, "silent": false, "store_history": true, "user_expressions": struct{}{},
		"allow_stdin": r.Input != nil, "stop_on_error": !r.GoOn,
	})
	if err != nil {
		return nil, err
	}
	e := &Execution{
		kernel: k, id: id, input: r.Input,
		messages: make(chan Message), reply: make(chan Message, 1), left: make(chan struct{}),
	}
	k.mu.Lock()
	k.runs[id], k.open[id] = e, false
	k.mu.Unlock()
	if err := k.conns[shell].Send(ctx, m); err != nil {
		e.Leave()
		return nil, k.explain(ctx, err)
	}
	return e, nil
}

// Next returns the next message, whatever its type, [io.EOF] after the last one.
// With an ended context the execution goes on, and Next can be called again.
func (e *Execution) Next(ctx context.Context) (Message, error) {
	for !e.over() {
		var tail <-chan time.Time
		if limit := e.tail(); limit > 0 {
			timer := time.NewTimer(limit)
			defer timer.Stop()
			tail = timer.C
		}
		select {
		case m := <-e.messages:
			if m.Type == "status" && statusOf(m.Content) == "idle" {
				e.idle, e.last = true, m.id
			}
			return m, nil
		case m := <-e.reply:
			e.take(m)
		case <-e.kernel.spent:
			e.lost()
		case <-e.kernel.dropped:
			<-e.kernel.done
			e.lost()
		case <-e.left:
			return Message{}, io.EOF
		case <-tail:
			e.giveUp()
		case <-ctx.Done():
			return Message{}, context.Cause(ctx)
		}
	}
	e.account(ctx)
	e.Leave()
	return Message{}, io.EOF
}

// account looks whether all messages up to the idle status have come. Answers
// to other requests may still be on their way through another channel.
func (e *Execution) account(ctx context.Context) {
	if e.accounted {
		return
	}
	e.accounted = true
	timer := time.NewTimer(answerTime)
	defer timer.Stop()
	if e.kernel.ledger.missing(e.last) > 0 {
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if e.kernel.ledger.missing(e.last) > 0 {
		e.result.Cut = true
		e.kernel.ledger.settle(e.last)
	}
}

// over reports whether nothing more is to come.
func (e *Execution) over() bool {
	return e.replied && e.idle && (e.settled || e.kernel.config.Spec.settleTime() == 0)
}

// tail is how long the next message is waited for, 0 without limit.
func (e *Execution) tail() time.Duration {
	switch {
	case e.replied && e.idle:
		return e.kernel.config.Spec.settleTime()
	case e.replied || e.idle:
		return tailTime
	}
	return 0
}

// giveUp ends an execution whose other end has not come.
func (e *Execution) giveUp() {
	if e.kernel.conns[iopub].Pending() > 0 || e.kernel.handing.Load() {
		return // it is in there
	}
	if !e.replied {
		e.result.Outcome = Unknown
	}
	e.result.Cut = !e.idle
	e.replied, e.idle, e.settled = true, true, true
}

// take takes the reply.
func (e *Execution) take(m Message) {
	var reply struct {
		Status string `json:"status"`
		Count  *int   `json:"execution_count"`
		EName  string `json:"ename"`
		EValue string `json:"evalue"`
	}
	_ = json.Unmarshal(m.Content, &reply)
	e.replied = true
	e.result.Count, e.result.EName, e.result.EValue = reply.Count, reply.EName, reply.EValue
	switch reply.Status {
	case "ok":
		e.result.Outcome = OK
	case "aborted":
		e.result.Outcome = Aborted
	default: // kernels have words of their own for what is not ok
		e.result.Outcome = Failed
	}
}

// lost ends an execution whose kernel has ended.
func (e *Execution) lost() {
	select {
	case m := <-e.reply:
		e.take(m)
	default:
	}
	if !e.replied {
		e.result.Outcome, e.result.Err = Died, e.kernel.err
	}
	e.result.Cut = !e.idle
	e.replied, e.idle, e.settled = true, true, true
}

// Result tells how the execution ended. It is valid once Next has returned
// [io.EOF].
func (e *Execution) Result() Result { return e.result }

// Leave says that nobody will read the execution any more. What it says from
// then on is dropped; it goes on in the kernel.
func (e *Execution) Leave() {
	e.leaving.Do(func() {
		close(e.left)
		e.kernel.mu.Lock()
		delete(e.kernel.runs, e.id)
		e.kernel.mu.Unlock()
		e.mu.Lock()
		defer e.mu.Unlock()
		e.done = true
		if e.stop != nil {
			e.stop(io.EOF)
		}
	})
}

// newQuestion ends the question that was open, if there was one, and returns
// the context of the next.
func (e *Execution) newQuestion() (context.Context, context.CancelCauseFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stop != nil {
		e.stop(io.EOF)
	}
	ctx, stop := context.WithCancelCause(context.Background())
	e.stop = stop
	if e.done {
		stop(io.EOF)
	}
	return ctx, stop
}
