// Package protocol is the contract between a holdfast supervisor and its
// workers, the only thing the two share. It fixes
//
//   - how they find each other: the go-plugin handshake and its versions
//     (handshake.go, plugin.go),
//   - what the supervisor tells clients when a worker is gone: error kinds,
//     JSON-RPC codes and _meta keys (errors.go),
//
// while package workerv1 holds the gRPC service itself. docs/protocol.md has
// the rules in prose, for authors of workers in other languages.
//
//	supervisor                                   worker
//	    | start, cookie and PLUGIN_* in env        |
//	    |----------------------------------------->|
//	    |       1|<wire version>|unix|<addr>|grpc| | first line of its stdout
//	    |<-----------------------------------------|
//	    | Describe                                 | once, before any session
//	    |<---------------------------------------->|
//	    | Lifecycle                                | stream, as long as it lives
//	    |<-----------------------------------------|
//	    | Session                                  | one MCP connection each
//	    |<---------------------------------------->|
//
// The package neither starts processes nor interprets MCP messages.
package protocol
