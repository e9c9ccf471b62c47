/** An agent with a sidecar of its own: `node agent.mjs`. Its model is a function, so it needs no account and no network. */
import { Sidecall } from '@sidecall/client'

const sidecall = await Sidecall.launch({
  store: { memory: {} },
  admin: 'off',
  backends: { here: { exec: { dir: '.', env: ['PATH'] } } },
  tools: {
    word_count: {
      backend: 'here',
      description: 'Count the words of a text.',
      effect: 'read_only',
      exec: { argv: ['node', '-p', 'JSON.parse(fs.readFileSync(0)).text.split(/\\s+/).length'] },
      input_schema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'], additionalProperties: false },
    },
  },
})
let turn = 0

/** Stands for anthropic.messages.create({ messages, tools }): slips at first, and does as the error tells it. */
function model(messages) {
  turn++
  const says = (stop_reason, ...content) => ({ id: `msg_${turn}`, type: 'message', role: 'assistant', stop_reason, content })
  const calls = (input) => says('tool_use', { type: 'tool_use', id: `toolu_${turn}`, name: 'word_count', input })
  if (turn === 1) return calls({ txt: 'to be or not to be' })
  const answer = messages.at(-1).content[0]
  if (!answer.is_error) return says('end_turn', { type: 'text', text: `That is ${answer.content.trim()} words.` })
  console.log('the model is told:', answer.content)
  return calls({ text: 'to be or not to be' })
}

try {
  const question = { role: 'user', content: 'How many words has: to be or not to be?' }
  const loop = await sidecall.runLoop(model, [question], { conversationId: 'example' })
  console.log(`${loop.exitReason} after ${loop.turns} turns:`, loop.message.content[0].text)
} finally {
  await sidecall.close()
}
