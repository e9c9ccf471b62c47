// Conversations against a sidecar that keeps them.
import assert from 'node:assert/strict'
import { afterEach, beforeEach, test } from 'node:test'

import { BrokenAnswer, Sidecall, StaleConversation, status, WrongField, WrongMessage } from '@sidecall/client'

import { about, Book } from './book.mjs'
import { fakeSidecar } from './fake.mjs'
import { ANTHROPIC, CHAT, DONE, RESPONSE } from './messages.mjs'

let fake, book, sidecall

beforeEach(async () => {
  fake = await fakeSidecar()
  fake.book = book = new Book()
  sidecall = new Sidecall(fake.target)
})

afterEach(async () => {
  await sidecall.close()
  fake.end()
})

const HELLO = [{ role: 'user', content: 'Where is A-1?' }]
const said = (...messages) => () => (messages.length > 1 ? messages.shift() : messages[0])
const sent = () => fake.requests.map(about)
const nobody = () => assert.fail('the model is asked')

const FORMATS = [
  { provider: 'anthropic', message: ANTHROPIC, done: DONE, ids: ['toolu_1', 'toolu_2'], said: 'assistant', answers: ['user'] },
  {
    provider: 'openai', message: CHAT, ids: ['call_1', 'call_2'], said: 'assistant', answers: ['tool', 'tool'],
    done: { id: 'chatcmpl-2', choices: [{ finish_reason: 'stop', message: { role: 'assistant', content: 'Done.' } }] },
  },
  {
    provider: 'openai-responses', message: RESPONSE, ids: ['call_1', 'call_2'],
    said: RESPONSE.output.map((item) => item.type).join('+'), answers: ['function_call_output', 'function_call_output'],
    done: {
      id: 'resp_2', object: 'response', status: 'completed',
      output: [{ type: 'message', id: 'msg_2', role: 'assistant', content: [{ type: 'output_text', text: 'Done.' }] }],
    },
  },
]
const pending = ({ ids, message }) => ids.map((toolUseId) => ({ toolUseId, toolName: 't', turnId: message.id, state: 'PENDING_NOT_RUN' }))
const calling = ({ ids, message }) => `calls ${ids.map((id) => `${message.id}/${id}`).join(' ')}`

test('a conversation that is not there has no messages', async () => {
  const kept = await sidecall.conversation(7, 'openai')
  assert.deepEqual([kept.id, kept.provider, kept.version, kept.messages, kept.pending], ['7', 'openai', 0, [], []])
  assert.equal((await kept.resume()).length, 0)
  assert.deepEqual(sent(), ['resumeConversation'])
})

test('messages are kept as they are written once', async () => {
  const given = '{ "role":"user",\t"content" : "\\u00e9 😀", "n": 1.0, "id": 12345678901234567890 }'
  const kept = await sidecall.conversation('c', 'openai')
  await kept.append([given, { role: 'assistant', content: 'é\ud800', gone: undefined }])
  await kept.append([{ toJSON: () => ({ role: 'user', content: 'Again.' }) }])
  const want = [given, '{"role":"assistant","content":"é\\ud800"}', '{"role":"user","content":"Again."}']
  assert.deepEqual(book.texts, want)
  assert.deepEqual(kept.texts, want)
  const loaded = await sidecall.conversation('c', 'openai')
  assert.deepEqual(loaded.texts, want)
  assert.equal(loaded.messages[0].content, 'é 😀')
  await loaded.append([])
  for (const bad of [undefined, 7n, () => 1]) {
    await assert.rejects(loaded.append([HELLO[0], bad]), (e) => e instanceof WrongField && e.field === 'messages[1]')
  }
  await assert.rejects(loaded.append('hello'), { field: 'messages' })
  await assert.rejects(loaded.append(HELLO, { turn: 1 }), { field: 'turn' })
  assert.deepEqual(sent().slice(1), ['append 0 user+assistant', 'append 2 user', 'resumeConversation'])
})

test('a conversation is loaded without old results', async () => {
  book.texts = Array.from({ length: 5 }, (_, i) => `{"role":"user","content":"${i}"}`)
  book.provider = 'openai'
  book.page = 2
  book.compactedBefore = 4
  await sidecall.conversation('c', 'openai', { compactAfterTurns: 3, compactToTokens: 5000, rpcTimeout: 10_000 })
  assert.deepEqual(fake.sent('resumeConversation').map((r) => [r.compactAfterTurns, r.compactToTokens]), [[3, 5000]])
  assert.deepEqual(fake.sent('loadConversation').map((r) => [r.fromVersion, r.compactBefore]), [[2, 4], [4, 4]])
  await assert.rejects(sidecall.conversation('c', 'openai', { compactAfterTurns: -1 }), { field: 'compactAfterTurns' })
  await assert.rejects(sidecall.conversation('c', 'openai', { compactToTokens: 1.5 }), { field: 'compactToTokens' })
})

test('pages beyond the first', async () => {
  book.texts = Array.from({ length: 7 }, (_, i) => `{"role":"user","content":"${i}"}`)
  book.provider = 'openai'
  book.page = 3
  assert.deepEqual((await sidecall.conversation('c', 'openai')).texts, book.texts)
  assert.deepEqual(fake.sent('loadConversation').map((r) => r.fromVersion), [3, 6])
  book.pageFrom = () => ({ version: 7, provider: 'openai', nextVersion: 3 })
  await assert.rejects(sidecall.conversation('c', 'openai'), BrokenAnswer)
})

test('who appends second is told the version', async () => {
  const one = await sidecall.conversation('c', 'openai')
  const other = await sidecall.conversation('c', 'openai')
  await one.append([...HELLO, ...HELLO])
  const mine = [{ role: 'user', content: 'Mine.' }]
  await assert.rejects(other.append(mine), (e) => e instanceof StaleConversation && e.version === 2 && /has 2 messages/.test(e.message))
  assert.equal(other.version, 0)
  await other.resume() // which loads what there is
  await other.append(mine)
  assert.deepEqual(book.texts, other.texts)
  assert.equal(other.version, 3)
})

test('busy is not stale', async () => {
  const kept = await sidecall.conversation('c', 'openai')
  fake.statuses = [status.ABORTED] // without a version
  await assert.rejects(kept.append(HELLO), (e) => e.code === status.ABORTED && !(e instanceof StaleConversation))
})

test('an append is sent again while the sidecar is away', async () => {
  const kept = await sidecall.conversation('c', 'openai')
  fake.statuses = [status.UNAVAILABLE]
  book.lost = 1
  await kept.append(HELLO)
  const [first, second, third, ...more] = fake.sent('appendMessages')
  assert.deepEqual([second, third, more], [first, first, []])
  assert.deepEqual([kept.version, book.texts.length], [1, 1])
})

test('an append that may have been kept is looked for', async () => {
  const hasty = new Sidecall(fake.target, { patience: 0 })
  const kept = await hasty.conversation('c', 'openai')
  book.lost = 1
  await assert.rejects(kept.append(HELLO), { code: status.UNAVAILABLE })
  await kept.resume()
  assert.deepEqual(kept.texts, book.texts)
  assert.equal(kept.version, 1)
  await hasty.close()
})

test('another provider', async () => {
  book.texts = ['{"role":"user","content":"."}']
  book.provider = 'openai'
  await assert.rejects(sidecall.conversation('c', 'anthropic'), { field: 'provider', message: /one of openai, not of anthropic/ })
  await assert.rejects(sidecall.conversation('c', 'gemini'), WrongMessage)
  await assert.rejects(sidecall.conversation({}, 'openai'), { field: 'conversationId' })
  assert.equal(fake.requests.length, 1)
})

for (const format of FORMATS) {
  const { provider, message, done, ids, answers } = format

  test(`${provider}: the calls without a result are made again`, async () => {
    await sidecall.runLoop(said(message), HELLO, { keep: await sidecall.conversation('c', provider), maxTurns: 1 })
    book.prompt = '' // as of appends that name none
    const made = fake.calls().map((c) => [c.toolUseId, c.turnId, c.argumentsJson])
    const whole = [...book.texts]
    book.texts.splice(-answers.length) // the results
    book.pending = pending(format)
    fake.requests = []
    const kept = await sidecall.conversation('c', provider)
    assert.deepEqual(kept.pending.map((p) => p.toolUseId), ids)
    const answered = await kept.resume({ promptId: 'p', labels: { team: 'shop' } })
    assert.deepEqual(fake.calls().map((c) => [c.toolUseId, c.turnId, c.argumentsJson]), made)
    for (const call of fake.calls()) assert.deepEqual([call.conversationId, call.promptId, call.labels.team], ['c', 'p', 'shop'])
    assert.deepEqual(answered.results.map((r) => r.toolUseId), ids)
    assert.deepEqual(book.texts, whole)
    assert.deepEqual(kept.texts, whole)
    assert.equal((await kept.resume()).length, 0)
    assert.equal(fake.requests.length, 3)
  })

  test(`${provider}: everything is kept before the next thing is done`, async () => {
    const kept = await sidecall.conversation('c', provider)
    const model = said(message, done)
    const seen = []
    const loop = await sidecall.runLoop((messages) => (seen.push(messages), model()), HELLO, { keep: kept })
    assert.deepEqual([loop.exitReason, loop.turns], ['end_turn', 2])
    assert.deepEqual(loop.messages, kept.messages)
    assert.deepEqual(seen[1], kept.messages.slice(0, seen[1].length))
    assert.deepEqual(book.texts, kept.texts)
    const results = 1 + format.said.split('+').length
    const last = results + answers.length
    assert.deepEqual(sent(), [
      'resumeConversation', 'append 0 user', `append 1 ${format.said} ${message.id}`, calling(format),
      `append ${results} ${answers.join('+')}`, `append ${last} assistant ${done.id}`, 'endPrompt',
    ])
    fake.requests = [] // it has ended: nobody is asked again
    for (const again of [kept, await sidecall.conversation('c', provider)]) {
      const ended = await sidecall.runLoop(nobody, [], { keep: again })
      assert.deepEqual([ended.exitReason, ended.turns, ended.messages], ['end_turn', 0, kept.messages])
    }
    assert.deepEqual(sent(), ['resumeConversation'])
    await sidecall.runLoop(said(done), HELLO, { keep: kept }) // the next message of the user is behind it
    assert.deepEqual(sent().slice(1), [`append ${last + 1} user`, `append ${last + 2} assistant ${done.id}`, 'endPrompt'])
  })

  for (const by of ['the same object', 'another']) {
    test(`${provider}: one that was killed in its calls goes on, by ${by}`, async () => {
      const kept = await sidecall.conversation('c', provider)
      fake.result = () => { throw { code: status.INTERNAL, details: 'as the test wants it' } }
      await assert.rejects(sidecall.runLoop(said(message), HELLO, { keep: kept }), { code: status.INTERNAL })
      fake.result = (call) => ({ toolUseId: call.toolUseId, content: call.argumentsJson })
      book.pending = pending(format)
      fake.requests = []
      const begun = book.prompt
      const keep = by === 'another' ? await sidecall.conversation('c', provider) : kept
      const loop = await sidecall.runLoop(said(done), [], { keep })
      assert.deepEqual([loop.exitReason, loop.turns], ['end_turn', 1])
      assert.deepEqual(sent().slice(0, 2), ['resumeConversation', calling(format)])
      assert.equal(fake.calls().length, 2)
      for (const call of fake.calls()) assert.equal(call.promptId, loop.promptId)
      for (const append of fake.sent('appendMessages')) assert.equal(append.promptId, begun)
      assert.equal(loop.promptId, begun)
    })
  }
}

test('messages begin another prompt, and calls stay in theirs', async () => {
  const first = await sidecall.runLoop(said(ANTHROPIC), HELLO, { keep: await sidecall.conversation('c', 'anthropic'), maxTurns: 1 })
  book.texts.pop() // the results
  book.pending = pending(FORMATS[0])
  fake.requests = []
  const loop = await sidecall.runLoop(said(DONE), HELLO, { keep: await sidecall.conversation('c', 'anthropic') })
  for (const call of fake.calls()) assert.equal(call.promptId, first.promptId)
  const prompts = () => fake.sent('appendMessages').map((r) => r.promptId)
  assert.deepEqual(prompts(), [first.promptId, loop.promptId, loop.promptId])
  assert.notEqual(loop.promptId, first.promptId)
  book.pending = []
  fake.requests = []
  const kept = await sidecall.conversation('c', 'anthropic')
  assert.equal(kept.promptId, loop.promptId)
  await kept.append(HELLO, { promptId: 7 })
  assert.equal((await sidecall.runLoop(said(DONE), [], { keep: kept })).promptId, '7')
  await kept.append(HELLO)
  assert.equal((await sidecall.runLoop(said(DONE), [], { keep: kept, promptId: 'mine' })).promptId, 'mine')
  assert.deepEqual(prompts(), ['7', '7', '7', 'mine'])
})

test('an append that contradicts what ran is stale', async () => {
  const kept = await sidecall.conversation('c', 'openai')
  await kept.append(HELLO)
  book.contradicted = 1
  await assert.rejects(kept.append(HELLO), (e) => e instanceof StaleConversation && e.version === 1 && /resume the conversation/.test(e.message))
  await kept.resume()
  assert.equal(sent().at(-1), 'resumeConversation')
  await kept.append(HELLO)
  assert.equal(kept.version, 2)
  assert.equal(new Set(fake.sent('appendMessages').map((r) => r.appendId)).size, 3)
})

test('what a conversation says itself', async () => {
  book.texts = ['{"role":"user","content":"."}']
  book.provider = 'openai'
  book.pending = pending(FORMATS[1])
  const kept = await sidecall.conversation('c', 'openai')
  book.texts.push(book.texts[0])
  await assert.rejects(kept.resume(), StaleConversation)
  await assert.rejects(kept.resume({ turnId: 't' }), { field: 'turnId' })
  await assert.rejects(kept.resume({ promtId: 'p' }), { field: 'promtId' })
  assert.deepEqual(fake.calls(), [])
})

test('calls of a message that was cut are answered with it', async () => {
  const cut = { ...ANTHROPIC, stop_reason: 'max_tokens' }
  const loop = await sidecall.runLoop(said(cut, DONE), HELLO, { keep: await sidecall.conversation('c', 'anthropic') })
  assert.deepEqual(sent().slice(1, 4), ['append 0 user', 'append 1 assistant+user msg_1', 'append 3 assistant msg_9'])
  assert.deepEqual([loop.turns, fake.calls()], [2, []])
  assert.ok(loop.results.every((r) => r.isError))
})

test('what is too large to be kept', async () => {
  const keep = await sidecall.conversation('c', 'anthropic')
  const long = { role: 'assistant', content: 'é'.repeat(3 << 19) }
  for (const ask of [() => keep.append([HELLO[0], long]), () => keep.append([HELLO[0], JSON.stringify(long)])]) {
    await assert.rejects(ask, (e) => e instanceof WrongField && e.field === 'messages[1]' && /has 3145\d{3} bytes, .* at most 3145728: .* URL/.test(e.message))
  }
  assert.equal(book.texts.length, 0)
  // What answers the calls fits, whatever there is in it.
  await sidecall.runLoop(said(ANTHROPIC), HELLO, { keep, maxTurns: 1 })
  assert.deepEqual(fake.most, [3 << 20])
})

test('an append that is refused ends the loop before its calls', async () => {
  const ask = () => {
    book.refused = 1
    return ANTHROPIC
  }
  await assert.rejects(sidecall.runLoop(ask, HELLO, { keep: await sidecall.conversation('c', 'anthropic') }), { code: status.INVALID_ARGUMENT })
  assert.deepEqual([fake.calls(), fake.ended()], [[], ['error']])
})

test('a signal ends a loop before its calls are kept', async () => {
  const controller = new AbortController()
  const reason = new Error('the user left')
  const keep = await sidecall.conversation('c', 'anthropic')
  const ask = () => (controller.abort(reason), ANTHROPIC)
  await assert.rejects(sidecall.runLoop(ask, HELLO, { keep, signal: controller.signal }), reason)
  assert.deepEqual([book.texts.length, fake.calls(), fake.ended()], [1, [], ['cancelled']])
})

test('the conversation is named once', async () => {
  const keep = await sidecall.conversation('c', 'anthropic')
  for (const [options, field] of [[{}, 'conversationId'], [{ keep, conversationId: 'd' }, 'conversationId'], [{ keep: 'c' }, 'keep']]) {
    await assert.rejects(sidecall.runLoop(nobody, HELLO, options), (e) => e instanceof WrongField && e.field === field)
  }
  await sidecall.runLoop(said(DONE), HELLO, { keep, conversationId: 'c' })
})
