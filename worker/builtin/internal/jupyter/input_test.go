package jupyter

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// ROOM-7: code that asks for input gets it, or is refused; it never waits for
// nobody.
func TestInput(t *testing.T) {
	k := startKernel(t, Config{Spec: pythonSpec(t)})
	answer := func(_ context.Context, prompt string, password bool) (string, error) {
		if password {
			return "secret", nil
		}
		return "<" + prompt + ">", nil
	}
	refuse := func(context.Context, string, bool) (string, error) { return "", errors.New("no") }
	for _, test := range []struct {
		name, code, says, fails string
		input                   func(context.Context, string, bool) (string, error)
	}{
		{"answered", "print(input('a? '), input('b? '))", "<a? > <b? >", "", answer},
		{"password", "import getpass; print(getpass.getpass())", "secret", "", answer},
		{"refused", "input()", "", "EOFError", refuse},
		{"none", "input()", "", "StdinNotImplementedError", nil},
		{"unasked", "get_ipython().kernel._allow_stdin = True; input()", "", "EOFError", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			said, r := finish(t, request(t, k, Request{Code: test.code, Input: test.input, GoOn: true}))
			if r.EName != test.fails || !strings.Contains(strings.Join(said["stream"], ""), test.says) {
				t.Errorf("%+v %v", r, said["stream"])
			}
		})
	}
}

// A question ends with the execution that asks it.
func TestInputInterrupted(t *testing.T) {
	k := startKernel(t, Config{Spec: pythonSpec(t)})
	asked, ended := make(chan struct{}), make(chan struct{})
	e := request(t, k, Request{Code: "input()", Input: func(ctx context.Context, _ string, _ bool) (string, error) {
		close(asked)
		<-ctx.Done()
		close(ended)
		return "late", nil
	}})
	<-asked
	if err := k.Interrupt(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, r := finish(t, e)
	wantOutcome(t, r, Failed)
	<-ended
}

// So it does with the kernel, although nobody reads the execution.
func TestInputAtDeath(t *testing.T) {
	k := startKernel(t, Config{Spec: fakeSpec(t, "plain")})
	asked := make(chan struct{})
	request(t, k, Request{Code: "ask", Input: func(ctx context.Context, _ string, _ bool) (string, error) {
		close(asked)
		<-ctx.Done()
		return "", ctx.Err()
	}})
	<-asked
	killHard(t, k)
	k.Close(0)
	if !errors.Is(k.Err(), ErrDied) {
		t.Error(k.Err())
	}
}
