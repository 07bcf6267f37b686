// Package httpbridge puts a stdio MCP server under test suites that speak
// HTTP only. It is neutral: what a suite sees of the server behind it is what
// the server wrote.
//
//	b, err := httpbridge.Listen(command, env, idle)
//	defer b.Close()
//	run the suite against b.URL
//
// In the legacy era each Mcp-Session-Id is a child process of its own, which
// ends when no HTTP request used it for the idle time. In the
// 2026-07-28 era, which has no sessions, there is one child for all requests;
// since several HTTP clients use the same request ids and progress tokens,
// the bridge replaces them on the way down and restores them on the way up.
// It keeps all other JSON values as they are, and takes over the duties of
// HTTP: status codes, headers, hosts.
//
//	POST request --> child stdin     id, progressToken replaced (modern era)
//	     200 SSE <-- notifications   those that belong to the request: by
//	                                 subscriptionId, by progressToken, else to
//	                                 the newest open request
//	     200     <-- response        as JSON, or as the last SSE event
//	GET          <-- what belongs to no open request (legacy era)
//	client gone  --> notifications/cancelled (modern era)
//
// It is no general gateway: it resumes no stream, checks no Origin beyond
// localhost, and does not read tool schemas for Mcp-Param headers.
package httpbridge
