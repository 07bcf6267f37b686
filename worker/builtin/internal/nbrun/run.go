package nbrun

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"time"

	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/jupyter"
	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/outputs"
)

const (
	// graceTime is how long an interrupted cell may go on.
	graceTime = 5 * time.Second
	// shutdownTime is how long a kernel may take to shut down.
	shutdownTime = 2 * time.Second
)

// task is a cell that is to be executed, or skipped.
type task struct {
	Cell
	raises bool // it may fail
}

// run is one run of one notebook.
type run struct {
	config   Config
	notebook *notebook
	tasks    []task
	kernel   *jupyter.Kernel
	set      *outputs.Set
	shown    map[*outputs.Cell]string // ids of the cells that were executed
	over     bool                     // the rest is cancelled
}

// Run executes the cells of a notebook in order and saves the results. The
// report tells how far it came, also beside an error: the results could then
// not be saved, or the run could not begin. That a cell failed is no error.
func Run(ctx context.Context, config Config) (Report, error) {
	began := time.Now()
	report := Report{File: config.File, Kernel: config.Kernel}
	n, err := open(config.File, config.Output)
	if err != nil {
		return report, err
	}
	if report.Kernel == "" {
		if report.Kernel, err = n.kernel(); err != nil {
			return report, err
		}
	}
	r := &run{config: config, notebook: n, tasks: n.plan(), set: outputs.NewSet(), shown: make(map[*outputs.Cell]string)}
	err = r.execute(ctx, &report)
	for _, t := range r.tasks {
		report.Cells = append(report.Cells, t.Cell)
	}
	if err == nil || n.changed {
		var failed error
		report.Saved, failed = n.save()
		err = errors.Join(err, failed)
	}
	report.Seconds = time.Since(began).Seconds()
	return report, err
}

// execute executes the cells, if there are any, in a kernel that has ended when
// it returns. Its error is that no cell could be executed.
func (r *run) execute(ctx context.Context, report *Report) error {
	for _, t := range r.tasks {
		if t.State != Skipped {
			report.Total++
		}
	}
	if report.Total == 0 {
		return nil
	}
	spec, err := jupyter.Find(r.config.Env, report.Kernel)
	if err != nil {
		return err
	}
	report.DisplayName = spec.DisplayName
	if r.kernel, err = r.start(ctx, spec); err != nil {
		return err
	}
	defer func() { r.kernel.Close(shutdownTime) }()
	if r.config.Ready != nil {
		r.config.Ready(*report)
	}
	for i := range r.tasks {
		t := &r.tasks[i]
		r.over = r.over || ctx.Err() != nil
		if t.State != Skipped && !r.over {
			r.begin(t)
			if err := r.cell(ctx, t); err != nil {
				return err
			}
		}
		if r.config.End != nil {
			r.config.End(t.Cell)
		}
	}
	return nil
}

// start starts the kernel, in the folder of the notebook; an interrupt ends it.
func (r *run) start(ctx context.Context, spec *jupyter.Spec) (*jupyter.Kernel, error) {
	dir, err := filepath.Abs(filepath.Dir(r.config.File))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the start
		select {
		case <-r.config.Interrupt:
			cancel()
		case <-ctx.Done():
		}
	}()
	return jupyter.Start(ctx, jupyter.Config{Spec: spec, Dir: dir, Env: r.config.Env, IPC: r.config.IPC, ParentDeath: true})
}

func (r *run) begin(t *task) {
	if r.config.Begin != nil {
		r.config.Begin(t.Cell)
	}
}

// cell executes one cell and puts its results into the notebook. Its error is
// that the notebook does not take them.
func (r *run) cell(ctx context.Context, t *task) error {
	allowed := r.config.AllowErrors || t.raises
	e, err := r.kernel.Execute(ctx, jupyter.Request{Code: t.Source, GoOn: allowed, Input: r.config.Input})
	switch {
	case err == nil:
		return r.follow(ctx, e, t, allowed)
	case ctx.Err() != nil:
		r.over = true
	default:
		r.fail(t, ReasonDied, "", err.Error())
	}
	return nil
}

// follow takes what an execution says to its end.
func (r *run) follow(ctx context.Context, e *jupyter.Execution, t *task, allowed bool) error {
	began := time.Now()
	stop := r.watch(ctx)
	out := r.set.NewCell()
	r.shown[out] = t.ID
	dirty, malformed := r.read(e, out)
	reason := stop()

	result := e.Result()
	t.Duration = time.Since(began)
	t.Seconds = t.Duration.Seconds()
	t.Cut = result.Cut || malformed
	if t.Count = out.Count(); t.Count == nil {
		t.Count = result.Count
	}
	r.judge(t, result, reason, allowed)
	for cell := range dirty {
		id, count := r.shown[cell], cell.Count()
		if cell == out {
			count = t.Count
		}
		if err := r.notebook.set(id, cell.JSON(), count); err != nil {
			return err
		}
	}
	return nil
}

// read takes all that an execution says, and returns the cells that look
// different now: this one in any case.
func (r *run) read(e *jupyter.Execution, out *outputs.Cell) (dirty map[*outputs.Cell]bool, malformed bool) {
	dirty = map[*outputs.Cell]bool{out: true}
	for {
		m, err := e.Next(context.Background()) // an end comes by the kernel's
		if errors.Is(err, io.EOF) {
			return dirty, malformed
		}
		changed, err := out.Apply(m.Type, m.Content)
		malformed = malformed || err != nil
		for _, cell := range changed {
			dirty[cell] = true
		}
	}
}

// judge says what became of a cell.
func (r *run) judge(t *task, result jupyter.Result, reason string, allowed bool) {
	switch {
	case result.Outcome == jupyter.OK && reason == "":
		t.State = Done
	case result.Outcome == jupyter.OK:
		// It ended before the interrupt reached it; the run ends all the same.
		t.State = Done
		r.over = true
	case reason != "":
		r.fail(t, reason, result.EName, result.EValue)
	case result.Outcome == jupyter.Died:
		r.fail(t, ReasonDied, "", result.Err.Error())
	case result.Outcome == jupyter.Unknown:
		r.fail(t, ReasonUnknown, "", "the kernel did not tell how the cell ended")
	default:
		r.fail(t, ReasonError, result.EName, result.EValue)
		t.Allowed = allowed
		r.over = !allowed
	}
}

// fail ends the run with a cell.
func (r *run) fail(t *task, reason, name, value string) {
	t.State, t.Reason, t.EName, t.EValue = Failed, reason, name, value
	r.over = true
}

// watch stops an execution on an interrupt, at the end of its time and with the
// context. The function that it returns ends that, and returns the reason for
// which the execution was stopped.
func (r *run) watch(ctx context.Context) (stop func() (reason string)) {
	var timeout <-chan time.Time
	var timer *time.Timer
	if r.config.Timeout > 0 {
		timer = time.NewTimer(r.config.Timeout)
		timeout = timer.C
	}
	ended, reason := make(chan struct{}), make(chan string, 1)
	go func() { // ends with the execution
		var why string
		select {
		case <-ended:
			reason <- ""
			return
		case <-ctx.Done():
			r.kernel.Kill()
			reason <- ReasonInterrupted
			return
		case <-r.config.Interrupt:
			why = ReasonInterrupted
		case <-timeout:
			why = ReasonTimeout
		}
		r.interrupt(ctx, ended)
		reason <- why
	}()
	return func() string {
		close(ended)
		if timer != nil {
			timer.Stop()
		}
		return <-reason
	}
}

// interrupt interrupts the kernel, and kills it if the execution has not ended
// some time later, or at once if it is told to again.
func (r *run) interrupt(ctx context.Context, ended <-chan struct{}) {
	grace := time.NewTimer(graceTime)
	defer grace.Stop()
	tried := make(chan struct{})
	trying, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the request, at the latest when it is cancelled
		defer close(tried)
		_ = r.kernel.Interrupt(trying) // whether it helped shows the execution
	}()
	select {
	case <-ended:
	case <-grace.C:
		r.kernel.Kill()
	case <-ctx.Done():
		r.kernel.Kill()
	case <-r.config.Interrupt:
		r.kernel.Kill()
	}
	cancel()
	<-tried
}
