// What may stand in a call, and what is refused before anything is sent.
import assert from 'node:assert/strict'
import { afterEach, beforeEach, test } from 'node:test'

import grpc from '@grpc/grpc-js'

import { Sidecall, WrongField } from '@sidecall/client'

let fake, server, client

beforeEach(async () => {
  fake = { requests: [], answer: (r) => ({ toolUseId: r.toolUseId }), cancelled: [] }
  const serve = (call, done) => {
    fake.requests.push(call.request)
    call.on('cancelled', () => fake.cancelled.push(call.request))
    fake.arrived?.()
    const answer = fake.answer(call.request)
    if (answer !== undefined) done(null, answer) // undefined: never
  }
  server = new grpc.Server()
  const { service } = new Sidecall().stub.constructor
  server.addService(service, { executeTool: serve, executeTools: serve, listTools: serve, getExecution: serve, readOutput: serve })
  const port = await new Promise((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, p) => (error ? reject(error) : resolve(p))))
  client = new Sidecall(`tcp://127.0.0.1:${port}`)
})

afterEach(() => {
  client.close()
  server.forceShutdown()
})

const call = { toolUseId: '1', toolName: 't' }

// Each wrong call, identity or wait; the field that the error names; a part of what it says.
const wrong = {
  'another case': [call, { conversationID: 'c' }, {}, 'conversationID', 'Did you mean conversationId?'],
  'the name of the contract': [call, { conversation_id: 'c' }, {}, 'conversation_id', 'Did you mean conversationId?'],
  'a slip of the finger': [call, { promtId: 'p' }, {}, 'promtId', 'Did you mean promptId?'],
  'arguments as an object': [{ ...call, arguments: { a: 1 } }, {}, {}, 'arguments', 'Did you mean argumentsJson (a JSON text: JSON.stringify)?'],
  'arguments of Anthropic': [{ ...call, input: { a: 1 } }, {}, {}, 'input', 'Did you mean argumentsJson'],
  'an id of a provider': [{ id: '1', toolName: 't' }, {}, {}, 'id', 'Did you mean toolUseId?'],
  'a name of a provider': [{ toolUseId: '1', name: 't' }, {}, {}, 'name', 'Did you mean toolName?'],
  'nothing that is near': [call, { zzz: 1 }, {}, 'zzz', 'known are allowDuplicateEffect, argumentsJson, conversationId, holdOnly'],
  'an object as the JSON text': [{ ...call, argumentsJson: { a: 1 } }, {}, {}, 'argumentsJson', 'want a JSON text, such as JSON.stringify gives, got an object'],
  'an id that is an object': [{ ...call, toolUseId: {} }, {}, {}, 'toolUseId', 'want a string or an integer, got an object'],
  'an id that is a fraction': [call, { turnId: 1.5 }, {}, 'turnId', 'want a string or an integer, got 1.5'],
  'an id too large to be exact': [call, { turnId: 2 ** 60 }, {}, 'turnId', 'want a string or an integer'],
  'a name that is a number': [{ ...call, toolName: 7 }, {}, {}, 'toolName', 'want a string, got 7'],
  'a lone surrogate in an id': [{ ...call, toolUseId: 'a\ud800' }, {}, {}, 'toolUseId', 'a lone surrogate at index 1'],
  'a lone surrogate in a label': [call, { labels: { team: '\udc00' } }, {}, 'labels.team', 'a lone surrogate at index 0'],
  'a label that is a number': [call, { labels: { team: 7 } }, {}, 'labels.team', 'want a string, got 7'],
  'labels that are a list': [call, { labels: ['team'] }, {}, 'labels', 'want an object of strings, got an array'],
  'seconds, or milliseconds': [call, { timeout: 5 }, {}, 'timeout', 'want {seconds, nanos}, got 5'],
  'a timeout of something else': [call, { timeout: { second: 5 } }, {}, 'timeout.second', 'Did you mean seconds?'],
  'a timeout of a fraction': [call, { timeout: { seconds: 0.5 } }, {}, 'timeout.seconds', 'want an integer, got 0.5'],
  'a flag as text': [call, { validateOnly: 'yes' }, {}, 'validateOnly', 'want true or false, got "yes"'],
  'a number as text': [call, { maxOutputChars: '5' }, {}, 'maxOutputChars', 'want an integer, got "5"'],
  'a number too large': [call, { maxOutputChars: 2 ** 31 }, {}, 'maxOutputChars', 'want an integer up to 2147483647'],
  'no call at all': [undefined, {}, {}, 'call', 'want an object, got nothing'],
  'a wait of another name': [call, {}, { timeout: 5 }, 'timeout', 'known are rpcTimeout, signal'],
  'a wait that is no number': [call, {}, { rpcTimeout: '5s' }, 'rpcTimeout', 'want milliseconds, got "5s"'],
  'a signal at the wrong place': [call, { signal: AbortSignal.timeout(1) }, {}, 'signal', 'it belongs into the third argument, beside rpcTimeout'],
  'a signal that is none': [call, {}, { signal: new AbortController() }, 'signal', 'want an AbortSignal, got an object'],
}

for (const [name, [one, identity, wait, field, says]] of Object.entries(wrong)) {
  test(`${name} is refused by its name`, async () => {
    const names = (at) => (error) => {
      assert.ok(error instanceof WrongField, String(error))
      assert.equal(error.field, at + field)
      assert.ok(error.message.startsWith(`${at}${field}: `), error.message)
      assert.ok(error.message.includes(says), error.message)
      return true
    }
    await assert.rejects(client.executeTool(one, identity, wait), names(''))
    const inCall = one === undefined ? 'calls[1]' : Object.keys(one).some((k) => field.startsWith(k)) ? 'calls[1].' : ''
    const batch = client.executeTools([call, one], identity, wait)
    await assert.rejects(batch, one === undefined ? (e) => e.field === 'calls[1]' : names(inCall))
    assert.deepEqual(fake.requests, [])
  })
}

test('calls that are no array are refused', async () => {
  for (const [calls, says] of [[undefined, 'nothing'], [call, 'an object'], ['toolu_1', '"toolu_1"'], [{ calls: [call] }, 'an object']]) {
    await assert.rejects(client.executeTools(calls), { name: 'WrongField', message: `calls: want an array of calls, got ${says}` })
  }
  await assert.rejects(client.executeTools([call], null), { name: 'WrongField', field: 'identity' })
  await assert.rejects(client.executeTool(call, 'c1'), { name: 'WrongField', field: 'identity' })
  await assert.rejects(client.executeTools([call], {}, 5000), { name: 'WrongField', field: 'wait' })
  assert.deepEqual(fake.requests, [])
})

test('a target that is none is refused', () => {
  for (const target of [null, '', 8470, 'tcp://127.0.0.1', 'tcp://', 'unix://sidecall.sock', 'http://127.0.0.1:8470']) {
    assert.throws(() => new Sidecall(target), { name: 'WrongField', field: 'target', message: /want tcp:\/\/host:port or unix:\/\/\/path, got / })
  }
})

test('what is not given is not sent, and does not hide what is', async () => {
  await client.executeTool({ ...call, conversationId: undefined, argumentsJson: null }, { conversationId: 'c', turnId: undefined, labels: null })
  assert.equal(fake.requests[0].conversationId, 'c')
  assert.equal(fake.requests[0].argumentsJson, '')
})

test('integers are ids, and results are told apart by them', async () => {
  fake.answer = ({ calls }) => ({ results: calls.map((c) => ({ toolUseId: c.toolUseId, content: `${c.conversationId}/${c.turnId}` })) })
  const results = await client.executeTools([{ toolUseId: 7, toolName: 't' }, { toolUseId: 8n, toolName: 't' }], { conversationId: 12, turnId: 0 })
  assert.deepEqual(results.map((r) => [r.toolUseId, r.content]), [['7', '12/0'], ['8', '12/0']])
})

test('a lone surrogate that a model made up is sent so that it is told of it', async () => {
  await client.executeTool({ toolUseId: '1', toolName: 'get\ud83d', argumentsJson: '{"a":"\ud83d","b":"\ude00x","c":"😀"}' }, { conversationId: 'c' })
  assert.equal(fake.requests[0].toolName, 'get\ufffd')
  assert.equal(fake.requests[0].argumentsJson, '{"a":"\\ud83d","b":"\\ude00x","c":"😀"}')
})

test('a profile that is no text is refused', async () => {
  await assert.rejects(client.listTools({ profile: 'x' }), { name: 'WrongField', field: 'profile' })
  await assert.rejects(client.listTools('', { rpcTimout: 5 }), { field: 'rpcTimout' })
})

test('an option of the client that it does not have is refused', () => {
  assert.throws(() => new Sidecall('tcp://127.0.0.1:1', { credential: 1 }), { field: 'credential', message: /Did you mean credentials\?/ })
})

test('a signal that is aborted already sends nothing', async () => {
  const reason = new Error('the user left')
  await assert.rejects(client.executeTool(call, { conversationId: 'c' }, { signal: AbortSignal.abort(reason) }), reason)
  assert.deepEqual(fake.requests, [])
})

test('a signal ends the wait, and the sidecar hears of it', async () => {
  const arrived = new Promise((resolve) => (fake.arrived = resolve))
  fake.answer = () => undefined
  const controller = new AbortController()
  const waiting = client.executeTools([call], { conversationId: 'c' }, { signal: controller.signal })
  await arrived
  controller.abort()
  await assert.rejects(waiting, { name: 'AbortError' })
  while (fake.cancelled.length === 0) await new Promise((resolve) => setImmediate(resolve))
})

test('a signal outlives the calls that it was for', async () => {
  const { signal, heard } = listened()
  for (let i = 0; i < 3; i++) await client.executeTool(call, { conversationId: 'c' }, { signal })
  fake.answer = () => undefined
  await assert.rejects(client.executeTool(call, { conversationId: 'c' }, { signal, rpcTimeout: 20 }), { code: grpc.status.DEADLINE_EXCEEDED })
  assert.equal(heard(), 0)
})

/** A signal that counts who listens to it. */
function listened() {
  const { signal } = new AbortController()
  let listeners = 0
  const add = signal.addEventListener.bind(signal), remove = signal.removeEventListener.bind(signal)
  signal.addEventListener = (...args) => (listeners++, add(...args))
  signal.removeEventListener = (...args) => (listeners--, remove(...args))
  return { signal, heard: () => listeners }
}
