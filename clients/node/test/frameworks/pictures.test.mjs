// What a result has beside its text, as each framework takes it.
import assert from 'node:assert/strict'
import { afterEach, beforeEach, test } from 'node:test'

import { RunContext } from '@openai/agents'

import { Sidecall } from '@sidecall/client'
import * as anthropic from '@sidecall/client/anthropic'
import * as agents from '@sidecall/client/openai-agents'
import * as vercel from '@sidecall/client/vercel'

import { fakeSidecar } from '../fake.mjs'

let fake, sidecall

beforeEach(async () => {
  fake = await fakeSidecar()
  const block = { type: 'image', mimeType: 'image/png', data: Buffer.from('png'), size: 3 }
  const document = { type: 'blob', mimeType: 'application/zip', data: Buffer.from('zip'), size: 3 }
  fake.result = (call) => ({ toolUseId: call.toolUseId, content: 'A chart.', notices: ['It is old.'], blocks: [block, document] })
  sidecall = new Sidecall(fake.target)
})

afterEach(async () => {
  await sidecall.close()
  fake.end()
})

const WORDS = ['A chart.', 'It is old.', '(blob of application/zip, 3 bytes: it cannot be shown here)']
const PNG = Buffer.from('png').toString('base64')

test('vercel', async () => {
  const { t } = await vercel.tools(sidecall, { conversationId: 'c' })
  const output = await t.execute({}, { toolCallId: '1', messages: [] })
  const value = [{ type: 'text', text: WORDS.join('\n\n') }, { type: 'file', mediaType: 'image/png', data: { type: 'data', data: PNG } }]
  assert.deepEqual(output, value)
  assert.deepEqual(JSON.parse(JSON.stringify(output)), output) // an application keeps it
  assert.deepEqual(t.toModelOutput({ output }), { type: 'content', value })
})

test('openai-agents', async () => {
  const [t] = await agents.tools(sidecall, { conversationId: 'c' })
  const output = await t.invoke(new RunContext(), '{}', { toolCall: { callId: '1' } })
  assert.deepEqual(output, [{ type: 'text', text: WORDS.join('\n\n') }, { type: 'image', image: { data: PNG, mediaType: 'image/png' } }])
})

test('anthropic', async () => {
  const [t] = await anthropic.tools(sidecall, { conversationId: 'c' })
  const content = await t.run({}, { toolUse: { id: '1' } })
  assert.deepEqual(content, [
    ...WORDS.map((text) => ({ type: 'text', text })), { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } },
  ])
})
