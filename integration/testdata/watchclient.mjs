// A client of the TypeScript SDK that watches a resource and the list of tools
// of a stdio server, and calls tools when it is told to.
//
//   node watchclient.mjs MODULES MODE URI COMMAND ARGS...
//
// MODULES and MODE are as for tsclient.mjs. A line on stdin is a call, as in
// {"name":"pid","arguments":{}}; the end of stdin closes the client. Each line
// on stdout is one thing that the client has seen: "watching", "updated URI",
// "changed tools", "called TEXT", "failed REASON", "completed", "closed".
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const [modules, mode, uri, command, ...args] = process.argv.slice(2);
const resolve = createRequire(join(modules, 'resolve.js')).resolve;
const load = name => import(pathToFileURL(resolve(name)));
const firstSDK = mode === 'v1';
const say = (...words) => console.log(words.join(' '));

const { Client } = await load(firstSDK ? '@modelcontextprotocol/sdk/client/index.js' : '@modelcontextprotocol/client');
const { StdioClientTransport } = await load(firstSDK ? '@modelcontextprotocol/sdk/client/stdio.js' : '@modelcontextprotocol/client/stdio');

const client = new Client({ name: 'watchclient', version: '1' }, {
  listChanged: { tools: { onChanged: () => say('changed tools') } },
  ...(mode === 'auto' && { versionNegotiation: { mode: 'auto' } }),
  ...(mode === 'pin' && { versionNegotiation: { mode: { pin: '2026-07-28' } } }),
});
const updated = firstSDK
  ? (await load('@modelcontextprotocol/sdk/types.js')).ResourceUpdatedNotificationSchema
  : 'notifications/resources/updated';
client.setNotificationHandler(updated, n => say('updated', n.params.uri));
client.onclose = () => say('closed');

await client.connect(new StdioClientTransport({ command, args, stderr: 'ignore' }));
await client.listTools();
if ((client.getNegotiatedProtocolVersion?.() ?? '') >= '2026') {
  const listen = await client.listen({ resourceSubscriptions: [uri] });
  listen?.closed?.then(() => say('completed'));
} else {
  await client.subscribeResource({ uri });
}
say('watching');

for await (const line of createInterface({ input: process.stdin })) {
  try {
    const result = await client.callTool(JSON.parse(line));
    say(result.isError ? 'failed' : 'called', result.content[0]?.text);
  } catch (e) {
    say('failed', e.message);
  }
}
await client.close();
process.exit(0);
