// A holdfast worker in another language, written from docs/protocol.md alone:
//
//	holdfast run --worker node -- worker.mjs NODE_MODULES
//	holdfast-worker check node -- worker.mjs NODE_MODULES
//
// NODE_MODULES is the folder with @grpc/grpc-js and @grpc/proto-loader. The
// MCP server behind it speaks the legacy era and has three tools. All sessions
// share it. It is an example of the wire and not of MCP: a real worker would
// hand the messages to an MCP library.

import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const { env, argv, pid, stdin } = process
const started = Date.now()

if (env.HOLDFAST_WORKER_COOKIE !== '0c9d6a5e8a3f4f0fb2f57c1e6d7f4f9a') {
  console.error('foreignworker: this is a worker; run: holdfast run --worker node -- worker.mjs NODE_MODULES')
  process.exit(2)
}
const wireVersion = 1 // if the supervisor does not speak it, it refuses by itself
const socketFolder = env.PLUGIN_UNIX_SOCKET_DIR
for (const name of Object.keys(env)) {
  if (name === 'HOLDFAST_WORKER_COOKIE' || name.startsWith('PLUGIN_')) delete env[name]
}

const require = createRequire(join(argv[2], 'from-here'))
const grpc = require('@grpc/grpc-js')
const proto = fileURLToPath(new URL('../../protocol/workerv1/worker.proto', import.meta.url))
const definition = require('@grpc/proto-loader').loadSync(proto, { keepCase: true, enums: String, longs: Number })
const { WorkerService } = grpc.loadPackageDefinition(definition).holdfast.worker.v1

// The largest payload, at first the default of supervisors. gRPC's own limits
// lie above, since a message beyond them ends the stream.
let maxFrame = 64 << 20
const limits = {
  'grpc.max_receive_message_length': maxFrame + (1 << 20),
  'grpc.max_send_message_length': maxFrame + (1 << 20),
}

function describe(call, callback) {
  maxFrame = Math.min(maxFrame, call.request.max_frame || maxFrame)
  callback(null, {
    features: ['multi_session', 'drain'],
    name: 'foreignworker',
    version: '1',
    pid,
    start_time_unix_ms: started,
  })
}

// There is nothing to report: the stream stays open until the supervisor ends it.
function lifecycle(_call) {}

// Session serves one MCP connection. Its state is the set of open requests.
function session(stream) {
  const open = new Map() // number of a request -> AbortController
  let draining = false

  const send = (kind, id, payload) => stream.write({ kind, id, payload })
  const drained = () => {
    if (!draining || open.size > 0) return
    draining = false
    send('KIND_DRAINED', 0)
  }

  async function answer(number, payload) {
    const cancel = new AbortController()
    open.set(number, cancel)
    // The client's own id may be of any form. The number in its place is
    // enough, the supervisor puts the client's back.
    const message = { jsonrpc: '2.0', id: number }
    try {
      const { method, params } = JSON.parse(payload)
      message.result = await serve(method, params ?? {}, cancel.signal)
    } catch (e) {
      message.error = { code: e.code ?? -32603, message: e.message }
    }
    let encoded = Buffer.from(JSON.stringify(message))
    if (encoded.length > maxFrame) {
      const error = { code: -32013, message: `an answer of ${encoded.length} bytes exceeds the limit of ${maxFrame}` }
      encoded = Buffer.from(JSON.stringify({ jsonrpc: '2.0', id: number, error }))
    }
    open.delete(number)
    if (!cancel.signal.aborted) send('KIND_RESPONSE', number, encoded)
    drained()
  }

  stream.on('data', ({ kind, id, payload }) => {
    switch (kind) {
      case 'KIND_REQUEST':
        answer(id, payload)
        break
      case 'KIND_CANCEL':
        open.get(id)?.abort()
        break
      case 'KIND_DRAIN':
        draining = true
        drained()
        break
      // Notifications mean nothing here, requests are never sent, and what is
      // unknown is ignored.
    }
  })
  const abandon = () => open.forEach((cancel) => cancel.abort())
  stream.on('end', () => { abandon(); stream.end() })
  stream.on('cancelled', abandon)
  stream.on('error', abandon)
}

// The MCP server.

const tool = (name, description, properties = {}) => ({ name, description, inputSchema: { type: 'object', properties } })
const text = (value) => ({ content: [{ type: 'text', text: String(value) }] })

const tools = [
  tool('echo', 'repeats the text', { text: { type: 'string' } }),
  tool('pid', 'tells the process id'),
  tool('sleep', 'waits, or ends early when cancelled', { ms: { type: 'number' } }),
]

const versions = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05']

async function serve(method, params, cancelled) {
  switch (method) {
    case 'initialize':
      return {
        protocolVersion: versions.find((v) => v === params.protocolVersion) ?? versions[0],
        capabilities: { tools: {} },
        serverInfo: { name: 'foreignworker', version: '1' },
      }
    case 'ping':
      return {}
    case 'tools/list':
      return { tools }
    case 'tools/call':
      return call(params.name, params.arguments ?? {}, cancelled)
  }
  throw Object.assign(new Error(`method not found: ${method}`), { code: -32601 })
}

async function call(name, args, cancelled) {
  switch (name) {
    case 'echo':
      return text(args.text)
    case 'pid':
      return text(pid)
    case 'sleep':
      await new Promise((done) => {
        const timer = setTimeout(done, args.ms)
        cancelled.addEventListener('abort', () => { clearTimeout(timer); done() })
      })
      return text('slept')
  }
  throw Object.assign(new Error(`unknown tool: ${name}`), { code: -32602 })
}

// The life of the process.

const server = new grpc.Server(limits)
server.addService(WorkerService.service, { Describe: describe, Lifecycle: lifecycle, Session: session })
const socket = join(socketFolder, `${pid}.sock`)
server.bindAsync(`unix:${socket}`, grpc.ServerCredentials.createInsecure(), (err) => {
  if (err) {
    console.error('foreignworker:', err.message)
    process.exit(1)
  }
  console.log(`1|${wireVersion}|unix|${socket}|grpc|`)
})

// Either means that the supervisor is gone, or wants this process gone.
stdin.on('end', () => process.exit(0)).resume()
process.on('SIGTERM', () => process.exit(0))
process.on('SIGINT', () => {}) // of a terminal; the supervisor acts on it
