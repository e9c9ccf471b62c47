// What is read of providers' messages, and what is written for them.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { WrongMessage } from '@sidecall/client'

import { read } from '../dist/esm/read.js'
import { answers, checkFormat, notRun, tools } from '../dist/esm/write.js'
import { ANTHROPIC, CHAT, RESPONSE } from './messages.mjs'

/** The same as an SDK would give it: an object of a class, with fields that it does not own. */
function objects(of) {
  if (Array.isArray(of)) return of.map(objects)
  if (typeof of !== 'object' || of === null) return of
  const made = Object.create(Object.fromEntries(Object.entries(of).map(([k, v]) => [k, k === 'input' || k === 'usage' ? v : objects(v)])))
  Object.defineProperty(made, 'toJSON', { value: () => of })
  return made
}

const result = (toolUseId, content, fields = {}) => ({
  toolUseId, outcome: 'OUTCOME_OK', content, isError: false, error: null, recovery: null, notices: [], blocks: [], stop: false, ...fields,
})
const block = (fields) => ({ type: '', mimeType: '', data: Buffer.alloc(0), text: '', uri: '', name: '', size: 0, outputRef: '', ...fields })
const PICTURE = block({ type: 'image', mimeType: 'image/png', data: Buffer.from('\x89PNG', 'latin1'), size: 4 })

test('calls of each provider', () => {
  for (const [format, message, args, id, tokens] of [
    ['anthropic', ANTHROPIC, '{}', 'msg_1', 115],
    ['openai', CHAT, '', 'chatcmpl-1', 15],
    ['openai-responses', RESPONSE, '', 'resp_1', 15],
  ]) {
    const ids = format === 'anthropic' ? ['toolu_1', 'toolu_2'] : ['call_1', 'call_2']
    const calls = [
      { toolUseId: ids[0], toolName: 'get_order', argumentsJson: '{"order_id":"A-1"}' },
      { toolUseId: ids[1], toolName: 'list_orders', argumentsJson: args },
    ]
    for (const given of [message, objects(message)]) {
      const turn = read(given)
      assert.deepEqual([turn.format, turn.calls, turn.id, turn.cut, turn.tokens], [format, calls, id, '', tokens])
    }
  }
})

test('what is appended for the message itself is what the provider gave', () => {
  for (const given of [ANTHROPIC, objects(ANTHROPIC)]) assert.deepEqual(read(given).messages, [{ role: 'assistant', content: ANTHROPIC.content }])
  for (const given of [CHAT, objects(CHAT)]) assert.deepEqual(read(given).messages, [CHAT.choices[0].message])
  for (const given of [RESPONSE, objects(RESPONSE)]) assert.deepEqual(read(given).messages, RESPONSE.output)
})

test('parts of a completion', () => {
  const [choice] = CHAT.choices
  for (const given of [choice, choice.message, objects(choice), objects(choice.message), { ...choice, finish_reason: null }]) {
    const turn = read(given)
    assert.deepEqual([turn.format, turn.id, turn.calls.length], ['openai', '', 2])
  }
})

test('messages without calls', () => {
  for (const [format, message] of [
    ['openai', { role: 'assistant', content: 'done' }],
    ['openai', { role: 'assistant', content: null, refusal: 'no' }],
    ['anthropic', { role: 'assistant', type: 'message', content: [{ type: 'text', text: 'done' }] }],
    ['anthropic', { role: 'assistant', content: [] }],
    ['openai-responses', { object: 'response', status: 'completed', output: [] }],
  ]) {
    const turn = read(message)
    assert.deepEqual([turn.format, turn.calls], [format, []])
    assert.deepEqual([...answers(turn, [])], [])
  }
})

test('calls of a message that was cut are answered and not run', () => {
  for (const [given, cut] of [
    [{ ...ANTHROPIC, stop_reason: 'max_tokens' }, 'max_tokens'],
    [{ ...ANTHROPIC, stop_reason: 'refusal' }, 'refusal'],
    [{ ...CHAT, choices: [{ ...CHAT.choices[0], finish_reason: 'length' }] }, 'length'],
    [{ ...RESPONSE, status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } }, 'max_output_tokens'],
    [{ ...RESPONSE, output: [{ ...RESPONSE.output[2], status: 'incomplete' }] }, 'incomplete'],
  ]) {
    const turn = read(given)
    assert.equal(turn.cut, cut)
    const said = notRun(turn)
    assert.deepEqual(said.map((r) => r.toolUseId), turn.calls.map((c) => c.toolUseId))
    for (const answer of said) {
      assert.deepEqual(Object.keys(JSON.parse(answer.content)), ['code', 'field', 'constraint', 'received', 'hint'])
      assert.ok(answer.isError)
      assert.ok(answer.error.constraint.includes(cut))
    }
  }
})

test('arguments that are no object are for the sidecar', () => {
  const given = (input) => read({ ...ANTHROPIC, content: [{ type: 'tool_use', id: '1', name: 't', input }] }).calls[0].argumentsJson
  assert.equal(given([1, 2]), '[1,2]')
  assert.equal(given(7), '7')
  assert.equal(given('{not json'), '{not json')
  assert.equal(given(undefined), '')
  assert.equal(given(null), '')
})

test('what is no message of an assistant', () => {
  const circle = {}
  circle.self = circle
  for (const [given, says] of [
    [{ role: 'user', content: 'hi' }, "role 'user'"],
    [{ foo: 1, bar: 2 }, 'an object of bar, foo'],
    ['text', 'a string'],
    [undefined, 'nothing'],
    [null, 'nothing'],
    [[CHAT], 'an array'],
    [{ choices: [] }, 'with a choice'],
    [{ choices: [{ message: { role: 'user' }, finish_reason: null }] }, "role 'user'"],
    [{ role: 'assistant', tool_calls: [{ id: 'c', type: 'custom', custom: { name: 't', input: 'x' } }] }, "'custom'"],
    [{ ...RESPONSE, output: [{ type: 'custom_tool_call', call_id: 'c' }] }, 'custom_tool_call'],
    [{ role: 'assistant', content: null, tool_calls: [{ id: 7, function: { name: 't' } }] }, 'as the id'],
    [{ role: 'assistant', content: null, tool_calls: 'x' }, 'want an array in tool_calls'],
    [{ ...ANTHROPIC, content: [{ type: 'tool_use', id: '1', name: 't', input: circle }] }, 'want arguments that JSON can hold'],
    [{ role: 'assistant', content: circle }, 'want a message that JSON can hold'],
  ]) {
    assert.throws(() => read(given), (error) => {
      assert.ok(error instanceof WrongMessage, String(error))
      assert.ok(error.message.includes(says), error.message)
      assert.ok(!error.message.includes('\n'), error.message)
      return true
    })
  }
})

const answered = (message, ...results) => [...answers(read(message), results)]

test('Anthropic: one user message, with all that was said', () => {
  const error = result('toolu_2', '{"code":"NOT_FOUND"}', { isError: true, recovery: { context: 'Tried before: ...' } })
  assert.deepEqual(answered(ANTHROPIC, result('toolu_1', 'shipped'), error), [{ role: 'user', content: [
    { type: 'tool_result', tool_use_id: 'toolu_1', content: 'shipped' },
    { type: 'tool_result', tool_use_id: 'toolu_2', content: [
      { type: 'text', text: '{"code":"NOT_FOUND"}' }, { type: 'text', text: 'Tried before: ...' },
    ], is_error: true },
  ] }])
})

test('Anthropic takes pictures and documents', () => {
  const paper = block({ type: 'resource', mimeType: 'application/pdf', data: Buffer.from('%PDF'), size: 4 })
  const [message] = answered(ANTHROPIC, result('toolu_1', 'see', { blocks: [PICTURE, paper] }), result('toolu_2', ''))
  const [shown, empty] = message.content
  assert.deepEqual(shown.content.map((b) => b.type), ['text', 'image', 'document'])
  assert.deepEqual(shown.content[1].source, { type: 'base64', media_type: 'image/png', data: 'iVBORw==' })
  assert.equal(empty.content, '')
})

test('Chat Completions: one tool message per call, then the pictures', () => {
  const error = result('call_2', '{"code":"NOT_FOUND"}', { isError: true, recovery: { context: 'Tried before: ...' } })
  assert.deepEqual(answered(CHAT, result('call_1', 'shipped', { blocks: [PICTURE] }), error), [
    { role: 'tool', tool_call_id: 'call_1', content: 'shipped' },
    { role: 'tool', tool_call_id: 'call_2', content: '{"code":"NOT_FOUND"}\n\nTried before: ...' },
    { role: 'user', content: [
      { type: 'text', text: 'Returned by call_1:' },
      { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw==' } },
    ] },
  ])
})

test('Responses: one item per call', () => {
  const nudged = result('call_2', 'same', { notices: ['This is the third time.'] })
  assert.deepEqual(answered(RESPONSE, result('call_1', 'shipped', { blocks: [PICTURE] }), nudged), [
    { type: 'function_call_output', call_id: 'call_1', output: [
      { type: 'input_text', text: 'shipped' }, { type: 'input_image', image_url: 'data:image/png;base64,iVBORw==' },
    ] },
    { type: 'function_call_output', call_id: 'call_2', output: 'same\n\nThis is the third time.' },
  ])
})

test('what cannot be shown is said', () => {
  const blocks = [
    block({ type: 'audio', mimeType: 'audio/wav', data: Buffer.from('RIFF'), size: 4 }),
    block({ type: 'resource', uri: 'file:///a.txt', text: 'hello' }),
    block({ type: 'resource_link', uri: 'https://example.com/a', name: 'a' }),
    block({ type: 'image', mimeType: 'image/png', size: 9_000_000, outputRef: 'out_1' }),
  ]
  const [message] = answered(CHAT, result('call_1', 'see', { blocks }), result('call_2', ''))
  assert.deepEqual(message.content.split('\n\n'), [
    'see', '(audio of audio/wav, 4 bytes: it cannot be shown here)', 'file:///a.txt\nhello', 'a https://example.com/a',
  ])
})

test('stop is told, and what is told is an array like any other', () => {
  const told = answers(read(CHAT), [result('call_1', ''), result('call_2', '', { stop: true })])
  assert.equal(told.stop, true)
  assert.equal(told.requireEscalation, false)
  assert.equal(told.results.length, 2)
  assert.ok(Array.isArray(told))
  assert.deepEqual(told.map((m) => m.tool_call_id), ['call_1', 'call_2'])
  assert.equal(JSON.stringify(told), JSON.stringify([...told]))
})

test('tools of each format', () => {
  const listed = [{ name: 't', description: 'd', inputSchemaJson: '{"type":"object"}' }]
  const schema = { type: 'object' }
  assert.deepEqual(tools(listed, 'anthropic'), [{ name: 't', description: 'd', input_schema: schema }])
  const definition = { name: 't', description: 'd', parameters: schema, strict: false }
  assert.deepEqual(tools(listed, 'openai'), [{ type: 'function', function: definition }])
  assert.deepEqual(tools(listed, 'openai-responses'), [{ type: 'function', ...definition }])
  assert.throws(() => checkFormat('gemini'), { name: 'WrongMessage', message: 'want a format of anthropic, openai, openai-responses, got "gemini"' })
  assert.throws(() => tools([{ name: 't', description: '', inputSchemaJson: '{' }], 'openai'), { name: 'BrokenAnswer', message: 'the schema of the tool t is no JSON' })
})
