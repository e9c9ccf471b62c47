// Anthropic's SDK itself, its tool runner and its messages, and a sidecar.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import Anthropic from '@anthropic-ai/sdk'
import { betaZodTool } from '@anthropic-ai/sdk/helpers/beta/zod'
import { ToolError } from '@anthropic-ai/sdk/lib/tools/ToolError'
import { z } from 'zod'

import { status, WorkerRefused, WrongField, WrongTool } from '@sidecall/client'
import { tools, untilTold } from '@sidecall/client/anthropic'

import { desk, OWN, PAY_BOTH, REFUND, ROUND, WAIT, WRONG } from './desk.mjs'
import { play } from './provider.mjs'

const clientOf = ({ url }) => new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0 })

const ASKED = { model: 'played', max_tokens: 1000, messages: [{ role: 'user', content: 'Pay.' }] }

const runnerOn = (provider, given, how = {}, options = {}) => clientOf(provider).beta.messages.toolRunner({ ...ASKED, tools: given, ...how }, options)

const textOf = (message) => message.content.map((block) => block.text).join('')

test('a runner pays in one request a turn', async (t) => {
  const it = await desk(t)
  for (const stream of [false, true]) {
    const provider = await play(t, PAY_BOTH)
    it.batches.length = 0
    const conversationId = `c-${stream}`
    const runner = runnerOn(provider, await tools(it.sidecall, { conversationId, promptId: 'p' }), { stream })
    let last
    for await (const message of untilTold(runner)) last = stream ? await message.finalMessage() : message
    assert.equal(textOf(last), 'Paid.')
    assert.equal(it.batches.length, 1)
    assert.deepEqual(it.batches[0].map((c) => [c.toolUseId, c.conversationId, c.turnId, c.promptId]), [
      ['call_0_0', conversationId, 'p', 'p'], ['call_0_1', conversationId, 'p', 'p'],
    ])
    await it.assertHeard(provider)
  }
  assert.deepEqual(it.payments().map((p) => p.cents).sort(), [5, 5, 7, 7])
})

test('the five fields reach the model word for word, and so does what was tried', async (t) => {
  const it = await desk(t)
  const provider = await play(t, WRONG)
  const end = await runnerOn(provider, await tools(it.sidecall, { conversationId: 'c' }))
  assert.equal(textOf(end), 'I see.')
  assert.deepEqual(it.codes(), ['INVALID_ARGS', 'INVALID_ARGS', 'UNRECOVERABLE'])
  await it.assertHeard(provider)
  const [, body] = (await provider.heard()).requests.at(-1)
  assert.deepEqual(body.messages.at(-1).content.map((block) => [block.tool_use_id, block.is_error]), [['call_0_0', true], ['call_0_1', true], ['call_0_2', true]])
  assert.deepEqual(it.payments(), [])
})

test('messages that are sent again after a crash pay once, beside a tool of the program', async (t) => {
  const it = await desk(t)
  const provider = await play(t, [{ calls: [['pay', { cents: 5 }], ['mine', {}]] }, { text: 'Paid.' }])
  let ran = 0
  const mine = betaZodTool({ name: 'mine', description: 'Mine.', inputSchema: z.object({}), run: () => `${++ran}` })
  for (let i = 0; i < 2; i++) {
    const end = await runnerOn(provider, [...(await tools(it.sidecall, { conversationId: 'c' })), mine])
    assert.equal(textOf(end), 'Paid.')
  }
  assert.equal(it.payments().length, 1)
  assert.deepEqual(it.results().map((r) => r.replayed), [false, true])
  assert.equal(ran, 2) // which is what happens without
})

test('calls of a message that was cut are not run', async (t) => {
  const it = await desk(t)
  const provider = await play(t, [{ calls: [['pay', { cents: 5 }]], stop_reason: 'max_tokens' }])
  const seen = []
  for await (const message of untilTold(runnerOn(provider, await tools(it.sidecall, { conversationId: 'c' })))) seen.push(message.stop_reason)
  assert.deepEqual(seen, ['max_tokens'])
  assert.deepEqual(it.batches, [])
})

test('a runner that goes round in circles ends', async (t) => {
  const it = await desk(t)
  const provider = await play(t, ROUND)
  let messages = 0
  for await (const _ of untilTold(runnerOn(provider, await tools(it.sidecall, { conversationId: 'c' })))) messages++
  assert.equal(it.codes().at(-1), 'LOOP_DETECTED')
  assert.ok(it.results().at(-1).stop)
  assert.equal(messages, it.batches.length)
  assert.equal((await provider.heard()).requests.length, messages) // the model is not asked again
})

test('what the sidecar does not answer is for the program, and of unknown outcome to the model', async (t) => {
  const it = await desk(t)
  const given = await tools(it.sidecall, { conversationId: 'c' })
  it.breaks()
  const provider = await play(t, PAY_BOTH)
  const toTheEnd = async () => {
    for await (const message of untilTold(runnerOn(provider, given))) assert.equal(message.stop_reason, 'tool_use')
  }
  await assert.rejects(toTheEnd, { code: status.INTERNAL })
  assert.equal((await provider.heard()).requests.length, 1)
  await runnerOn(provider, given).runUntilDone()
  const [, body] = (await provider.heard()).requests.at(-1)
  for (const result of body.messages.at(-1).content) {
    assert.ok(result.is_error)
    assert.match(result.content[0].text, /^\{"code":"OUTCOME_UNKNOWN".*this call has no answer: 13 INTERNAL: broken/)
  }
})

test('an abort cancels the call', async (t) => {
  const it = await desk(t)
  it.shut()
  const provider = await play(t, WAIT)
  const controller = new AbortController()
  const running = runnerOn(provider, await tools(it.sidecall, { conversationId: 'c' }), {}, { signal: controller.signal }).runUntilDone()
  await it.begun()
  controller.abort(new Error('enough'))
  await assert.rejects(running)
  await it.cancelled()
})

test('messages without a runner: runTools takes what the SDK gives', async (t) => {
  const it = await desk(t)
  const provider = await play(t, [...WRONG.slice(0, 1), ...PAY_BOTH])
  const client = clientOf(provider)
  const given = await it.sidecall.tools('anthropic')
  const loop = await it.sidecall.runLoop((messages) => client.messages.create({ ...ASKED, messages, tools: given }), ASKED.messages, { conversationId: 'c' })
  assert.equal(loop.exitReason, 'end_turn')
  assert.deepEqual(it.batches.map((calls) => calls.map((c) => [c.toolUseId, c.turnId])), [
    [['call_0_0', 'msg_0'], ['call_0_1', 'msg_0'], ['call_0_2', 'msg_0']], [['call_1_0', 'msg_1'], ['call_1_1', 'msg_1']],
  ])
  assert.equal(it.payments().length, 2)
  await it.assertHeard(provider)
})

test('functions of the program run through the sidecar, once when they are sent again', async (t) => {
  const it = await desk(t, OWN)
  const provider = await play(t, REFUND)
  const functions = [
    betaZodTool({ name: 'refund', description: 'Refund.', inputSchema: z.object({ cents: z.int().min(1) }), run: ({ cents }) => it.refund(cents) }),
    betaZodTool({
      name: 'greet', description: 'Greet.', inputSchema: z.object({ name: z.string() }),
      run: ({ name }, { toolUse }) => [{ type: 'text', text: `Hello ${name}, ${toolUse.id}` }],
    }),
  ]
  for (let i = 0; i < 2; i++) {
    const given = await tools(it.sidecall, { conversationId: 'c', functions, effects: { refund: 'keyed' } })
    assert.equal(textOf(await runnerOn(provider, given).runUntilDone()), 'Done.')
  }
  await it.assertRefunded(provider)
})

test('a function that fails is a failure, and one whose arguments it cannot have has not begun', async (t) => {
  const it = await desk(t, OWN)
  const provider = await play(t, [{ calls: [['fail', {}], ['odd', { n: 2 }], ['look', {}]] }, { text: 'Sorry.' }])
  const odd = z.object({ n: z.int() }).refine(({ n }) => n % 2 === 1, 'want an odd number')
  const picture = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: Buffer.from('png').toString('base64') } }
  const functions = [
    betaZodTool({ name: 'fail', description: 'Fail.', inputSchema: z.object({}), run: () => { throw new ToolError([{ type: 'text', text: 'out of paper' }]) } }),
    betaZodTool({ name: 'odd', description: 'Odd.', inputSchema: odd, run: () => assert.fail('it is not to be run') }),
    betaZodTool({ name: 'look', description: 'Look.', inputSchema: z.object({}), run: () => [{ type: 'text', text: 'A chart.' }, picture] }),
  ]
  const how = { functions, conversationId: 'c' }
  const end = await runnerOn(provider, await tools(it.sidecall, how)).runUntilDone()
  assert.equal(textOf(end), 'Sorry.')
  assert.deepEqual(it.codes(), ['OUTCOME_UNKNOWN', 'INVALID_ARGS', 'ok'])
  assert.match(it.results()[0].content, /out of paper/)
  assert.match(it.results()[1].content, /want an odd number/)
  await it.assertHeard(provider)
  const [, body] = (await provider.heard()).requests.at(-1)
  const [words, shown] = body.messages.at(-1).content.at(-1).content
  assert.match(words.text, /^A chart\./)
  assert.deepEqual(shown, picture)
  const is = (kind, what) => (error) => error instanceof kind && what.test(error.message)
  await assert.rejects(tools(it.sidecall, { ...how, functions: [functions[0], functions[0]] }), is(WrongTool, /the function fail cannot be a tool: there is one of that name/))
  await assert.rejects(tools(it.sidecall, { ...how, functions: [{ name: 'x' }] }), is(WrongTool, /the function x cannot be a tool: want what betaZodTool/))
  await assert.rejects(tools((await desk(t)).sidecall, how), is(WorkerRefused, /no worker backend is configured/))
})

test('what is wrong is said in one sentence', async (t) => {
  const it = await desk(t)
  const is = (what) => (error) => error instanceof WrongField && what.test(error.message)
  await assert.rejects(tools(it.sidecall, { conversationID: 'c' }), is(/conversationID: there is no such field. Did you mean conversationId\?/))
  await assert.rejects(tools(it.sidecall, {}), is(/conversationId: this run has none: give conversationId/))
  const [pay] = await tools(it.sidecall, { conversationId: () => '' })
  const of = { toolUse: { id: 'toolu_1' } }
  await assert.rejects(async () => pay.run({}, of), /OUTCOME_UNKNOWN.*conversationId: this run has none: give conversationId/)
  await assert.rejects(async () => pay.run({}), /OUTCOME_UNKNOWN.*toolUseId: this call has no id/)
  assert.deepEqual(it.batches, [])
})
