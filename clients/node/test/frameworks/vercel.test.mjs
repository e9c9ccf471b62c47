// Vercel's AI SDK itself, with the providers' packages, and a sidecar.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { createAnthropic } from '@ai-sdk/anthropic'
import { createOpenAI } from '@ai-sdk/openai'
import { generateText, isStepCount, streamText, tool } from 'ai'
import { z } from 'zod'

import { status, WrongField, WrongTool } from '@sidecall/client'
import { repairToolCall, stopWhenTold, ToolFailed, tools } from '@sidecall/client/vercel'

import { desk, HELD, OWN, PAY_BOTH, REFUND, ROUND, WAIT, WRONG } from './desk.mjs'
import { play } from './provider.mjs'

const models = {
  anthropic: ({ url }) => createAnthropic({ baseURL: `${url}/v1`, apiKey: 'none' })('played'),
  chat: ({ url }) => createOpenAI({ baseURL: `${url}/v1`, apiKey: 'none' }).chat('played'),
  responses: ({ url }) => createOpenAI({ baseURL: `${url}/v1`, apiKey: 'none' }).responses('played'),
}

globalThis.AI_SDK_LOG_WARNINGS = false // of the model, which is unknown

const ASKED = [{ role: 'user', content: 'Pay.' }]

/** One run to its end. */
const run = (model, how) => generateText({ model, messages: ASKED, maxRetries: 0, stopWhen: [isStepCount(12), stopWhenTold], ...how })

for (const [kind, model] of Object.entries(models)) {
  test(`${kind}: an agent pays in one request a turn`, async (t) => {
    const it = await desk(t)
    const provider = await play(t, PAY_BOTH)
    const { text } = await run(model(provider), { tools: await tools(it.sidecall, { conversationId: 'c', profile: 'interactive' }) })
    assert.equal(text, 'Paid.')
    assert.deepEqual(it.payments().map((p) => p.cents).sort(), [5, 7])
    assert.equal(it.batches.length, 1)
    assert.deepEqual(it.batches[0].map((c) => [c.toolUseId, c.conversationId, c.turnId, c.promptId, c.profile]), [
      ['call_0_0', 'c', '0.1', '0', 'interactive'], ['call_0_1', 'c', '0.1', '0', 'interactive'],
    ])
    await it.assertHeard(provider)
  })

  test(`${kind}: the five fields reach the model word for word, and so does what was tried`, async (t) => {
    const it = await desk(t)
    const provider = await play(t, WRONG)
    const { text, steps } = await run(model(provider), { tools: await tools(it.sidecall, { conversationId: 'c' }) })
    assert.equal(text, 'I see.')
    assert.deepEqual(it.codes(), ['INVALID_ARGS', 'INVALID_ARGS', 'UNRECOVERABLE'])
    assert.deepEqual(it.payments(), [])
    await it.assertHeard(provider)
    const failed = steps[0].content.filter((part) => part.type === 'tool-error')
    assert.equal(failed.length, 3)
    for (const [i, { error }] of failed.entries()) {
      assert.ok(error instanceof ToolFailed)
      assert.deepEqual(error.result, it.results()[i])
    }
  })
}

test('a stream too', async (t) => {
  const it = await desk(t)
  const provider = await play(t, PAY_BOTH)
  const { text } = streamText({
    model: models.anthropic(provider), messages: ASKED, stopWhen: [isStepCount(12), stopWhenTold], tools: await tools(it.sidecall, { conversationId: 'c' }),
  })
  assert.equal(await text, 'Paid.')
  assert.equal(it.batches.length, 1)
  assert.equal(it.payments().length, 2)
  await it.assertHeard(provider)
})

test('messages that are sent again after a crash pay once; further ones are another turn', async (t) => {
  const it = await desk(t)
  const provider = await play(t, [...PAY_BOTH, ...PAY_BOTH])
  const how = { tools: await tools(it.sidecall, { conversationId: 'c' }) }
  const first = await run(models.chat(provider), how)
  const again = await run(models.chat(provider), how)
  assert.equal(it.payments().length, 2)
  assert.ok(it.answers[1].every((r) => r.replayed))
  assert.equal(again.text, first.text)
  await run(models.chat(provider), { ...how, messages: [...ASKED, ...first.responseMessages, ...ASKED] })
  assert.equal(it.payments().length, 4)
  assert.deepEqual([it.batches[2][0].turnId, it.batches[2][0].promptId], ['4.5', '4'])
  assert.deepEqual((await provider.heard()).refusals, [])
})

test('runs without a history are told apart by their prompts', async (t) => {
  const it = await desk(t)
  const provider = await play(t, PAY_BOTH) // has the same ids in each run
  const listed = await it.sidecall.tools()
  for (const promptId of [1, 2, 2]) await run(models.chat(provider), { tools: await tools(it.sidecall, { conversationId: 'c', promptId, listed }) })
  assert.deepEqual(it.batches.map(([call]) => call.turnId), ['1.1', '2.1', '2.1'])
  assert.equal(it.payments().length, 4)
})

test('ids of the program go before what is found', async (t) => {
  const it = await desk(t)
  const provider = await play(t, PAY_BOTH)
  const options = { conversationId: ({ messages }) => `c-${messages[0].content}`, promptId: 7, turnId: ({ toolCallId }) => toolCallId.slice(0, 6), listed: await it.sidecall.tools() }
  await run(models.chat(provider), { messages: [{ role: 'user', content: 'x' }], tools: await tools(it.sidecall, options) })
  assert.deepEqual(it.batches[0].map((c) => [c.conversationId, c.promptId, c.turnId]), [['c-x', '7', 'call_0'], ['c-x', '7', 'call_0']])
})

for (const [name, call] of Object.entries({ 'arguments that are wrong': ['pay', { cents: 'x' }], 'a tool that there is not': ['payy', { cents: 1 }] })) {
  test(`eight calls of one message are no loop, each with ${name}`, async (t) => {
    for (const streams of [false, true]) {
      const it = await desk(t)
      const calls = Array.from({ length: 8 }, (_, n) => [call[0], { ...call[1], n }])
      const provider = await play(t, [{ calls }, { text: 'I see.' }])
      const options = { conversationId: 'c' }
      const how = { tools: await tools(it.sidecall, options), repairToolCall: repairToolCall(it.sidecall, options) }
      // Which are repaired one after another while they are streamed.
      if (streams) await streamText({ model: models.anthropic(provider), messages: ASKED, stopWhen: [isStepCount(12), stopWhenTold], ...how }).text
      else await run(models.anthropic(provider), how)
      assert.deepEqual(it.codes(), Array(8).fill(call[0] === 'pay' ? 'INVALID_ARGS' : 'UNKNOWN_TOOL'), `streams: ${streams}`)
      await it.assertHeard(provider)
    }
  })
}

/** A run that ends at the one of its two calls that is held. Its messages are sent again with what was said of the request. */
async function interrupted(t, { kind = 'chat', streams = false } = {}) {
  const it = await desk(t, {}, 'args.cents > 100')
  const provider = await play(t, HELD)
  const how = { tools: await tools(it.sidecall, { conversationId: 'c', interruptHeld: true }) }
  const go = (messages) => (streams
    ? streamText({ model: models[kind](provider), messages, stopWhen: [isStepCount(12), stopWhenTold], ...how })
    : run(models[kind](provider), { ...how, messages }))
  const first = await go(ASKED)
  const requests = (await first.content).filter((part) => part.type === 'tool-approval-request')
  assert.deepEqual(requests.map(({ toolCall }) => toolCall.input), [{ cents: 101 }])
  assert.deepEqual(it.payments().at(-1), { cents: 7 })
  const messages = [...ASKED, ...(await first.responseMessages)]
  const goOn = async (approved) => {
    const content = requests.map(({ approvalId }) => ({ type: 'tool-approval-response', approvalId, approved }))
    const end = await go([...messages, { role: 'tool', content }])
    assert.equal(await end.text, 'Paid.')
    return end
  }
  return { it, provider, goOn }
}

for (const [kind, streams] of [['anthropic', false], ['chat', false], ['responses', false], ['anthropic', true]]) {
  test(`${kind}${streams ? ', streamed' : ''}: a held call ends the run, and runs once when it is allowed`, async (t) => {
    const { it, provider, goOn } = await interrupted(t, { kind, streams })
    assert.equal(it.batches.filter((calls) => calls[0].holdOnly).flat().length, 2)
    await it.decide('ApproveExecution')
    await goOn(true)
    assert.deepEqual(it.payments(), [{ cents: 7 }, { cents: 101 }])
    assert.deepEqual([...new Set(it.batches.flat().map((call) => `${call.turnId} ${call.promptId}`))], ['0.1 0'])
    assert.deepEqual((await provider.heard()).refusals, [])
    await goOn(true) // the process died before it had kept what came of it
    assert.equal(it.payments().length, 2)
  })
}

test('a call that is approved is of the message that made it, where its id stands in another one too', async (t) => {
  const it = await desk(t, {}, 'args.cents > 100')
  const { pay } = await tools(it.sidecall, { conversationId: 'c', interruptHeld: true })
  const call = { type: 'tool-call', toolCallId: 'call_0', toolName: 'pay', input: { cents: 101 } }
  const turn = (approvalId) => [
    { role: 'user', content: 'Pay.' },
    { role: 'assistant', content: [call, { type: 'tool-approval-request', approvalId, toolCallId: 'call_0' }] },
    { role: 'tool', content: [{ type: 'tool-approval-response', approvalId, approved: true }] },
  ]
  const done = { role: 'tool', content: [{ type: 'tool-result', toolCallId: 'call_0', toolName: 'pay', output: { type: 'text', value: 'Paid.' } }] }
  const before = [...turn('a'), done]
  for (const messages of [[...before, ...turn('b')], [...before, ...turn('b').slice(0, 1)]]) {
    assert.ok(await pay.needsApproval(call.input, { toolCallId: 'call_0', messages }))
    await assert.rejects(pay.execute(call.input, { toolCallId: 'call_0', messages }), ToolFailed)
  }
  assert.deepEqual([...new Set(it.batches.flat().map(({ turnId, promptId }) => `${turnId} ${promptId}`))], ['4.5 4'])
})

for (const [code, decides] of [['PERMISSION_DENIED', (it) => it.decide('DenyExecution')], ['APPROVAL_REQUIRED', () => {}]]) {
  test(`what is approved in the messages alone is ${code} to the model`, async (t) => {
    const { it, provider, goOn } = await interrupted(t)
    await decides(it)
    await goOn(true)
    assert.equal(it.codes().at(-1), code)
    assert.deepEqual(it.payments(), [{ cents: 7 }])
    await it.assertHeard(provider, it.answers.at(-1))
  })
}

test('what the program denies is not sent', async (t) => {
  const { it, goOn } = await interrupted(t)
  const before = it.batches.length
  await goOn(false)
  assert.equal(it.batches.length, before)
  assert.deepEqual(it.payments(), [{ cents: 7 }])
})

test('a tool of the program ends the run for its user and for the operator', async (t) => {
  const it = await desk(t, { own: { worker: {}, tools: { charge: { approve_when: 'args.cents > 100' } } } })
  const charge = tool({ description: 'Charge.', inputSchema: z.object({ cents: z.int() }), needsApproval: ({ cents }) => cents === 1, execute: ({ cents }) => `charged ${it.done.push(cents)}` })
  const provider = await play(t, [{ calls: [['charge', { cents: 101 }], ['charge', { cents: 1 }], ['charge', { cents: 2 }]] }, { text: 'Charged.' }])
  const { content } = await run(models.chat(provider), { tools: await tools(it.sidecall, { conversationId: 'c', functions: { charge }, interruptHeld: true }) })
  assert.deepEqual(content.filter((part) => part.type === 'tool-approval-request').map(({ toolCall }) => toolCall.input.cents), [101, 1])
  assert.equal((await it.held()).length, 1)
  assert.deepEqual(it.done, [2])
})

test('a run that goes round in circles ends', async (t) => {
  const it = await desk(t)
  const provider = await play(t, ROUND)
  const { steps } = await run(models.chat(provider), { tools: await tools(it.sidecall, { conversationId: 'c' }), stopWhen: stopWhenTold })
  assert.equal(it.codes().at(-1), 'LOOP_DETECTED')
  assert.ok(it.results().at(-1).stop)
  assert.equal(steps.length, it.batches.length)
})

test('so does one that goes round with a tool that does not exist', async (t) => {
  const it = await desk(t)
  const provider = await play(t, [{ calls: [['pya', { cents: 5 }]] }])
  const options = { conversationId: 'c' }
  const how = { tools: await tools(it.sidecall, options), repairToolCall: repairToolCall(it.sidecall, options), stopWhen: stopWhenTold }
  await run(models.chat(provider), how)
  assert.ok(it.results().at(-1).stop)
})

test('what the sidecar does not answer is for the program, and of unknown outcome to the model', async (t) => {
  const it = await desk(t)
  const options = { conversationId: 'c' }
  const how = { tools: await tools(it.sidecall, options), repairToolCall: repairToolCall(it.sidecall, options) }
  it.breaks()
  for (const script of [PAY_BOTH, [{ calls: [['pya', {}]] }, { text: 'Hm.' }]]) {
    const provider = await play(t, script)
    await assert.rejects(run(models.chat(provider), how), { code: status.INTERNAL })
    const { steps } = await run(models.chat(provider), { ...how, stopWhen: isStepCount(2) })
    assert.equal(steps.length, 2)
    const told = JSON.stringify((await provider.heard()).requests.at(-1))
    assert.match(told, /OUTCOME_UNKNOWN.*this call has no answer: 13 INTERNAL: broken/)
  }
})

test('an abort cancels the call', async (t) => {
  const it = await desk(t)
  it.shut()
  const provider = await play(t, WAIT)
  const controller = new AbortController()
  const running = run(models.chat(provider), { tools: await tools(it.sidecall, { conversationId: 'c' }), abortSignal: controller.signal })
  await it.begun()
  controller.abort(new Error('enough'))
  await assert.rejects(running, /enough/)
  await it.cancelled()
})

test('the sidecar explains what the SDK would refuse, and leaves the others alone', async (t) => {
  const it = await desk(t)
  const provider = await play(t, [{ calls: [['pya', { cents: 5 }], ['pay', '{"cents": 5'], ['mine', { n: 'x' }]] }, { text: 'I see.' }])
  const mine = tool({ description: 'Mine.', inputSchema: z.object({ n: z.number() }), execute: () => assert.fail('it is not to be run') })
  for (const kind of ['chat', 'responses']) {
    const options = { conversationId: kind }
    const how = { tools: { ...await tools(it.sidecall, options), mine }, repairToolCall: repairToolCall(it.sidecall, options) }
    const { text, steps } = await run(models[kind](provider), how)
    assert.equal(text, 'I see.')
    assert.deepEqual(it.codes(), ['UNKNOWN_TOOL', 'INVALID_ARGS'])
    await it.assertHeard(provider)
    const errors = steps[0].content.filter((part) => part.type === 'tool-error').map((part) => String(part.error))
    assert.match(errors[0], /^AI_ToolCallRepairError: Error repairing tool call: \{"code":"UNKNOWN_TOOL"/)
    assert.match(errors[2], /Invalid input for tool mine/)
    it.answers.length = 0
  }
  assert.deepEqual(it.payments(), [])
})

for (const [kind, model] of Object.entries(models)) {
  test(`${kind}: functions of the program run through the sidecar, once when they are sent again`, async (t) => {
    const it = await desk(t, OWN)
    const provider = await play(t, REFUND)
    const functions = {
      refund: tool({ description: 'Refund.', inputSchema: z.object({ cents: z.int().min(1) }), execute: ({ cents }) => it.refund(cents) }),
      greet: tool({
        description: 'Greet.', inputSchema: z.object({ name: z.string() }), execute: ({ name }, { toolCallId, messages }) => ({ name, toolCallId, n: messages.length }),
        toModelOutput: ({ output: { name, toolCallId, n } }) => ({ type: 'text', value: `Hello ${name}, ${toolCallId}, ${n}` }),
      }),
    }
    for (let i = 0; i < 2; i++) {
      const options = { conversationId: 'c', functions, effects: { refund: 'keyed' } }
      const { text, steps } = await run(model(provider), { tools: await tools(it.sidecall, options) })
      assert.equal(text, 'Done.')
      assert.equal(steps[0].content.find((part) => part.type === 'tool-result' && part.toolName === 'greet').output, 'Hello Zoë, call_0_2, 1')
    }
    await it.assertRefunded(provider)
  })
}

test('a function that fails is a failure, and gives what it gave last', async (t) => {
  const it = await desk(t, OWN)
  const provider = await play(t, [{ calls: [['fail', {}], ['odd', { n: 2 }], ['steps', {}], ['jam', {}]] }, { text: 'Sorry.' }])
  const even = z.object({ n: z.int() }).refine(({ n }) => n % 2 === 1, 'want an odd number')
  const functions = {
    fail: tool({ description: 'Fail.', inputSchema: z.object({}), execute: () => { throw new Error('out of paper') } }),
    jam: tool({ description: 'Jam.', inputSchema: z.object({}), execute: () => { throw new RangeError('no paper') } }),
    odd: tool({ description: 'Odd.', inputSchema: even, execute: () => assert.fail('it is not to be run') }),
    steps: tool({ description: 'Steps.', inputSchema: z.object({}), execute: async function* () { yield { at: 1 }; yield { at: 2 } } }),
  }
  const { text } = await run(models.chat(provider), { tools: await tools(it.sidecall, { conversationId: 'c', functions, failsCleanly: { jam: RangeError } }) })
  assert.equal(text, 'Sorry.')
  assert.deepEqual(it.codes(), ['OUTCOME_UNKNOWN', 'INVALID_ARGS', 'ok', 'UNRECOVERABLE'])
  assert.match(it.results()[0].content, /out of paper/)
  assert.match(it.results()[1].content, /want an odd number/)
  assert.equal(it.results()[2].content, '{"at":2}')
  await it.assertHeard(provider)
})

test('an abort leaves a function alone that has begun, and the same messages have its result', async (t) => {
  const it = await desk(t, OWN)
  const provider = await play(t, [{ calls: [['slow', {}]] }, { text: 'Done.' }])
  let began, finish, ran = 0
  const begun = new Promise((resolve) => (began = resolve)), finished = new Promise((resolve) => (finish = resolve))
  const execute = async (_, { abortSignal }) => {
    began()
    await finished
    return `ran ${++ran}, aborted ${abortSignal.aborted}`
  }
  const functions = { slow: tool({ description: 'Slow.', inputSchema: z.object({}), execute }) }
  const how = { tools: await tools(it.sidecall, { conversationId: 'c', functions }) }
  const controller = new AbortController()
  const running = run(models.chat(provider), { ...how, abortSignal: controller.signal })
  await begun
  controller.abort(new Error('enough'))
  await assert.rejects(running, /enough/)
  finish()
  await run(models.chat(provider), how)
  assert.deepEqual(it.results().map((r) => [r.content, r.replayed]), [['ran 1, aborted false', true]])
})

test('each process is given the calls of its own functions', async (t) => {
  const it = await desk(t, OWN)
  const made = (client, of) => tools(client, {
    conversationId: of, functions: { whose: tool({ description: 'Whose.', inputSchema: z.object({ n: z.int() }), execute: () => of }) }, worker: { maxInFlight: 2 },
  })
  const both = { one: await made(it.sidecall, 'one'), other: await made(await it.another(), 'other') }
  const asked = Array.from({ length: 20 }, (_, i) => (i % 2 === 0 ? 'one' : 'other'))
  const answers = asked.map((of, i) => both[of].whose.execute({ n: i }, { toolCallId: `id-${i}`, messages: [] }))
  assert.deepEqual(await Promise.all(answers), asked)
})

test('functions are made for every run, and registered once', async (t) => {
  const it = await desk(t, OWN)
  const say = (description, execute) => tool({ description, inputSchema: z.object({}), execute })
  const made = (functions, more = {}) => tools(it.sidecall, { conversationId: 'c', functions, ...more })
  const all = await Promise.all([1, 2, 3].map((n) => made({ one: say('One.', () => `one of ${n}`) })))
  await made({ one: say('One.', () => 'one'), two: say('Two.', () => 'two') })
  const given = all.map(({ one }, i) => one.execute({}, { toolCallId: `id-${i}`, messages: [] }))
  assert.deepEqual(await Promise.all(given), ['one of 1', 'one of 2', 'one of 3'])
  assert.deepEqual((await it.sidecall.listTools()).map(({ name }) => name).filter((name) => name.startsWith('my_')), ['my_one', 'my_two'])
  // What is registered is not offered to another adapter under the sidecar's name beside its own.
  assert.ok(!Object.keys(await made({})).includes('my_one'))
  const wrong = (functions, is, what, more) => assert.rejects(made(functions, more), (error) => error instanceof is && what.test(error.message), String(what))
  await wrong({ one: say('Another.', () => '') }, WrongTool, /the function one cannot be a tool: there is one of that name/)
  await wrong({ two: { inputSchema: z.object({}) } }, WrongTool, /the function two cannot be a tool: it has no execute/)
  await wrong({ 'no name': say('', () => '') }, WrongTool, /name: want 1 to 64/)
  await wrong({ two: say('Two.', () => '') }, WrongField, /effects.refund: there is no such function; known are two/, { effects: { refund: 'keyed' } })
})

test('what is wrong is said in one sentence', async (t) => {
  const it = await desk(t)
  const wrong = async (what, make) => assert.rejects(make, (error) => error instanceof WrongField && what.test(error.message), String(what))
  await wrong(/promtId: there is no such field. Did you mean promptId\?/, () => tools(it.sidecall, { promtId: 'p', conversationId: 'c' }))
  await wrong(/client: want a Sidecall, got nothing/, () => tools(undefined, { conversationId: 'c' }))
  await wrong(/options: want an object, got nothing/, () => tools(it.sidecall))
  await wrong(/conversationId: this run has none: give conversationId/, () => tools(it.sidecall, {}))
  await wrong(/conversationId: want a string or an integer, got an array/, () => tools(it.sidecall, { conversationId: [] }))
  const made = await tools(it.sidecall, { conversationId: ({ toolCallId }) => (toolCallId === 'x' ? null : 'c') })
  const called = (of) => made.pay.execute({}, { messages: [], ...of }).catch((error) => Promise.reject(error.cause))
  await wrong(/conversationId: this run has none: give conversationId/, () => called({ toolCallId: 'x' }))
  await wrong(/toolUseId: this call has no id/, () => called({}))
  assert.deepEqual(it.batches, [])
})
