// Package worker makes an MCP server, written in Go with the official SDK,
// replaceable while its clients stay connected: it runs as a worker under a
// holdfast supervisor.
//
// A server becomes a worker by replacing the line that runs it:
//
//	os.Exit(worker.ExitCode(worker.Serve(context.Background(), server, nil)))
//
// Started by a supervisor, [Serve] serves any number of MCP sessions over a
// private gRPC connection. Started by anything else, an editor or a shell, the
// same binary serves plain stdio as before, so a server needs holdfast neither
// to build nor to run.
//
// # What changes for the server
//
// Nothing that it can see: the same [mcp.Server], the same handlers, the same
// messages. Four things are new and all are optional:
//
//   - several sessions may use the server at once, as with the SDK's HTTP
//     handler. A server that keeps state of one client in variables uses
//     [ServeFunc], which builds a server per session;
//   - [Handoff] asks to be replaced by a newer build of the same program;
//   - [Draining] tells a handler that waits for long that it should come to an
//     end, because this process is about to be replaced;
//   - [RefuseSubscription] and [EndSubscription] say that a resource can no
//     longer be watched, and why.
//
// # The process
//
// The package leaves the program that it is in alone: it neither exits nor
// changes the logger, the collector or the working directory. Under a
// supervisor, and only there, these hold while Serve runs:
//
//   - standard input belongs to the package; its end means that the supervisor
//     is gone, and ends Serve as SIGTERM does;
//   - what the program prints, on os.Stdout or os.Stderr, goes to the
//     supervisor's log of the worker's stderr, and never harms the protocol;
//   - the variables of the handshake (PLUGIN_* and a cookie) are gone from the
//     environment before the first request is handled, so children do not
//     inherit them. Start children from handlers, not before Serve;
//   - SIGTERM ends Serve. A process that is still there 200 ms later is killed,
//     on Unix with its process group if it leads one;
//   - SIGINT is ignored: a Ctrl-C in a terminal is for the supervisor.
//
// All functions are safe for concurrent use, but Serve is called once in the
// life of a process.
//
// The package does not restart, supervise or build anything, and it does not
// speak HTTP.
package worker
