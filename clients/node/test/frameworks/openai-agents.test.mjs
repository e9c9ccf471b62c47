// The OpenAI Agents SDK itself, with OpenAI's own client, and a sidecar.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, RunState, tool } from '@openai/agents'
import OpenAI from 'openai'
import { z } from 'zod'

import { status, WrongField, WrongTool } from '@sidecall/client'
import { stopWhenTold, tools } from '@sidecall/client/openai-agents'

import { desk, HELD, OWN, PAY_BOTH, REFUND, ROUND, WAIT, WRONG } from './desk.mjs'
import { play } from './provider.mjs'

const models = { chat: OpenAIChatCompletionsModel, responses: OpenAIResponsesModel }

const agentOn = ({ url }, kind, how) =>
  new Agent({ name: 'desk', model: new models[kind](new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 }), 'played'), ...how })

const run = (agent, input = 'Pay.', how = {}) =>
  new Runner({ tracingDisabled: true }).run(agent, input, { context: { conversationId: 'c', promptId: 'p' }, ...how })

for (const kind of Object.keys(models)) {
  test(`${kind}: an agent pays in one request a turn`, async (t) => {
    const it = await desk(t)
    const provider = await play(t, PAY_BOTH)
    const end = await run(agentOn(provider, kind, { tools: await tools(it.sidecall) }))
    assert.equal(end.finalOutput, 'Paid.')
    assert.deepEqual(it.payments().map((p) => p.cents).sort(), [5, 7])
    assert.equal(it.batches.length, 1)
    assert.deepEqual(it.batches[0].map((c) => [c.toolUseId, c.conversationId, c.turnId, c.promptId]), [
      ['call_0_0', 'c', 'p.1', 'p'], ['call_0_1', 'c', 'p.1', 'p'],
    ])
    await it.assertHeard(provider)
  })

  test(`${kind}: the five fields reach the model word for word, and so does what was tried`, async (t) => {
    const it = await desk(t)
    const provider = await play(t, WRONG)
    const end = await run(agentOn(provider, kind, { tools: await tools(it.sidecall) }))
    assert.equal(end.finalOutput, 'I see.')
    assert.deepEqual(it.codes(), ['INVALID_ARGS', 'INVALID_ARGS', 'UNRECOVERABLE'])
    assert.deepEqual(it.payments(), [])
    await it.assertHeard(provider)
  })
}

test('arguments are the text that the model gave', async (t) => {
  const it = await desk(t)
  const provider = await play(t, [{ calls: [['pay', '{"cents": 9007199254740993}']] }, { text: 'Paid.' }])
  await run(agentOn(provider, 'responses', { tools: await tools(it.sidecall) }))
  assert.equal(it.batches[0][0].argumentsJson, '{"cents": 9007199254740993}')
})

test('what the SDK refuses by itself has one result too', async (t) => {
  const it = await desk(t)
  const provider = await play(t, [{ calls: [['pya', { cents: 5 }], ['pay', '{"cents": 5'], ['pay', { cents: 7 }]] }, { text: 'I see.' }])
  const agent = agentOn(provider, 'responses', { tools: await tools(it.sidecall) })
  const runner = new Runner({ tracingDisabled: true, toolNotFoundBehavior: 'return_error_to_model' })
  const end = await runner.run(agent, 'Pay.', { context: { conversationId: 'c' } })
  assert.equal(end.finalOutput, 'I see.')
  assert.deepEqual(it.payments(), [{ cents: 7 }])
  await it.assertHeard(provider)
})

test('runs of one conversation are told apart by their prompts', async (t) => {
  const it = await desk(t)
  const provider = await play(t, PAY_BOTH) // has the same ids in each run
  const agent = agentOn(provider, 'chat', { tools: await tools(it.sidecall) })
  for (const promptId of [1, 2, 2]) await run(agent, 'Pay.', { context: { conversationId: 'c', promptId } })
  assert.deepEqual(it.batches.map(([call]) => call.turnId), ['1.1', '2.1', '2.1'])
  assert.equal(it.payments().length, 4)
})

test('a state that is resumed twice pays once', async (t) => {
  // The process dies after the tools ran and before that was kept: what is run again is the state from before.
  const it = await desk(t)
  const sign = tool({ name: 'sign', description: 'Sign.', parameters: z.object({}), needsApproval: true, execute: () => 'signed' })
  // What waits for a signature is in a turn before that of the payment, or in its own.
  const before = [{ calls: [['sign', {}]] }, { calls: [['pay', { cents: 5 }]] }, { text: 'Paid.' }]
  const beside = [{ calls: [['pay', { cents: 7 }], ['sign', {}]] }, { text: 'Paid.' }]
  for (const [cents, script] of [[5, before], [7, beside]]) {
    it.batches.length = 0
    const provider = await play(t, script)
    const agent = agentOn(provider, 'responses', { tools: [...(await tools(it.sidecall)), sign] })
    const waits = await run(agent, 'Pay.', { context: { conversationId: `c-${cents}` } })
    const kept = waits.state.toString()
    for (let i = 0; i < 2; i++) {
      const state = await RunState.fromString(agent, kept)
      for (const asked of state.getInterruptions()) state.approve(asked)
      const end = await new Runner({ tracingDisabled: true }).run(agent, state)
      assert.equal(end.finalOutput, 'Paid.')
    }
    assert.equal(it.payments().filter((p) => p.cents === cents).length, 1)
    assert.equal(new Set(it.batches.flat().map((c) => c.turnId)).size, 1)
  }
})

/** A run that is interrupted at the one of its two calls that is held, and its state as another process has it. */
async function interrupted(t, kind = 'responses') {
  const it = await desk(t, {}, 'args.cents > 100')
  const provider = await play(t, HELD)
  const agent = agentOn(provider, kind, { tools: await tools(it.sidecall, { interruptHeld: true }) })
  const waits = await run(agent, 'Pay.', { context: { conversationId: 'c' } })
  const state = await RunState.fromString(agent, waits.state.toString())
  assert.deepEqual(state.getInterruptions().map(({ rawItem }) => [rawItem.callId, JSON.parse(rawItem.arguments)]), [['call_0_0', { cents: 101 }]])
  assert.deepEqual(it.payments(), [{ cents: 7 }])
  const goOn = async (how) => {
    for (const asked of state.getInterruptions()) state[how](asked)
    assert.equal((await new Runner({ tracingDisabled: true }).run(agent, state)).finalOutput, 'Paid.')
  }
  return { it, provider, goOn }
}

for (const kind of ['chat', 'responses']) {
  test(`${kind}: a held call interrupts the run, and runs once when it is allowed`, async (t) => {
    const { it, provider, goOn } = await interrupted(t, kind)
    assert.deepEqual(it.batches.map((calls) => calls.map((call) => call.holdOnly ?? false)), [[true, true], [false]])
    await it.decide('ApproveExecution')
    await goOn('approve')
    assert.deepEqual(it.payments(), [{ cents: 7 }, { cents: 101 }])
    assert.equal(new Set(it.batches.flat().map((call) => call.turnId)).size, 1)
    await it.assertHeard(provider, it.answers.slice(1).flat())
  })
}

for (const [code, decides] of [['PERMISSION_DENIED', (it) => it.decide('DenyExecution')], ['APPROVAL_REQUIRED', () => {}]]) {
  test(`what is approved in the run alone is ${code} to the model`, async (t) => {
    const { it, provider, goOn } = await interrupted(t)
    await decides(it)
    await goOn('approve')
    assert.equal(it.codes().at(-1), code)
    assert.deepEqual(it.payments(), [{ cents: 7 }])
    await it.assertHeard(provider, it.answers.at(-1))
  })
}

test('what the program rejects is not sent', async (t) => {
  const { it, goOn } = await interrupted(t)
  const before = it.batches.length
  await goOn('reject')
  assert.equal(it.batches.length, before)
  assert.deepEqual(it.payments(), [{ cents: 7 }])
})

test('a call with a number that JavaScript has not is held when it is made', async (t) => {
  const it = await desk(t, {}, 'always')
  const text = '{"cents": 9007199254740993}'
  const provider = await play(t, [{ calls: [['pay', text]] }, { text: 'I see.' }])
  const end = await run(agentOn(provider, 'responses', { tools: await tools(it.sidecall, { interruptHeld: true }) }))
  assert.equal(end.finalOutput, 'I see.')
  assert.deepEqual(it.codes(), ['APPROVAL_REQUIRED'])
  assert.equal(it.batches[0][0].argumentsJson, text)
})

test('arguments that are no JSON interrupt the run, and are told when it goes on', async (t) => {
  const it = await desk(t)
  const provider = await play(t, [{ calls: [['pay', '{"cents": 5']] }, { text: 'I see.' }])
  const agent = agentOn(provider, 'responses', { tools: await tools(it.sidecall, { interruptHeld: true }) })
  const { state } = await run(agent)
  assert.equal(state.getInterruptions().length, 1)
  for (const asked of state.getInterruptions()) state.approve(asked)
  assert.equal((await new Runner({ tracingDisabled: true }).run(agent, state)).finalOutput, 'I see.')
  assert.deepEqual(it.batches, [])
  assert.match(JSON.stringify((await provider.heard()).requests.at(-1)), /valid JSON/)
})

test('a function interrupts the run for its user and for the operator', async (t) => {
  const it = await desk(t, { own: { worker: {}, tools: { charge: { approve_when: 'args.cents > 100' } } } })
  const charge = { name: 'charge', description: 'Charge.', parameters: z.object({ cents: z.int() }), needsApproval: true, execute: ({ cents }) => `charged ${it.done.push(cents)}` }
  const provider = await play(t, [{ calls: [['charge', { cents: 101 }], ['charge', { cents: 1 }]] }, { text: 'Charged.' }])
  const agent = agentOn(provider, 'responses', { tools: await tools(it.sidecall, { functions: [charge], interruptHeld: true }) })
  const { state } = await run(agent, 'Charge.', { context: { conversationId: 'c' } })
  assert.equal(state.getInterruptions().length, 2)
  await it.decide('ApproveExecution')
  assert.deepEqual(it.done, [])
  for (const asked of state.getInterruptions()) state.approve(asked)
  assert.equal((await new Runner({ tracingDisabled: true }).run(agent, state)).finalOutput, 'Charged.')
  assert.deepEqual(it.done.toSorted(), [1, 101])
})

test('a run that goes round in circles ends', async (t) => {
  const it = await desk(t)
  const provider = await play(t, ROUND)
  const agent = agentOn(provider, 'responses', { tools: await tools(it.sidecall), toolUseBehavior: stopWhenTold })
  const end = await run(agent, 'Pay.', { maxTurns: 30 })
  const last = it.results().at(-1)
  assert.equal(last.error.code, 'LOOP_DETECTED')
  assert.ok(last.stop)
  assert.ok(end.finalOutput.startsWith(last.content))
})

test('what the sidecar does not answer is for the program', async (t) => {
  const it = await desk(t)
  const provider = await play(t, PAY_BOTH)
  const agent = agentOn(provider, 'responses', { tools: await tools(it.sidecall) })
  it.breaks()
  await assert.rejects(run(agent), (error) => error.error.code === status.INTERNAL)
  assert.equal((await provider.heard()).requests.length, 1)
})

test('an abort cancels the call', async (t) => {
  const it = await desk(t)
  it.shut()
  const provider = await play(t, WAIT)
  const controller = new AbortController()
  const running = run(agentOn(provider, 'responses', { tools: await tools(it.sidecall) }), 'Wait.', { signal: controller.signal })
  await it.begun()
  controller.abort(new Error('enough'))
  await assert.rejects(running, /enough/)
  await it.cancelled()
})

for (const kind of Object.keys(models)) {
  test(`${kind}: functions of the agent run through the sidecar, once when they are sent again`, async (t) => {
    const it = await desk(t, OWN)
    const provider = await play(t, REFUND)
    const functions = [
      { name: 'refund', description: 'Refund.', parameters: z.object({ cents: z.int().min(1) }), execute: ({ cents }) => it.refund(cents) },
      { name: 'greet', description: 'Greet.', parameters: z.object({ name: z.string() }), execute: ({ name }, { usage }) => `Hello ${name}, ${usage.requests}` },
    ]
    for (let i = 0; i < 2; i++) {
      const given = await tools(it.sidecall, { functions, effects: { refund: 'keyed' } })
      const end = await run(agentOn(provider, kind, { tools: given, toolUseBehavior: stopWhenTold }))
      assert.equal(end.finalOutput, 'Done.')
    }
    await it.assertRefunded(provider)
  })
}

test('a state that is resumed twice runs a function once', async (t) => {
  const it = await desk(t, OWN)
  const provider = await play(t, [{ calls: [['charge', { cents: 5 }]] }, { text: 'Charged.' }])
  let charged = 0
  const charge = { name: 'charge', description: 'Charge.', parameters: z.object({ cents: z.int() }), needsApproval: true, execute: () => `charged ${++charged}` }
  const ends = async (given) => {
    const agent = agentOn(provider, 'responses', { tools: given })
    const kept = (await run(agent, 'Charge.')).state.toString()
    for (let i = 0; i < 2; i++) {
      const state = await RunState.fromString(agent, kept)
      for (const asked of state.getInterruptions()) state.approve(asked)
      assert.equal((await new Runner({ tracingDisabled: true }).run(agent, state)).finalOutput, 'Charged.')
    }
    return charged
  }
  assert.equal(await ends([tool(charge)]), 2) // which is what happens without
  assert.equal(await ends(await tools(it.sidecall, { functions: [charge] })), 3)
})

test('a function that fails is a failure, and one whose arguments it cannot have has not begun', async (t) => {
  const it = await desk(t, OWN)
  const provider = await play(t, [{ calls: [['fail', {}], ['odd', { n: 2 }]] }, { text: 'Sorry.' }])
  const odd = z.object({ n: z.int() }).refine(({ n }) => n % 2 === 1, 'want an odd number')
  const functions = [
    { name: 'fail', description: 'Fail.', parameters: z.object({}), execute: () => { throw new Error('out of paper') } },
    { name: 'odd', description: 'Odd.', parameters: odd, execute: () => assert.fail('it is not to be run') },
  ]
  const end = await run(agentOn(provider, 'responses', { tools: await tools(it.sidecall, { functions }) }))
  assert.equal(end.finalOutput, 'Sorry.')
  assert.deepEqual(it.codes(), ['OUTCOME_UNKNOWN', 'INVALID_ARGS'])
  assert.match(it.results()[0].content, /out of paper/)
  assert.match(it.results()[1].content, /want an odd number/)
  await it.assertHeard(provider)
  const made = tool(functions[0])
  await assert.rejects(tools(it.sidecall, { functions: [made] }), (error) => error instanceof WrongTool && /the function fail cannot be a tool: want what tool\(\) is given/.test(error.message))
})

test('what is wrong is said in one sentence', async (t) => {
  const it = await desk(t)
  const is = (what) => (error) => error instanceof WrongField && what.test(error.message)
  await assert.rejects(tools(it.sidecall, { promtId: 'p' }), is(/promtId: there is no such field. Did you mean promptId\?/))
  const provider = await play(t, PAY_BOTH)
  const agent = agentOn(provider, 'responses', { tools: await tools(it.sidecall) })
  const nameless = /conversationId: this run has none: run it with \{ context: \{ conversationId \} \}, or give conversationId/
  await assert.rejects(run(agent, 'Pay.', { context: undefined }), (error) => is(nameless)(error) || is(nameless)(error.error ?? error.cause))
  assert.deepEqual(it.payments(), [])
})
