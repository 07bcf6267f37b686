// Package harness drives real MCP processes from the outside, as an editor
// would: it starts a command, writes lines to its standard input and reads
// lines from its standard output.
//
//	c := harness.Start(t, harness.Config{Command: harness.Bridged(t, nil, server)})
//	c.Initialize()
//	answer := c.Request("tools/call", harness.Call("echo", map[string]any{"text": "hi"})).Wait()
//
// A [Client] may be used from several goroutines. Its reader goroutine lives
// as long as the process keeps its standard output open; clean-up, registered
// with the test, kills the process and what descends from it and checks that
// no request was answered twice.
//
// The package interprets no more of MCP than ids and methods: what a test
// expects stands in the test. It never ends a process that it did not start.
package harness
