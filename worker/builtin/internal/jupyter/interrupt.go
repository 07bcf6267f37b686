package jupyter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

const (
	// interruptTime is how long a kernel may take to answer the request to
	// interrupt.
	interruptTime = 5 * time.Second
	// afterSignal is how long a kernel may take, after a signal, to show that
	// it lives. One that does not answer while it computes is then looked at.
	afterSignal = time.Second
)

// Interrupt interrupts what the kernel executes, in the way of its spec, and
// makes sure that the kernel lives on (ROOM-7): a signal ends some kernels, for
// which the error is the [*EndError]. The execution ends some time later; that
// it does is for the caller to see. A kernel that does not answer a request to
// interrupt makes it [ErrInterrupt].
func (k *Kernel) Interrupt(ctx context.Context) error {
	if k.config.Spec.interruptMode() == byMessage {
		ctx, cancel := context.WithTimeoutCause(ctx, interruptTime, ErrInterrupt)
		defer cancel()
		return k.request(ctx, control, "interrupt_request", struct{}{})
	}
	if err := k.process.Interrupt(); err != nil {
		if errors.Is(err, os.ErrProcessDone) {
			<-k.done
			return k.err
		}
		return fmt.Errorf("interrupt: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, afterSignal)
	defer cancel()
	err := k.request(limited, control, "kernel_info_request", struct{}{})
	switch {
	case errors.Is(err, ErrDied):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil && !k.process.Identity().Alive():
		<-k.done
		return k.err
	}
	return nil
}
