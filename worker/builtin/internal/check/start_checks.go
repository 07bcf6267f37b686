package check

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
)

// startChecks lead from the program to a worker that answers Describe. If one
// of them fails there is no worker, and nothing else can be checked.
var startChecks = []check{
	{
		"start", "Start; SUP-8", "a handshake line on stdout, in time", needNothing,
		func(ctx context.Context, c *checker) finding {
			life, err := start(c.config, supervised())
			if err != nil {
				c.unusable = "the worker does not start"
				return fail("%v", err)
			}
			c.life = life
			c.greeting, c.greetingErr = life.announced(ctx)
			if c.greeting.line == "" {
				c.unusable = "there is no handshake"
				return fail("%v", c.greetingErr)
			}
			return ok("after %d ms", time.Since(life.started).Milliseconds())
		},
	},
	{
		"handshake line", "Start", "1|VERSION|unix|SOCKET|grpc|", needWorkerLine,
		func(_ context.Context, c *checker) finding {
			if errors.Is(c.greetingErr, errLine) {
				c.unusable = "the handshake is wrong"
				return fail("%v in %q", c.greetingErr, c.greeting.line)
			}
			return ok("%s", c.greeting.line)
		},
	},
	{
		"wire version", "Start; SUP-17", "one of those that the supervisor speaks: " + versions(), needWorkerLine,
		func(_ context.Context, c *checker) finding {
			if errors.Is(c.greetingErr, errWire) {
				c.unusable = "the wire version is another"
				return fail("%v", c.greetingErr)
			}
			return ok("%d", c.greeting.wire)
		},
	},
	{
		"socket", "Start", "a unix socket in the directory that was given", needWorkerLine, checkSocket,
	},
	{
		"describe", "The service", "an answer to Describe", needWorkerLine,
		func(ctx context.Context, c *checker) finding {
			err := c.life.dial(c.greeting)
			if err == nil {
				err = c.life.describe(ctx, c.config.Version)
			}
			if err != nil {
				c.unusable = "it does not answer Describe"
				return fail("%v", err)
			}
			return ok("%s", strings.TrimSpace(c.life.info.GetName()+" "+c.life.info.GetVersion()))
		},
	},
	{"identity", "The service", "name, process id and start time", needWorker, checkIdentity},
	{"features", "The service; SUP-17", "names that this build knows; others are not assumed", needWorker, checkFeatures},
	{"newer supervisor", "Versions; SUP-17", "features, fields and sizes it does not know do not disturb it", needWorker, checkNewerSupervisor},
	{"go-plugin services", "Start", "served, or UNIMPLEMENTED", needWorker, checkGoPlugin},
	{"lifecycle", "The service", "a stream that stays open", needWorker, checkLifecycle},
}

func checkSocket(_ context.Context, c *checker) finding {
	h := c.greeting
	if h.network != "unix" {
		return note("%s %s: for systems without unix sockets", h.network, h.address)
	}
	info, err := os.Stat(h.address)
	if err != nil {
		return fail("%v", err)
	}
	if info.Mode().Type() != os.ModeSocket {
		return fail("%s is a %s, not a socket", h.address, info.Mode().Type())
	}
	if within, err := filepath.Rel(c.life.dir, h.address); err != nil || !filepath.IsLocal(within) {
		return fail("%s is outside %s", h.address, c.life.dir)
	}
	return ok("%s", h.address)
}

func checkIdentity(_ context.Context, c *checker) finding {
	info := c.life.info
	started := time.UnixMilli(info.GetStartTimeUnixMs())
	var notes []string
	switch pid := c.life.process.Pid(); {
	case info.GetPid() <= 0:
		return fail("no process id")
	case info.GetPid() != int64(pid):
		notes = append(notes, fmt.Sprintf("pid %d, while %d was started: a wrapper, or another pid namespace", info.GetPid(), pid))
	}
	if info.GetName() == "" {
		notes = append(notes, "no name for people to read")
	}
	if early := c.life.started.Add(-time.Second); started.Before(early) || started.After(time.Now().Add(time.Second)) {
		notes = append(notes, fmt.Sprintf("start_time_unix_ms is %d, and not about the time of its start", info.GetStartTimeUnixMs()))
	}
	if len(notes) > 0 {
		return note("%s", strings.Join(notes, "; "))
	}
	return ok("%s, pid %d", info.GetName(), info.GetPid())
}

func checkFeatures(_ context.Context, c *checker) finding {
	known := []string{protocol.FeatureMultiSession, protocol.FeatureDrain, protocol.FeatureExit}
	features := c.life.info.GetFeatures()
	var unknown []string
	for _, f := range features {
		if f == "" || strings.TrimSpace(f) != f {
			return fail("%q is no name of a feature", f)
		}
		if !slices.Contains(known, f) {
			unknown = append(unknown, f)
		}
	}
	switch {
	case len(unknown) > 0:
		return note("unknown here, so not used: %s", strings.Join(unknown, ", "))
	case len(features) == 0:
		return ok("none")
	}
	return ok("%s", strings.Join(features, ", "))
}

// unknownFields are fields that no version of the protocol has.
func unknownFields() []byte {
	b := protowire.AppendTag(nil, 1999, protowire.BytesType)
	b = protowire.AppendString(b, "of a later version")
	b = protowire.AppendTag(b, 2000, protowire.VarintType)
	return protowire.AppendVarint(b, 1)
}

func checkNewerSupervisor(ctx context.Context, c *checker) finding {
	req := &workerv1.DescribeRequest{
		Version: "v99.0.0", Features: []string{"a_feature_of_a_later_version"}, MaxFrame: 1 << 40,
	}
	req.ProtoReflect().SetUnknown(unknownFields())
	info, err := c.life.worker.Describe(ctx, req)
	if err != nil {
		return fail("Describe: %v", err)
	}
	if !slices.Equal(info.GetFeatures(), c.life.info.GetFeatures()) || info.GetPid() != c.life.info.GetPid() {
		return fail("it describes itself otherwise: %v", info)
	}
	return ok("the same answer")
}

// settle is how long something that has to stay as it is is watched.
const settle = 100 * time.Millisecond

// settling returns a context that is cancelled after settle. A deadline would
// be told to the worker, whose end of the call might then arrive first.
func settling(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(settle, cancel)
	return ctx, func() {
		timer.Stop()
		cancel()
	}
}

// checkGoPlugin opens the stream that go-plugin opens at first.
func checkGoPlugin(ctx context.Context, c *checker) finding {
	ctx, cancel := settling(ctx)
	defer cancel()
	const method = "/plugin.GRPCStdio/StreamStdio"
	stream, err := c.life.cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err == nil {
		// Any message without fields is the empty one that the service takes.
		err = stream.SendMsg(&workerv1.LifecycleRequest{})
	}
	if err == nil {
		err = stream.CloseSend()
	}
	if err == nil {
		err = stream.RecvMsg(&workerv1.LifecycleRequest{})
	}
	switch code := status.Code(err); {
	case err == nil, ctx.Err() != nil:
		return ok("served")
	case code == codes.Unimplemented, code == codes.Unavailable:
		return ok("%s", code)
	}
	return fail("%s: %v", method, err)
}

func checkLifecycle(ctx context.Context, c *checker) finding {
	events, err := c.life.events(ctx)
	switch {
	case status.Code(err) == codes.Unimplemented:
		return note("UNIMPLEMENTED: no supervisor needs it yet")
	case err != nil:
		return fail("it ended: %v", err)
	}
	return ok("open, %d events so far", len(events))
}

// events returns what the worker reports over Lifecycle at once, and an error
// if the stream did not stay open.
func (l *life) events(ctx context.Context) ([]*workerv1.LifecycleEvent, error) {
	ctx, cancel := settling(ctx)
	defer cancel()
	stream, err := l.worker.Lifecycle(ctx, &workerv1.LifecycleRequest{})
	if err != nil {
		return nil, err
	}
	var events []*workerv1.LifecycleEvent
	for {
		event, err := stream.Recv()
		switch {
		case err == nil:
			events = append(events, event)
		case ctx.Err() != nil:
			return events, nil
		default:
			return events, err
		}
	}
}
