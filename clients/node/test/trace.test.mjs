// Which span a request says that it belongs to.
import assert from 'node:assert/strict'
import { AsyncLocalStorage } from 'node:async_hooks'
import { after, before, test } from 'node:test'

import grpc from '@grpc/grpc-js'
import { baggageEntryMetadataFromString, context, createTraceState, propagation, ROOT_CONTEXT, trace } from '@opentelemetry/api'

import { Sidecall } from '@sidecall/client'

const span = { traceId: '4bf92f3577b34da6a3ce929d0e0e4736', spanId: '00f067aa0ba902b7', traceFlags: 1 }
const heard = []
let server, client

before(async () => {
  server = new grpc.Server()
  server.addService(new Sidecall().stub.constructor.service, {
    executeTool: ({ metadata, request }, done) => {
      heard.push([request.toolUseId, metadata.get('traceparent'), metadata.get('tracestate'), ...metadata.get('baggage')])
      done(null, {})
    },
  })
  const port = await new Promise((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, p) => (error ? reject(error) : resolve(p))))
  client = new Sidecall(`tcp://127.0.0.1:${port}`)
})

after(() => {
  client.close()
  server.forceShutdown()
})

const call = (toolUseId) => client.executeTool({ toolUseId, toolName: 't', conversationId: 'c' })
const within = (said, work) => context.with(trace.setSpanContext(ROOT_CONTEXT, { ...span, ...said }), work)

test('the current span goes with each request', async () => {
  await call('before any program traces')
  const storage = new AsyncLocalStorage()
  context.setGlobalContextManager({
    active: () => storage.getStore() ?? ROOT_CONTEXT,
    with: (active, work, self, ...args) => storage.run(active, work.bind(self), ...args),
    bind: (_, target) => target, enable() { return this }, disable() { return this },
  })
  await call('no span')
  await within({ spanId: '0000000000000000' }, () => call('a span that is none'))
  await Promise.all([
    within({}, () => call('sampled')),
    within({ traceFlags: 0, traceState: createTraceState('vendor=x') }, () => call('not sampled')),
  ])
  const parent = `00-${span.traceId}-${span.spanId}-0`
  assert.deepEqual(heard.slice(0, 3), [
    ['before any program traces', [], []], ['no span', [], []], ['a span that is none', [], []],
  ])
  assert.deepEqual(new Set(heard.slice(3)), new Set([['sampled', [`${parent}1`], []], ['not sampled', [`${parent}0`], ['vendor=x']]]))
})

test('the current baggage goes with each request, as much of it as a header may have', async () => {
  heard.length = 0
  const carry = async (name, entries) => {
    const baggage = propagation.createBaggage(Object.fromEntries(entries.map(([key, value, properties]) =>
      [key, { value, metadata: properties && baggageEntryMetadataFromString(properties) }])))
    await context.with(propagation.setBaggage(ROOT_CONTEXT, baggage), () => call(name))
  }
  await carry('some', [['tenant', 'a & b'], ['half', '\ud800'], ['known', '1', 'p=1'], ['no header', 'x', 'ü'], ['line', 'x', 'a\nb']])
  await carry('none', [])
  await carry('too much', [['small', '1'], ['large', 'x'.repeat(8185)], ['last', '2']])
  assert.deepEqual(heard, [
    ['some', [], [], 'tenant=a%20%26%20b,half=%EF%BF%BD,known=1;p=1'], ['none', [], []], ['too much', [], [], 'small=1,last=2'],
  ])
})
