// An MCP server that somebody is editing: its one tool tells the version that
// stands in its source.
import { createInterface } from "node:readline";

const version: string = "1";

interface Message { id?: string | number; method?: string }

function answer(method?: string): object | undefined {
  switch (method) {
    case "initialize":
      return {
        protocolVersion: "2025-11-25",
        capabilities: { tools: {} },
        serverInfo: { name: "edited", version },
      };
    case "tools/list":
      return { tools: [{ name: "version", inputSchema: { type: "object" } }] };
    case "tools/call":
      return { content: [{ type: "text", text: version }] };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line) as Message;
  if (message.id === undefined) continue;
  const result = answer(message.method);
  const error = { code: -32601, message: "method not found" };
  console.log(JSON.stringify({ jsonrpc: "2.0", id: message.id, ...(result ? { result } : { error }) }));
}
