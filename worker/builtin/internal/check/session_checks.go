package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
)

const (
	// largeRequest is the size of a request that has to get an answer. It is
	// 10 MB and not 10 MiB, beyond which the servers of the TypeScript SDK drop
	// what they read without a word.
	largeRequest = 10_000_000
	// pipelined is how many requests are sent without waiting.
	pipelined = 100
)

// sessionChecks are about frames and sessions.
var sessionChecks = []check{
	{"mcp", "The beginning of a session", "an answer to initialize or to server/discover", needWorker, checkMCP},
	{"ids", "Ids; EDGE-1", "each answer under its request's number, whatever the client's id is", needSession, checkIDs},
	{"pipelining", "Session", fmt.Sprintf("%d requests at once, one answer each", pipelined), needSession, checkPipelining},
	{"unknown method", "Session", "an error, not silence", needSession, checkUnknownMethod},
	{"unknown frames", "Versions; SUP-17", "unknown kinds and fields are ignored, the session goes on", needSession, checkUnknownFrames},
	{"cancel", "Cancellation; EDGE-5", "a cancellation of an unknown request is ignored", needSession, checkCancel},
	{"late answer", "Ids", "an answer to no request is dropped", needSession, checkLateAnswer},
	{"large request", "Session", "10 MB are served or refused; the stream lives", needSession, checkLargeRequest},
	{"drain", "Draining; SUP-17", "DRAINED, and requests are still answered", needSession, checkDrain},
	{"new session", "The end of a session; SUP-21", "after the end of a stream, another one serves", needSession, checkNewSession},
	{"second session", "The service; SUP-17", "two sessions at once, independent of each other", needSession, checkSecondSession},
}

// checkMCP finds the eras that the worker speaks, a session each, and leaves
// the later checks the legacy one if it has the choice.
func checkMCP(ctx context.Context, c *checker) finding {
	var seen []string
	status := OK
	s, err := openSession(c.life, c.frames)
	if err != nil {
		c.mute = "no session opens"
		return fail("%v", err)
	}
	c.session = s
	version, err := s.initialize(ctx)
	switch {
	case err == nil:
		c.era = legacy
		seen = append(seen, "legacy era "+version)
	case errors.Is(err, errRefused):
		seen = append(seen, err.Error())
	default:
		c.mute = "there is no MCP session"
		return fail("%v%s", err, c.frames.hint())
	}
	c.closeSession()

	err = c.tryModern(ctx)
	switch {
	case err == nil:
		seen = append(seen, "modern era "+modernVersion)
		if c.era == none {
			c.era = modern
		}
	case errors.Is(err, errRefused) && c.era == legacy:
		seen = append(seen, "no modern era")
	case c.era == legacy:
		// The client is let down softly, but the server costs it time.
		status = Note
		seen = append(seen, fmt.Sprintf("%v within %v: clients of the modern era wait for it", err, discoverPatience))
		c.endWorker()
	default:
		c.mute = "there is no MCP session"
		return fail("%s; %v", strings.Join(seen, "; "), err)
	}
	return finding{status, strings.Join(seen, "; ")}
}

func (c *checker) tryModern(ctx context.Context) error {
	s, err := openSession(c.life, c.frames)
	if err != nil {
		return err
	}
	defer s.close()
	return s.discover(ctx)
}

func checkIDs(ctx context.Context, c *checker) finding {
	tokens := []string{`1`, `"1"`, `""`, `"a\"b"`, `0`, `-1`, `9007199254740993`, `9.5`, `1`}
	numbers := make([]uint64, len(tokens))
	for i, token := range tokens {
		var err error
		if numbers[i], err = c.session.request(ctx, token, c.harmless(), c.params()); err != nil {
			return fail("sending id %s: %v", token, err)
		}
	}
	replaced := 0
	for i, token := range tokens {
		m, err := c.session.wait(ctx, numbers[i])
		if err != nil {
			return fail("number %d with id %s: %v%s", numbers[i], token, err, c.frames.hint())
		}
		got := string(m.ID)
		switch {
		case m.Error != nil:
			return fail("number %d with id %s: %v", numbers[i], token, m)
		case got == token:
		case slices.Contains(tokens, got):
			return fail("number %d with id %s got the answer for id %s", numbers[i], token, got)
		default:
			replaced++
		}
	}
	if replaced > 0 {
		return ok("%d ids; %d with a value of the worker's own in the answer, which supervisors replace", len(tokens), replaced)
	}
	return ok("%d ids, as they were", len(tokens))
}

func checkPipelining(ctx context.Context, c *checker) finding {
	numbers := make([]uint64, pipelined)
	for i := range numbers {
		var err error
		if numbers[i], err = c.session.request(ctx, `"check-pipelining"`, c.harmless(), c.params()); err != nil {
			return fail("request %d of %d: %v", i+1, pipelined, err)
		}
	}
	began := time.Now()
	for i, n := range numbers {
		if _, err := c.session.wait(ctx, n); err != nil {
			return fail("request %d of %d: %v%s", i+1, pipelined, err, c.frames.hint())
		}
	}
	return ok("in %d ms", time.Since(began).Milliseconds())
}

func checkUnknownMethod(ctx context.Context, c *checker) finding {
	m, err := c.session.call(ctx, "holdfast/no-such-method", c.params())
	switch {
	case err != nil:
		return fail("%v", err)
	case m.Error == nil:
		return fail("%v", m)
	case m.Error.Code != -32601:
		return note("%v, while JSON-RPC has -32601", m)
	}
	return ok("%v", m)
}

func checkUnknownFrames(ctx context.Context, c *checker) finding {
	withFields := &workerv1.Frame{
		Kind: workerv1.Frame_KIND_NOTIFICATION, Payload: []byte(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`),
	}
	withFields.ProtoReflect().SetUnknown(unknownFields())
	for _, frame := range []*workerv1.Frame{
		{Kind: 99, Id: 7, Payload: []byte("of a later version")},
		{Kind: 4000},
		{Kind: workerv1.Frame_KIND_UNSPECIFIED},
		withFields,
	} {
		if err := c.session.frame(ctx, frame); err != nil {
			return fail("%v", err)
		}
	}
	if err := c.serves(ctx, c.session); err != nil {
		return fail("after them: %v", err)
	}
	return ok("ignored")
}

func checkCancel(ctx context.Context, c *checker) finding {
	for _, params := range []string{`{"requestId":"no-such-request","reason":"check"}`, `{"requestId":424242}`} {
		err := c.session.frame(ctx, &workerv1.Frame{
			Kind: workerv1.Frame_KIND_CANCEL, Id: 424242,
			Payload: []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":` + params + `}`),
		})
		if err != nil {
			return fail("%v", err)
		}
	}
	if err := c.serves(ctx, c.session); err != nil {
		return fail("after it: %v", err)
	}
	return ok("ignored")
}

func checkLateAnswer(ctx context.Context, c *checker) finding {
	err := c.session.frame(ctx, &workerv1.Frame{
		Kind: workerv1.Frame_KIND_RESPONSE, Id: 424242, Payload: []byte(`{"jsonrpc":"2.0","id":424242,"result":{}}`),
	})
	if err == nil {
		err = c.serves(ctx, c.session)
	}
	if err != nil {
		return fail("after it: %v", err)
	}
	return ok("dropped")
}

func checkLargeRequest(ctx context.Context, c *checker) finding {
	params := c.params()
	meta, found := params["_meta"].(map[string]any)
	if !found {
		meta = make(map[string]any)
		params["_meta"] = meta
	}
	meta[protocol.MetaPrefix+"padding"] = strings.Repeat("x", largeRequest)
	began := time.Now()
	m, err := c.session.call(ctx, c.harmless(), params)
	if err != nil {
		return fail("%v", err)
	}
	if err := c.serves(ctx, c.session); err != nil {
		return fail("%v, but after it: %v", m, err)
	}
	return ok("%v after %d ms", m, time.Since(began).Milliseconds())
}

func checkDrain(ctx context.Context, c *checker) finding {
	if !c.life.declares(protocol.FeatureDrain) {
		return skip("it does not declare %s", protocol.FeatureDrain)
	}
	if err := c.session.frame(ctx, &workerv1.Frame{Kind: workerv1.Frame_KIND_DRAIN}); err != nil {
		return fail("%v", err)
	}
	if err := c.session.until(ctx, func() bool { return c.session.drained > 0 }); err != nil {
		return fail("no DRAINED, though it declares %s: %v", protocol.FeatureDrain, err)
	}
	if err := c.serves(ctx, c.session); err != nil {
		return fail("after DRAINED: %v", err)
	}
	return ok("DRAINED")
}

func checkNewSession(ctx context.Context, c *checker) finding {
	c.closeSession()
	began := time.Now()
	s, err := c.open(ctx)
	if err != nil {
		return fail("%v", err)
	}
	c.session = s
	if err := c.serves(ctx, s); err != nil {
		return fail("%v", err)
	}
	return ok("after %d ms", time.Since(began).Milliseconds())
}

func checkSecondSession(ctx context.Context, c *checker) finding {
	if !c.life.declares(protocol.FeatureMultiSession) {
		return skip("it does not declare %s", protocol.FeatureMultiSession)
	}
	second, err := c.open(ctx)
	if err != nil {
		return fail("the second: %v", err)
	}
	defer second.close()
	// Both use the same numbers and ids; each must get its own answers.
	for _, s := range []*session{c.session, second, c.session, second} {
		if err := c.serves(ctx, s); err != nil {
			return fail("%v%s", err, c.frames.hint())
		}
	}
	second.close()
	if err := c.serves(ctx, c.session); err != nil {
		return fail("the first, after the end of the second: %v", err)
	}
	return ok("independent")
}
