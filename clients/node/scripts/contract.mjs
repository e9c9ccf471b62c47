/**
 * Makes TypeScript of the contract in proto/: an interface for every message, with the
 * comments of the contract, and the contract itself as a value, so that nothing has to be
 * found or parsed when a program starts.
 *
 * The interfaces are those of what the loader gives with the settings of
 * src/contract.ts: names in camelCase, enums by name, 64-bit numbers as numbers, and what
 * is unset as its zero value, or as null when it is a message.
 */
import { fileURLToPath } from 'node:url'

import protobuf from 'protobufjs'

const files = ['sidecall/v1/tool_service.proto', 'sidecall/v1/conversation_service.proto', 'sidecall/v1/worker_service.proto']

const scalars = {
  string: 'string', bool: 'boolean', bytes: 'Buffer', double: 'number', float: 'number',
  int32: 'number', sint32: 'number', uint32: 'number', int64: 'number', sint64: 'number', uint64: 'number',
}

/** The two modules, by the name of their files. */
export function modules() {
  const root = new protobuf.Root()
  root.resolvePath = (_, file) => fileURLToPath(new URL(`../proto/${file}`, import.meta.url))
  const common = root.loadSync(files, { alternateCommentMode: true }).resolveAll()
  const { nested } = common.lookup('sidecall.v1')
  const entries = Object.values(nested)
  const messages = entries.filter((e) => e instanceof protobuf.Type)
  const enums = entries.filter((e) => e instanceof protobuf.Enum)
  const services = entries.filter((e) => e instanceof protobuf.Service)
  return {
    'descriptor.ts': `${head}export const descriptor = ${JSON.stringify(common.toJSON())}\n`,
    'messages.ts': [head, imports, ...enums.map(enumeration), ...messages.map(message), ...services.map(service)].join('\n'),
  }
}

const head = '// Made of the contract by scripts/contract.mjs.\n'
const imports = `import type { CallOptions, Client, ClientDuplexStream, ClientUnaryCall, Metadata, requestCallback } from '@grpc/grpc-js'

/** A span of time; both parts have the same sign. */
export interface Duration {
  seconds: number
  nanos: number
}

/** An instant: seconds since 1970-01-01T00:00:00Z. */
export interface Timestamp {
  seconds: number
  nanos: number
}

/** One rpc of a stub. What a request does not name is unset. */
export interface Unary<Request, Response> {
  (request: Partial<Request>, callback: requestCallback<Response>): ClientUnaryCall
  (request: Partial<Request>, options: CallOptions, callback: requestCallback<Response>): ClientUnaryCall
  (request: Partial<Request>, metadata: Metadata, options: CallOptions, callback: requestCallback<Response>): ClientUnaryCall
}
`

function comment(text, indent = '') {
  if (!text) return ''
  const lines = text.split('\n')
  if (lines.length === 1) return `${indent}/** ${text} */\n`
  return `${indent}/**\n${lines.map((line) => `${indent} * ${line}`.trimEnd()).join('\n')}\n${indent} */\n`
}

const enumeration = (e) => `${comment(e.comment)}export type ${e.name} =\n${Object.keys(e.values).map((name) => `  | '${name}'\n`).join('')}`

const message = (m) => `${comment(m.comment)}export interface ${m.name} {\n${m.fieldsArray.map(field).join('')}}\n`

function field(f) {
  const one = scalars[f.type] ?? f.resolvedType.name
  const or = f.resolvedType instanceof protobuf.Type && !f.repeated && !f.map ? ' | null' : ''
  const type = f.map ? `Record<string, ${one}>` : f.repeated ? `${one}[]` : one + or
  return `${comment(f.comment, '  ')}  ${f.name}: ${type}\n`
}

function service(s) {
  const rpcs = s.methodsArray.map((m) => {
    const name = m.name[0].toLowerCase() + m.name.slice(1)
    if (m.requestStream && m.responseStream) {
      return `${comment(m.comment, '  ')}  ${name}(options?: CallOptions): ClientDuplexStream<Partial<${m.requestType}>, ${m.responseType}>\n`
    }
    return `${comment(m.comment, '  ')}  ${name}: Unary<${m.requestType}, ${m.responseType}>\n`
  })
  return `${comment(s.comment)}export interface ${s.name}Stub extends Client {\n${rpcs.join('')}}\n`
}
