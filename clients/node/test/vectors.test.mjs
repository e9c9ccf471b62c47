// All clients read and write the same: clients/testdata/turns.json.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'

import { WrongMessage } from '@sidecall/client'

import { read } from '../dist/esm/read.js'
import { answers, notRun } from '../dist/esm/write.js'

const vectors = JSON.parse(readFileSync(new URL('../../testdata/turns.json', import.meta.url), 'utf8'))

/** A JSON value in which nothing of how it was written is left; a text that is none is itself. */
function loose(text) {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** A result as it comes from a sidecar: every field is there. */
function whole(given) {
  const { recovery, blocks = [], ...rest } = given
  return {
    outcome: 'OUTCOME_OK', content: '', isError: false, error: null, notices: [], stop: false, ...rest,
    recovery: recovery ? { context: '', requireEscalation: false, ...recovery } : null,
    blocks: blocks.map(({ data = '', size = '0', ...b }) => (
      { type: '', mimeType: '', text: '', uri: '', name: '', outputRef: '', ...b, data: Buffer.from(data, 'base64'), size: Number(size) })),
  }
}

test('turns of providers', async (t) => {
  assert.ok(vectors.length > 30)
  for (const v of vectors) {
    await t.test(v.name, () => {
      if (v.refused) {
        assert.throws(() => read(v.message), WrongMessage)
        return
      }
      const turn = read(v.message)
      const { calls, messages, ...about } = v.turn
      assert.deepEqual({ format: turn.format, id: turn.id, cut: turn.cut, reason: turn.reason, tokens: turn.tokens }, about)
      assert.deepEqual(turn.messages, messages)
      assert.deepEqual(
        turn.calls.map((c) => ({ id: c.toolUseId, tool: c.toolName, arguments: loose(c.argumentsJson) })),
        calls.map((c) => ({ ...c, arguments: loose(c.arguments) })))
      const results = turn.cut ? notRun(turn) : (v.results ?? []).map(whole)
      assert.deepEqual(JSON.parse(JSON.stringify(answers(turn, results))), v.appended)
    })
  }
})
