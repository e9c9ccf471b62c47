// Turns and loops against a sidecar that answers as it is told to.
import assert from 'node:assert/strict'
import { afterEach, beforeEach, test } from 'node:test'

import { BrokenAnswer, Sidecall, status, WrongField, WrongMessage } from '@sidecall/client'

import { fakeSidecar } from './fake.mjs'
import { ANTHROPIC, CHAT, DONE } from './messages.mjs'

let fake, sidecall

beforeEach(async () => {
  fake = await fakeSidecar()
  sidecall = new Sidecall(fake.target)
})

afterEach(async () => {
  await sidecall.close()
  fake.end()
})

test('a turn is one batch', async () => {
  const appended = await sidecall.runTools(ANTHROPIC, { conversationId: 'c', promptId: 1, profile: 'code', labels: { team: 'shop' } })
  assert.equal(fake.requests.length, 1)
  assert.deepEqual(
    fake.calls().map((c) => [c.toolUseId, c.conversationId, c.turnId, c.promptId, c.profile, c.labels.team]),
    ['toolu_1', 'toolu_2'].map((id) => [id, 'c', 'msg_1', '1', 'code', 'shop']))
  assert.deepEqual(appended[0].content.map((b) => b.tool_use_id), ['toolu_1', 'toolu_2'])
  assert.deepEqual(appended.results.map((r) => r.content), ['{"order_id":"A-1"}', '{}'])
})

test('a turn that is named goes by that name', async () => {
  await sidecall.runTools(ANTHROPIC, { conversationId: 'c', turnId: 7 })
  assert.deepEqual(fake.calls().map((c) => [c.turnId, c.messageId]), [['7', '7'], ['7', '7']])
})

test('the same ids are sent again while the sidecar is away', async () => {
  fake.statuses = [status.UNAVAILABLE, status.UNAVAILABLE]
  assert.equal((await sidecall.runTools(CHAT, { conversationId: 'c' })).length, 2)
  const [first, second, third] = fake.sent('runMessage').concat(fake.calls())
  assert.deepEqual(first, second)
  assert.equal(third.toolUseId, 'call_1')
})

test('patience ends', async () => {
  const hasty = new Sidecall(fake.target, { patience: 0 })
  fake.statuses = [status.UNAVAILABLE]
  await assert.rejects(hasty.runTools(CHAT, { conversationId: 'c' }), { code: status.UNAVAILABLE })
  assert.equal(fake.requests.length, 1)
  await hasty.close()
})

test('no other error is sent again', async () => {
  for (const code of [status.INVALID_ARGUMENT, status.DEADLINE_EXCEEDED, status.INTERNAL]) {
    fake.statuses = [code]
    fake.requests = []
    await assert.rejects(sidecall.runTools(CHAT, { conversationId: 'c' }), { code })
    assert.equal(fake.requests.length, 1)
  }
})

test('a message that was cut runs nothing', async () => {
  const [message] = await sidecall.runTools({ ...ANTHROPIC, stop_reason: 'max_tokens' }, { conversationId: 'c' })
  assert.deepEqual(fake.requests, [])
  assert.ok(message.content.every((b) => b.is_error))
})

test('what is no message runs nothing, nor what is no field', async () => {
  await assert.rejects(sidecall.runTools({ role: 'user', content: 'hi' }, { conversationId: 'c' }), WrongMessage)
  for (const [options, field] of [
    [{ conversation_id: 'c' }, 'conversation_id'], [{ conversationId: {} }, 'conversationId'], [{ signal: new AbortController() }, 'signal'],
    [{ rpcTimeout: '5s' }, 'rpcTimeout'], ['c', 'options'], [null, 'options'],
  ]) {
    await assert.rejects(sidecall.runTools(CHAT, options), (e) => e instanceof WrongField && e.field === field)
  }
  assert.deepEqual(fake.requests, [])
})

test('a signal cancels the request of a turn', async () => {
  const arrived = new Promise((resolve) => (fake.arrived = resolve))
  fake.hold = true
  const controller = new AbortController()
  const waiting = sidecall.runTools(CHAT, { conversationId: 'c', signal: controller.signal })
  await arrived
  const reason = new Error('the user left')
  controller.abort(reason)
  await assert.rejects(waiting, reason)
  while (fake.cancelled.length === 0) await new Promise((resolve) => setImmediate(resolve))
})

test('a signal ends the patience', async () => {
  const controller = new AbortController()
  const reason = new Error('the user left')
  fake.statuses = Array.from({ length: 1000 }, () => status.UNAVAILABLE)
  fake.arrived = () => fake.requests.length === 2 && controller.abort(reason)
  await assert.rejects(sidecall.runTools(CHAT, { conversationId: 'c', signal: controller.signal }), reason)
})

test('tools and instructions', async () => {
  fake.statuses = [status.UNAVAILABLE]
  assert.equal((await sidecall.tools('openai', { profile: 'code' }))[0].of, 'openai')
  assert.equal(fake.requests[1][1].profile, 'code')
  assert.deepEqual(await sidecall.tools(), [{ of: 'anthropic', name: 't', input_schema: {} }])
  assert.equal(await sidecall.instructions(), 'Read the code.')
})

test('results are as their types say: what is unset is a zero value, or null', async () => {
  fake.result = () => ({})
  assert.deepEqual({ ...(await sidecall.executeTool({ toolUseId: '1', toolName: 't' }, { conversationId: 'c' })) }, {
    toolUseId: '', outcome: 'OUTCOME_UNSPECIFIED', content: '', isError: false, error: null, violations: [], recovery: null, replayed: false,
    items: [], truncation: null, budget: null, recorded: false, structuredContentJson: '', duration: null, blocks: [], notices: [],
    resolution: null, structuredOutputRef: '', stop: false, loop: null, earlier: null, traceparent: '', hold: null, approval: null, inputRequiredJson: '',
  })
  fake.result = () => ({ duration: { seconds: 1, nanos: 5 }, budget: { tokensUsed: 7 }, blocks: [{ data: Buffer.from('x') }], recovery: {} })
  const { duration, budget, blocks, recovery } = await sidecall.executeTool({ toolUseId: '1', toolName: 't' }, { conversationId: 'c' })
  assert.deepEqual({ ...duration }, { seconds: 1, nanos: 5 })
  assert.deepEqual([budget.tokensUsed, budget.deadline], [7, null])
  assert.ok(Buffer.isBuffer(blocks[0].data))
  assert.deepEqual([recovery.class, recovery.retryAfter, recovery.allowedAlternatives], ['RECOVERY_CLASS_UNSPECIFIED', null, []])
  const [tool] = await sidecall.listTools()
  assert.deepEqual([tool.effect, tool.annotations], ['EFFECT_UNSPECIFIED', {}])
})

test('a list whose pages go round in circles is refused', async () => {
  await assert.rejects(sidecall.listTools('endless'), BrokenAnswer)
  await assert.rejects(sidecall.tools('openai', { profile: 'endless' }), /go round in circles/)
})

test('a format that is none is refused before anything is asked', async () => {
  await assert.rejects(sidecall.tools('gemini'), WrongMessage)
  await assert.rejects(sidecall.tools('openai', { profil: 'code' }), { field: 'profil', message: /Did you mean profile\?/ })
  await assert.rejects(sidecall.tools('openai', 'code'), { field: 'options' })
  assert.deepEqual(fake.requests, [])
})

test('a client closes itself, and may be closed again', async () => {
  const one = Sidecall.connect(fake.target)
  assert.equal((await one.listTools()).length, 1)
  await one[Symbol.asyncDispose]()
  await one.close()
  await assert.rejects(one.listTools())
})

/** A model that gives these messages, one after the other; the last for ever. */
const said = (...messages) => () => (messages.length > 1 ? messages.shift() : messages[0])
const HELLO = [{ role: 'user', content: 'Where is A-1?' }]

test('a loop until the model is done', async () => {
  const seen = []
  const model = said(ANTHROPIC, DONE)
  const ask = async (messages) => (seen.push(messages.length), model())
  const loop = await sidecall.runLoop(ask, HELLO, { conversationId: 'c', promptId: 'p', profile: 'code' })
  assert.deepEqual([loop.exitReason, loop.turns, loop.tokens, loop.promptId], ['end_turn', 2, 117, 'p'])
  assert.equal(loop.message, DONE)
  assert.deepEqual(seen, [1, 3])
  assert.deepEqual(loop.messages.map((m) => m.role), ['user', 'assistant', 'user', 'assistant'])
  assert.equal(HELLO.length, 1)
  for (const call of fake.calls()) assert.deepEqual([call.promptId, call.tokensUsed], ['p', 115])
  assert.deepEqual({ ...fake.sent('endPrompt')[0] }, { conversationId: 'c', promptId: 'p', profile: 'code', exitReason: 'end_turn' })
})

test('each loop is a prompt', async () => {
  const one = await sidecall.runLoop(said(ANTHROPIC, DONE), HELLO, { conversationId: 'c' })
  const other = await sidecall.runLoop(said(ANTHROPIC, DONE), HELLO, { conversationId: 'c' })
  assert.notEqual(one.promptId, other.promptId)
})

test('turns whose messages have no id are told apart', async () => {
  const [{ message }] = CHAT.choices
  await sidecall.runLoop(said(message, message, { role: 'assistant', content: 'done' }), HELLO, { conversationId: 'c', promptId: 'p' })
  assert.deepEqual(fake.calls().map((c) => c.turnId), ['p/1', 'p/1', 'p/4', 'p/4'])
})

test('the sidecar says stop', async () => {
  fake.result = (call) => ({ toolUseId: call.toolUseId, isError: true, stop: true })
  const loop = await sidecall.runLoop(said(ANTHROPIC), HELLO, { conversationId: 'c' })
  assert.deepEqual([loop.exitReason, loop.turns], ['loop_detected', 1])
  assert.equal(loop.messages.at(-1).content[0].tool_use_id, 'toolu_1') // the array stays whole
  assert.deepEqual(fake.ended(), ['loop_detected'])
})

test('a person is asked', async () => {
  fake.result = (call) => ({ toolUseId: call.toolUseId, isError: true, recovery: { requireEscalation: true } })
  assert.equal((await sidecall.runLoop(said(ANTHROPIC), HELLO, { conversationId: 'c' })).exitReason, 'escalation')
  const asked = []
  for (const allow of [(m) => asked.push(m) > 0, async (m) => asked.push(m) > 0]) {
    const loop = await sidecall.runLoop(said(ANTHROPIC, DONE), HELLO, { conversationId: 'c', onEscalation: allow })
    assert.equal(loop.exitReason, 'end_turn')
  }
  assert.equal(asked.length, 2)
  const refused = await sidecall.runLoop(said(ANTHROPIC, DONE), HELLO, { conversationId: 'c', onEscalation: async () => false })
  assert.equal(refused.exitReason, 'escalation')
})

test('a call that waits for a person', async () => {
  const decided = []
  fake.result = (call) => ({ toolUseId: call.toolUseId, ...(decided.length > 0 ? {} : { isError: true, hold: { reason: 'always' } }) })
  for (const onHeld of [undefined, () => false]) {
    const loop = await sidecall.runLoop(said(ANTHROPIC), HELLO, { conversationId: 'c', onHeld })
    assert.deepEqual([loop.exitReason, loop.turns, loop.results[0].hold.reason], ['held', 1, 'always'])
    assert.equal(loop.messages.at(-1).role, 'assistant') // what answers it would close it
  }
  assert.deepEqual(fake.ended(), []) // and its prompt goes on
  const loop = await sidecall.runLoop(said(ANTHROPIC, DONE), HELLO, { conversationId: 'c', onHeld: async (m) => decided.push(m.held) > 0 })
  assert.deepEqual([loop.exitReason, decided.map((held) => held.length)], ['end_turn', [2]])
  assert.deepEqual(fake.ended(), ['end_turn'])
})

test('a budget that is used up leaves one turn to wrap up', async () => {
  const refused = (recovery) => (call) => ({ toolUseId: call.toolUseId, isError: true, error: { code: 'BUDGET_EXCEEDED' }, recovery })
  fake.result = refused({ requireEscalation: true })
  const asked = [] // nobody is, once there is nothing to go on with
  let loop = await sidecall.runLoop(said(ANTHROPIC), HELLO, { conversationId: 'c', onEscalation: (m) => asked.push(m) > 0 })
  assert.deepEqual([loop.exitReason, loop.turns, asked.length], ['budget_exceeded', 2, 1])
  fake.result = refused(undefined)
  loop = await sidecall.runLoop(said(ANTHROPIC, DONE), HELLO, { conversationId: 'c' })
  assert.deepEqual([loop.exitReason, loop.turns], ['end_turn', 2])
})

test('turns are bounded', async () => {
  const loop = await sidecall.runLoop(said(ANTHROPIC), HELLO, { conversationId: 'c', maxTurns: 3 })
  assert.deepEqual([loop.exitReason, loop.turns], ['max_turns', 3])
})

test('what a provider calls the end', async () => {
  for (const [reason, exitReason] of [['max_tokens', 'max_tokens'], ['refusal', 'refusal'], ['stop_sequence', 'end_turn']]) {
    const loop = await sidecall.runLoop(said({ ...DONE, stop_reason: reason }), HELLO, { conversationId: 'c' })
    assert.equal(loop.exitReason, exitReason)
  }
})

test('a model that cannot be asked', async () => {
  const away = new Error('the provider is away')
  const ask = () => { throw away }
  await assert.rejects(sidecall.runLoop(ask, HELLO, { conversationId: 'c' }), away)
  assert.deepEqual(fake.ended(), ['error'])
})

test('a loop that is cancelled', async () => {
  const controller = new AbortController()
  const reason = new Error('the user left')
  const ask = (_, { signal }) => {
    assert.equal(signal, controller.signal)
    controller.abort(reason)
    return ANTHROPIC
  }
  await assert.rejects(sidecall.runLoop(ask, HELLO, { conversationId: 'c', signal: controller.signal }), reason)
  assert.deepEqual(fake.calls(), [])
  assert.deepEqual(fake.ended(), ['cancelled'])
})

test('a prompt that cannot be ended spoils nothing', async () => {
  const ask = () => {
    fake.statuses = [status.INTERNAL] // of the next request, which ends the prompt
    return DONE
  }
  assert.equal((await sidecall.runLoop(ask, HELLO, { conversationId: 'c' })).exitReason, 'end_turn')
})

test('a loop that is told nonsense asks nobody', async () => {
  let asked = 0
  const ask = () => (asked++, DONE)
  const c = { conversationId: 'c' }
  for (const [args, field] of [
    [['claude', HELLO, c], 'ask'], [[ask, 'hello', c], 'messages'], [[ask, HELLO], 'conversationId'], [[ask, HELLO, {}], 'conversationId'],
    [[ask, HELLO, { ...c, promtId: 'p' }], 'promtId'], [[ask, HELLO, { ...c, turnId: '1' }], 'turnId'],
    [[ask, HELLO, { ...c, maxTurns: 0 }], 'maxTurns'], [[ask, HELLO, { ...c, maxTurns: '3' }], 'maxTurns'],
    [[ask, HELLO, { ...c, onEscalation: true }], 'onEscalation'], [[ask, HELLO, { ...c, signal: {} }], 'signal'],
    [[ask, HELLO, 'c'], 'options'],
  ]) {
    await assert.rejects(sidecall.runLoop(...args), (e) => {
      assert.ok(e instanceof WrongField, String(e))
      assert.equal(e.field, field)
      return true
    })
  }
  assert.deepEqual([asked, fake.requests], [0, []])
})
