// Which calls of a framework go together, against a sidecar that answers as it is told to.
import assert from 'node:assert/strict'
import { afterEach, beforeEach, test } from 'node:test'

import { Sidecall, status } from '@sidecall/client'

import { Calls } from '../dist/esm/adapters/calls.js'
import { fakeSidecar } from './fake.mjs'

let fake, sidecall, calls

beforeEach(async () => {
  fake = await fakeSidecar()
  sidecall = new Sidecall(fake.target)
  calls = new Calls(sidecall, { profile: 'code', labels: { team: 'shop' } }, 'run it in one')
})

afterEach(async () => {
  await sidecall.close()
  fake.end()
})

const run = (id, { turnId = 1, signal, args = '{}' } = {}) =>
  calls.run({ id, name: 't', arguments: args, signal }, undefined, { conversationId: 'c', turnId, promptId: 'p' })

/** The ids of each request. */
const sent = () => fake.sent('executeTools').map((request) => request.calls.map((call) => call.toolUseId))

const arrived = () => new Promise((resolve) => (fake.arrived = resolve))

test('calls that are begun together are one request, each with its own result', async () => {
  const results = await Promise.all(['b', 'a'].map((id, i) => run(id, { args: `{"n":${i}}` })))
  assert.deepEqual(sent(), [['b', 'a']])
  assert.deepEqual(results.map((r) => [r.toolUseId, r.content]), [['b', '{"n":0}'], ['a', '{"n":1}']])
  const [call] = fake.calls()
  assert.deepEqual([call.conversationId, call.turnId, call.promptId, call.profile, call.labels], ['c', 'p.1', 'p', 'code', { team: 'shop' }])
})

test('so are those that come some steps of their own later', async () => {
  const late = async () => {
    for (let i = 0; i < 100; i++) await undefined
    return run('b')
  }
  await Promise.all([run('a'), late()])
  assert.deepEqual(sent(), [['a', 'b']])
})

test('those of another turn are another request, and so is what comes after', async () => {
  await Promise.all([run('a'), run('b', { turnId: 2 }), run('c')])
  await run('d')
  assert.deepEqual(sent().sort(), [['a', 'c'], ['b'], ['d']])
})

test('there may be more of them than a request takes', async () => {
  const ids = Array.from({ length: 300 }, (_, i) => `id${i}`)
  const results = await Promise.all(ids.map((id) => run(id)))
  assert.deepEqual(results.map((r) => r.toolUseId), ids)
  assert.equal(sent().flat().length, 300)
})

test('the same ids are sent again while the sidecar is away', async () => {
  fake.statuses = [status.UNAVAILABLE, status.UNAVAILABLE]
  await Promise.all([run('a'), run('b')])
  const refused = fake.sent('runMessage').map(({ messageJson }) => JSON.parse(messageJson).tool_calls.map(({ id }) => id))
  assert.deepEqual([...refused, ...sent()], [['a', 'b'], ['a', 'b'], ['a', 'b']])
})

test('a status is for everybody who waits', async () => {
  fake.statuses = [status.INTERNAL]
  const ends = await Promise.allSettled([run('a'), run('b')])
  assert.deepEqual(ends.map((end) => end.reason.code), [status.INTERNAL, status.INTERNAL])
})

test('one that cannot be sent spoils nobody else\'s', async () => {
  const ends = await Promise.allSettled([run('a'), run('\ud800'), run(''), run('b')])
  assert.deepEqual(ends.map((end) => end.reason?.field), [undefined, 'toolUseId', 'toolUseId', undefined])
  assert.deepEqual(sent(), [['a', 'b']])
})

test('nor does one that has the id of another', async () => {
  const ends = await Promise.allSettled([run('a'), run('a', { args: '{"n":2}' }), run('b')])
  assert.deepEqual(ends.map((end) => end.value?.content), ['{}', '{"n":2}', '{}'])
  assert.deepEqual(sent().sort(), [['a'], ['a', 'b']])
})

test('what is given up before it is sent is not', async () => {
  const [one, all] = [new AbortController(), new AbortController()]
  const ends = Promise.allSettled([run('a', { signal: one.signal }), run('b'), run('c', { turnId: 2, signal: all.signal })])
  one.abort(new Error('enough'))
  all.abort(new Error('enough'))
  assert.deepEqual((await ends).map((end) => end.reason?.message), ['enough', undefined, 'enough'])
  await assert.rejects(run('d', { signal: one.signal }), /enough/)
  assert.deepEqual(sent(), [['b']])
})

test('what is begun after all others were given up is sent', async () => {
  const controller = new AbortController()
  const given = run('a', { signal: controller.signal })
  controller.abort(new Error('enough'))
  await assert.rejects(given, /enough/)
  await run('b')
  assert.deepEqual(sent(), [['b']])
})

test('one that is given up leaves the others alone; the last one cancels the request', async () => {
  fake.hold = true
  const controllers = [new AbortController(), new AbortController()]
  const there = arrived()
  const [a, b] = ['a', 'b'].map((id, i) => run(id, { signal: controllers[i].signal }))
  await there
  controllers[0].abort(new Error('enough'))
  await assert.rejects(a, /enough/)
  assert.equal(await Promise.race([b, new Promise((resolve) => setImmediate(resolve, 'waits'))]), 'waits')
  assert.deepEqual(fake.cancelled, [])
  controllers[1].abort(new Error('too'))
  await assert.rejects(b, /too/)
  while (fake.cancelled.length === 0) await new Promise((resolve) => setImmediate(resolve))
  assert.deepEqual(fake.cancelled, ['runMessage'])
})
