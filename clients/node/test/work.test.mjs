// A worker at a sidecar that says what the test tells it to.
import assert from 'node:assert/strict'
import { afterEach, beforeEach, test } from 'node:test'

import grpc from '@grpc/grpc-js'
import { Failure, Reply, Sidecall, status, WorkerRefused, WrongField, WrongTool } from '@sidecall/client'
import { z } from 'zod'

import { Own } from '../dist/esm/adapters/own.js'
import { WorkerService } from '../dist/esm/contract.js'

/** Values that come, and those that wait for them. */
class Queue {
  #values = []
  #waiting = []
  put(value) {
    const next = this.#waiting.shift()
    if (next) next(value)
    else this.#values.push(value)
  }
  take() {
    return this.#values.length > 0 ? Promise.resolve(this.#values.shift()) : new Promise((resolve) => this.#waiting.push(resolve))
  }
}

/** One stream, as the sidecar sees it. */
class Stream {
  heard = new Queue()
  constructor(call) {
    this.call = call
    call.on('data', (message) => this.heard.put(message))
    call.on('error', () => {})
    call.on('cancelled', () => this.heard.put(null))
    call.on('end', () => this.heard.put(null))
  }
  async next(kind) {
    for (;;) {
      const message = await this.heard.take()
      assert.ok(message, `the stream has ended, and no ${kind} came`)
      if (message[kind]) return message[kind]
      assert.ok(message.heartbeat, `${JSON.stringify(message)} came in the place of ${kind}`)
    }
  }
  async takeIn({ most = 0, beat = 60_000 } = {}) {
    const register = await this.next('register')
    const tools = register.tools.map(({ name }) => ({ name, toolName: `my_${name}` }))
    const heartbeatInterval = { seconds: Math.floor(beat / 1000), nanos: (beat % 1000) * 1e6 }
    this.call.write({ registered: { tools, maxMessageBytes: most, heartbeatInterval } })
    return register
  }
  invoke(tool, input = {}, fields = {}) {
    this.call.write({ invoke: { invocationId: 'i1', tool, argumentsJson: JSON.stringify(input), ...fields } })
  }
  ask(tool, input, fields) {
    this.invoke(tool, input, fields)
    return this.next('result')
  }
  end(code) {
    if (code === undefined) this.call.end()
    else this.call.emit('error', { code, details: 'as the test wants it' })
  }
}

let server, streams, target, sidecall

beforeEach(async () => {
  streams = new Queue()
  server = new grpc.Server()
  server.addService(WorkerService.service, { serve: (call) => streams.put(new Stream(call)) })
  const port = await new Promise((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, p) => (error ? reject(error) : resolve(p))))
  target = `tcp://127.0.0.1:${port}`
  sidecall = new Sidecall(target)
})

afterEach(async () => {
  server.forceShutdown()
  await sidecall.close()
})

/** Registers functions: the work, and the stream that it came by. */
async function working(functions, settings = { name: 'w', grace: 50 }, how) {
  for (const [name, run] of Object.entries(functions)) sidecall.tool({ name }, run)
  const starting = sidecall.work(settings)
  const stream = await streams.take()
  const register = await stream.takeIn(how)
  return { work: await starting, stream, register }
}

test('functions are registered and called', async () => {
  sidecall.tool(
    { name: 'pay', description: 'Pay.', effect: 'keyed', attemptTimeout: 2500, input: z.object({ cents: z.int().describe('In cents.'), how: z.enum(['cash', 'card']).default('cash') }) },
    ({ cents, how }, { attempt, idempotencyKey, traceparent, baggage }) => ({ cents: cents + attempt, how, key: idempotencyKey, traceparent, baggage }))
  const { work, stream, register } = await working({ greet: async () => 'Hello' }, { name: 'desk', backend: 'local', maxInFlight: 3 })
  assert.deepEqual([register.worker, register.protocolVersion, register.maxInFlight, register.backend], ['desk', 1, 3, 'local'])
  const [pay, greet] = register.tools
  assert.deepEqual([pay.name, pay.description, pay.effect, pay.attemptTimeout], ['pay', 'Pay.', 'EFFECT_KEYED', { seconds: 2, nanos: 500_000_000 }])
  assert.equal(greet.effect, 'EFFECT_NON_IDEMPOTENT')
  const schema = JSON.parse(pay.inputSchemaJson)
  assert.deepEqual([schema.required, schema.additionalProperties, schema.properties.cents.description], [['cents'], false, 'In cents.'])
  assert.deepEqual([...work.names], [['pay', 'my_pay'], ['greet', 'my_greet']])
  const paid = await stream.ask('pay', { cents: 5 }, { attempt: 2, idempotencyKey: 'key', traceparent: '00-1-2-01', baggage: 'a=b' })
  assert.equal(paid.structuredContentJson, '{"cents":7,"how":"cash","key":"key","traceparent":"00-1-2-01","baggage":"a=b"}')
  assert.equal((await stream.ask('greet')).content, 'Hello')
  const wrong = await stream.ask('pay', { cents: '5' })
  assert.deepEqual([wrong.code, wrong.notRun], ['INVALID_ARGS', true])
  assert.match(wrong.content, /cents: .*number/)
  assert.deepEqual([(await stream.ask('other')).code], ['NOT_FOUND'])
  work.leave()
  await stream.next('leave')
  stream.end()
  await work.ended
})

test('what functions return and throw', async () => {
  const cases = {
    text: [() => 'a', { content: 'a' }],
    nothing: [() => undefined, {}],
    no: [() => false, { structuredContentJson: 'false' }],
    list: [async () => [1, { b: null }], { structuredContentJson: '[1,{"b":null}]' }],
    reply: [() => new Reply('a', { structured: { b: 1 } }), { content: 'a', structuredContentJson: '{"b":1}' }],
    half: [() => 'a\ud800', { content: 'a\ufffd' }],
    big: [() => 1n, { structuredContentJson: '-', content: 'TypeError: the function ran, but its result is not JSON: Do not know how to serialize a BigInt' },
      { failsCleanly: true }],
    other: [() => () => 1, { structuredContentJson: '-', content: 'TypeError: the function ran, but its result is not JSON: it is a function' }],
    notANumber: [() => ({ rate: 0 / 0 }), { structuredContentJson: '-', content: 'TypeError: the function ran, but its result is not JSON: rate is NaN' }],
    infinite: [() => Infinity, { structuredContentJson: '-', content: 'TypeError: the function ran, but its result is not JSON: it is Infinity' }],
    map: [() => [new Map([[1, 2]])], { structuredContentJson: '-', content: 'TypeError: the function ran, but its result is not JSON: 0 is an object' }],
    bytes: [() => new Uint8Array(2), { structuredContentJson: '-', content: 'TypeError: the function ran, but its result is not JSON: it is an object' }],
    failure: [() => new Error('no such order'), { structuredContentJson: '-', content: 'TypeError: the function ran, but its result is not JSON: it is an object' }],
    date: [() => ({ at: new Date(0), none: undefined }), { structuredContentJson: '{"at":"1970-01-01T00:00:00.000Z"}' }],
    blocks: [() => new Reply('a', { blocks: [{ type: 'resource', text: 'b\ud800', mimeType: '\ud800', uri: '\ud800', name: '\ud800', data: Buffer.from('c') }] }),
      { content: 'a', blocks: [{ type: 'resource', text: 'b\ufffd', mimeType: '\ufffd', uri: '\ufffd', name: '\ufffd', data: Buffer.from('c'), size: 0, outputRef: '' }] }],
    noBlocks: [() => new Reply('a', { blocks: {} }), { structuredContentJson: '-', content: 'TypeError: blocks.map is not a function' }],
    noBlock: [() => new Reply('a', { blocks: [null] }), { structuredContentJson: '-', content: 'TypeError: Cannot convert undefined or null to object' }],
    noBytes: [() => new Reply('a', { blocks: [{ data: 'é' }] }), { structuredContentJson: '-', content: 'Error: invalid encoding' }],
    generator: [() => (function* () { yield 1 })(), { isError: true, content: 'TypeError: it returned a generator, which nobody runs' }],
    code: [() => { throw new Failure('no', { code: '\ud800' }) }, { isError: true, content: 'no', code: '\ufffd' }],
    mute: [() => { throw Object.create(null) }, { isError: true, content: 'the function failed unexpectedly' }],
    never: [() => { throw new Failure('not now', { retryAfter: 1n }) }, { isError: true, content: 'the function failed unexpectedly' }],
    throws: [() => { throw new RangeError('no such order') }, { isError: true, content: 'RangeError: no such order' }],
    clean: [() => { throw new RangeError('no such order') },
      { isError: true, content: 'RangeError: no such order', notRun: true, code: 'UNRECOVERABLE' }, { failsCleanly: [TypeError, RangeError] }],
    always: [() => { throw 'no such order' }, { isError: true, content: 'no such order', notRun: true, code: 'UNRECOVERABLE' }, { failsCleanly: true }],
    cleanCause: [() => { throw Object.assign(new Failure('declined'), { cause: new RangeError('x') }) },
      { isError: true, content: 'declined', notRun: true, code: 'UNRECOVERABLE' }, { failsCleanly: RangeError }],
    // After the first way it tried another, of which nobody knows.
    wentOn: [() => { throw new Error('no answer', { cause: new RangeError('refused') }) }, { isError: true, content: 'Error: no answer' },
      { failsCleanly: RangeError }],
    otherwise: [() => { throw new TypeError('broken') }, { isError: true, content: 'TypeError: broken' }, { failsCleanly: RangeError }],
    fails: [async () => { throw new Failure('not now', { code: 'RATE_LIMITED', notRun: true, retryAfter: 2000 }) },
      { isError: true, content: 'not now', code: 'RATE_LIMITED', notRun: true, retryAfter: { seconds: 2, nanos: 0 } }],
  }
  for (const [name, [run, , settings]] of Object.entries(cases)) sidecall.tool({ name, ...settings }, run)
  const { stream } = await working({})
  const plain = { invocationId: 'i1', content: '', structuredContentJson: '', blocks: [], isError: false, notRun: false, code: '', retryAfter: null }
  for (const [name, [, wanted]] of Object.entries(cases)) assert.deepEqual({ ...(await stream.ask(name)) }, { ...plain, ...wanted }, name)
})

test('a call is cancelled, and its time has an end', async () => {
  const aborted = (_, { signal, progress }) => new Promise((resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason))
    progress('begun')
  })
  sidecall.tool({ name: 'paid', failsCleanly: true }, aborted)
  const { stream } = await working({ aborted })
  stream.invoke('aborted')
  assert.equal((await stream.next('progress')).note, 'begun')
  stream.call.write({ cancel: { invocationId: 'i1' } })
  assert.equal((await stream.next('result')).content, 'the call was cancelled')
  stream.call.write({ cancel: { invocationId: 'another' } })
  stream.invoke('aborted', {}, { deadline: { seconds: 0, nanos: 1_000_000 } })
  await stream.next('progress')
  assert.equal((await stream.next('result')).content, 'the time of the call is over')
  stream.invoke('paid', {}, { deadline: { seconds: 0, nanos: 1_000_000 } })
  await stream.next('progress')
  const { content, isError, notRun } = await stream.next('result') // that it was broken off says nothing
  assert.deepEqual([content, isError, notRun], ['the time of the call is over', true, false])
})

test('a time that no timer holds does not end at once', async () => {
  let open
  const gate = new Promise((resolve) => (open = resolve))
  const { stream, work } = await working({ wait: (_, { signal }) => gate.then(() => String(signal.aborted)), f: () => 'f' }, { name: 'w', grace: Infinity })
  stream.invoke('wait', {}, { deadline: { seconds: 3_000_000, nanos: 0 } })
  for (let i = 0; i < 10; i++) assert.equal((await stream.ask('f', {}, { invocationId: String(i) })).content, 'f')
  work.leave()
  await stream.next('leave')
  open()
  assert.equal((await stream.next('result')).content, 'false')
  stream.end()
  await work.ended
})

test('there are no more calls than places', async () => {
  let open
  const gate = new Promise((resolve) => (open = resolve))
  const { stream } = await working({ wait: () => gate }, { name: 'w', maxInFlight: 2 })
  stream.invoke('wait', {}, { invocationId: 'a' })
  stream.invoke('wait', {}, { invocationId: 'b' })
  const refused = await stream.ask('wait', {}, { invocationId: 'c' })
  assert.deepEqual([refused.invocationId, refused.code, refused.notRun], ['c', 'OVERLOADED', true])
  open('done')
  assert.deepEqual([(await stream.next('result')).content, (await stream.next('result')).content], ['done', 'done'])
  assert.equal((await stream.ask('wait')).content, 'done')
})

test('its places are those of all its streams', async () => {
  let open
  const gate = new Promise((resolve) => (open = resolve))
  const ran = []
  const f = async (_, { idempotencyKey, progress }) => {
    if (idempotencyKey === '1') {
      progress()
      await gate
    }
    ran.push(idempotencyKey)
    return 'done'
  }
  const { stream: old } = await working({ f }, { name: 'w', maxInFlight: 1, grace: 50 })
  const invoke = (stream, id) => stream.invoke('f', {}, { invocationId: id, idempotencyKey: id })
  invoke(old, '1')
  await old.next('progress')
  old.call.write({ goodbye: {} })

  const lost = await streams.take()
  await lost.takeIn()
  invoke(lost, '2') // waits for the place, until its stream ends
  invoke(lost, '3')
  const refused = await lost.next('result')
  assert.deepEqual([refused.invocationId, refused.code, refused.notRun], ['3', 'OVERLOADED', true])
  lost.end(status.UNAVAILABLE)

  const stream = await streams.take()
  await stream.takeIn()
  invoke(stream, '4') // waits, until nobody waits for it
  stream.call.write({ cancel: { invocationId: '4' } })
  const cancelled = await stream.next('result')
  assert.deepEqual([cancelled.invocationId, cancelled.notRun], ['4', true])
  invoke(stream, '5') // waits, and has the place then
  open()
  assert.deepEqual([(await old.next('result')).content, (await stream.next('result')).content], ['done', 'done'])
  assert.deepEqual(ran, ['1', '5'])
  invoke(stream, '6')
  assert.equal((await stream.next('result')).content, 'done')
})

test('it says that it lives', async () => {
  const { stream } = await working({ f: () => 'f' }, { name: 'w' }, { beat: 20 })
  for (let i = 0; i < 3; i++) assert.ok((await stream.heard.take()).heartbeat)
})

test('it comes again', async (t) => {
  const warned = t.mock.method(process, 'emitWarning', () => {})
  let { stream } = await working({ f: () => 'f' })
  for (const code of [status.UNAVAILABLE, status.RESOURCE_EXHAUSTED, undefined, status.INTERNAL]) {
    stream.end(code)
    stream = await streams.take()
    await stream.takeIn()
  }
  assert.equal((await stream.ask('f')).content, 'f')
  // Whoever runs it reads of refusals, also of those for now.
  assert.deepEqual(warned.mock.calls.map(({ arguments: [says] }) => says),
    Array(2).fill('the sidecar refuses the worker w: as the test wants it: the worker looks for it again'))
})

test('a sidecar that goes lets its calls end', async () => {
  let open
  const gate = new Promise((resolve) => (open = resolve))
  const { stream, work } = await working({ wait: () => gate })
  stream.invoke('wait')
  stream.call.write({ goodbye: {} })
  const second = await streams.take()
  await second.takeIn()
  open('done')
  assert.equal((await stream.next('result')).content, 'done')
  assert.equal((await second.ask('wait')).content, 'done')
  stream.end()
  work.leave()
  await second.next('leave')
  second.end()
  await work.ended
})

test('what it has is finished when it leaves, for its grace', async () => {
  let open
  const gate = new Promise((resolve) => (open = resolve))
  const { stream, work } = await working({ wait: () => gate, hang: () => new Promise(() => {}) }, { name: 'w', grace: 600_000 })
  stream.invoke('wait')
  work.leave()
  await stream.next('leave')
  open('done')
  assert.equal((await stream.next('result')).content, 'done')
  stream.end()
  await work.ended
  const again = sidecall.work({ name: 'w', grace: 1 })
  const second = await streams.take()
  await second.takeIn()
  second.invoke('hang')
  await (await again).stop()
})

test('what a sidecar refuses is said', async () => {
  sidecall.tool({ name: 'f' }, () => 'f')
  const starting = sidecall.work({ name: 'w' })
  const stream = await streams.take()
  await stream.next('register')
  stream.end(status.ALREADY_EXISTS)
  await assert.rejects(starting, (error) => error instanceof WorkerRefused && error.code === status.ALREADY_EXISTS &&
    error.message === 'the sidecar refuses the worker w: as the test wants it')
})

test('one that is refused later says so too', async () => {
  const { stream, work } = await working({ f: () => 'f' })
  stream.end(status.UNAVAILABLE)
  const second = await streams.take()
  await second.next('register')
  second.end(status.FAILED_PRECONDITION)
  await assert.rejects(work.ended, WorkerRefused)
})

test('patience has an end', async () => {
  const hasty = new Sidecall(target, { patience: 0 })
  hasty.tool({ name: 'f' }, () => 'f')
  for (const [code, error] of [[status.UNAVAILABLE, { code: status.UNAVAILABLE }], [status.RESOURCE_EXHAUSTED, WorkerRefused]]) {
    const starting = hasty.work({ name: 'w' })
    const rejected = assert.rejects(starting, error)
    const stream = await streams.take()
    stream.end(code)
    await rejected
  }
  await hasty.close()
})

test('a result that is too large is cut', async () => {
  const { stream } = await working({ text: () => 'ä'.repeat(10_000), json: () => ['a'.repeat(10_000)] }, { name: 'w' }, { most: 8000 })
  for (const tool of ['text', 'json']) {
    const { content, structuredContentJson } = await stream.ask(tool)
    assert.ok(Buffer.byteLength(content) < 8000 && Buffer.byteLength(content) > 5000)
    assert.match(content, /larger than a worker may send, 8000 bytes: parts of it are left out.]$/)
    assert.ok(!content.includes('\ufffd') && structuredContentJson === '')
  }
})

test('what cannot be a tool is said in one sentence, and is none', async () => {
  const run = () => 'f'
  for (const [settings, says, f = run] of [
    [{ name: 'a b' }, /name: want 1 to 64 of \[A-Za-z0-9_-\], got "a b"/],
    [{ name: 'f', effect: 'keyd' }, /the function f cannot be a tool: effect: there is no effect "keyd"; known are read_only/],
    [{ name: 'f', efect: 'keyed' }, /efect: there is no such field. Did you mean effect\?/],
    [{ name: 'f', input: 'object' }, /input: want a JSON Schema or a schema of zod, got "object"/],
    [{ name: 'f', input: { type: 'string' } }, /input: want the schema of an object, got that of "string"/],
    [{ name: 'f', input: z.object({ when: z.date() }) }, /input: Date cannot be represented in JSON Schema/],
    [{ name: 'f', input: z.string() }, /want the schema of an object, got that of "string"/],
    [{ name: 'f', input: { '~standard': { vendor: 'other', validate: run } } }, /this schema of other gives no JSON Schema/],
    [{ name: 'f', deadline: 'soon' }, /deadline: want milliseconds, got "soon"/],
    [{ name: 'f' }, /function: want a function, got nothing/, null],
  ]) {
    assert.throws(() => sidecall.tool(settings, f), (error) => error instanceof WrongTool && says.test(error.message) && !error.message.includes('\n'), String(says))
  }
  await assert.rejects(sidecall.work(), /the worker has no functions/)
  assert.equal(sidecall.tool({ name: 'f' }, run), run)
  assert.throws(() => sidecall.tool({ name: 'f' }, run), /the function f cannot be a tool: there is one of that name/)
  for (const yields of [function* () { yield 1 }, async function* () { yield 1 }]) {
    assert.throws(() => sidecall.tool({ name: 'g' }, yields), /the function g cannot be a tool: function: it yields, and nobody runs a generator/)
  }
  for (const [settings, says] of [
    [{ name: 'a b' }, /name: want 1 to 64 of \[A-Za-z0-9._-\], got "a b"/],
    [{ maxInFlight: 0 }, /maxInFlight: want an integer of at least 1/],
    [{ nam: 'a' }, /nam: there is no such field. Did you mean name\?/],
  ]) await assert.rejects(sidecall.work(settings), (error) => error instanceof WrongField && says.test(error.message))
})

test('progress is cut that is too long for a message', async () => {
  const { stream } = await working({ f: (_, { progress }) => progress('a'.repeat(10_000)) }, { name: 'w' }, { most: 8000 })
  stream.invoke('f')
  assert.equal((await stream.next('progress')).note, 'a'.repeat(1024))
})

test('a schema of JSON', async () => {
  const own = { type: 'object', properties: { a: { type: 'integer', minimum: 1 } } }
  sidecall.tool({ name: 'f', input: own, output: { type: 'object' } }, (input) => input)
  const { stream, register } = await working({})
  assert.deepEqual([JSON.parse(register.tools[0].inputSchemaJson), register.tools[0].outputSchemaJson], [own, '{"type":"object"}'])
  assert.equal((await stream.ask('f', { a: 2 })).structuredContentJson, '{"a":2}')
})

test('its places are those of the functions that an adapter adds', async () => {
  let open, end
  const gate = new Promise((resolve) => (open = resolve))
  const answered = new Promise((resolve) => (end = resolve))
  const settings = { name: 'w', maxInFlight: 1, grace: 50 }
  const add = async (name) => {
    const own = new Own(sidecall, [name], { worker: settings })
    const starting = own.start([{ name, description: '', schema: { type: 'object' } }])
    const stream = await streams.take()
    await stream.takeIn()
    await starting
    return { stream, own }
  }
  const key = { conversationId: 'c', turnId: '', toolUseId: '' }
  const { stream: old, own: first } = await add('slow')
  const slow = first.waiting({ ...key, toolUseId: 'slow' }, { name: 'slow', arguments: '' }, async (_, { progress }) => {
    progress()
    await gate
    return 'done'
  }, () => answered)
  old.invoke('slow', {}, { conversationId: 'c', toolUseId: 'slow' })
  await old.next('progress')
  const { stream, own: second } = await add('quick')
  const quick = second.waiting({ ...key, toolUseId: 'quick' }, { name: 'quick', arguments: '' }, () => 'done', () => answered)
  const call = { conversationId: 'c', toolUseId: 'quick' }
  stream.invoke('quick', {}, call)
  stream.call.write({ cancel: { invocationId: 'i1' } })
  assert.equal((await stream.next('result')).notRun, true, 'it has not waited for the place')
  stream.invoke('quick', {}, call)
  open()
  await old.next('leave')
  assert.deepEqual([(await old.next('result')).content, (await stream.next('result')).content], ['done', 'done'])
  end()
  await Promise.all([slow, quick])
})

test('of calls with one id the one that was checked runs', async () => {
  const own = new Own(sidecall, ['pay', 'refund'], {})
  const starting = own.start(['pay', 'refund'].map((name) => ({ name, description: '', schema: { type: 'object' } })))
  const stream = await streams.take()
  await stream.takeIn()
  await starting
  let end
  const answered = new Promise((resolve) => (end = resolve))
  const key = { conversationId: 'c', turnId: '', toolUseId: 'a' }
  const waiting = [['pay', '{"cents":1}'], ['pay', '{"cents":200}'], ['refund', '{"cents":1}'], ['pay', '{']].map(([name, text]) =>
    own.waiting(key, { name, arguments: text }, () => `${name} ${text}`, () => answered))
  const of = { conversationId: 'c', toolUseId: 'a' }
  assert.equal((await stream.ask('pay', { cents: 1 }, of)).content, 'pay {"cents":1}')
  assert.equal((await stream.ask('pay', { cents: 200 }, of)).content, 'pay {"cents":200}')
  assert.equal((await stream.ask('pay', { cents: 3 }, of)).notRun, true)
  end()
  await Promise.all(waiting)
})
