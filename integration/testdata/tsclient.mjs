// A scripted session of the TypeScript SDK with a stdio server.
//
//   node tsclient.mjs MODULES MODE COMMAND ARGS...
//
// MODULES is the node_modules folder with the SDKs. MODE is v1 for the first
// SDK, or legacy, auto or pin for the second one with that way of finding the
// protocol version. Each step prints one line with what it gave; what the
// server sends by itself prints a line that starts with "event". The lines
// are the same for each run against the same server, their order need not be.
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [modules, mode, command, ...args] = process.argv.slice(2);
const resolve = createRequire(join(modules, 'resolve.js')).resolve;
const load = name => import(pathToFileURL(resolve(name)));
const firstSDK = mode === 'v1';

const say = (what, value) => console.log(what, JSON.stringify(value ?? null));

async function sdk() {
  if (firstSDK) {
    const { Client } = await load('@modelcontextprotocol/sdk/client/index.js');
    const { StdioClientTransport } = await load('@modelcontextprotocol/sdk/client/stdio.js');
    return { Client, StdioClientTransport, schemas: await load('@modelcontextprotocol/sdk/types.js') };
  }
  const { Client } = await load('@modelcontextprotocol/client');
  const { StdioClientTransport } = await load('@modelcontextprotocol/client/stdio');
  return { Client, StdioClientTransport };
}

const { Client, StdioClientTransport, schemas } = await sdk();

const changed = kind => ({ onChanged: () => say('event list_changed ' + kind) });
const client = new Client({ name: 'tsclient', version: '1' }, {
  capabilities: { sampling: {}, elicitation: { form: {} }, roots: { listChanged: true } },
  listChanged: { tools: changed('tools'), prompts: changed('prompts'), resources: changed('resources') },
  ...(mode === 'auto' && { versionNegotiation: { mode: 'auto' } }),
  ...(mode === 'pin' && { versionNegotiation: { mode: { pin: '2026-07-28' } } }),
});

// The first SDK names messages by schema, the second one by method.
const onRequest = (method, schema, f) => client.setRequestHandler(firstSDK ? schemas[schema] : method, f);
const onNotification = (method, schema, f) => client.setNotificationHandler(firstSDK ? schemas[schema] : method, f);

// fill answers a form with something that its schema allows.
function fill(field) {
  if (field.default !== undefined) return field.default;
  if (field.enum) return field.enum[0];
  if (field.oneOf) return field.oneOf[0].const;
  switch (field.type) {
    case 'array': return [];
    case 'boolean': return true;
    case 'integer': case 'number': return field.minimum ?? 1;
  }
  return { email: 'a@b.example', uri: 'https://b.example', date: '2026-01-01', 'date-time': '2026-01-01T00:00:00Z' }[field.format] ?? 'text';
}

onRequest('sampling/createMessage', 'CreateMessageRequestSchema', async () => {
  say('asked sampling');
  return { role: 'assistant', model: 'none', content: { type: 'text', text: 'sampled' } };
});
onRequest('elicitation/create', 'ElicitRequestSchema', async request => {
  say('asked elicitation');
  const fields = Object.entries(request.params?.requestedSchema?.properties ?? {});
  return { action: 'accept', content: Object.fromEntries(fields.map(([name, field]) => [name, fill(field)])) };
});
onRequest('roots/list', 'ListRootsRequestSchema', async () => {
  say('event asked roots');
  return { roots: [{ uri: 'file:///somewhere', name: 'somewhere' }] };
});
let updated;
const sawUpdate = new Promise(done => { updated = done; });
onNotification('notifications/resources/updated', 'ResourceUpdatedNotificationSchema', n => {
  say('event updated', n.params.uri);
  updated(true);
});
onNotification('notifications/message', 'LoggingMessageNotificationSchema', n => say('event log', n.params.level));

// step prints what f gave, or how it failed.
async function step(name, f) {
  try {
    say(name, await f());
  } catch (e) {
    say(name + ' failed', [e.code ?? null, String(e.message).slice(0, 200)]);
  }
}

const pause = ms => new Promise(done => setTimeout(done, ms));
const list = async (name, f, member, key) => {
  let items = [];
  await step(name, async () => (items = (await f())[member]).map(item => item[key]));
  return items;
};

const transport = new StdioClientTransport({ command, args, stderr: 'ignore' });
await step('connect', async () => {
  await client.connect(transport);
  return [client.getServerVersion(), client.getServerCapabilities(), client.getInstructions?.()?.length];
});
await pause(400); // servers may register more when they know their client

const tools = await list('tools/list', () => client.listTools(), 'tools', 'name');
await list('prompts/list', () => client.listPrompts(), 'prompts', 'name');
const resources = await list('resources/list', () => client.listResources(), 'resources', 'uri');
await list('resources/templates/list', () => client.listResourceTemplates(), 'resourceTemplates', 'uriTemplate');
if (resources.length > 0) {
  await step('resources/read', async () => (await client.readResource({ uri: resources[0].uri })).contents);
}
for (const name of ['test_simple_prompt', 'simple-prompt']) {
  await step('prompts/get ' + name, async () => (await client.getPrompt({ name })).messages);
}

async function call(name, args = {}, options = {}) {
  if (!tools.some(tool => tool.name === name)) return;
  const request = { name, arguments: args };
  const more = { timeout: 20_000, ...options };
  await step('call ' + name, async () => {
    const result = await (firstSDK ? client.callTool(request, undefined, more) : client.callTool(request, more));
    // This tool tells the progress token, a number that depends on how many
    // requests came before.
    const content = name === 'test_tool_with_progress' ? result.content.length : result.content;
    return [result.isError ?? false, content, result.structuredContent];
  });
}
// The last progress may be lost to the answer behind it, within the SDK.
const onprogress = p => p.progress < p.total && say('progress', [p.progress, p.total]);

const watched = resources.find(r => r.uri.includes('watched')) ?? resources[0];
if (watched) {
  await step('subscribe', async () => {
    if ((client.getNegotiatedProtocolVersion?.() ?? '') >= '2026') {
      await client.listen({ resourceSubscriptions: [watched.uri], toolsListChanged: true });
    } else {
      await client.subscribeResource({ uri: watched.uri });
    }
    return true;
  });
}
await step('logging/setLevel', async () => { await client.setLoggingLevel('debug'); return true; });
await step('ping', async () => { await client.ping(); return true; });

await call('echo', { message: 'hello' });
await call('get-sum', { a: 2, b: 3 });
await call('get-tiny-image');
await call('test_simple_text');
await call('test_image_content');
await call('test_error_handling');
await call('trigger-long-running-operation', { duration: 0.4, steps: 2 }, { onprogress });
await call('test_tool_with_progress', {}, { onprogress });
await call('test_tool_with_logging');
await call('trigger-sampling-request', { prompt: 'x' });
await call('test_sampling', { prompt: 'x' });
await call('trigger-elicitation-request');
await call('test_elicitation', { message: 'x' });
await call('get-roots-list');
await call('test_input_required_result_elicitation');
await call('toggle-subscriber-updates');
await call('test_trigger_tool_change');

const abort = new AbortController();
setTimeout(() => abort.abort('user'), 200);
await call('trigger-long-running-operation', { duration: 3, steps: 3 }, { signal: abort.signal });

await step('unknown method', () => client.request({ method: 'no/such', params: {} }, firstSDK ? schemas.EmptyResultSchema : undefined));
await step('unknown tool', async () => {
  const result = await client.callTool({ name: 'nope', arguments: {} });
  return [result.isError, result.content];
});
await step('unknown resource', () => client.readResource({ uri: 'x://nope' }));

// The update of a watched resource comes within seconds, if at all.
await Promise.race([sawUpdate, pause(watched?.uri.includes('watched') ? 10_000 : 0)]);
await client.close();
say('closed');
process.exit(0);
