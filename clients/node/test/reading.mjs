// What a sidecar reads in messages, and writes for results, as far as the tests need it.
const FORMATS = {
  anthropic: (m) => ({
    own: [{ role: 'assistant', content: m.content }],
    calls: m.content.filter((b) => b.type === 'tool_use').map((b) => [b.id, b.name, JSON.stringify(b.input)]),
    tokens: ['input_tokens', 'output_tokens', 'cache_read_input_tokens'].reduce((sum, name) => sum + (m.usage?.[name] ?? 0), 0),
    cut: ['max_tokens', 'refusal'].includes(m.stop_reason) ? m.stop_reason : '',
  }),
  openai: (m) => {
    const message = m.choices?.[0].message ?? m
    return {
      own: [message], tokens: m.usage?.total_tokens ?? 0, cut: '',
      calls: (message.tool_calls ?? []).map((c) => [c.id, c.function.name, c.function.arguments]),
    }
  },
  'openai-responses': (m) => ({
    own: m.output, tokens: m.usage?.total_tokens ?? 0, cut: '',
    calls: m.output.filter((i) => i.type === 'function_call').map((i) => [i.call_id, i.name, i.arguments]),
  }),
}

function formatOf(m) {
  if (m?.choices || (m?.role === 'assistant' && !Array.isArray(m.content))) return 'openai'
  if (m?.object === 'response') return 'openai-responses'
  if (m?.role === 'assistant') return 'anthropic'
  throw { code: 3, details: 'message_json: want the message of an assistant' }
}

export function readMessage({ messageJson }) {
  const message = JSON.parse(messageJson)
  const provider = formatOf(message)
  const { own, calls, tokens, cut } = FORMATS[provider](message)
  return { provider, id: message.id ?? '', calls: calls.length, made: calls, tokens, cut, exitReason: cut || 'end_turn', messagesJson: own.map((one) => JSON.stringify(one)) }
}

/** Runs the calls of a message as one batch. */
export function runMessage({ messageJson, shared }, execute) {
  const { provider, id, made, cut } = readMessage({ messageJson })
  if (cut) return answered(provider, made.map(([toolUseId]) => ({ toolUseId, content: '', isError: true })))
  const turnId = shared.turnId || id
  const calls = made.map(([toolUseId, toolName, argumentsJson]) => ({ ...shared, toolUseId, toolName, argumentsJson, turnId, messageId: shared.messageId || turnId }))
  return answered(provider, calls.length > 0 ? execute(calls) : [])
}

export function answered(provider, results) {
  const blocks = results.map((r) => ({ type: 'tool_result', tool_use_id: r.toolUseId, content: r.content, ...(r.isError ? { is_error: true } : {}) }))
  const messages = {
    anthropic: () => (blocks.length > 0 ? [{ role: 'user', content: blocks }] : []),
    openai: () => results.map((r) => ({ role: 'tool', tool_call_id: r.toolUseId, content: r.content })),
    'openai-responses': () => results.map((r) => ({ type: 'function_call_output', call_id: r.toolUseId, output: r.content })),
  }[provider]()
  return {
    messagesJson: messages.map((m) => JSON.stringify(m)), results, stop: results.some((r) => r.stop),
    requireEscalation: results.some((r) => r.recovery?.requireEscalation),
    budgetExceeded: results.length > 0 && results.every((r) => r.error?.code === 'BUDGET_EXCEEDED'),
  }
}
